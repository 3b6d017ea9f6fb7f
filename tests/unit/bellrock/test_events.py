import json
import os
import shlex
import threading
from pathlib import Path

import pytest

from bellrock import events


def test_an_event_holds_what_the_format_says(tmp_path: Path) -> None:
    launch = events.new_launch("j1", ["/usr/bin/dd", "if=a b"])
    start = events.write_event(tmp_path, launch, "start", time_ns=5)
    end = events.write_event(tmp_path, launch, "end", 137)
    body = json.loads(start.read_text())
    fields = {"event", "job", "launch", "cluster", "program", "command", "user", "time", "exit_code"}
    assert set(body) == fields | {"pid", "pid_start_ticks", "pid_namespace"} and set(json.loads(end.read_text())) == fields
    assert (body["event"], body["job"], body["program"], body["time"], body["exit_code"]) == ("start", "j1", "dd", 5, None)
    assert shlex.split(body["command"]) == ["/usr/bin/dd", "if=a b"]
    assert json.loads(end.read_text())["exit_code"] == 137
    assert sorted(os.listdir(tmp_path)) == [start.name, end.name]
    assert start.stat().st_mode & 0o777 == 0o600


def test_a_start_names_the_process_that_will_write_the_end(tmp_path: Path) -> None:
    body = json.loads(events.write_event(tmp_path, events.new_launch("j", ["a"]), "start").read_text())
    assert body["pid"] == os.getpid()
    assert body["pid_start_ticks"] == int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) > 0


def test_bytes_that_are_no_text_do_not_make_the_event_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CLUSTER_NAME", os.fsdecode(b"c\xff"))
    monkeypatch.setattr(events, "user_name", lambda: os.fsdecode(b"u\xff"))
    launch = events.new_launch("j", [os.fsdecode(b"/bin/p\xff"), os.fsdecode(b"\xc3\xa4\xe4")])
    body = json.loads(events.write_event(tmp_path, launch, "start").read_text())
    assert (body["cluster"], body["program"], body["user"]) == ("c\ufffd", "p\ufffd", "u\ufffd")
    assert shlex.split(body["command"]) == ["/bin/p\ufffd", "ä\ufffd"]


def test_a_long_command_is_cut() -> None:
    launch = events.new_launch("j", ["prog", "x" * 100_000])
    assert len(launch.command) == events.COMMAND_LENGTH_MAX and launch.command.endswith("…")


def test_launches_differ() -> None:
    assert len({events.new_launch("j", ["a"]).launch for _ in range(100)}) == 100


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(events.os, "rename", full)
    with pytest.raises(OSError, match="No space"):
        events.write_event(tmp_path, events.new_launch("j", ["a"]), "start")
    assert os.listdir(tmp_path) == []


def test_a_reader_never_sees_half_of_an_event(tmp_path: Path) -> None:
    broken: list[str] = []
    seen: set[Path] = set()
    written = threading.Event()

    def read() -> None:
        while not written.is_set():
            for path in set(tmp_path.glob("*.job")) - seen:
                seen.add(path)
                body = path.read_text()
                try:
                    json.loads(body)
                except ValueError:
                    broken.append(body)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(300):
        events.write_event(tmp_path, events.new_launch("j", ["a", "b" * 3000]), "start")
    written.set()
    reader.join()
    assert broken == [] and seen
