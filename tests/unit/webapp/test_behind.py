"""What lies behind jobs, asked for in the background."""

from dataclasses import replace

import pytest

from anomaly.behind import KINDS, ONE_SIDED_TARGETS, READ_AHEAD
from anomaly.harm import Bounds
from jobdb.topology.layouts import Layout, Part
from pipeline.store import StoreError
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.people import People
from tests.unit.webapp.test_layers import MIB, S, apply, run, told
from webapp.api.behind import Behind

SITE = """
[[file_system]]
name = "scratch"
kind = "lustre"
mounts = "/scratch"

[[target]]
file_system = "scratch"
kind = "ost"
numbers = "0-15"
servers = "oss[1-4]"
each = 4
instance = "work-{name}"

[[target]]
file_system = "scratch"
kind = "mdt"
numbers = "0"
servers = "mds1"
instance = "work-{name}"
"""
BOUNDS = Bounds(one_sided_bytes=100 * MIB, discarded_bytes=40 * MIB)


@pytest.fixture
def site(tmp_path):
    """A job that writes 160 MiB on 16 nodes, one file a node, in 100 s."""
    made = People(tmp_path)
    apply(made, tmp_path / "site", SITE)
    made.jobdb.apply_events({"event": "start", "job": "7", "launch": "l", "node": f"n{number}", "uid": 1000, "user": "ada", "cluster": "c", "program": "p", "command": "p", "time": T0, "exit_code": None} for number in range(1, 17))
    run(made, "7", 1000, "n1", 0, 100, *(row("write", T0, T0 + 100 * S, bytes=10 * MIB, count=10, uid=1000, node=f"n{number}", process=f"{number}.1", file=f"/scratch/{number}") for number in range(1, 17)))
    made.behind = Behind(made.jobdb, made.store, BOUNDS)
    yield made
    made.close()


def look(site):
    job = site.jobdb.job("7")
    analyses = site.app.extensions["bellrock"].analyses
    found, kinds = site.behind.look(job, analyses.get(job).profile, T0 + 100 * S, lambda: analyses.runs(job))
    return {one.kind: one for one in found}, kinds


def told_by_name(site, targets):
    for number in range(16):
        server = f"oss{number // 4 + 1}"
        mine = 160 * MIB // targets if number < targets else 0
        site.store.sample_rows.append(told(server, "lustre_ost", f"work-OST{number:04x}", 0, 100, write_bytes=mine + MIB, writes=99))
        if mine:
            site.store.sample_rows.append(told(server, "lustre_job", f"work-OST{number:04x} 7", 0, 100, write_bytes=mine, writes=9))


@pytest.mark.parametrize(("targets", "is_told"), [(2, True), (3, False), (16, False)])
def test_what_servers_count_by_the_jobs_name_tells_its_targets(site, targets, is_told):
    told_by_name(site, targets)
    found, kinds = look(site)
    assert ((ONE_SIDED_TARGETS in found), kinds) == (is_told, KINDS)
    if is_told:
        evidence = found[ONE_SIDED_TARGETS].evidence
        assert (evidence["bearing_targets"], evidence["targets_offered"], evidence["told_by"]) == (2, 16, "servers")
        # Of servers that name no job all that they did is the job's, which was alone.
        assert evidence["bytes"] == (160 + 12) * MIB


def test_layouts_tell_where_servers_do_not(site):
    site.jobdb.topology.layouts.put([Layout(f"/scratch/{number}", (Part(targets=(number % 2,)),)) for number in range(1, 17)], T0 - S)
    found, _ = look(site)
    assert found[ONE_SIDED_TARGETS].evidence["told_by"] == "layouts" and found[ONE_SIDED_TARGETS].evidence["bearing_targets"] == 2


def test_read_ahead_of_the_jobs_nodes(site):
    # What it read does not matter to whether it is looked at: it moved enough.
    site.store.sample_rows += [told("n1", "lustre_client", "work", 0, 100, readahead_hits=0, readahead_misses=20_000, readahead_discards=20_000)]
    assert look(site)[0].keys() == {READ_AHEAD}


def test_where_nothing_can_be_told_nothing_is_said_and_that_is_counted(site, monkeypatch, tmp_path):
    def away(*args, **more):
        raise StoreError("away")

    monkeypatch.setattr(site.store, "samples", away)
    told_by_name(site, 2)
    assert look(site) == ({}, ()) and site.behind.skipped == 1
    # Of what is not worth a look, or where no topology is, nothing is asked.
    site.behind = Behind(site.jobdb, site.store, replace(BOUNDS, one_sided_bytes=10**12))
    assert look(site) == ({}, KINDS) and site.behind.skipped == 0
