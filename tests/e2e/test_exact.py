"""What is stored equals what the program did, to the byte: whatever it does, and whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.hammer import Hammer
from tests.e2e.site import PROGRAMS, Site, compiled

COUNTS = ("read_ops", "read_bytes", "write_ops", "write_bytes", "metadata_ops", "errors")


def nonzero(files: dict[str, dict]) -> dict[str, dict[str, int]]:
    """{file: the counts that are not 0}, of files that have any."""
    found = {file: {name: row[name] for name in COUNTS if row.get(name)} for file, row in files.items()}
    return {file: counts for file, counts in found.items() if counts}


def files_of(site: Site, job: str) -> dict[str, dict[str, int]]:
    return nonzero({row["file"]: row for row in site.rows(job, "files")})


# --- random operations -------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "sub", "sub/d", "sub/e", "no/where", ".", "a/x"])
INDEX = st.integers(0, 5)
SIZE = st.sampled_from([0, 1, 7, 100, 4096, 70000])
OFFSET = st.sampled_from([0, 1, 4096, 8192, 1 << 33])


def one(name: str, *arguments: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(st.just(name), *arguments).map(list)


SIMPLE = st.one_of(
    one("open", NAMES, st.sampled_from(["r", "rwc", "wc", "wct", "wca", "rwca"])),
    one("open", st.sampled_from(["a", "b", "c"]), st.just("rwc")),
    *[one(name, INDEX) for name in ("close", "dup", "fsync", "fdatasync", "fstat")],
    *[one(name, INDEX, SIZE) for name in ("read", "write", "readv", "writev", "ftruncate")],
    *[one(name, INDEX, SIZE, OFFSET) for name in ("pread", "pwrite", "preadv", "pwritev")],
    one("lseek", INDEX, OFFSET),
    one("dup2", INDEX, INDEX),
    *[one(name, NAMES) for name in ("stat", "lstat", "access", "unlink", "mkdir", "rmdir", "listdir")],
    *[one(name, NAMES, NAMES) for name in ("rename", "link", "symlink")],
    one("truncate", NAMES, SIZE),
)


def of_threads(parts: list[list[list]]) -> list:
    """Threads share no file, so what each call answers does not depend on their order."""
    own = ("read", "write", "pread", "pwrite", "close")
    return ["threads", [[["open", f"thread{i}", "rwc"], *[s for s in part if s[0] in own]] for i, part in enumerate(parts)]]


PLAN = st.lists(
    st.one_of(
        SIMPLE,
        SIMPLE,
        SIMPLE,
        st.lists(SIMPLE, max_size=15).map(lambda part: ["fork", part]),
        st.lists(st.lists(SIMPLE, max_size=10), min_size=1, max_size=4).map(of_threads),
    ),
    max_size=60,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(plan=PLAN)
def test_random_operations_equal_the_oracle(site: Site, plan: list) -> None:
    job = site.new_job()
    data = site.data / job
    (data / "sub").mkdir(parents=True)
    plan_file, truth_file = site.folder / "plan.json", site.folder / "truth.json"
    plan_file.write_text(json.dumps(plan))
    interpreter = os.path.realpath(sys.executable)
    site.run([interpreter, "-I", PROGRAMS / "operations.py", plan_file, truth_file, data], job, watch=data)
    truth = json.loads(truth_file.read_text())
    assert files_of(site, job) == nonzero(truth["files"])
    profile = site.profile(job)
    counted = {o["op"]: o["count"] for o in profile["operations"] if o["count"]}
    assert counted == {o: n for o, n in truth["operations"].items() if n}
    assert profile["files"] == sum(1 for c in truth["files"].values() if c.get("read_ops") or c.get("write_ops"))
    assert profile["read_bytes"] == sum(c.get("read_bytes", 0) for c in truth["files"].values())
    assert profile["metadata_ops"] == sum(c.get("metadata_ops", 0) for c in truth["files"].values())


# --- many processes and threads, and kills -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hammer(site: Site) -> Path:
    return compiled("hammer", site.folder)


@pytest.mark.parametrize(
    ("processes", "threads", "operations", "more"),
    [(32, 1, 3000, ()), (4, 8, 3000, ()), (2, 2, 60000, ("random",)), (1, 64, 200, ())],
    ids=["32 processes", "threads", "random, rings overflow", "64 threads"],
)
def test_many_processes_and_threads(site: Site, hammer: Path, processes: int, threads: int, operations: int, more: tuple[str, ...]) -> None:
    job = Hammer(site, hammer, processes, threads, operations, 0, *more)
    assert job.wait(seconds=120) == 0
    job.assert_exact()


def test_program_killed(site: Site, hammer: Path) -> None:
    job = Hammer(site, hammer, 4, 2, 0, 50)
    job.wait_busy()
    job.kill()
    assert job.wait() == 128 + signal.SIGKILL
    job.assert_exact()


def test_agent_killed_again_and_again(site: Site, hammer: Path) -> None:
    job = Hammer(site, hammer, 3, 2, 8000, 1000)
    chance = random.Random(5)
    kills = 0
    while job.runs and kills < 4:  # the server waits longer after each before it starts another
        time.sleep(chance.uniform(0.1, 1.2))  # at no moment in particular
        site.kill_agent()
        kills += 1
    assert job.wait() == 0 and kills >= 3
    job.assert_exact()


def test_server_killed_and_away(site: Site, hammer: Path) -> None:
    job = Hammer(site, hammer, 3, 2, 3000, 1000)
    job.wait_busy()
    site.kill_server()
    site.start()
    site.kill_server()
    assert job.wait() == 0  # it ends while nobody is there
    time.sleep(float(os.environ.get("BELLROCK_TEST_AWAY_S", "60")))  # the server is away for a minute
    site.start()
    job.assert_exact()
    status = site.get("/api/v1/status")
    assert status["dead_letters"] == 0


def test_other_programs(site: Site) -> None:
    """Redirections, exec, fork, vfork and copies by programs that nobody wrote for this."""
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    copy = "import subprocess; subprocess.run(['cp', 'd', 'e'])"
    script = f'dd if=/dev/zero of=a bs=1000 count=70 2>/dev/null; cat a > b; cp a c; (exec cat b c > d); python3 -c "{copy}"'
    site.run(["sh", "-c", script], job, watch=data, cwd=data)
    files = files_of(site, job)
    written = {Path(f).name: c.get("write_bytes", 0) for f, c in files.items()}
    assert {name: written[name] for name in "abcde"} == {"a": 70000, "b": 70000, "c": 70000, "d": 140000, "e": 140000}
    read = {Path(f).name: c.get("read_bytes", 0) for f, c in files.items()}
    assert {name: read[name] for name in "abcd"} == {"a": 140000, "b": 70000, "c": 70000, "d": 140000}
    assert site.profile(job)["write_bytes"] == 490000
