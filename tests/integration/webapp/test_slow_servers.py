"""Slow servers of a small virtual machine, out of a real store: the fault is named, and nothing without it; killed in between, the same."""

import shutil
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from anomaly.slow import Rules
from anomaly.slow_findings import SLOW_FORWARDING, SLOW_OST
from bellrock.simulate import names
from bellrock.simulate.command import read_start, virtual_machine
from bellrock.simulate.minutes import minutes
from bellrock.simulate.trees.forwarding import BOUNDS_S, SERVER_LOG
from bellrock.simulate.virtual import VirtualMachine
from jobdb.findings import Annotation, Sought
from jobdb.repository import JobDB
from pipeline.served import MINUTE_NS
from pipeline.store.duckdb import DuckDBStore
from tests.unit.pipeline.events import sample_event
from webapp.api.slow_servers import UNSURE, Settings, SlowServers

HOURS, LEARN = 4, 120
SETTINGS = Settings(rules={SLOW_OST: Rules(("read", "write"), LEARN), SLOW_FORWARDING: Rules(("read", "write", "metadata"), LEARN, unsure=UNSURE[SLOW_FORWARDING])})


def machine(faults):
    return virtual_machine("taihulight", 0.025, HOURS, 1.0, faults, 3, read_start("2026-01-01"), noise=True)


def events(virtual: VirtualMachine) -> Iterator[dict[str, Any]]:
    """What agents would tell of each minute: targets of requests and their times, forwarding nodes by their log's buckets."""
    storage, seq = virtual.plan.machine.storage, 0
    for part in minutes(virtual):
        told, of = part.targets, part.forwarding
        should_s = [bytes_ / storage.bytes_s + ops * storage.request_us / 1e6 for bytes_, ops in ((told.read_bytes, told.read_ops), (told.write_bytes, told.write_ops))]
        for minute, number in zip(*np.nonzero(part.seen.targets & (told.read_ops + told.write_ops > 0)), strict=True):
            here = (minute, number)
            read = should_s[0][here] / (should_s[0][here] + should_s[1][here])
            values = {
                "reads": told.read_ops[here], "read_bytes": told.read_bytes[here], "read_ns": told.service_us[here] * 1e3 * read,
                "writes": told.write_ops[here], "write_bytes": told.write_bytes[here], "write_ns": told.service_us[here] * 1e3 * (1 - read),
            }  # fmt: skip
            seq += 1
            yield _event(virtual, seq, part.first + minute, names.server(number // storage.targets), "lustre_ost", f"work-{names.target(number)}", values)
        for minute, number in zip(*np.nonzero(part.seen.forwarding), strict=True):
            here = (minute, number)
            values = {}
            bounds = [*(f"{round(bound * 1e6)}" for bound in BOUNDS_S), "inf"]
            for kind, parts in zip(("read", "write", "meta"), of.exe[here], strict=True):
                values |= {f"{kind}_exe_to_{bound}": part_ for bound, part_ in zip(bounds, parts.tolist(), strict=True) if part_}
            mount = {"reads": of.read_ops[here], "read_bytes": of.read_bytes[here], "writes": of.write_ops[here], "write_bytes": of.write_bytes[here]}
            for component, instance, moved in (("lwfs_server", SERVER_LOG, values), ("lustre_client", "work", mount)):
                seq += 1
                yield _event(virtual, seq, part.first + minute, names.forwarder(number), component, instance, moved)


def _event(virtual, seq, minute, node, component, instance, values):
    start = virtual.start_ns + int(minute) * MINUTE_NS
    return sample_event(seq, node=node, boot=f"{seq:016x}"[:8] + "deadbeef", component=component, instance=instance, start=start, end=start + MINUTE_NS, values={name: float(value) for name, value in values.items()})


def numbered(told):
    """Each node's events in the order of its own numbers."""
    last: dict[str, int] = {}
    for one in told:
        last[one["node"]] = last.get(one["node"], 0) + 1
        yield one | {"seq": last[one["node"]], "boot": "00000000deadbeef"}


def stored(folder, virtual):
    store = DuckDBStore(folder / "records.duckdb")
    every = list(numbered(events(virtual)))
    for begin in range(0, len(every), 20_000):
        appended = store.append(every[begin : begin + 20_000])
        assert appended.samples == len(every[begin : begin + 20_000])
    return store


def found_by(jobdb_path, store, virtual, until_minutes):
    """What is found, looking at those minutes of the machine's, each time by a detector that knows what the last one kept."""
    known = [(names.forwarder(one.component), *(virtual.start_ns + round(instant * 1e9) for instant in (one.begin_s, one.end_s))) for one in virtual.plan.noise.known if one.kind == "maintenance"]
    for minute in until_minutes:
        jobdb = JobDB(f"sqlite:///{jobdb_path}", user_name=lambda uid: None)
        jobdb.findings.annotate([Annotation("maintenance", begin_ns, end_ns, "half of its work", node) for node, begin_ns, end_ns in known])
        detector = SlowServers(jobdb, store, SETTINGS, lambda minute=minute: virtual.start_ns + minute * MINUTE_NS)
        detector.look(threading.Event())
        found = [one.found for one in jobdb.findings.page(Sought(), 100)[0]]
        jobdb.close()
    # What the site knew of is on record, and no more than that.
    of_known = [one for one in found if any(one.node == node and begin_ns - MINUTE_NS <= one.begin_ns < end_ns for node, begin_ns, end_ns in known)]
    return [one for one in found if one not in of_known]


@pytest.fixture(scope="module")
def sick(tmp_path_factory):
    folder, virtual = tmp_path_factory.mktemp("sick"), machine(["slow-ost", "slow-forwarding"])
    store = stored(folder, virtual)
    yield store, virtual
    store.close()
    shutil.rmtree(folder)


def test_the_faults_are_named_and_killed_in_between_it_finds_the_same(tmp_path, sick):
    store, virtual = sick
    whole = found_by(tmp_path / "whole.db", store, virtual, [10**6])
    faults = {fault.kind: fault for fault in virtual.plan.faults}
    ost, forwarding = faults["slow-ost"], faults["slow-forwarding"]
    assert {(one.kind, one.instance if one.kind == SLOW_OST else one.node) for one in whole} == {(SLOW_OST, f"work-{names.target(ost.component)}"), (SLOW_FORWARDING, names.forwarder(forwarding.component))}
    for one in whole:
        fault = ost if one.kind == SLOW_OST else forwarding
        begin_ns, end_ns = (virtual.start_ns + round(instant * 1e9) for instant in (fault.begin_s, fault.end_s))
        assert begin_ns - 2 * MINUTE_NS <= one.begin_ns and one.begin_ns < end_ns
        assert 0.5 / fault.factor < one.times < 2 / fault.factor
    assert found_by(tmp_path / "cut.db", store, virtual, [61, 131, 170, 10**6]) == whole


def test_of_a_machine_that_is_well_there_is_no_finding(tmp_path):
    virtual = machine([])
    store = stored(tmp_path, virtual)
    try:
        assert found_by(tmp_path / "jobs.db", store, virtual, [10**6]) == []
    finally:
        store.close()
