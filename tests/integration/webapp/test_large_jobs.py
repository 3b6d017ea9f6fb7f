"""Stragglers within large jobs of a small virtual machine, out of a real store: the slow OST is named by its jobs, and nothing without it; killed in between, the same."""

import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from anomaly.large_job_findings import STRAGGLING_OST
from anomaly.slow import Rules
from anomaly.slow_findings import SLOW_FORWARDING, SLOW_OST
from bellrock.simulate import names
from bellrock.simulate.minutes import JOB_LAYERS, minutes
from jobdb.findings import Sought
from jobdb.repository import JobDB
from pipeline.served import MINUTE_NS
from pipeline.store.duckdb import DuckDBStore
from tests.integration.webapp.test_slow_servers import LEARN, _event, events, machine, numbered
from tests.unit.webapp.fakes import event
from webapp.api.large_jobs import LargeJobs, Settings
from webapp.api.slow_servers import Settings as OfServers, SlowServers

# Of 1,024 nodes of the machine.
LARGE = 26
RULES = {SLOW_OST: Rules(("read", "write"), LEARN), SLOW_FORWARDING: Rules(("read", "write", "metadata"), LEARN)}
ALONE, BESIDE = OfServers((), rules=RULES), OfServers((SLOW_OST,), rules=RULES)


def of_jobs(virtual) -> Iterator[dict[str, Any]]:
    """What targets count of jobs, by minute."""
    storage, seq = virtual.plan.machine.storage, 0
    for part in minutes(virtual):
        told = part.jobs
        for row in (told.layer == JOB_LAYERS.index("storage")).nonzero()[0].tolist():
            number, seq = int(told.component[row]), seq + 1
            if not part.seen.targets[told.minute[row] - part.first, number]:
                continue
            values = {"reads": told.read_ops[row], "writes": told.write_ops[row], "read_bytes": told.read_bytes[row], "write_bytes": told.write_bytes[row]}
            yield _event(virtual, seq, told.minute[row], names.server(number // storage.targets), "lustre_job", f"work-{names.target(number)} {1000 + told.job[row]}", values)


def stored(folder, virtual):
    store = DuckDBStore(folder / "records.duckdb")
    every = list(numbered([*events(virtual), *of_jobs(virtual)]))
    for begin in range(0, len(every), 20_000):
        assert store.append(every[begin : begin + 20_000]).samples == len(every[begin : begin + 20_000])
    return store


def jobdb_at(path, virtual):
    """With the machine's jobs."""
    jobdb = JobDB(f"sqlite:///{path}", user_name=lambda uid: None)
    told = []
    for run in virtual.runs:
        if run.nodes >= LARGE:
            begin_ns = virtual.start_ns + round(run.start_s * 1e9)
            for number in range(run.nodes):
                of = {"job": str(1000 + run.number), "node": names.node_name(run.first_node + number), "launch": f"l{number}"}
                told += [event("start", time=begin_ns, **of), event("end", time=begin_ns + round(run.wall_s * 1e9), **of)]
    jobdb.apply_events(told)
    return jobdb


def found_by(path, store, virtual, until_minutes, servers=ALONE):
    for minute in until_minutes:
        jobdb = jobdb_at(path, virtual) if not path.exists() else JobDB(f"sqlite:///{path}", user_name=lambda uid: None)
        for detector in (SlowServers(jobdb, store, servers, lambda minute=minute: virtual.start_ns + minute * MINUTE_NS), LargeJobs(jobdb, store, Settings(nodes=LARGE, servers=servers), lambda minute=minute: virtual.start_ns + minute * MINUTE_NS)):
            until = None
            # A turn ends after some seconds, however busy the machine is.
            while until != (until := [one["until_ns"] for one in detector.status().values()]) or detector._looked_at < 0:
                detector.look(threading.Event())
        status = detector.status()[STRAGGLING_OST]
        found = [one.found for one in jobdb.findings.page(Sought(), 100)[0]]
        jobdb.close()
    assert status["jobs"] > 0 and status["left_out"] == 0
    return found


@pytest.fixture(scope="module")
def sick(tmp_path_factory):
    folder, virtual = tmp_path_factory.mktemp("sick"), machine(["slow-ost", "slow-forwarding"])
    store = stored(folder, virtual)
    yield store, virtual
    store.close()
    shutil.rmtree(folder)


def test_the_slow_ost_is_named_by_large_jobs_and_killed_in_between_it_is_the_same(tmp_path, sick):
    store, virtual = sick
    fault = next(one for one in virtual.plan.faults if one.kind == "slow-ost")
    begin_ns, end_ns = (virtual.start_ns + round(instant * 1e9) for instant in (fault.begin_s, fault.end_s))
    whole = found_by(tmp_path / "whole.db", store, virtual, [10**6])
    assert {(one.kind, one.instance) for one in whole} == {(STRAGGLING_OST, f"work-{names.target(fault.component)}")}
    for one in whole:
        assert begin_ns - 2 * MINUTE_NS <= one.begin_ns < end_ns and 0.5 / fault.factor < one.times < 2 / fault.factor and one.jobs and not one.is_reported
    assert found_by(tmp_path / "cut.db", store, virtual, [131, 190, 10**6]) == whole


def test_where_the_server_is_known_to_be_slow_it_is_told_there(tmp_path, sick):
    store, virtual = sick
    found = found_by(tmp_path / "beside.db", store, virtual, [10**6], BESIDE)
    assert {one.kind for one in found} == {SLOW_OST} and any(row["stood_out_minutes"] for one in found for row in one.evidence["large_jobs"])


def test_of_a_machine_that_is_well_there_is_no_finding(tmp_path):
    virtual = machine([])
    store = stored(tmp_path, virtual)
    try:
        assert found_by(tmp_path / "jobs.db", store, virtual, [10**6]) == []
    finally:
        store.close()
