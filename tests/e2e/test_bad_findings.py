"""Detectors on bad input, all the way: records and samples come over the wire to a real server, and what it says of them is told, skipped and counted."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import BELLROCK, ROOT, Site
from tests.integration.pipeline.client import Client, deliver_all
from tests.unit.pipeline.events import job_event, run_event, sample_event
from tests.wait import until

S, MINUTE_S, HOUR_S = 10**9, 60, 3600
UID, USER = os.getuid(), pwd.getpwuid(os.getuid()).pw_name
MB = 10**6


def write(at_s: float, lasts_s: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"op": "write", "start": round(at_s * S), "end": round((at_s + lasts_s) * S), "bytes": MB, "size": MB, **more}


def steady(begin_s: float, seconds: int, **more: Any) -> list[dict[str, Any]]:
    return [write(begin_s + second, **more) for second in range(seconds)]


# By name, what a job's node tells of it, s after its begin; and what is to be said: phases, bytes written, and of the run.
JOBS: dict[str, tuple[list[dict[str, Any]], int, int | None, str]] = {
    "nothing": ([], 0, 0, "no phases"),
    "one": ([write(5)], 1, MB, "too few runs"),
    "timeless": ([write(5, 0.0)], 1, MB, "no phases"),
    "zeros": ([write(second, bytes=0, size=0) for second in range(60)], 1, 0, "no phases"),
    "failed": ([write(second, bytes=0, errno=5) for second in range(60)], 0, 0, "no phases"),
    "constant": (steady(0, 60), 1, 60 * MB, "too few runs"),
    "gap": (steady(0, 60) + steady(90, 60), 2, 120 * MB, "too few runs"),
    # By a node whose clock was set back an hour after a minute: what came after lies before the job's begin, and counts once.
    "set-back": (steady(0, 60) + steady(60 - HOUR_S, 60), 2, 120 * MB, "too few runs"),
    "set-ahead": (steady(0, 60) + steady(60 + HOUR_S, 60), 2, 120 * MB, "too few runs"),
    # Beside what is good what cannot be: such records are put aside, and the job is as without them.
    "spoilt": (steady(0, 60), 1, 60 * MB, "too few runs"),
}
# What no record can be, by what of it is wrong.
NONSENSE = [
    {"bytes": float("nan")}, {"start": float("nan")}, {"bytes": -1}, {"bytes": 2**64}, {"count": 1.5}, {"start": 0, "end": 1}, {"start": 2**62, "end": 2**62 + 1}, {"start": 1_700_000_001 * S, "end": 1_700_000_000 * S},
    {"bytes": None}, {"op": 7},
]  # fmt: skip
OSTS, SLOW, MUTE, ZERO = 6, 3, 4, 5
# Minutes in which the first of them tell less than nothing: in the time that is learnt from, too.
BAD_OSTS, BAD_MINUTES = 4, (30, 110)
HOURS, LEARN_HOURS, SLOW_MINUTES = 4, 1, 50


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], build_dir: Path) -> Iterator[Site]:
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    made = Site(tmp_path_factory.mktemp("badfindings"), rings, free_port)
    made.state.mkdir(mode=0o700)
    (made.state / "server.toml").write_text(f"[findings]\nservers_learn_hours = {LEARN_HOURS}\n")
    made.start()
    yield made
    made.close()
    shutil.rmtree(rings)


@pytest.fixture(scope="module")
def sent(site: Site) -> int:
    """All is sent; how many records and samples make no sense."""
    now_s = int(time.time()) // MINUTE_S * MINUTE_S
    begin_s = now_s - 2 * HOUR_S
    spoilt = 0
    for job, (runs, *_) in JOBS.items():
        node = f"cn-{job}"
        of = {"job": job, "uid": UID}
        event = {"user": USER, "launch": job, "cluster": "c", "program": job, "command": f"/bin/{job}", **of}
        events = [job_event(1, node=node, time=begin_s * S, **event)]
        for run in runs:
            events.append(run_event(len(events) + 1, node=node, program=job, process="7.1", rank=None, file="/x", file_id="1", **of, latency=None, **(run | {"start": begin_s * S + run["start"], "end": begin_s * S + run["end"]})))
        events.append(job_event(len(events) + 1, node=node, time=(begin_s + 300) * S, **event | {"event": "end", "exit_code": 0}))
        # Once a node has told of what came later all of the job is there.
        events.append(sample_event(len(events) + 1, node=node, start=(now_s - 1) * S, end=now_s * S, values={"seen": 1}))
        assert deliver_all(site.ingest_port, events, 200) == 1
        if job == "spoilt":
            with Client(site.ingest_port) as client:
                client.deliver([run_event(1000 + number, node=node, program=job, **of, **write(begin_s + 5, start=(begin_s + 5) * S, end=(begin_s + 6) * S) | wrong) for number, wrong in enumerate(NONSENSE)])
            spoilt += len(NONSENSE)
    return spoilt + _send_samples(site, now_s - 10 * MINUTE_S)


def _send_samples(site: Site, last_s: int) -> int:
    """OSTs of one server, of which one is slow, one is away for a while, one does nothing, and some tell nonsense now and then."""
    events, first_s, refused = [], last_s - HOURS * HOUR_S, 0
    for at_s in range(first_s, last_s, MINUTE_S):
        minute = (at_s - first_s) // MINUTE_S
        for ost in range(OSTS):
            if ost == MUTE and 80 <= minute < 140:
                continue
            each_ms = 4 if ost == SLOW and last_s - at_s <= SLOW_MINUTES * MINUTE_S else 1
            values = {"reads": 0, "read_bytes": 0, "read_ns": 0} if ost == ZERO else {"reads": 6000, "read_bytes": 6e8, "read_ns": 6000 * each_ms * 1e6}
            if ost < BAD_OSTS and minute in BAD_MINUTES:
                values = dict.fromkeys(values, -1)
            events.append(sample_event(len(events) + 1, node="oss1", component="lustre_ost", instance=f"work-OST{ost:04x}", start=at_s * S, end=(at_s + MINUTE_S) * S, values=values))
    # A clock that was set back ten minutes tells of ten of them again, twice as much.
    for at_s in range(last_s - 30 * MINUTE_S, last_s - 20 * MINUTE_S, MINUTE_S):
        again = {"reads": 12_000, "read_bytes": 12e8, "read_ns": 12_000 * 1e6}
        events.append(sample_event(len(events) + 1, node="oss1", component="lustre_ost", instance="work-OST0000", start=at_s * S, end=(at_s + MINUTE_S) * S, values=again))
    for wrong in ({"reads": float("nan")}, {"reads": float("inf")}, {"reads": 1e300}, {"reads": None}):
        events.append(sample_event(len(events) + 1, node="oss1", component="lustre_ost", instance="work-OST0001", start=(last_s - MINUTE_S) * S, end=last_s * S, values=wrong))
        refused += 1
    assert deliver_all(site.ingest_port, events, 500) == 1
    return refused


def bellrock(site: Site, *words: object) -> str:
    done = subprocess.run([*BELLROCK, *map(str, words)], env={**site.env, "COLUMNS": "200"}, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("job", JOBS)
def test_a_jobs_phases_are_those_of_what_makes_sense_and_why_it_is_not_judged_is_said(site: Site, sent: int, job: str) -> None:
    _, phases, written, said = JOBS[job]
    site.settle(job)
    profile = site.profile(job)
    assert (profile["phases"], profile["write_bytes"]) == (phases, written)
    # Nothing counts twice, wherever a clock put it.
    assert sum(phase["write_bytes"] for phase in profile["phase_list"]) == written
    told = bellrock(site, "detect", job)
    assert "nothing was found in it" in told and said in told, told


def test_what_makes_no_sense_is_counted_where_it_was_left_out(site: Site, sent: int) -> None:
    assert site.get("/api/v1/status")["dead_letters"] == sent
    letters = site.get("/api/v1/audit")["dead_letters"]
    assert sum(line["count"] for line in letters) == sent
    # What is no JSON, as NaN is none, bears no node that could be believed.
    of = {node: sum(line["count"] for line in letters if line["node"] == node) for node in (None, "cn-spoilt", "oss1")}
    assert of == {None: 4, "cn-spoilt": len(NONSENSE) - 2, "oss1": 2} and all(line["reason"].startswith("no JSON") for line in letters if line["node"] is None)
    assert any(line["reason"].startswith("times: ") for line in letters), letters
    runs = until(lambda: (now := site.get("/api/v1/status")["detection"])["jobs"] >= len(JOBS) and now["runs"], "all jobs to be looked at", 180, 1.0)
    assert runs["no-phases"] >= 4 and runs["too-little-history"] >= 6 and set(runs) == {"no-phases", "too-little-history"}
    assert "no phases" in bellrock(site, "detect") and "too few runs" in bellrock(site, "detect")


def test_the_slow_server_is_found_beside_those_that_are_mute_do_nothing_or_tell_nonsense(site: Site, sent: int) -> None:
    (one,) = until(lambda: site.get("/api/v1/findings?kind=slow-ost&reported=any")["findings"], "the slow OST", 180, 1.0)
    evidence = json.loads(_json(site, "explain", one["id"]))["evidence"]
    assert one["instance"] == f"work-OST{SLOW:04x}" and one["times"] == pytest.approx(4, rel=0.05)
    assert evidence["times_in_all"] == pytest.approx(4, rel=0.05)
    own = until(lambda: (told := site.get("/api/v1/status")["detection"]["slow_servers"]["slow-ost"])["lasting"] and told, "the look to be told of")
    assert (own["left_out"], own["servers"], own["is_learning"], own["findings"]) == (BAD_OSTS * len(BAD_MINUTES), OSTS, False, 1)
    assert f"{own['left_out']} samples in which something made no sense" in bellrock(site, "detect")
    status = site.get("/api/v1/status")["detection"]
    assert status["error"] is None and status["failed"] == status["skipped"] == 0 and status["live"]["error"] is None


def _json(site: Site, *words: object) -> str:
    return subprocess.run([*BELLROCK, *map(str, words), "--json"], env=site.env, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=True).stdout
