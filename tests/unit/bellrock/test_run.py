import os
from pathlib import Path

import pytest

from bellrock import errors, events, paths, program, run, watch


def never(_seconds: float) -> bool:
    return False


@pytest.fixture
def built(state, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library that can be named; the linker only warns of what it cannot load."""
    (tmp_path / paths.PRELOAD).write_bytes(b"")
    monkeypatch.setenv("BELLROCK_BUILD", str(tmp_path))
    return tmp_path


def test_a_program_whose_start_cannot_be_told_is_not_watched_either(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(events, "write_event", full)
    warnings: list[str] = []
    with program.signals_held() as mask:
        finished = run.run_program(["env"], "j", watch.Watch(("/a",)), mask, warnings.append, output=str(built / "out"))
    seen = dict(line.split("=", 1) for line in (built / "out").read_text().splitlines() if "=" in line)
    assert seen == {name: value for name, value in os.environ.items() if "\n" not in value}
    assert len(warnings) == 1 and "unwatched" in warnings[0] and (finished.exit_code, finished.end_ns) == (0, 0)


@pytest.mark.parametrize("fault", [RuntimeError("can't start new thread"), errors.Unavailable("no")])
def test_the_program_is_waited_for_whatever_becomes_of_the_server(built: Path, fault: Exception) -> None:
    def fail() -> None:
        raise fault

    warnings: list[str] = []
    with program.signals_held() as mask:
        finished = run.run_program(["sh", "-c", "exit 7"], "j", watch.Watch(), mask, warnings.append, started=fail)
    assert finished.exit_code == 7 and finished.end_ns > 0 and str(fault) in warnings[0]


def test_a_server_that_cannot_start_is_not_asked_for_again_and_again() -> None:
    asked = []

    def client() -> None:
        asked.append(1)
        raise errors.ServerFault("records.duckdb is damaged")

    with pytest.raises(errors.ServerFault):
        run.wait_settled(client, run.Finished("j", 0, (), 1), never)
    assert len(asked) == 1


def test_a_server_that_is_not_there_yet_is_asked_for_again() -> None:
    asked = []

    def client() -> None:
        asked.append(1)
        raise errors.Unavailable("not yet")

    assert run.wait_settled(client, run.Finished("j", 0, (), 1), lambda _: len(asked) > 2) is None
    assert len(asked) == 3
