"""The real agent where `gluster` is out of order: it goes on each second, one command at most is there, and none outlives it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.agent.samples import running

ROOT = Path(__file__).resolve().parents[3]
FIXTURE = ROOT / "tests/fixtures/gluster_client/10.3"
S = 10**9
# Rounds begin at once, and again after 2 s and 4 s more.
WATCHED_S = 6.0
ANSWERS = f"for word; do last=$word; done; cat {FIXTURE}/2/answers/brick1-$last.xml"
OUT_OF_ORDER = {
    "hangs": ("exec sleep 1000", "took longer than 1 s"),
    "prints without end": ("exec yes '<cliOutput>'", "took longer than 1 s"),
    "leaves a child that holds the pipe": ("sleep 1000 & exit 1", "exit status: 1"),
    "hangs with children": ("sleep 1000 & sleep 1000 & wait", "took longer than 1 s"),
    "fails": ("echo Connection failed.; exit 1", "exit status: 1"),
    "is missing": (None, "No such file or directory"),
}


class Family:
    """What an agent has started, and what that has. What it starts leads a group of its own, but for a moment that of the agent."""

    def __init__(self, agent: int) -> None:
        self._agent, self._groups = agent, set[int]()

    def groups(self) -> set[int]:
        """Those in which anyone is."""
        found = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent, group = stat.read_text().rpartition(") ")[2].split()[:3]
            except OSError:
                continue  # it has ended
            if state != "Z" and int(parent) == self._agent:
                found.add(int(stat.parent.name))
            elif state != "Z" and int(group) in self._groups:
                found.add(int(group))
        self._groups |= found
        return found


def settings(command: Path) -> str:
    return f'gluster_server_stats = "{FIXTURE}/1/var/lib/glusterd/stats"\ngluster_client_period_s = 1\ngluster_client_timeout_s = 1\ngluster_client_command = "{command}"\n'


def command(folder: Path, text: str | None) -> Path:
    path = folder / "gluster"
    if text is not None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", OUT_OF_ORDER)
def test_the_agent_goes_on_and_nothing_piles_up(tmp_path: Path, build_dir: Path, name: str) -> None:
    text, error = OUT_OF_ORDER[name]
    with running(build_dir / "bellrock-agent", tmp_path, settings(command(tmp_path, text))) as (process, samples):
        family, end_s, at_once = Family(process.pid), time.monotonic() + WATCHED_S, 0
        while time.monotonic() < end_s:
            at_once = max(at_once, len(family.groups()))
            time.sleep(0.02)  # sampling interval
        assert process.poll() is None
        assert at_once <= 1
    log = (tmp_path / "agent.log").read_text()
    said = [line for line in log.splitlines() if "gluster_client" in line]
    assert len(said) == 1 and error in said[0], log
    assert samples.total("agent", "failed_reads") >= 2
    ends = sorted(sample["end"] for sample in samples.of("node"))
    assert len(ends) >= WATCHED_S - 2 and max(later - earlier for earlier, later in zip(ends, ends[1:], strict=False)) < 2 * S
    end_s = time.monotonic() + 10
    while left := family.groups():
        assert time.monotonic() < end_s, left
        time.sleep(0.02)  # until the kernel has taken them away


def test_clients_are_told_when_it_answers_again(tmp_path: Path, build_dir: Path) -> None:
    path = command(tmp_path, "exit 1")
    with running(build_dir / "bellrock-agent", tmp_path, settings(path)) as (_, samples):
        _until(lambda: samples.total("agent", "failed_reads") >= 1)
        # Each answer tells of some bytes more.
        new = tmp_path / "new"
        new.write_text(
            f'#!/bin/sh\necho >> {tmp_path}/count; n=$(wc -l < {tmp_path}/count); {{ {ANSWERS}; }} | sed "s/<bytesRead>17937/<bytesRead>$((17937 + n))/"\n'
        )
        new.chmod(0o755)
        new.rename(path)
        _until(lambda: samples.total("gluster_client", "received_bytes") >= 2000)
    instances = {sample["instance"] for sample in samples.of("gluster_client")}
    assert instances == {"_data_brick1 10.77.0.1"}


def _until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.05)
