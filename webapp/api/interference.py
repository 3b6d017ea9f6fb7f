"""Reads what is needed to tell who slowed a job: its neighbours at its servers, what they did meanwhile, and how long its requests waited there."""

import contextlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anomaly.interference import FLOOD_NODES, METADATA, NAMED_MAX, Named, Server, Trait, pressed, rank
from jobdb.findings import AGGRESSOR, PAGE_MAX, VERDICTS, Found, Sought
from jobdb.job import Job
from jobdb.layers import NODES_MAX, each
from jobdb.repository import JobDB
from jobdb.topology.questions import Way
from pipeline.schema.components import COMPONENTS
from pipeline.spread import spread
from pipeline.steps import MARGIN_NS, SECOND_NS, Histogram, steps
from pipeline.store import Store, TooManyComponents, TooManyRuns, TooManySamples

from .analysis import Analyses
from .errors import Busy

# Phases are cut into pieces of at most so long, longer ones where they would be too many; of a longer time the last of it is looked at.
PIECE_NS, PIECES_MAX, SPAN_NS = 60 * SECOND_NS, 2000, 2 * 24 * 3600 * SECOND_NS
# Steps in which a neighbour's load is read, at most.
STEPS_MAX = 20_000
# Neighbours that are looked at, of all that there are; forwarding nodes, and targets of files, whose own counts are asked.
NEIGHBOURS_MAX, FORWARDERS_MAX, TARGETS_MAX = 64, 64, 128
# A metadata operation counts as so many bytes in a volume, as in phases.
METADATA_BYTES = 1024
# Phases whose volumes differ by no more than this factor do alike work.
ALIKE = 1.5
# How long before it a forwarding node's requests are taken for usual, and in steps of how long.
USUAL_NS, STEP_NS = 6 * 3600 * SECOND_NS, 60 * SECOND_NS
LWFS_SERVER = "lwfs_server"
_, FALSE = VERDICTS
_SUMS = (("read_bytes", "write_bytes"), ("read_ops", "write_ops"), ("metadata_ops",))
_CAUSES = {
    Trait.SHARED_FILE: f"another job used one file from more than {FLOOD_NODES} nodes", Trait.METADATA: "another job's metadata operations",
    Trait.BANDWIDTH: "another job's bandwidth", Trait.IOPS: "another job's reads and writes",
}  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """A phase of the job's, and how long it should have taken; of phases that were as fast as ever, too: they tell who did no harm."""

    begin_ns: int
    end_ns: int
    expected_s: float


@dataclass(frozen=True)
class Slowed:
    """jobs: those that slowed it, by key, the likeliest first. cause: names nobody; "" where nobody is known to have. evidence: fit for JSON; what is of a job is an object with its key as "job"."""

    jobs: tuple[str, ...]
    cause: str
    evidence: Mapping[str, Any]

    def told(self, found: Found) -> Found:
        """A finding that the job was slow, with who slowed it."""
        cause = f"{found.cause}; beside it {self.cause}" if self.cause else found.cause
        return replace(found, cause=cause, jobs=(*found.jobs, *((key, AGGRESSOR) for key in self.jobs)), evidence={**found.evidence, "interference": dict(self.evidence)})


@dataclass
class _Pieces:
    """The job's phases in pieces, one element each. phase: its number. expected_s: of each phase."""

    begin_ns: np.ndarray
    end_ns: np.ndarray
    phase: np.ndarray
    expected_s: np.ndarray

    @property
    def seconds(self) -> np.ndarray:
        return (self.end_ns - self.begin_ns) / SECOND_NS


@dataclass
class _Neighbour:
    """Another job. shares: of what it did how much went through each server, by name. amounts: shape (pieces, 3), a second; flood: share of each piece."""

    job: Job
    shares: dict[str, float] = field(default_factory=dict)
    amounts: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    flood: np.ndarray = field(default_factory=lambda: np.zeros(0))


def expected(phases: Sequence[Mapping[str, Any]], slow: Sequence[Mapping[str, Any]]) -> list[Expected]:
    """How long each phase of a job (its profile's `phase_list`) should have taken. slow: what was found slow, by sorts of phases: "kind" (what such a phase mostly does, read, write or metadata),
    "volume" (bytes of one) and "expected_s". A phase of no such sort was as fast as ever."""
    found = []
    for phase in phases:
        volumes = {"read": phase["read_bytes"], "write": phase["write_bytes"], "metadata": phase["metadata_ops"] * METADATA_BYTES}
        kind, volume = max(volumes, key=lambda name: volumes[name]), sum(volumes.values())
        alike = [one for one in slow if one["kind"] == kind and volume > 0 and one["volume"] / ALIKE <= volume <= one["volume"] * ALIKE]
        lasted_s = (phase["end_ns"] - phase["start_ns"]) / SECOND_NS
        best = min(alike, key=lambda one: abs(math.log(volume / one["volume"])), default=None)
        found.append(Expected(phase["start_ns"], phase["end_ns"], lasted_s if best is None else best["expected_s"]))
    return found


def who_slowed(job: Job, phases: Sequence[Expected], store: Store, jobdb: JobDB, analyses: Analyses) -> Slowed:
    """Who slowed a job in those of its phases that took longer than expected. What cannot be read of a neighbour leaves it out. Raises StoreError, JobDBError and Busy."""
    pieces = _pieces(phases)
    if pieces is None:
        return Slowed((), "", {"looked_at": 0})
    from_ns, to_ns = int(pieces.begin_ns[0]), int(pieces.end_ns[-1])
    own = _amounts(analyses, job, pieces)
    speed, usual = _speed(own, pieces)
    # Launches name the nodes that they began on alone.
    nodes = sorted({*job.node_names, *analyses.profile(job)[1]})[:NODES_MAX]
    way = jobdb.topology.way(nodes, from_ns, to_ns)
    neighbours = _through(job, way, jobdb, from_ns, to_ns)
    counted = _at_targets(job, way, store, jobdb, neighbours, from_ns, to_ns)
    _everywhere(job, way, jobdb, neighbours, from_ns, to_ns, {_METADATA} - counted)
    looked_at = _loads(_most_shared(neighbours), analyses, jobdb, pieces)
    names = sorted({name for one in looked_at for name in one.shares})
    waits = {name: _waits(store, name, from_ns, to_ns, bool(_is_metadata(own, pieces))) for name in names if name not in (_STORAGE, _METADATA)}
    servers = [_server(name, looked_at, own, usual, pieces, waits.get(name), _slow(jobdb, name, pieces)) for name in names]
    named = rank(speed, pieces.seconds, servers)
    evidence = {"looked_at": len(looked_at), "neighbours": len(neighbours), "lost_s": _lost_s(speed, pieces), "aggressors": [_evidence(one, looked_at, names) for one in named[:NAMED_MAX]]}
    evidence["servers"] = [{"server": name, **_before_and_during(wait, pieces, speed)} for name, wait in waits.items() if wait is not None]
    return Slowed(tuple(looked_at[one.neighbour].job.key for one in named), _cause(named), evidence)


# What stands for all targets of files, and for all metadata servers, beside forwarding nodes' names, which have no blank.
_STORAGE, _METADATA = "targets that it used", "metadata servers"


def _pieces(phases: Sequence[Expected]) -> _Pieces | None:
    fit = sorted((one for one in phases if one.end_ns > one.begin_ns and one.expected_s > 0 and np.isfinite(one.expected_s)), key=lambda one: one.begin_ns)
    slow = [one.end_ns for one in fit if (one.end_ns - one.begin_ns) / SECOND_NS > one.expected_s]
    if not slow:
        return None
    last_ns = max(slow)
    fit = [one for one in fit if one.begin_ns >= last_ns - SPAN_NS and one.end_ns <= last_ns] or [one for one in fit if one.end_ns == last_ns][:1]
    length_ns = max(PIECE_NS, -(-sum(one.end_ns - one.begin_ns for one in fit) // max(PIECES_MAX - len(fit), 1)))
    edges = [np.linspace(one.begin_ns, one.end_ns, -(-(one.end_ns - one.begin_ns) // length_ns) + 1).astype(np.int64) for one in fit]
    phase = np.repeat(np.arange(len(fit)), [len(of) - 1 for of in edges])
    return _Pieces(np.concatenate([of[:-1] for of in edges]), np.concatenate([of[1:] for of in edges]), phase, np.array([one.expected_s for one in fit]))


def _amounts(analyses: Analyses, job: Job, pieces: _Pieces) -> np.ndarray:
    """Bytes, reads and writes, and metadata operations a second of a job, in pieces of another's phases, shape (pieces, 3)."""
    from_ns, to_ns = int(pieces.begin_ns[0]), int(pieces.end_ns[-1])
    found = analyses.seconds(job, "", from_ns, to_ns, max(-(-(to_ns - from_ns) // (STEPS_MAX * SECOND_NS)), 1))
    columns = {name: found[name].to_numpy() for name in found.column_names}
    start_ns, end_ns = columns["second"] * SECOND_NS, (columns["second"] + columns["seconds"]) * SECOND_NS
    edges = np.unique(np.concatenate([pieces.begin_ns, pieces.end_ns]))
    place = np.searchsorted(edges, pieces.begin_ns)
    until = np.searchsorted(edges, pieces.end_ns)
    sums = []
    for names in _SUMS:
        upto = np.concatenate([[0.0], np.cumsum(spread(start_ns, end_ns, sum(columns[name] for name in names).astype(float), edges))])
        sums.append((upto[until] - upto[place]) / pieces.seconds)
    return np.maximum(np.stack(sums, axis=1), 0.0)


def _speed(own: np.ndarray, pieces: _Pieces) -> tuple[np.ndarray, np.ndarray]:
    """The job's rate ÷ what was expected of its phase, and the amounts a second that were; a phase of which nothing is known has NaN."""
    count = len(pieces.expected_s)
    usual = np.stack([np.bincount(pieces.phase, of * pieces.seconds, count) for of in own.T], axis=1) / pieces.expected_s[:, None]
    volume, expected = (values[:, 0] + METADATA_BYTES * values[:, METADATA] for values in (own, usual[pieces.phase]))
    return np.divide(volume, expected, out=np.full(len(own), np.nan), where=expected > 0), usual[pieces.phase]


def _is_metadata(own: np.ndarray, pieces: _Pieces) -> bool:
    volume = (own * pieces.seconds[:, None]).sum(axis=0)
    return bool(volume[METADATA] * METADATA_BYTES > volume[0])


def _through(job: Job, way: Way, jobdb: JobDB, from_ns: int, to_ns: int) -> dict[str, _Neighbour]:
    """Jobs on nodes of the same forwarding nodes, and which part of their nodes those are."""
    served: dict[str, set[str]] = {}
    for name in sorted({one.fact.forwarder for one in way.forwarding})[:FORWARDERS_MAX]:
        for one in jobdb.topology.clients(name, from_ns, to_ns):
            served.setdefault(one.fact.node, set()).add(name)
    found: dict[str, dict[str, set[str]]] = {}
    for node, spans in jobdb.others_on(job, served, from_ns, to_ns).on.items():
        for key, (begin_ns, end_ns) in spans:
            if begin_ns < to_ns and end_ns > from_ns:
                for name in served[node]:
                    found.setdefault(key, {}).setdefault(name, set()).add(node)
    # Those of which most nodes are there, first.
    most = sorted(found, key=lambda key: (-sum(map(len, found[key].values())), key))[: 4 * NEIGHBOURS_MAX]
    return {key: _Neighbour(other, {name: min(len(nodes) / max(len(other.node_names), 1), 1.0) for name, nodes in found[key].items()}) for key in most if (other := jobdb.job(key))}


def _at_targets(job: Job, way: Way, store: Store, jobdb: JobDB, neighbours: dict[str, _Neighbour], from_ns: int, to_ns: int) -> set[str]:
    """Adds jobs that the job's targets name, and which part of what all targets did for them that is; returns which of _STORAGE and _METADATA told of any."""
    server_of = {(one.fact.file_system, one.fact.target): one.fact.server for one in way.serving}
    values = COMPONENTS["lustre_job"].jobs.values
    of_layer = {
        "lustre_ost": (_STORAGE, [*values["read_bytes"], *values["write_bytes"]], 1), "lustre_mdt": (_METADATA, list(values["metadata_ops"]), 0),
    }  # fmt: skip
    mine, told = set(each.names_of(job)), set()
    for kind, (layer, names, needs_mine) in of_layer.items():
        targets = [one.fact for one in way.targets if one.fact.component == kind][:TARGETS_MAX]
        here: dict[str, float] = {}
        every: dict[str, float] = {}
        for target in targets:
            server = server_of.get((target.file_system, target.target))
            try:
                sums = {} if server is None else store.sums_of("lustre_job", server, f"{target.instance} ", names, from_ns, to_ns)
            except (TooManySamples, TooManyComponents):
                continue
            of = {name.removeprefix(f"{target.instance} "): sum(max(value, 0.0) for value in one.values()) for name, one in sums.items()}
            for to in (every, here) if not needs_mine or mine & of.keys() else (every,):
                for name, amount in of.items():
                    to[name] = to.get(name, 0.0) + amount
        if here:
            told.add(layer)
        for name in sorted(here.keys() - mine, key=lambda name: -here[name])[:NEIGHBOURS_MAX]:
            other = neighbours[name].job if name in neighbours else jobdb.job(name)
            if here[name] > 0 and other is not None and other.start_ns < to_ns and (other.end_ns is None or other.end_ns > from_ns):
                neighbours.setdefault(other.key, _Neighbour(other)).shares[layer] = here[name] / every[name]
    return told


def _everywhere(job: Job, way: Way, jobdb: JobDB, neighbours: dict[str, _Neighbour], from_ns: int, to_ns: int, layers: Collection[str]) -> None:
    """Adds jobs of the same file systems, those that began last, where their servers name no jobs: whatever is looked up, any of them looks up at the metadata servers."""
    for name in sorted({one.fact.file_system for one in way.forwarding}) if layers else ():
        for key, _ in jobdb.others_anywhere(job, name, from_ns, to_ns).jobs[: 4 * NEIGHBOURS_MAX]:
            other = neighbours[key].job if key in neighbours else jobdb.job(key)
            if other is not None:
                for layer in layers:
                    neighbours.setdefault(key, _Neighbour(other)).shares[layer] = 1.0


def _most_shared(neighbours: Mapping[str, _Neighbour]) -> list[_Neighbour]:
    """Those of which most nodes share a server with the job, metadata servers counting least."""
    weight = {_METADATA: 0.0, _STORAGE: 0.5}
    return sorted(neighbours.values(), key=lambda one: (-sum(share * weight.get(name, 1.0) * len(one.job.node_names) for name, share in one.shares.items()), -one.job.start_ns))[:NEIGHBOURS_MAX]


def _loads(neighbours: Sequence[_Neighbour], analyses: Analyses, jobdb: JobDB, pieces: _Pieces) -> list[_Neighbour]:
    """With what they did in the job's pieces; without those that did nothing then, or of which too much would have to be read."""
    found = []
    for one in neighbours:
        try:
            one.amounts = _amounts(analyses, one.job, pieces)
        except TooManyRuns:
            continue
        if one.amounts.any():
            one.flood = _flood(_profile(one.job, analyses, jobdb), pieces)
            found.append(one)
    return found


def _profile(job: Job, analyses: Analyses, jobdb: JobDB) -> Mapping[str, Any]:
    """A job's profile, as far as it is there or soon made."""
    stored = jobdb.get_profile(job.key)
    if stored is not None:
        return stored[1]
    with contextlib.suppress(Busy, TooManyRuns):
        if analyses.has_few_runs(job):
            return analyses.profile(job)[0]
    return {}


def _flood(profile: Mapping[str, Any], pieces: _Pieces) -> np.ndarray:
    """What part of each piece a job did I/O on one file from more than FLOOD_NODES nodes."""
    found = np.zeros(len(pieces.begin_ns))
    for phase in profile.get("phase_list") or ():
        if "N-1" in (phase["io_mode_read"], phase["io_mode_write"]) and phase["nodes"] > FLOOD_NODES:
            found += np.maximum(np.minimum(pieces.end_ns, phase["end_ns"]) - np.maximum(pieces.begin_ns, phase["start_ns"]), 0)
    return np.minimum(found / (pieces.end_ns - pieces.begin_ns), 1.0)


@dataclass(frozen=True)
class _Waits:
    """A forwarding node's minutes from begin_ns on, shape (minutes,): time waited and in service, s, requests, and those that waited, NaN where it is not known."""

    begin_ns: np.ndarray
    wait_s: np.ndarray
    service_s: np.ndarray
    requests: np.ndarray
    queue: np.ndarray


def _waits(store: Store, node: str, from_ns: int, to_ns: int, is_metadata: bool) -> _Waits | None:
    """How long data's, or metadata's, requests waited at an LWFS server, from a while before on. None where it does not tell, or too much."""
    begin_ns = max(from_ns - USUAL_NS, 0)
    kinds = ("meta",) if is_metadata else ("read", "write")
    try:
        heard = [one.instance for one in store.components(begin_ns, to_ns, node, [LWFS_SERVER])]
        if len(heard) != 1:
            return None
        samples = store.samples(LWFS_SERVER, [(node, heard[0])], max(begin_ns - MARGIN_NS, 0), to_ns + MARGIN_NS)
    except (TooManySamples, TooManyComponents):
        return None
    wanted = frozenset((*(f"{kind}_{what}" for kind in kinds for what in ("wait", "exe")), "queue_length"))
    on = steps(samples, LWFS_SERVER, begin_ns, to_ns, STEP_NS, wanted)
    if not samples.num_rows or not on.values:
        return None
    count = len(on.t_ns)
    wait_s, service_s, requests, queue = np.zeros(count), np.zeros(count), np.zeros(count), np.full(count, np.nan)
    for value in on.values:
        if isinstance(value, Histogram):
            took_s, served = _took(value)
            if value.told.value.name.endswith("_wait"):
                wait_s += took_s
            else:
                service_s, requests = service_s + took_s, requests + served
        elif value.told.value.name == "queue_length":
            queue = value.mean
    return _Waits(on.t_ns, wait_s, service_s, requests, queue)


def _took(value: Histogram) -> tuple[np.ndarray, np.ndarray]:
    """Time, s, and requests of a histogram: each has the middle of its bucket, or the last bound that there is, as in `jobdb.layers.amounts`."""
    took, count, below = np.zeros(len(value.buckets[0].moved)), np.zeros(len(value.buckets[0].moved)), 0.0
    unit_s = COMPONENTS[LWFS_SERVER].unit_s(value.told.value.name)
    for bucket, bound in zip(value.buckets, value.told.bounds, strict=True):
        moved = np.maximum(np.nan_to_num(bucket.moved), 0.0)
        took += moved * ((below + bound) / 2 if np.isfinite(bound) else below) * unit_s
        count, below = count + moved, bound
    return took, count


def _server(name: str, neighbours: Sequence[_Neighbour], own: np.ndarray, usual: np.ndarray, pieces: _Pieces, waits: _Waits | None, slow: np.ndarray) -> Server:
    share = np.array([one.shares.get(name, 0.0) for one in neighbours])
    loads = np.stack([one.amounts for one in neighbours]) * share[:, None, None]
    if name in (_STORAGE, _METADATA):
        # What is opened and looked up troubles no target, and no data a metadata server; nor does one file's being shared, but where it holds threads.
        keep = [METADATA] if name == _METADATA else [0, 1]
        loads, flood = np.where(np.isin(np.arange(3), keep), loads, 0.0), np.zeros(loads.shape[:2])
    else:
        flood = np.stack([one.flood for one in neighbours]) * (share > 0)[:, None]
    return Server(loads, own, usual, flood, pressed=None if waits is None else _on_pieces(waits, pieces), slow=slow)


def _slow(jobdb: JobDB, name: str, pieces: _Pieces) -> np.ndarray:
    """What part of each piece a forwarding node itself was known to be slow, by findings of its components that nobody called false."""
    slow = np.zeros(len(pieces.begin_ns))
    found = [] if name in (_STORAGE, _METADATA) else jobdb.findings.page(Sought(node=name, from_ns=int(pieces.begin_ns[0]), to_ns=int(pieces.end_ns[-1])), PAGE_MAX)[0]
    for one in found:
        if one.found.component and one.verdict != FALSE:
            end_ns = pieces.end_ns if one.found.end_ns is None else np.minimum(pieces.end_ns, one.found.end_ns)
            slow = np.maximum(slow, np.maximum(end_ns - np.maximum(pieces.begin_ns, one.found.begin_ns), 0) / (pieces.end_ns - pieces.begin_ns))
    return np.minimum(slow, 1.0)


def _on_pieces(waits: _Waits, pieces: _Pieces) -> np.ndarray:
    """How pressed it was in each piece, the most of its minutes; NaN where none is known."""
    found = pressed(waits.wait_s[:, None], waits.service_s[:, None], waits.requests[:, None])[:, 0]
    first, last = (np.clip(np.searchsorted(waits.begin_ns, at, side="right") - 1, 0, len(found) - 1) for at in (pieces.begin_ns, pieces.end_ns - 1))
    return np.array([_highest(found[low : high + 1]) for low, high in zip(first.tolist(), last.tolist(), strict=True)])


def _highest(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else float("nan")


def _before_and_during(waits: _Waits, pieces: _Pieces, speed: np.ndarray) -> dict[str, Any]:
    """The means of Beacon's Table 5, before the job's first slow piece and while it was slow."""
    slow = np.flatnonzero(speed < 1)
    is_during = np.zeros(len(waits.begin_ns), dtype=bool)
    for place in slow.tolist():
        is_during |= (waits.begin_ns < pieces.end_ns[place]) & (waits.begin_ns + STEP_NS > pieces.begin_ns[place])
    is_before = waits.begin_ns + STEP_NS <= (pieces.begin_ns[slow[0]] if len(slow) else 0)
    return {"before": _means(waits, is_before), "during": _means(waits, is_during)}


def _means(waits: _Waits, of: np.ndarray) -> dict[str, float | None]:
    requests, queue = float(waits.requests[of].sum()), waits.queue[of & ~np.isnan(waits.queue)]
    told = {"wait_s": waits.wait_s[of].sum() / requests, "processing_s": waits.service_s[of].sum() / requests} if requests else {"wait_s": None, "processing_s": None}
    return {"requests": requests, **{name: None if value is None else float(value) for name, value in told.items()}, "queue": float(queue.mean()) if len(queue) else None}


def _lost_s(speed: np.ndarray, pieces: _Pieces) -> float:
    known = ~np.isnan(speed)
    return float(((1 - np.clip(speed[known], 0, 1)) * pieces.seconds[known]).sum())


def _evidence(one: Named, neighbours: Sequence[_Neighbour], names: Sequence[str]) -> dict[str, Any]:
    other = neighbours[one.neighbour]
    figures = {name: getattr(one, name) for name in ("explains", "alone", "factor", "lost_s", "load")}
    return {"job": other.job.key, "program": other.job.program, "nodes": len(other.job.node_names), "server": names[one.server], "traits": [str(trait) for trait in one.traits], **figures}


def _cause(named: Iterable[Named]) -> str:
    first = next(iter(named), None)
    return _CAUSES[first.traits[0]] if first is not None and first.traits else ""
