"""What `bellrock messages` prints: a pure function from the API's answer to what rich renders."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from bellrock import text

# Of these and graver ones the eye is to be caught.
ERROR, WARNING = 3, 4
# Logs of these origins do not vouch for who wrote a message.
UNPROVEN = ("claimed", "user")


def listed(found: Sequence[dict[str, Any]], severities: Sequence[str]) -> Table:
    """A line for each message. Its words are its writer's: nothing of them reaches the terminal but text."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("TIME", "SEVERITY", "EVENT", "PROGRAM"):
        table.add_column(name, no_wrap=name != "PROGRAM")
    table.add_column("TEXT", overflow="fold")
    for one in found:
        style = "red" if one["severity"] <= ERROR else "yellow" if one["severity"] == WARNING else ""
        event = f"{text.plain(one['event'])}{' ?' if one['origin'] in UNPROVEN else ''}" if one["event"] else ""
        said = Text(text.plain(one["text"]))
        if one["count"] > 1:
            said.append(f" ({text.number(one['count'])} times until {text.instant(one['end_ns'])})", "dim")
        table.add_row(text.instant(one["start_ns"]), Text(severities[one["severity"]], style), Text(event), Text(text.plain(one["program"] or "")), said)
    return table
