import os
import subprocess
import sys
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
