"""What `bellrock messages` prints."""

from rich.console import Console

from bellrock import report_messages
from bellrock.commands.messages import SEVERITIES
from bellrock.text import instant

S = 10**9
MESSAGE = {
    "start_ns": 5 * S, "end_ns": 5 * S, "count": 1, "severity": 2, "facility": "kern", "origin": "kernel", "log": "journal", "program": "kernel",
    "event": "target_read_only", "text": "LDISKFS-fs (dm-4): Remounting filesystem read-only",
}  # fmt: skip


def printed(*messages):
    console = Console(width=200, color_system="truecolor", force_terminal=True)
    with console.capture() as capture:
        console.print(report_messages.listed(messages, SEVERITIES))
    return capture.get()


def test_a_message_is_a_line():
    lines = printed(MESSAGE, MESSAGE | {"count": 1234, "end_ns": 9 * S, "severity": 6, "event": None, "program": None, "text": "again"}).splitlines()
    assert all(word in lines[1] for word in (instant(5 * S), "critical", "target_read_only", "kernel", MESSAGE["text"])) and "?" not in lines[1]
    assert "again" in lines[2] and f"(1,234 times until {instant(9 * S)})" in lines[2]


def test_what_the_log_does_not_vouch_for_is_marked():
    assert "target_read_only ?" in printed(MESSAGE | {"origin": "claimed"})


def test_no_word_of_a_message_reaches_the_terminal_as_anything_but_text():
    hostile = "\x1b[2J\x9b31m [red]markup[/red] \u202e [link=file:///etc/passwd]x[/link]"
    plain = "?[2J?31m [red]markup[/red] ? [link=file:///etc/passwd]x[/link]"
    for name in ("text", "program", "event"):
        shown = printed(MESSAGE | {name: hostile})
        assert plain.split()[1] in "".join(shown.split()) and not any(bad in shown for bad in ("\x1b[2J", "\x9b", "\u202e")), name
