"""The machine's clock steps back an hour and forward again while programs run: operations keep their sums, durations and order.

Nobody touches the real clock: server, agent and `bellrock run` see it through libfaketime, which reads by how much it is off from a file.
"""

from __future__ import annotations

import glob
import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.e2e.hammer import Hammer
from tests.e2e.site import Site, compiled
from tests.wait import until

HOUR_S = 3600
# What "now" may be off by: how long the agent takes to ship.
SLACK_S = 60


class Clock:
    """The clock that the site sees."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.off_s = 0
        self.step(0)

    def step(self, off_s: int) -> None:
        """From now on the clock shows so much more than the machine's."""
        self.off_s = off_s
        new = self.file.with_suffix(".new")
        new.write_text(f"{off_s:+d}\n")
        new.rename(self.file)

    def now_ns(self) -> int:
        return time.time_ns() + self.off_s * 10**9


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Clock:
    return Clock(tmp_path_factory.mktemp("clock") / "offset")


@pytest.fixture(scope="module")
def library() -> str:
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") + glob.glob("/usr/lib64/faketime/libfaketimeMT.so.1")
    if not found:
        pytest.skip("no libfaketime on this machine. Run: apt-get install faketime")
    return found[0]


def shared(pid: int) -> list[Path]:
    """What libfaketime shares with the children of a process; it takes it away at the process's end, but not where that is killed."""
    return [Path(f"/dev/shm/faketime_shm_{pid}"), Path(f"/dev/shm/sem.faketime_sem_{pid}")]


def sweep(pids: Iterable[int]) -> None:
    """Takes away what those of these processes left that are dead."""
    for pid in pids:
        if not Path(f"/proc/{pid}").exists():
            for file in shared(pid):
                file.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def site(site: Site, clock: Clock, library: str, build_dir: Path) -> Iterator[Site]:
    site.stop()
    # The server gives its agent no LD_PRELOAD, so the agent gets it from a script in its place.
    build = site.folder / "build"
    build.mkdir()
    for built in build_dir.iterdir():
        (build / built.name).symlink_to(built)
    agent = build / "bellrock-agent"
    agent.unlink()
    agent.write_text(f'#!/bin/sh\nLD_PRELOAD={shlex.quote(library)} exec {shlex.quote(str(build_dir / "bellrock-agent"))} "$@"\n')
    agent.chmod(0o755)
    site.env |= {
        "BELLROCK_BUILD": str(build),
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(clock.file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    site.start()
    yield site
    site.close()
    sweep(site.pids)


def test_a_clock_that_steps(site: Site, clock: Clock) -> None:
    binary, began = compiled("hammer", site.folder), time.monotonic()
    # The program itself has no use for libfaketime, which would read its file through our wrappers.
    launcher = ("env", f"LD_PRELOAD={site.env['BELLROCK_BUILD']}/libbellrock.so")
    jobs: list[tuple[Hammer, int, int]] = []

    def one() -> None:
        """A job while the clock stands still, and when by that clock."""
        start_ns = clock.now_ns()
        job = Hammer(site, binary, 1, 2, 200, 2000, launcher=launcher)
        assert job.wait() == 0
        job.assert_exact()
        jobs.append((job, start_ns, clock.now_ns()))

    long = Hammer(site, binary, 2, 2, 0, 5000, launcher=launcher)
    long.wait_busy(50)
    one()
    for off_s in (-HOUR_S, 0, HOUR_S):
        clock.step(off_s)
        done = {key: row[1] for key, row in long.truth().items()}
        until(lambda done=done: all(row[1] > done[key] + 300 for key, row in long.truth().items()), "the program to go on")
        one()
    long.stop()
    assert long.wait() == 0
    long.assert_exact()
    elapsed_s = time.monotonic() - began

    status = site.get("/api/v1/status")
    assert (status["dead_letters"], status["duplicates"], status["missing"]) == (0, 0, 0)
    for job, start_ns, end_ns in jobs:
        told = site.get(f"/api/v1/jobs/{job.job}")["job"]
        assert start_ns <= told["start_ns"] <= told["end_ns"] <= end_ns
    site.stop()
    with duckdb.connect(str(site.state / "records.duckdb"), read_only=True) as store:
        rows = store.execute('SELECT job, process, handle, op, start, "end", busy_ns, slow_ns FROM runs WHERE count > 0 ORDER BY boot, seq').fetchall()
        assert store.execute('SELECT count(*) FROM samples WHERE "end" < start').fetchone() == (0,)
    site.start()
    # No span has the step in it, and none is negative.
    assert all(0 <= end - start <= elapsed_s * 1e9 for *_, start, end, _, _ in rows)
    assert all(0 <= slow <= busy for *_, busy, slow in rows)
    for job, start_ns, end_ns in jobs:
        own = [row for row in rows if row[0] == job.job and row[3] != "start"]
        assert own
        assert all(start_ns <= start and end <= end_ns + SLACK_S * 10**9 for *_, start, end, _, _ in own), job.job
    # In the order of the operations time goes back once for the step that did.
    last: dict[tuple, int] = {}
    back: dict[tuple, int] = {}
    for job, process, handle, op, start, *_ in rows:
        if job == long.job and op in ("read", "write"):
            key = (process, handle, op)
            back[key] = back.get(key, 0) + (start < last.get(key, start))
            last[key] = start
    assert len(back) == 8 and all(count == 1 for count in back.values()), back


def test_what_killed_processes_share_is_swept_and_nobody_elses(library: str, clock: Clock) -> None:
    env = {**os.environ, "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(clock.file)}
    killed, living = (subprocess.Popen(["sleep", "600"], env=env) for _ in range(2))
    try:
        until(lambda: all(file.exists() for one in (killed, living) for file in shared(one.pid)), "what libfaketime shares")
        killed.kill()
        killed.wait()
        sweep([killed.pid, living.pid])
        assert not any(file.exists() for file in shared(killed.pid)) and all(file.exists() for file in shared(living.pid))
    finally:
        living.kill()
        living.wait()
        sweep([killed.pid, living.pid])
