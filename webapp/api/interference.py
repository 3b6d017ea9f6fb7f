"""Reads what is needed to tell who slowed a job: its neighbours at its servers, what they did meanwhile, and how many requests waited there."""

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anomaly.history import ALIKE, KINDS, METADATA_BYTES, point_of
from anomaly.interference import BYTES, FLOOD_NODES, METADATA, OPS, Named, Server, Trait, rank
from anomaly.slow_jobs import SLOW_JOB
from jobdb.findings import AGGRESSOR, PAGE_MAX, VERDICTS, Found, Sought
from jobdb.job import Job
from jobdb.layers import NODES_MAX
from jobdb.repository import JobDB
from jobdb.topology.facts import Target
from jobdb.types import TEXT_LENGTH_MAX
from jobdb.weigh import bare
from pipeline.spread import spread
from pipeline.steps import SECOND_NS
from pipeline.store import Store, TooManyRuns

from .analysis import Analyses
from .errors import Busy
from .neighbours import At, Neighbour, Spans, at_bricks, at_targets, everywhere, most_shared, server_of, through, told_by_targets
from .waits import BRICK, LWFS_SERVER, Waits, before_and_during, of_bricks, of_forwarding, of_target

# Phases are cut into pieces of at most so long, longer ones where they would be too many; of a longer time the last of it is looked at.
PIECE_NS, PIECES_MAX, SPAN_NS = 15 * SECOND_NS, 2000, 2 * 24 * 3600 * SECOND_NS
# Steps in which a neighbour's load is read, at most.
STEPS_MAX = 20_000
# What servers are asked for, places of amounts: what is opened and looked up troubles no target, and no data a metadata server.
_OF_KIND = {LWFS_SERVER: (BYTES, OPS, METADATA), BRICK: (BYTES, OPS, METADATA), "lustre_ost": (BYTES, OPS), "lustre_mdt": (METADATA,)}
# In the evidence.
SERVERS_TOLD, TARGETS_TOLD = 16, 16
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

    @classmethod
    def unknown(cls, why: str) -> "Slowed":
        """Where it cannot be told."""
        return cls((), "", {"unknown": why})

    @property
    def is_unknown(self) -> bool:
        """Whether it could not be told."""
        return "unknown" in self.evidence

    def told(self, found: Found) -> Found:
        """A finding that the job was slow, with who slowed it; known events are to be weighed anew."""
        found = bare(found)
        cause = f"{found.cause}; beside it {self.cause}" if self.cause else found.cause
        return replace(found, cause=cause if len(cause) <= TEXT_LENGTH_MAX else found.cause, jobs=(*found.jobs, *((key, AGGRESSOR) for key in self.jobs)), evidence={**found.evidence, "interference": dict(self.evidence)}, is_explained=True)


@dataclass(frozen=True)
class _Pieces(Spans):
    """The job's phases in pieces, one element each. phase: its number. expected_s: of each phase."""

    phase: np.ndarray
    expected_s: np.ndarray


@dataclass(frozen=True)
class _Place:
    """One of the job's servers. targets: that it serves, and the job uses; served: how many in all. waits: None where nothing tells of them. slow: what part of each piece it, or one of these, was known to be slow itself, shape (pieces,)."""

    at: At
    targets: tuple[str, ...]
    served: int
    waits: Waits | None
    slow: np.ndarray


def expected(phases: Sequence[Mapping[str, Any]], slow: Sequence[Mapping[str, Any]]) -> list[Expected]:
    """How long each phase of a job (its profile's `phase_list`) should have taken. slow: what was found slow, by sorts of phases: "kind" (what such a phase mostly does, read, write or metadata),
    "volume" (bytes of one) and "expected_s". A phase of no such sort was as fast as ever."""
    found = []
    for phase in phases:
        point = point_of(phase)
        off = [] if point is None else [(abs(point[1] - math.log(one["volume"])), one["expected_s"]) for one in slow if one["kind"] == KINDS[int(point[0])]]
        least, expected_s = min(off, default=(math.inf, 0.0))
        found.append(Expected(phase["start_ns"], phase["end_ns"], expected_s if least <= ALIKE else (phase["end_ns"] - phase["start_ns"]) / SECOND_NS))
    return found


def who_slowed(job: Job, phases: Sequence[Expected], store: Store, jobdb: JobDB, analyses: Analyses) -> Slowed:
    """Who slowed a job in those of its phases that took longer than expected. What cannot be read of a neighbour leaves it out. Raises StoreError, JobDBError and Busy."""
    pieces = _pieces(phases)
    if pieces is None:
        return Slowed((), "", {"neighbours_at_work": 0})
    from_ns, to_ns = int(pieces.begin_ns[0]), int(pieces.end_ns[-1])
    mine = Neighbour(job)
    _set_amounts(mine, analyses, pieces)
    speed = _speed(mine.amounts, pieces)
    profile, seen = analyses.profile(job)
    # Launches name the nodes that they began on alone.
    nodes = sorted({*job.node_names, *seen})[:NODES_MAX]
    way = jobdb.topology.way(nodes, from_ns, to_ns)
    mine.flood = _flood(profile, pieces)
    neighbours = through(job, nodes, way, jobdb, mine, from_ns, to_ns)
    counted = at_targets(way, store, jobdb, mine, neighbours, from_ns, to_ns)
    if "lustre_mdt" not in {at.component for at in counted}:
        everywhere(job, way, jobdb, mine, neighbours, from_ns, to_ns)
    by_client = at_bricks(job, nodes, way, store, jobdb, mine, neighbours, from_ns, to_ns)
    looked_at = _loads(most_shared(neighbours, mine), analyses, jobdb, pieces)
    left_out = told_by_targets(counted, [mine, *looked_at], store, pieces)
    kind_of, server, targets = {(one.fact.file_system, one.fact.target): one.fact.component for one in way.targets}, server_of(way), {**counted, **by_client}
    served = Counter(At(node, kind_of[target]) for target, node in server.items() if target in kind_of)
    places = [_place(at, targets.get(at, ()), served[at], store, jobdb, pieces) for at in sorted(mine.shares)]
    named = rank(speed, pieces.seconds, (_server(one, looked_at, mine, pieces) for one in places))
    evidence = {"neighbours": len(neighbours), "neighbours_at_work": len(looked_at), "lost_s": _lost_s(speed, pieces), "targets": sum(map(len, targets.values())), "targets_by_mean": left_out, "aggressors": [_evidence(one, looked_at, places) for one in named]}
    at_work = {places[one.server].at for one in named}
    evidence["servers"] = [_told_of(one, speed, pieces) for one in places if one.waits is not None and (one.at in at_work or one.at.component == LWFS_SERVER)][:SERVERS_TOLD]
    return Slowed(tuple(looked_at[one.neighbour].job.key for one in named), _cause(named), evidence)


def _pieces(phases: Sequence[Expected]) -> _Pieces | None:
    fit = sorted((one for one in phases if one.end_ns > one.begin_ns and one.expected_s > 0 and np.isfinite(one.expected_s)), key=lambda one: one.begin_ns)
    slow = [one.end_ns for one in fit if (one.end_ns - one.begin_ns) / SECOND_NS > one.expected_s]
    if not slow:
        return None
    last_ns = max(slow)
    fit = [one for one in fit if one.begin_ns >= last_ns - SPAN_NS and one.end_ns <= last_ns] or [_last_of(one) for one in fit if one.end_ns == last_ns][:1]
    length_ns = max(PIECE_NS, -(-sum(one.end_ns - one.begin_ns for one in fit) // max(PIECES_MAX - len(fit), 1)))
    edges = [_cut(one, -(-(one.end_ns - one.begin_ns) // length_ns)) for one in fit]
    phase = np.repeat(np.arange(len(fit)), [len(of) - 1 for of in edges])
    return _Pieces(np.concatenate([of[:-1] for of in edges]), np.concatenate([of[1:] for of in edges]), phase, np.array([one.expected_s for one in fit]))


def _last_of(one: Expected) -> Expected:
    """The last SPAN_NS of a phase, and its part of how long that should have taken."""
    begin_ns = max(one.begin_ns, one.end_ns - SPAN_NS)
    return Expected(begin_ns, one.end_ns, one.expected_s * (one.end_ns - begin_ns) / (one.end_ns - one.begin_ns))


def _cut(one: Expected, pieces: int) -> np.ndarray:
    """Where pieces of a phase begin and end, in whole numbers: as floats instants are 256 ns apart."""
    return one.begin_ns + np.arange(pieces + 1, dtype=np.int64) * (one.end_ns - one.begin_ns) // pieces


def _set_amounts(one: Neighbour, analyses: Analyses, pieces: _Pieces) -> None:
    """What a job did in pieces of another's phases."""
    edges = pieces.edges
    from_ns, to_ns = int(edges[0]), int(edges[-1])
    found = analyses.seconds(one.job, "", from_ns, to_ns, max(-(-(to_ns - from_ns) // (STEPS_MAX * SECOND_NS)), 1))
    columns = {name: found[name].to_numpy() for name in found.column_names}
    start_ns, end_ns = columns["second"] * SECOND_NS, (columns["second"] + columns["seconds"]) * SECOND_NS
    moved = np.array([np.maximum(spread(start_ns, end_ns, sum(columns[name] for name in names).astype(float), edges), 0.0) for names in _SUMS])
    one.amounts = np.stack([pieces.of(of) for of in moved], axis=1)
    one.done = np.concatenate([[0.0], np.cumsum(moved[0] + METADATA_BYTES * moved[METADATA])])


def _speed(own: np.ndarray, pieces: _Pieces) -> np.ndarray:
    """The job's rate ÷ what was expected of its phase; NaN of a phase of which nothing is known."""
    volume = own[:, 0] + METADATA_BYTES * own[:, METADATA]
    expected = (np.bincount(pieces.phase, volume * pieces.seconds, len(pieces.expected_s)) / pieces.expected_s)[pieces.phase]
    return np.divide(volume, expected, out=np.full(len(own), np.nan), where=expected > 0)


def _place(at: At, targets: Sequence[Target], served: int, store: Store, jobdb: JobDB, pieces: _Pieces) -> _Place:
    from_ns, to_ns = int(pieces.edges[0]), int(pieces.edges[-1])
    if at.component == LWFS_SERVER:
        return _Place(at, (), 1, of_forwarding(store, at.node, from_ns, to_ns), _slow(jobdb, pieces, Sought(node=at.node, component=LWFS_SERVER)))
    if not targets:
        return _Place(at, (), 1, None, np.zeros(len(pieces.begin_ns)))
    # A brick is called as others are on other servers.
    node = at.node if at.component == BRICK else ""
    slow = np.max([_slow(jobdb, pieces, Sought(node=node, component=one.component, instance=one.instance)) for one in targets], axis=0)
    if at.component == BRICK:
        waits, served = of_bricks(store, at.node, [one.instance for one in targets], from_ns, to_ns), len(targets)
    else:
        waits = of_target(store, at.node, at.component, from_ns, to_ns)
    return _Place(at, tuple(one.target for one in targets), served, waits, slow)


def _loads(neighbours: Sequence[Neighbour], analyses: Analyses, jobdb: JobDB, pieces: _Pieces) -> list[Neighbour]:
    """With what they did in the job's pieces; without those that did nothing then, or of which too much would have to be read."""
    found = []
    for one in neighbours:
        try:
            _set_amounts(one, analyses, pieces)
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


def _server(place: _Place, neighbours: Sequence[Neighbour], mine: Neighbour, pieces: _Pieces) -> Server:
    count, keep, is_forwarding = len(pieces.begin_ns), np.isin(np.arange(3), _OF_KIND[place.at.component]), place.at.component == LWFS_SERVER
    loads, flood = np.zeros((len(neighbours), count, 3)), np.zeros((len(neighbours), count))
    for at, one in enumerate(neighbours):
        loads[at] = one.asked(place.at) * keep
        # One file's being shared holds threads of forwarding nodes alone.
        flood[at] = one.flood * (is_forwarding and place.at in one.shares)
    own = mine.asked(place.at) * keep
    uses = np.bincount(pieces.phase, own.sum(axis=1))[pieces.phase] > 0
    waiting = np.full(count, np.nan) if place.waits is None else place.waits.waiting(pieces.begin_ns, pieces.end_ns)
    return Server(loads, own, uses, flood, mine.flood * is_forwarding, waiting, place.served)


def _slow(jobdb: JobDB, pieces: _Pieces, of: Sought) -> np.ndarray:
    """What part of each piece a server itself was known to be slow, by findings of its components that nobody called false."""
    slow = np.zeros(len(pieces.begin_ns))
    for one in jobdb.findings.page(replace(of, from_ns=int(pieces.begin_ns[0]), to_ns=int(pieces.end_ns[-1])), PAGE_MAX)[0]:
        # A job's own finding names the brick that held it up.
        if one.found.kind != SLOW_JOB and one.verdict != FALSE:
            end_ns = pieces.end_ns if one.found.end_ns is None else np.minimum(pieces.end_ns, one.found.end_ns)
            slow = np.maximum(slow, np.maximum(end_ns - np.maximum(pieces.begin_ns, one.found.begin_ns), 0) / (pieces.end_ns - pieces.begin_ns))
    return np.minimum(slow, 1.0)


def _told_of(place: _Place, speed: np.ndarray, pieces: _Pieces) -> dict[str, Any]:
    """The means of Beacon's Table 5, and what part of the loss fell into the time in which the server itself was slow."""
    assert place.waits is not None
    lost_s = (1 - np.clip(np.nan_to_num(speed, nan=1.0), 0, 1)) * pieces.seconds
    slow = float((lost_s * place.slow).sum() / lost_s.sum()) if lost_s.sum() > 0 else 0.0
    return {"server": place.at.node, "targets": place.targets[:TARGETS_TOLD], "slow_itself_share": slow, **before_and_during(place.waits, pieces.begin_ns, pieces.end_ns, np.flatnonzero(speed < 1).tolist())}


def _lost_s(speed: np.ndarray, pieces: _Pieces) -> float:
    known = ~np.isnan(speed)
    return float(((1 - np.clip(speed[known], 0, 1)) * pieces.seconds[known]).sum())


def _evidence(one: Named, neighbours: Sequence[Neighbour], places: Sequence[_Place]) -> dict[str, Any]:
    other, server = neighbours[one.neighbour], places[one.server].at.node
    waited = "it is not known whether requests waited" if math.isnan(one.waiting) else f"{one.waiting:,.1f} requests waited on the average"
    arithmetic = f"{one.share:.0%} of what {server} did for jobs, where {waited}: {one.lost_s:,.4g} s, {one.explains:.0%} of all that was lost"
    figures = {"explained_share": one.explains, "lost_s": one.lost_s, "share": one.share, "waiting": None if math.isnan(one.waiting) else one.waiting}
    return {"job": other.job.key, "program": other.job.program, "nodes": len(other.job.node_names), "server": server, "traits": [str(trait) for trait in one.traits], **figures, "arithmetic": arithmetic}


def _cause(named: Iterable[Named]) -> str:
    first = next(iter(named), None)
    return _CAUSES[first.traits[0]] if first is not None and first.traits else ""
