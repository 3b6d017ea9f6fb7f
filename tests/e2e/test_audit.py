"""`bellrock audit` on a running server: real records, and some that come with gaps, late, twice, or with times that cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from tests.e2e.site import BELLROCK, ROOT, Site
from tests.integration.pipeline.client import Client
from tests.unit.pipeline.events import job_event, run_event, sample_event
from tests.wait import until

S = 10**9


def audit(site: Site, *options: str) -> tuple[int, dict]:
    done = subprocess.run([*BELLROCK, "audit", "--json", *options], env=site.env, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def deliver(site: Site, *events: dict) -> None:
    with Client(site.ingest_port) as client:
        client.deliver(list(events))


def kinds(report: dict) -> list[str]:
    return [flaw["kind"] for flaw in report["flaws"]]


@pytest.fixture(scope="module", autouse=True)
def job(site: Site) -> str:
    """A real job, so that a real agent's records are there."""
    return site.run(["dd", "if=/dev/zero", f"of={site.data}/dd", "bs=4096", "count=25"], stderr=subprocess.DEVNULL)


def test_after_a_real_job_nothing_is_missing_and_every_row_is_there(site: Site) -> None:
    code, report = audit(site, "--deep")
    assert (code, report["clean"], report["flaws"]) == (0, True, [])
    (boot,) = report["boots"]
    assert boot["state"] == "heard" and abs(boot["clock_offset_s"]) < 60
    today = time.strftime("%Y-%m-%d", time.gmtime(time.time()))
    assert report["proof"]["rows"] > 3 and report["proof"]["days"][-1]["day"] <= today


def test_a_gap_is_found_by_its_numbers_and_closed_by_what_comes_late(site: Site) -> None:
    fresh = {"start": time.time_ns() - S, "end": time.time_ns()}
    deliver(site, *(run_event(n, node="gappy", **fresh) for n in (1, 2, 7)))
    code, report = audit(site, "--node", "gappy", "--deep")
    assert (code, kinds(report)) == (1, ["gap"])
    assert report["boots"][0]["gaps"] == [{"first": 3, "last": 6, "missing": 4}]
    assert report["flaws"][0]["text"] == "4 records never came: numbers 3 to 6"
    # Late, out of order, and some of it twice.
    deliver(site, *(run_event(n, node="gappy", **fresh) for n in (5, 4, 4, 2)), job_event(6, node="gappy", job="late", time=time.time_ns()))
    assert audit(site, "--node", "gappy")[1]["boots"][0]["gaps"] == [{"first": 3, "last": 3, "missing": 1}]
    deliver(site, sample_event(3, node="gappy", **fresh))
    code, report = audit(site, "--node", "gappy", "--deep")
    assert (code, report["flaws"], report["boots"][0]["duplicates"]) == (0, [], 2)
    assert report["proof"] | {"days": None} == {"boots": 1, "rows": 6, "days": None}


def test_implausible_times_are_dead_letters_that_the_audit_and_the_status_show_and_no_job(site: Site) -> None:
    now = time.time_ns()
    deliver(
        site,
        run_event(1, node="odd", start=now, end=now - 5 * S),
        run_event(2, node="odd", start=5, end=now),
        sample_event(3, node="odd", start=now, end=now + 30 * 3600 * S),
        job_event(4, node="odd", job="from-the-future", time=now + 30 * 3600 * S),
        run_event(5, node="odd", job="skewed", start=now + 3 * 3600 * S, end=now + 3 * 3600 * S),
        sample_event(6, node="odd", start=now, end=now + 3 * 3600 * S),
    )
    code, report = audit(site, "--node", "odd")
    assert code == 1 and sorted(kinds(report)) == ["clock", "dead_letters"]
    (letters,) = report["dead_letters"]
    assert (letters["cause"], letters["count"], letters["seq"]) == ("times", 4, 4) and "30.0 hours ahead" in letters["reason"]
    assert "3.0 hours ahead of the server's" in report["flaws"][1]["text"]
    assert (report["boots"][0]["seq"], report["boots"][0]["missing"], report["boots"][0]["dead_letters"]) == (6, 0, 4)
    assert site.get("/api/v1/status")["dead_letters"] == 4
    assert all(job["job_id"] != "from-the-future" for job in site.get("/api/v1/jobs")["jobs"])
    assert audit(site, "--node", "odd", "--deep")[1]["proof"]["rows"] == 2


def test_an_agent_that_is_killed_falls_silent_and_one_that_ends_does_not(site: Site) -> None:
    def state(node: str) -> str:
        return next(boot["state"] for boot in audit(site, "--node", node, "--silent", "1")[1]["boots"])

    settings = site.state / "server.toml"
    (node,) = {boot["node"] for boot in audit(site)[1]["boots"]} - {"gappy", "odd"}
    for kill, expected in ((False, "ended"), (True, "silent")):
        until(lambda: audit(site, "--node", node)[1]["boots"][0]["state"] == "heard", "the agent to deliver")
        if kill:
            site.kill_server()
            agent = site.agent_pid()
            os.kill(agent, signal.SIGKILL)
            until(lambda: site._agent_pid() is None, "the agent to be gone")
        else:
            assert site.stop() == 0
        settings.write_text("[agent]\nrun = false\n")
        site.start()
        until(lambda expected=expected: state(node) == expected, f"the agent to count as {expected}")
        settings.unlink()
        site.stop()
        site.start()


def test_another_record_with_the_same_number_is_told_as_two_agents(site: Site) -> None:
    now = time.time_ns()
    deliver(site, *(run_event(n, node="twin", start=now, end=now) for n in (1, 2, 3)))
    deliver(site, *(run_event(n, node="twin", start=now, end=now, bytes=7) for n in (2, 3, 4)))
    code, report = audit(site, "--node", "twin")
    assert code == 1 and kinds(report) == ["conflict"]
    assert (report["boots"][0]["conflicts"], report["boots"][0]["seq"]) == (1, 4)


def test_a_node_that_is_not_known_and_a_server_that_is_not_there(site: Site) -> None:
    done = subprocess.run([*BELLROCK, "audit", "--node", "nobody"], env=site.env, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no record of a node 'nobody'" in done.stderr
    elsewhere = site.env | {"BELLROCK_STATE": str(site.folder / "no-state")}
    done = subprocess.run([*BELLROCK, "audit"], env=elsewhere, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "bellrock server" in done.stderr and not (site.folder / "no-state").exists()
