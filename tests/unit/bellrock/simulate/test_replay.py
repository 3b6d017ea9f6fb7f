"""How nodes are played: where a replay goes on, what it refuses to play, and what it says. Agents are fakes that answer steps."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellrock.errors import BellrockError, UsageError
from bellrock.simulate import replay, scratch
from bellrock.simulate.replay import Replay, Times, read_times
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
    played = play(folder, agent)
    assert played.is_done and steps(agent) == [3, 4, 5] and played.looks == 3
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


@pytest.mark.parametrize("name", ["replay", f"replay/{NODE}", f"replay/{NODE}/spool", f"replay/{NODE}/agent.log", f"replay/{NODE}/look", f"replay/{NODE}/look.new", f"replay/{NODE}/done", f"replay/{NODE}/spool/lock"])
def test_a_link_in_a_replay_leads_nowhere(folder: Path, agent: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = folder / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere / "file" if name.endswith("log") else elsewhere)
    played = play(folder, agent)
    assert not played.is_done and f"{link} is a link" in played.why and "remove it" in played.why
    assert steps(agent) == [] and list(elsewhere.iterdir()) == []


def test_a_tree_that_leads_elsewhere_is_not_played(folder: Path, agent: Path, tmp_path: Path) -> None:
    tree = folder / "nodes" / NODE
    (tree / "dev").symlink_to("/dev")
    assert f"{tree / 'dev'} is a link" in play(folder, agent).why
    (tree / "dev").unlink()
    (tree / scratch.RINGS).mkdir()
    assert f"{tree / scratch.RINGS} cannot be played" in play(folder, agent).why
    (tree / scratch.RINGS).rmdir()
    tree.rename(tmp_path / "tree")
    tree.symlink_to(tmp_path / "tree")
    assert f"{tree} is a link" in play(folder, agent).why
    assert steps(agent) == []


def test_no_agent_looks_for_rings_but_below_its_root(folder: Path, agent: Path) -> None:
    agent.write_text(AGENT.replace("while", 'echo "$@" > "$0.flags"\nwhile', 1))
    assert play(folder, agent).is_done
    flags = agent.with_name("agent.flags").read_text().split()
    assert flags[flags.index("--rings") + 1] == f"/{scratch.RINGS}" and "--root" in flags


@pytest.mark.parametrize("name", [".", "./.", "a\0b", "/etc/passwd", "../x", "a/../../x", "var/log/x"])
def test_a_look_has_only_files_below_its_root(folder: Path, agent: Path, name: str) -> None:
    with Looks(folder / "nodes" / f"{NODE}.looks.tar") as looks:
        looks.add(TIMES.start_s, name, "x")
    played = play(folder, agent)
    assert "is no file that a look could have" in played.why and steps(agent) == []
    assert list((folder / "nodes" / NODE / "var").iterdir()) == []


def test_files_take_no_more_memory_than_they_may(tmp_path: Path) -> None:
    page = scratch.PAGE_BYTES
    root = scratch.Scratch(tmp_path, 8 * page)
    # Two folders, a name and two pages; the same once more takes nothing.
    for _ in range(3):
        root.put("a/b/file", bytes(page + 1))
    root.put("a/b/./file", b"")
    for number in range(2):
        root.put(f"a/b/{number}", b"x")
    with pytest.raises(BellrockError, match="a/b/2: with it a node's files take more than 32,768 bytes"):
        root.put("a/b/2", b"x")
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == ["0", "1", "file"]


def test_nodes_that_are_played_at_once_share_the_memory(folder: Path, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MEMORY_BYTES_MAX", 4 * scratch.PAGE_BYTES)
    (played,) = Replay(folder, TIMES, "127.0.0.1:9", agent).play([NODE], 2, lambda played: None)
    assert "more than 8,192 bytes" in played.why and "--at-once" in played.why
    assert play(folder, agent).is_done


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '"start_s"', "[" * 4000, '{"start_s": 5', *(f'{{"start_s": {start}, "look_every_s": 10, "looks": 3}}' for start in ("Infinity", "NaN", "1.5", '"5"', "true", "null", "-1", 1 << 32))],
)
def test_times_that_no_machine_has_are_refused(folder: Path, text: str) -> None:
    (folder / "replay.json").write_text(text)
    with pytest.raises(UsageError, match=r"replay\.json") as error:
        read_times(folder)
    assert "simulate --trees" in error.value.hint


@pytest.mark.parametrize(("at", "told", "ends", "why"), [(2, [], 2, "broken off"), (4, [3], 4, "broken off; not everything was acknowledged; the rest waits in its spool")])
def test_a_node_that_is_broken_off_says_so(folder: Path, agent: Path, monkeypatch: pytest.MonkeyPatch, at: int, told: list[int], ends: int, why: str) -> None:
    """Also while earlier looks are only put in place, when its agent was told nothing yet."""
    work = folder / "replay" / NODE
    work.mkdir(parents=True)
    (work / "look").write_text("3\n")
    if told:
        agent.write_text(AGENT + f"exit {ends}\n")
    played = Replay(folder, TIMES, "127.0.0.1:9", agent)
    true_looks = replay._looks

    def looks(*given: object) -> Iterator[int]:
        for look in true_looks(*given):
            if look == at:
                played.stop()
            yield look

    monkeypatch.setattr(replay, "_looks", looks)
    (ended,) = played.play([NODE], 1, lambda played: None)
    assert (ended.why, ended.exit_code, steps(agent)) == (why, ends, told)
    assert (work / "look").read_text() == "3\n"
