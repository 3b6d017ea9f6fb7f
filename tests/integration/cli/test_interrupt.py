"""Ctrl-C before the command has begun and after it has ended: exit code 130, and not a word from Python."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
INTERRUPT = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT)"


def bellrock(folder: Path, *, ignored: bool = False) -> subprocess.CompletedProcess:
    """`bellrock --version` with what lies in `folder` in front of all modules."""
    env = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        return subprocess.run([sys.executable, "-m", "bellrock", "--version"], env=env, cwd=folder, capture_output=True, text=True, timeout=120)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_the_rest_is_imported_ends_it_quietly(tmp_path):
    (tmp_path / "click.py").write_text(f"{INTERRUPT}\ntime.sleep(100)\n")
    done = bellrock(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_while_python_ends_is_as_quiet_and_loses_nothing(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(f"import atexit\ndef late():\n    {INTERRUPT}; time.sleep(100)\natexit.register(late)\n")
    done = bellrock(tmp_path)
    assert (done.returncode, done.stderr) == (130, "") and done.stdout.startswith("bellrock ")


def test_an_interrupt_that_is_ignored_stays_so(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(f"import atexit\ndef late():\n    {INTERRUPT}\natexit.register(late)\n")
    done = bellrock(tmp_path, ignored=True)
    assert (done.returncode, done.stderr) == (0, "")
