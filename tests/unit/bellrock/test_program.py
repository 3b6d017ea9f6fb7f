import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bellrock import program


def run(*argv: str, output: str | None = None) -> program.Ended:
    with program.signals_held() as mask:
        return program.wait(program.spawn(argv, os.environ, mask, output))


def to_main_thread(number: signal.Signals) -> None:
    """As to a command whose other threads hold it back; those that other tests left in this process would not."""
    signal.pthread_kill(threading.main_thread().ident, number)


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)])
def test_exit_codes_are_the_shells(script: str, code: int) -> None:
    assert run("sh", "-c", script).exit_code == code


def test_what_cannot_be_started_has_the_shells_codes(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    for name, code in (
        ("no-such-program", 127),
        (str(tmp_path / "data"), 126),
        (str(tmp_path), 126),
        (str(tmp_path / "data/x"), 127),
        ("", 127),
    ):
        with program.signals_held() as mask, pytest.raises(program.CannotStart) as error:
            program.spawn([name], os.environ, mask)
        assert error.value.exit_code == code, name


def test_a_script_without_interpreter_is_the_shells(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 9\n")
    script.chmod(0o755)
    assert run(str(script)).exit_code == 9


def test_the_output_goes_where_it_is_sent(tmp_path: Path) -> None:
    run("echo", "hello", output=str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "hello\n"


def test_the_program_begins_with_the_mask_and_actions_that_we_had() -> None:
    out = subprocess.run(
        [
            sys.executable,
            "-c",
            "from bellrock import program; import os\nwith program.signals_held() as m: program.wait(program.spawn(['cat', '/proc/self/status'], os.environ, m))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    status = dict(line.split(":\t", 1) for line in out.splitlines() if ":\t" in line)
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_signals_go_through_to_the_program(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    script = f"trap 'exit 5' USR1; echo > {ready}; while :; do sleep 0.05; done"

    def poke() -> None:
        ready.read_text()
        to_main_thread(signal.SIGUSR1)

    with program.signals_held() as mask:
        thread = threading.Thread(target=poke)
        thread.start()
        ended = program.wait(program.spawn(["sh", "-c", script], os.environ, mask))
        thread.join()
    assert ended == program.Ended(5, (signal.SIGUSR1,))


def test_a_program_that_ends_by_the_groups_signal_gets_it_once() -> None:
    script = """
import os
from bellrock import program
# So long that a busy machine is no matter.
program.GROUP_S = 10
passed_on = []
program.os.kill = lambda *words: passed_on.append(words)
with program.signals_held() as mask:
    ended = program.wait(program.spawn(["sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"], os.environ, mask))
print(ended.exit_code, ended.signals == (15,), passed_on)"""
    running = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert running.stdout.readline() == "ready\n"
    os.killpg(running.pid, signal.SIGTERM)
    assert running.communicate(timeout=60)[0] == "5 True []\n"


def test_a_signal_to_us_alone_is_kept_for_a_moment_only() -> None:
    with program.signals_held() as mask:
        pid = program.spawn(["sleep", "60"], os.environ, mask)
        to_main_thread(signal.SIGTERM)
        began = time.monotonic()
        assert program.wait(pid).exit_code == 143
    assert program.GROUP_S <= time.monotonic() - began < 30


def test_a_child_is_noticed_also_when_another_thread_takes_its_signal() -> None:
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    try:
        assert [run("sh", "-c", "exit 3").exit_code for _ in range(3)] == [3, 3, 3]
    finally:
        ended.set()
        other.join()


def test_the_mask_is_as_before_afterwards() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    run("true")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_pause_ends_early_when_asked_to() -> None:
    with program.signals_held():
        assert program.pause(0.01) is False
        to_main_thread(signal.SIGTERM)
        assert program.pause(60) is True
