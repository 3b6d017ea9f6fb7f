import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bellrock import console

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("tell", [console.say, console.warn, console.fail])
def test_what_is_said_cannot_drive_the_terminal(tell, capsys: pytest.CaptureFixture) -> None:
    tell("no such file: a\x1b]0;title\x07b\r\u202ec [bold]d[/bold] ä")
    said = capsys.readouterr().err
    assert said == "bellrock: no such file: a?]0;title?b??c [bold]d[/bold] ä\n"


def test_words_that_nobody_reads_stop_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    script = "import sys\nfrom bellrock import console\nconsole.warn('x')\nconsole.say('y')\nprint('on')\nsys.stdout.flush()\nimport os; os._exit(5)"
    try:
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=write, timeout=60, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stdout) == (5, b"on\n")


def test_how_far_it_is_is_said_now_and_then_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(console, "QUIET_S", 0)
    monkeypatch.setattr(console, "SAY_EVERY_S", 3600)
    with console.waiting("counting") as wait:
        wait_until = time.monotonic() + 60
        while not wait._said and time.monotonic() < wait_until:
            time.sleep(0.01)
        wait.tell("counting: 1 of 3")
        monkeypatch.setattr(console, "SAY_EVERY_S", 0)
        wait._say_at = 0
        wait.tell("counting: 2 of 3")
        wait.tell("counting: 3 of 3")
    assert capsys.readouterr().err.splitlines() == ["bellrock: counting", "bellrock: counting: 2 of 3", "bellrock: counting: 3 of 3"]


def test_a_short_wait_is_not_worth_a_word(capsys: pytest.CaptureFixture) -> None:
    with console.waiting("counting") as wait:
        wait.tell("counting: 1 of 1")
    assert capsys.readouterr().err == ""
