"""A job that was slow since another was in its way, all the way: records and samples come over the wire, the server finds it slow against earlier runs, and names the other; command line and page show it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.site import Site
from tests.e2e.test_system_findings import bellrock, shot
from tests.integration.pipeline.client import deliver_all
from tests.unit.pipeline.events import job_event, run_event, sample_event
from tests.wait import until

S, HOUR_S = 10**9, 3600
UID, USER = os.getuid(), pwd.getpwuid(os.getuid()).pw_name
MB = 10**6
TOPOLOGY = """
[[class]]
name = "compute"
nodes = "cn[1-3]"

[[file_system]]
name = "work"
kind = "lustre"
mounts = "/fs"

[[forwarding]]
file_system = "work"
nodes = "cn[1-3]"
each = 3
forwarders = ["fwd1"]
"""
# Runs of one program, each of which wrote 2 GB in 20 s, but the last one, in 100 s, while another job wrote 900 MB/s.
RUNS, SECONDS, SLOW_SECONDS, VOLUME_MB = 10, 20, 100, 2000
FLOOD_MB_S = 900
# Requests that waited at the forwarding node meanwhile: each second so many began to, half a second each.
WAITING_PER_S = 500


def job(name: str, node: str, program: str, begin_s: int, seconds: int, mb_s: int, first: int) -> list[dict[str, Any]]:
    """What its node tells, from its so-manieth event on."""
    of = {"job": name, "uid": UID, "program": program}
    launch = {"user": USER, "launch": name, "cluster": "c", "command": f"/opt/{program}", **of}
    events = [job_event(first, node=node, time=(begin_s - 1) * S, **launch)]
    for second in range(seconds):
        at_ns = (begin_s + second) * S
        events.append(run_event(first + len(events), node=node, process="7.1", rank=None, op="write", file="/fs/x", file_id="1", start=at_ns, end=at_ns + S, bytes=mb_s * MB, size=MB, count=mb_s, latency=None, **of))
    return [*events, job_event(first + len(events), node=node, time=(begin_s + seconds + 1) * S, **launch | {"event": "end", "exit_code": 0})]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], build_dir: Path) -> Iterator[Site]:
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    made = Site(tmp_path_factory.mktemp("slowjob"), rings, free_port)
    (made.folder / "site").mkdir()
    (made.folder / "site" / "site.toml").write_text(TOPOLOGY)
    made.start()
    yield made
    made.close()
    shutil.rmtree(rings)


def shown(site: Site, *words: object) -> str:
    """What a command prints, on one line."""
    return re.sub(r"\s+", " ", bellrock(site, *words))


@pytest.fixture(scope="module")
def found(site: Site) -> dict[str, Any]:
    """The finding, once it was asked who slowed the job."""
    now_s = int(time.time())
    slow_s = now_s - HOUR_S
    bellrock(site, "topology", "apply", site.folder / "site", "--yes", "--at", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s - 100 * HOUR_S)))
    told: dict[str, list[dict[str, Any]]] = {"cn1": [], "cn2": [], "fwd1": []}
    for run in range(RUNS):
        told["cn1"] += job(f"run{run}", "cn1", "wrf", slow_s - (RUNS - run) * HOUR_S, SECONDS, VOLUME_MB // SECONDS, len(told["cn1"]) + 1)
    told["cn1"] += job("slowed", "cn1", "wrf", slow_s, SLOW_SECONDS, VOLUME_MB // SLOW_SECONDS, len(told["cn1"]) + 1)
    told["cn2"] += job("flood", "cn2", "filler", slow_s - 10, SLOW_SECONDS + 20, FLOOD_MB_S, 1)
    for at_s in range(slow_s - HOUR_S, now_s, 60):
        waited = WAITING_PER_S * 60 if slow_s - 60 < at_s < slow_s + SLOW_SECONDS else 60
        values = {"write_wait_to_1000000": waited, "write_exe_to_1000000": waited}
        told["fwd1"].append(sample_event(len(told["fwd1"]) + 1, node="fwd1", component="lwfs_server", instance="/log", start=at_s * S, end=(at_s + 60) * S, values=values))
    for node, events in told.items():
        # Once a node has told of what came later all of its jobs are there.
        events.append(sample_event(len(events) + 1, node=node, start=(now_s - 1) * S, end=now_s * S, values={"seen": 1}))
        assert deliver_all(site.ingest_port, events, 500) == 1

    def asked() -> dict[str, Any] | None:
        rows = [one for one in site.get("/api/v1/findings?job=slowed")["findings"] if one["kind"] == "slow-job"]
        answer = site.get(f"/api/v1/findings/{rows[0]['id']}") if rows else None
        return answer if answer is not None and "interference" in answer["evidence"] else None

    return until(asked, "the finding of the slow job, with who slowed it", 240, 1.0)


def test_the_job_in_the_way_is_named_with_what_it_cost(site: Site, found: dict[str, Any]) -> None:
    finding, asked = found["finding"], found["evidence"]["interference"]
    assert [(one["job"], one["role"]) for one in finding["jobs"]] == [("slowed", "subject"), ("flood", "aggressor")]
    (first,) = asked["aggressors"]
    assert (first["job"], first["server"], first["traits"]) == ("flood", "fwd1", ["bandwidth"])
    # 900 of 920 MB/s: without it all of the 80 s that were lost would have been spared.
    assert first["share"] == pytest.approx(900 / 920, rel=0.02) and first["lost_s"] == pytest.approx(SLOW_SECONDS - SECONDS, rel=0.1)
    (server,) = asked["servers"]
    assert server["before"]["wait_s"] == server["during"]["wait_s"] == pytest.approx(0.5) and server["during"]["requests"] >= WAITING_PER_S * 60
    assert "beside it another job's bandwidth" in finding["cause"] and "flood" not in finding["cause"]
    # It is told with the other job, too, and of no run that was as fast as ever.
    assert [one["id"] for one in site.get("/api/v1/findings?job=flood")["findings"] if one["kind"] == "slow-job"] == [finding["id"]]
    assert not [one for one in site.get("/api/v1/findings?job=run3")["findings"] if one["kind"] == "slow-job"]
    told = site.get("/api/v1/status")["detection"]["interference"]
    assert (told["jobs"], told["named"], told["skipped"]) == (1, 1, 0)


def test_the_command_line_shows_the_arithmetic(site: Site, found: dict[str, Any]) -> None:
    explained = shown(site, "explain", found["finding"]["id"])
    assert "98% of what fwd1 did for jobs" in explained and "of all that was lost" in explained and "flood" in explained, explained
    assert "asked of 1, somebody named for 1" in shown(site, "detect")
    assert "slow-job" in shown(site, "findings", "--job", "flood")


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_the_page_says_who_and_by_what(site: Site, browser: Browser, found: dict[str, Any], width: int, scheme: str) -> None:
    context = browser.new_context(base_url=site.url, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"/findings/{found['finding']['id']}")
    expect(page.get_by_role("heading", name="Slow job", level=1)).to_be_visible()
    expect(page.get_by_test_id("finding-cause")).to_contain_text("another job's bandwidth")
    expect(page.locator("main")).to_contain_text("flood")
    expect(page.locator("main")).to_contain_text("98% of what fwd1 did for jobs")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shot(page, f"slow-job-{width}-{scheme}")
    page.goto("/jobs/slowed")
    expect(page.locator("main")).to_contain_text("Slow job")
    context.close()
    assert errors == []
