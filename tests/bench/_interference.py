"""How often the aggressor is named first, on a month whose jobs' losses to each other are known.

A victim is a job, no aggressor itself, of which a phase took 1.5 times as long as its program's do at that scale (the median of the month), and 10 s longer. It counts where it would have been spared
at least 15 % of its loss, and 5 s, without one other job (`Run.lost_s`): the one that cost it most is its aggressor, and must be named first. Where all others together cost it less than a tenth of the
loss, nobody is to be named.

Asked is what the server asks, `webapp.api.interference.who_slowed`, over a job database with the machine's topology and the nodes of its jobs as a batch system tells them, and a store that answers
what agents would have told of the month: seconds of jobs, what targets count of them each minute, and how long requests waited.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bellrock.simulate import names
from bellrock.simulate.command import read_start
from bellrock.simulate.description import read_machine
from bellrock.simulate.minutes import JOB_LAYERS, MINUTE_S, Minutes
from bellrock.simulate.model import node_name
from bellrock.simulate.to_site import write_topology
from bellrock.simulate.trees import forwarding, queueing
from jobdb.job import Job
from jobdb.queue import QueueJob
from jobdb.repository import JobDB
from jobdb.topology.site import load
from pipeline.store import Heard, named_samples
from tests.bench._month import START, Month
from webapp.api.interference import Expected, who_slowed

S = 10**9
SLOW_TIMES, SLOW_S = 1.5, 10.0
COUNTS_SHARE, COUNTS_S, NOBODY_SHARE = 0.15, 5.0, 0.1
# The first days of a month alone: each asks some 100 times, of up to 64 neighbours.
DAYS_MAX, DAYS_AT_ONCE, DAY_MINUTES = 6, 3, 24 * 60
FORWARDING, STORAGE, METADATA = range(len(JOB_LAYERS))
CLUSTER, UID = "simulated", 1000
JOBS_AT_ONCE = 500
# What of a job a target counts, by layer; a month does not tell metadata operations apart.
COUNTED = {STORAGE: ("read_bytes", "write_bytes", "reads", "writes"), METADATA: ("getattr",)}


@dataclass
class Counted:
    """victims: of an aggressor, that count. first: those that had it named first; named: anybody. nobody: slow jobs that were nobody's victims; blamed: those of them with somebody named."""

    victims: int = 0
    first: int = 0
    named: int = 0
    nobody: int = 0
    blamed: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(*(getattr(self, name) + getattr(other, name) for name in ("victims", "first", "named", "nobody", "blamed")))


def scored(month: Month) -> Counted:
    """Of all victims of a month's first days."""
    jobs = list(month.jobs())
    slow = sorted(_slow(jobs), key=lambda one: _last_s(*one))
    counted, held = Counted(), []
    # So many days at a time, and the one before, in which jobs may have begun: all of a month take more memory than there is.
    for part in month.parts():
        if part.first >= DAYS_MAX * DAY_MINUTES:
            held = []
            break
        held.append(part)
        if (part.first // DAY_MINUTES + 1) % DAYS_AT_ONCE == 0:
            counted += _of_days(month, held, slow, jobs)
            held = held[-1:]
    return counted + _of_days(month, held, slow, jobs) if held else counted


def _of_days(month: Month, parts: Sequence[Minutes], slow: list[tuple[dict, np.ndarray]], jobs: Sequence[dict]) -> Counted:
    """Of the victims whose last slow phase ended by these days' end, which are taken from the list."""
    counted, first_s = Counted(), parts[0].first * MINUTE_S
    end_s = (parts[-1].first + len(parts[-1].seen.metadata)) * MINUTE_S
    here = [one for one in slow if _last_s(*one) <= end_s]
    del slow[: len(here)]
    if not here:
        return counted
    with tempfile.TemporaryDirectory() as folder:
        asked = _Asked(month, parts, [job for job in jobs if job["start_s"] < end_s and job["end_s"] > first_s], Path(folder))
        for job, usual_s in here:
            lasted_s = np.subtract(job["end_step_s"], job["begin_s"])
            lost_s = float(np.maximum(lasted_s - usual_s, 0)[lasted_s >= SLOW_TIMES * usual_s].sum())
            to = {int(number): of for number, of in job["lost_s"].items()}
            worst = max(to, key=lambda number: to[number]) if to else None
            is_victim = worst is not None and to[worst] >= max(COUNTS_SHARE * lost_s, COUNTS_S)
            is_nobodys = sum(to.values()) < NOBODY_SHARE * lost_s
            if job["start_s"] >= first_s and (is_victim or is_nobodys):
                named = asked.named(job, usual_s)
                if is_victim:
                    counted += Counted(1, int(named[:1] == [worst]), int(bool(named)))
                else:
                    counted += Counted(nobody=1, blamed=int(bool(named)))
        asked.close()
    return counted


def _last_s(job: dict, usual_s: np.ndarray) -> float:
    """When the last slow phase of a job ended."""
    lasted_s = np.subtract(job["end_step_s"], job["begin_s"])
    return job["end_step_s"][int(np.flatnonzero(lasted_s >= SLOW_TIMES * usual_s)[-1])]


def _slow(jobs: Sequence[dict]) -> Iterator[tuple[dict, np.ndarray]]:
    """Jobs with a slow phase, and how long its phases usually last: reads at the start by themselves."""
    lasted: dict[tuple, list[float]] = defaultdict(list)
    for job in jobs:
        if not job["is_aggressor"]:
            for place, (begin, end) in enumerate(zip(job["begin_s"], job["end_step_s"], strict=False)):
                lasted[job["program"], job["nodes"], place == 0].append(end - begin)
    usual = {key: float(np.median(values)) for key, values in lasted.items()}
    for job in jobs:
        count = len(job["end_step_s"])
        if not job["is_aggressor"] and count and len(job["begin_s"]) == count:
            usual_s = np.array([usual[job["program"], job["nodes"], place == 0] for place in range(count)])
            took_s = np.subtract(job["end_step_s"], job["begin_s"])
            if ((took_s >= SLOW_TIMES * usual_s) & (took_s - usual_s >= SLOW_S)).any():
                yield job, usual_s


class _Asked:
    """A part of a month, asked as the server asks."""

    def __init__(self, month: Month, parts: Sequence[Minutes], jobs: Sequence[dict], folder: Path) -> None:
        self._start_ns = read_start(START)
        truth = month.truth
        whole = read_machine(truth["machine"]["name"])
        machine = whole.scaled(truth["machine"]["compute"]["nodes"] / whole.compute.nodes)
        write_topology(machine, folder / "site", names_jobs=True)
        self._jobdb = JobDB(f"sqlite:///{folder / 'jobs.db'}", user_name=lambda uid: f"u{uid}")
        self._jobdb.topology.apply(load(folder / "site"), self._start_ns, "root")
        for at in range(0, len(jobs), JOBS_AT_ONCE):
            self._jobdb.take_queue(_queued(job, self._start_ns) for job in jobs[at : at + JOBS_AT_ONCE])
        self._store = _Store(parts, machine, self._start_ns)
        self._analyses = _Analyses(parts, {job["number"]: job for job in jobs}, {one["name"]: one for one in truth["machine"]["application"]}, self._start_ns)

    def close(self) -> None:
        self._jobdb.close()

    def named(self, job: dict, usual_s: np.ndarray) -> list[int]:
        """Numbers of the jobs that slowed one, the likeliest first."""
        phases = [Expected(self._ns(begin), self._ns(end), float(usual)) for begin, end, usual in zip(job["begin_s"], job["end_step_s"], usual_s, strict=True)]
        found = who_slowed(self._jobdb.job(str(job["number"])), phases, self._store, self._jobdb, self._analyses)
        return [int(key) for key in found.jobs]

    def _ns(self, at_s: float) -> int:
        return self._start_ns + round(at_s * S)


def _queued(job: dict, start_ns: int) -> QueueJob:
    """What a batch system tells of a job."""
    begin_ns, end_ns = (start_ns + round(job[name] * S) for name in ("start_s", "end_s"))
    nodes = tuple(node_name(job["first_node"] + place) for place in range(job["nodes"]))
    return QueueJob(CLUSTER, str(job["number"]), begin_ns, f"u{UID}", UID, name=job["program"], state="completed", start_ns=begin_ns, end_ns=end_ns, exit_code=0, nodes=nodes, claims=(str(job["number"]),))


@dataclass(frozen=True)
class _ByJob:
    """Rows of a part of `Minutes` in several days, those of a job one after the other, of which `at` begin; columns by name."""

    at: np.ndarray
    columns: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, parts: Sequence[Any]) -> _ByJob:
        job = np.concatenate([part.job for part in parts])
        order = np.argsort(job, kind="stable")
        return cls(np.searchsorted(job[order], np.arange(job.max(initial=0) + 2)), {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in vars(parts[0]) if name != "job"})

    def rows(self, job: int) -> slice:
        return slice(*(int(self.at[min(number, len(self.at) - 1)]) for number in (job, job + 1)))


class _Analyses:
    """What `webapp.api.analysis.Analyses` would tell of the month's jobs, as far as it is asked."""

    def __init__(self, parts: Sequence[Minutes], jobs: Mapping[int, dict], applications: Mapping[str, dict], start_ns: int) -> None:
        self._seconds, self._jobs, self._applications, self._start_ns = _ByJob.of([part.seconds for part in parts]), jobs, applications, start_ns

    def seconds(self, job: Job, node: str, from_ns: int, to_ns: int, step_s: int) -> pa.Table:
        rows, columns = self._seconds.rows(int(job.job_id)), self._seconds.columns
        second = self._start_ns // S + columns["second"][rows].astype(np.int64)
        inside = (second >= from_ns // S) & (second < -(-to_ns // S))
        return pa.table({"second": second[inside], "seconds": np.ones(int(inside.sum()), dtype=np.int64), **{name: of[rows][inside] for name, of in columns.items() if name != "second"}})

    def has_few_runs(self, job: Job) -> bool:
        return True

    def profile(self, job: Job) -> tuple[dict[str, Any], list[str]]:
        """Its phases, with their modes."""
        of = self._jobs[int(job.job_id)]
        usual = [step["mode"] if step["op"] != "files" else "" for name in ("begin", "cycle") for step in self._applications[of["program"]][name]]
        # An aggressor does nothing else.
        modes = ["N-1"] * len(of["end_step_s"]) if of["is_aggressor"] and "N-1" in usual else [usual[min(place, len(usual) - 1)] for place in range(len(of["end_step_s"]))]
        spans = zip(of["begin_s"], of["end_step_s"], modes, strict=False)
        return {"phase_list": [{"start_ns": self._ns(begin), "end_ns": self._ns(end), "io_mode_read": mode, "io_mode_write": mode, "nodes": of["nodes"]} for begin, end, mode in spans]}, []

    def _ns(self, at_s: float) -> int:
        return self._start_ns + round(at_s * S)


class _Store:
    """What a store would answer of the month's servers, as far as it is asked: samples of a minute each, none of minutes in which an agent was away."""

    def __init__(self, parts: Sequence[Minutes], machine: Any, start_ns: int) -> None:
        self._machine, self._first_ns = machine, start_ns + parts[0].first * MINUTE_S * S
        self._forwarding, self._targets, self._metadata, self._seen = (
            {name: np.concatenate([getattr(getattr(part, of), name) for part in parts]) for name in vars(getattr(parts[0], of))} for of in ("forwarding", "targets", "metadata", "seen")
        )
        self._jobs = {name: np.concatenate([getattr(part.jobs, name) for part in parts]) for name in vars(parts[0].jobs)}
        place = self._jobs["layer"].astype(np.int64) << 48 | self._jobs["component"].astype(np.int64) << 32 | self._jobs["minute"] - parts[0].first
        order = np.argsort(place, kind="stable")
        self._jobs, self._place = {name: of[order] for name, of in self._jobs.items()}, place[order]
        self._minutes = len(self._seen["metadata"])
        servers = {names.server(number): number for number in range(machine.storage.servers)}
        self._servers, self._forwarders = servers, {names.forwarder(number): number for number in range(machine.forwarders)}

    def components(self, from_ns: int, to_ns: int, node: str, kinds: Sequence[str]) -> list[Heard]:
        (kind,) = kinds
        told = {"lwfs_server": ["log"] if node in self._forwarders else [], "lustre_service": ["ost_io"] if node in self._servers else ["mdt"]}[kind]
        return [Heard(node, kind, instance, from_ns, to_ns) for instance in told]

    def samples(self, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int, most: int = 0, names: Sequence[str] | None = None) -> pa.Table:
        first, last = (int(np.clip((at - self._first_ns) // (MINUTE_S * S) + more, 0, self._minutes)) for at, more in ((from_ns, 0), (to_ns, 1)))
        if component == "lustre_job":
            return self._of_jobs(of, first, last, list(names or ()))
        (node, instance) = of[0]
        is_seen, columns = self._lwfs(self._forwarders[node], slice(first, last)) if component == "lwfs_server" else self._service(node, slice(first, last))
        at = np.flatnonzero(is_seen)
        return self._table(node, np.full(len(at), instance), first + at, {name: values[at] for name, values in columns.items()})

    def sums_of(self, component: str, node: str, begins: str, names: Sequence[str], from_ns: int, to_ns: int) -> dict[str, dict[str, float]]:
        first, last = (int(np.clip((at - self._first_ns) // (MINUTE_S * S) + more, 0, self._minutes)) for at, more in ((from_ns, 0), (to_ns, 1)))
        layer, rows = self._rows(begins.strip(), first, last)
        jobs, place = np.unique(self._jobs["job"][rows], return_inverse=True)
        sums = {name: np.bincount(place, self._counted(layer, name, rows), len(jobs)) for name in COUNTED[layer] if name in names}
        return {f"{begins}{job}": {name: float(of[number]) for name, of in sums.items()} for number, job in enumerate(jobs.tolist())}

    def _rows(self, instance: str, first: int, last: int) -> tuple[int, slice]:
        """What a target did for jobs in some minutes."""
        name = instance.rpartition("-")[2]
        layer, component = (STORAGE, int(name.removeprefix("OST"), 16)) if name.startswith("OST") else (METADATA, 0)
        begin = layer << 48 | component << 32
        return layer, slice(*np.searchsorted(self._place, [begin + first, begin + last]).tolist())

    def _counted(self, layer: int, name: str, rows: slice) -> np.ndarray:
        of = {"reads": "read_ops", "writes": "write_ops", "getattr": "metadata_ops"}.get(name, name)
        return self._jobs[of][rows].astype(float)

    def _of_jobs(self, of: Sequence[tuple[str, str]], first: int, last: int, columns: Sequence[str]) -> pa.Table:
        wanted: dict[str, list[int]] = {}
        for _, instance in of:
            target, job = instance.split(" ")
            wanted.setdefault(target, []).append(int(job))
        tables = []
        for target, jobs in wanted.items():
            layer, rows = self._rows(target, first, last)
            at = np.flatnonzero(np.isin(self._jobs["job"][rows], jobs))
            instances = np.array([f"{target} {job}" for job in self._jobs["job"][rows][at].tolist()], dtype=object)
            minutes = self._place[rows][at] & 0xFFFFFFFF
            tables.append(self._table("", instances, minutes, {name: self._counted(layer, name, rows)[at] if name in COUNTED[layer] else np.full(len(at), np.nan) for name in columns}))
        return pa.concat_tables(tables) if tables else named_samples(columns).empty_table()

    def _table(self, node: str, instances: np.ndarray, minutes: np.ndarray, columns: Mapping[str, np.ndarray]) -> pa.Table:
        start = self._first_ns + minutes.astype(np.int64) * MINUTE_S * S
        held = {"node": [node] * len(start), "boot": np.ones(len(start), dtype=np.uint64), "instance": instances.tolist(), "start": start, "end": start + MINUTE_S * S, **{name: np.asarray(of, dtype=float) for name, of in columns.items()}}
        return pa.table(held, schema=named_samples(list(columns)))

    def _lwfs(self, number: int, minutes: slice) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Times in its buckets, as its log has them."""
        of, found = {name: values[minutes, number] for name, values in self._forwarding.items()}, {"queue_length": self._forwarding["queue"][minutes, number]}
        bounds = [*(f"{round(bound * 1e6)}" for bound in forwarding.BOUNDS_S), "inf"]
        for place, (kind, count) in enumerate((("read", of["read_ops"]), ("write", of["write_ops"]), ("meta", of["metadata_ops"]))):
            waited = queueing.spread(count, of["wait_s"][:, place] / np.maximum(count, 1), forwarding.BOUNDS_S, np.random.default_rng([number, place]))
            for what, buckets in (("wait", waited), ("exe", of["exe"][:, place])):
                found |= {f"{kind}_{what}_to_{bound}": values for bound, values in zip(bounds, buckets.T, strict=True)}
        return self._seen["forwarding"][minutes, number], found

    def _service(self, node: str, minutes: slice) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The queue in front of a server's targets."""
        if node in self._servers:
            each = self._machine.storage.targets
            its = slice(self._servers[node] * each, (self._servers[node] + 1) * each)
            of, is_seen = {name: values[minutes, its].sum(axis=1) for name, values in self._targets.items()}, self._seen["targets"][minutes, its].all(axis=1)
            requests = of["read_ops"] + of["write_ops"]
        else:
            of, is_seen = {name: values[minutes].sum(axis=1) for name, values in self._metadata.items()}, self._seen["metadata"][minutes]
            requests = of["ops"].sum(axis=1)
        return is_seen, {"requests": requests, "wait_ns": of["wait_us"] * 1e3, "served_ns": of["service_us"] * 1e3, "queued": of["depth"]}
