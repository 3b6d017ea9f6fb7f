"""What it takes to look at an hour of a whole TaihuLight: what servers' agents tell of it in a DuckDB file, looked at by all detectors of servers, minute by minute as a server does."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from anomaly.slow import Rules
from bellrock.simulate import names
from bellrock.simulate.description import read_machine
from bellrock.simulate.to_site import write_topology
from bellrock.simulate.trees.forwarding import BOUNDS_S
from jobdb.repository import JobDB
from jobdb.topology.site import load
from pipeline.served import MINUTE_NS
from pipeline.store.duckdb import DuckDBStore
from tests.unit.pipeline.events import sample_event
from webapp.api import large_jobs, system_wide
from webapp.api.slow_servers import KINDS, UNSURE, Settings, SlowServers

S = 10**9
FIRST = 1_767_225_600 // 60
LOOK_S, HOUR = 10, 60
EVENTS_AT_ONCE = 50_000
# Clients of the metadata server that are no forwarding nodes.
OTHERS = 56


def hour_s() -> tuple[float, float, int]:
    """Processor time of an hour's looks each minute, s, that of the longest of them, and how many samples the hour has. What demands take was learnt from the hour before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machine = read_machine("taihulight")
        write_topology(machine, folder / "site", names_jobs=True)
        store, jobdb = DuckDBStore(folder / "records.duckdb"), JobDB(f"sqlite:///{folder / 'jobs.db'}", user_name=lambda uid: None)
        jobdb.topology.apply(load(folder / "site"), (FIRST - HOUR) * MINUTE_NS, "root")
        samples = _fill(store, machine)
        now_ns = [0]
        servers = Settings(rules={name: Rules(kind.classes, HOUR, unsure=UNSURE[name]) for name, kind in KINDS.items()}, delay_s=0)
        detectors = (
            SlowServers(jobdb, store, servers, lambda: now_ns[0]), large_jobs.LargeJobs(jobdb, store, large_jobs.Settings(servers=servers), lambda: now_ns[0]),
            system_wide.SystemWide(jobdb, store, system_wide.Settings(delay_s=0), lambda: now_ns[0]),
        )  # fmt: skip
        took_s = [_look(detectors, now_ns, minute) for minute in (HOUR, *range(HOUR + 1, 2 * HOUR + 1))][1:]
        behind = {kind: one["until_ns"] for kind, one in detectors[0].status().items() if one["until_ns"] != (FIRST + 2 * HOUR) * MINUTE_NS or one["is_learning"]}
        if behind:
            raise RuntimeError(f"not all of the hour was looked at: {behind}")
        jobdb.close()
        store.close()
    return sum(took_s), max(took_s), samples // 2


def _look(detectors: tuple[Any, ...], now_ns: list[int], minute: int) -> float:
    now_ns[0] = (FIRST + minute) * MINUTE_NS
    began_s = time.process_time()
    for one in detectors:
        one.look(threading.Event())
    return time.process_time() - began_s


def _fill(store: DuckDBStore, machine: Any) -> int:
    """Two hours of all servers, busy throughout; returns how many samples there are."""
    rng, count, told, held = np.random.default_rng(1), 0, 0, []
    numbers: dict[str, int] = defaultdict(int)
    for event in _events(machine, rng):
        numbers[event["node"]] += 1
        told += 1
        held.append(sample_event(numbers[event["node"]], boot="00000000deadbeef", **event))
        if len(held) == EVENTS_AT_ONCE:
            count += store.append(held).samples
            held = []
    count += store.append(held).samples
    if count != told:
        raise RuntimeError(f"of {told} samples {count} were taken in")
    return count


def _events(machine: Any, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    storage, bounds = machine.storage, [*(f"{round(bound * 1e6)}" for bound in BOUNDS_S), "inf"]
    clients = [f"{names.address(names.FORWARDING_NET, number)}@o2ib" for number in range(machine.forwarders)] + [f"10.9.0.{number + 1}@o2ib" for number in range(OTHERS)]
    for begin_s in range(0, 2 * HOUR * 60, LOOK_S):
        start = FIRST * MINUTE_NS + begin_s * S

        def told(node: str, component: str, instance: str, values: dict[str, float], start: int = start) -> dict[str, Any]:
            return {"node": node, "component": component, "instance": instance, "start": start, "end": start + LOOK_S * S, "values": values}

        slow = np.exp(rng.normal(0, 0.1, machine.targets)).tolist()
        ops = rng.integers(200, 2000, (machine.targets, 2)).astype(float)
        for number in range(machine.targets):
            reads, writes = ops[number].tolist()
            request_ns = (200e3 + 2**20 / 300e6 * 1e9) * slow[number]
            values = {"reads": reads, "read_bytes": reads * 2**20, "read_ns": reads * request_ns, "writes": writes, "write_bytes": writes * 2**20, "write_ns": writes * request_ns}
            yield told(names.server(number // storage.targets), "lustre_ost", f"{machine.file_system}-{names.target(number)}", values)
        for number in range(machine.forwarders):
            node = names.forwarder(number)
            yield told(node, "lustre_client", machine.file_system, {"reads": 4000.0, "read_bytes": 4e9, "writes": 4000.0, "write_bytes": 4e9, "readahead_hits": 1e6, "readahead_misses": 1e3, "readahead_discards": 10.0})
            yield told(node, "lwfs_server", "/var/log/lwfs.log", {f"{kind}_{what}_to_{bound}": 500.0 for kind in ("read", "write", "meta") for what in ("exe", "wait") for bound in bounds})
        yield told(names.metadata_server(0), "lustre_mdt", f"{machine.file_system}-{names.metadata_target(0)}", {"open": 4000.0})
        for client in clients:
            yield told(names.metadata_server(0), "lustre_export", f"{machine.file_system}-{names.metadata_target(0)} {client}", {"open": 300.0, "close": 300.0})
