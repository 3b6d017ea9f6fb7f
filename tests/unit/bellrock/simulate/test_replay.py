"""How nodes are played: where a replay goes on, what it refuses to play, and what it says. Agents are fakes that answer steps."""

import errno
import os
from pathlib import Path

import pytest

from bellrock.simulate import replay
from bellrock.simulate.replay import Replay, Times
from bellrock.simulate.trees.looks import Looks

NODE, LOOKS = "oss001", 5
TIMES = Times(1_767_225_600, 10, LOOKS)
# Writes the steps that it is told beside itself; without any it fails, as the true one does.
AGENT = """#!/bin/sh
while read step; do echo $step >> "$0.steps"; echo $step; given=1; done
[ "$given" ] || { echo "it was told no step" >&2; exit 2; }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One node's tree: a log, and a file that each look has."""
    folder = tmp_path / "machine"
    (folder / "nodes" / NODE / "var").mkdir(parents=True)
    with Looks(folder / "nodes" / f"{NODE}.looks.tar") as looks:
        for look in range(LOOKS + 1):
            looks.add(TIMES.start_s + 10 * look, "proc/file", f"{look}\n")
    return folder


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent"
    path.write_text(AGENT)
    path.chmod(0o755)
    return path


def play(folder: Path, agent: Path) -> replay.Played:
    (played,) = Replay(folder, TIMES, "127.0.0.1:9", agent).play([NODE], 1, lambda played: None)
    return played


def steps(agent: Path) -> list[int]:
    """The looks that it was told of."""
    path = agent.with_name("agent.steps")
    return [(int(line) // 10**9 - TIMES.start_s) // 10 for line in path.read_text().split()] if path.exists() else []


def test_a_node_goes_on_with_its_last_look(folder: Path, agent: Path) -> None:
    work = folder / "replay" / NODE
    work.mkdir(parents=True)
    (work / "look").write_text("3\n")
    # Torn by a kill; the file itself is whole.
    (work / "look.new").write_text("")
    assert play(folder, agent).is_done and steps(agent) == [3, 4, 5]
    assert (work / "look").read_text() == "5\n"


@pytest.mark.parametrize("text", ["", "3", "three\n", "-3\n", "6\n", "3\n" * 9, "9" * 99])
def test_a_file_that_does_not_say_how_far_a_node_is_lets_nothing_begin_anew(folder: Path, agent: Path, text: str) -> None:
    work = folder / "replay" / NODE
    work.mkdir(parents=True)
    (work / "look").write_text(text)
    played = play(folder, agent)
    assert not played.is_done and f"rm -r {work} begins anew" in played.why, played.why
    assert steps(agent) == [] and (work / "look").read_text() == text


def test_where_there_is_no_room_it_stays_known_how_far_a_node_is(folder: Path, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_write = Path.write_text

    def write_text(path: Path, text: str) -> int:
        if text == "2\n":
            true_write(path, "")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return true_write(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", write_text)
        played = play(folder, agent)
    assert "No space left" in played.why and steps(agent)[-1] == 1
    assert play(folder, agent).is_done and steps(agent) == [0, 1, 1, 2, 3, 4, 5]
