"""Reads what is needed to tell whether bricks of GlusterFS held up a job that was slow by being slow themselves, and whether it was slow only since caches were cold."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np

from anomaly.held_up import RUNS_LEAST, Did, is_cold, named, slower
from anomaly.history import ALIKE, KINDS, READ, point_of
from jobdb.engine import JobDBError
from jobdb.findings import Found
from jobdb.job import Job
from jobdb.layers import NODES_MAX
from jobdb.repository import JobDB
from jobdb.topology.facts import Target
from jobdb.topology.questions import Way
from pipeline.schema.components import COMPONENTS
from pipeline.steps import SECOND_NS
from pipeline.store import Store, StoreError, TooManyComponents, TooManySamples

from .analysis import NODES
from .neighbours import bricks, by_client, server_of
from .waits import BRICK, TIMES

log = logging.getLogger(__name__)

# Earlier runs that servers are asked about, the last ones; of each run so many of its phases, those that took longest, and of each no more than its first hour.
RUNS_MAX, PHASES_MAX, SPAN_NS = 8, 4, 3600 * SECOND_NS
# A brick that did less of what all bricks did for a job did not hold it up: clients say something to each of them all the time.
USED_SHARE = 0.01
# Whether what disks read was for a job is known where so much of what bricks read was.
OWN_SHARE = 0.8
_MOVED = ("read_bytes", "write_bytes")

Span = tuple[int, int]


@dataclass(frozen=True)
class _Run:
    """A job and the phases that are looked at. nodes: its own."""

    job: Job
    nodes: frozenset[str]
    spans: tuple[Span, ...]


class HeldUp:
    """Any thread may ask. `_lock` owns the number of jobs of which it could not be told."""

    def __init__(self, jobdb: JobDB, store: Store) -> None:
        self._jobdb, self._store = jobdb, store
        self._lock, self._skipped = threading.Lock(), 0

    @property
    def skipped(self) -> int:
        """Of how many jobs it could not be told."""
        with self._lock:
            return self._skipped

    def look(self, job: Job, profile: Mapping[str, Any], found: Found) -> Found | None:
        """What is to be said of a job that was found slow (`anomaly.slow_jobs`): with the bricks that were slow themselves; None where the earlier runs do not tell how long it should have taken, since caches answered what came from
        bricks now. Raises JobDBError."""
        try:
            return self._look(job, profile, found)
        except (StoreError, TooManySamples, TooManyComponents, ArithmeticError) as error:
            log.info("which servers held up job %s is not told: %s", job.key[:200], error)
        except JobDBError:
            raise
        except Exception as error:
            # The job was slow all the same.
            log.warning("which servers held up job %s is not told: %r; this is a fault of Bellrock", job.key[:200], error)
            log.debug("servers of a slow job could not be looked at", exc_info=True)
        with self._lock:
            self._skipped += 1
        return found

    def _look(self, job: Job, profile: Mapping[str, Any], found: Found) -> Found | None:
        sorts = found.evidence["phases"]
        own = _run(job, profile, sorts)
        if own is None:
            return found
        way = self._jobdb.topology.way(own.nodes, own.spans[0][0], own.spans[-1][1])
        targets = bricks(way)
        if not targets:
            return found
        earlier = self._earlier(found, sorts)
        if self._is_cold(own, earlier, way, targets, sorts):
            return None
        servers = server_of(way)
        used = [target for target in targets if (target.file_system, target.target) in servers]
        shares = self._shares(own, way, used)
        used = [target for target, share in zip(used, shares, strict=True) if share >= USED_SHARE]
        if not used or len(earlier) < RUNS_LEAST:
            return found
        places = [(servers[one.file_system, one.target], one.instance) for one in used]
        during, *before = (self._did(one, places) for one in (own, *earlier))
        against = slower(during, before)
        systems = sorted({one.file_system for one in used})
        which = against.stands_out(np.array([systems.index(one.file_system) for one in used]))
        named_as = [(node, BRICK, instance, f"{target.file_system}/{target.target}") for (node, instance), target in zip(places, used, strict=True)]
        return named(found, named_as, list(TIMES), during, against, which, len(before))

    def _earlier(self, found: Found, sorts: Sequence[Mapping[str, Any]]) -> list[_Run]:
        """Those that the job was held against, the last first."""
        runs: list[_Run] = []
        for one in found.evidence["held_against"]:
            job = self._jobdb.job(one["job"]) if one["job"] is not None and len(runs) < RUNS_MAX else None
            stored = None if job is None else self._jobdb.get_profile(job.key)
            run = _run(job, stored[1], sorts) if job is not None and stored is not None else None
            if run is not None:
                runs.append(run)
        return runs

    def _is_cold(self, own: _Run, earlier: Sequence[_Run], way: Way, targets: Sequence[Target], sorts: Sequence[Mapping[str, Any]]) -> bool:
        """Whether bricks sent what the nodes' caches had, or disks what those of the bricks' servers had. Only of reads, and of a run that had its nodes to itself and did most of what bricks read meanwhile."""
        if any(one["kind"] != KINDS[READ] for one in sorts) or len({one["volume"] for one in sorts}) > 1:
            return False
        # Batch systems tell whole seconds: one that ended gave its node away in the same.
        from_ns = own.spans[0][0] + SECOND_NS
        on = self._jobdb.others_on(own.job, own.nodes, from_ns, max(own.spans[-1][1] - SECOND_NS, from_ns + 1))
        if on.on or not on.is_whole:
            return False
        volume, sent = sorts[0]["volume"], [self._sent(one, way, targets) for one in (own, *earlier)]
        if sent[0] is None:
            return False
        if is_cold(sent[0], _known(sent[1:]), volume):
            return True
        servers = server_of(way)
        places = [(servers[one.file_system, one.target], one.instance) for one in targets if (one.file_system, one.target) in servers]
        # Nor where one of them does not tell what it read.
        if not sent[0] >= OWN_SHARE * self._sums(own, BRICK, places, ["read_bytes"])["read_bytes"].sum() / len(own.spans):
            return False
        disks: dict[str, list[tuple[str, str]]] = {}
        for target in (one.fact for one in way.targets):
            node = servers.get((target.file_system, target.target))
            if node in {node for node, _ in places} and _is_disk(target):
                disks.setdefault(target.component, []).append((node, target.instance))
        fetched = [self._fetched(run, disks) for run in (own, *earlier)]
        return fetched[0] is not None and is_cold(fetched[0], _known(fetched[1:]), volume)

    def _sent(self, run: _Run, way: Way, targets: Sequence[Target]) -> float | None:
        """Bytes that bricks sent to a run's nodes in a phase, the mean; None where in any phase one of them did not tell of its clients: who was silent may have sent anything."""
        told = [by_client(targets, way, self._store, self._jobdb, ["sent_bytes"], *span).values() for span in run.spans]
        if any(of is None for each in told for of in each):
            return None
        return mean(sum(moved for of in each for node, moved in (of or {}).items() if node in run.nodes) for each in told)

    def _fetched(self, run: _Run, disks: Mapping[str, Sequence[tuple[str, str]]]) -> float | None:
        """Bytes that disks, (node, instance) by component, read in a run's phase, the mean; None where in any phase one of them told nothing."""
        read = [sums for kind, its in disks.items() for sums in self._sums(run, kind, its, COMPONENTS[kind].figures.values["read_bytes"]).values()]
        total = sum(float(one.sum()) for one in read) / len(run.spans)
        return None if np.isnan(total) else total

    def _shares(self, run: _Run, way: Way, targets: Sequence[Target]) -> list[float]:
        """Of what the bricks did for a run's nodes, how much each did; 1 of each that does not count its clients."""
        sums = []
        of_spans = [by_client(targets, way, self._store, self._jobdb, ["sent_bytes", "received_bytes"], *span) for span in run.spans]
        for target in targets:
            told = [of_span[target] for of_span in of_spans]
            sums.append(None if all(of is None for of in told) else sum(moved for of in told for node, moved in (of or {}).items() if node in run.nodes))
        total = sum(one or 0.0 for one in sums)
        return [1.0 if one is None else one / total if total else 0.0 for one in sums]

    def _did(self, run: _Run, places: Sequence[tuple[str, str]]) -> Did:
        """What some bricks did in a run's phases, for whomever."""
        sums = self._sums(run, BRICK, places, sorted({*TIMES, *TIMES.values(), *_MOVED}))
        ops, took_s = (np.stack([sums[name] for name in of], axis=1) for of in (TIMES, TIMES.values()))
        return Did(sum(end_ns - begin_ns for begin_ns, end_ns in run.spans) / SECOND_NS, ops, took_s / SECOND_NS, np.sum([sums[name] for name in _MOVED], axis=0))

    def _sums(self, run: _Run, component: str, places: Sequence[tuple[str, str]], names: Sequence[str]) -> dict[str, np.ndarray]:
        """What counters of some components, (node, instance), moved in a run's phases, each shape (places,); NaN of those that told nothing in any of these."""
        sums, is_told = {name: np.zeros(len(places)) for name in names}, np.ones(len(places), dtype=bool)
        place = {one: number for number, one in enumerate(places)}
        for begin_ns, end_ns in run.spans:
            table = self._store.samples(component, places, begin_ns, end_ns, names=names)
            at = np.array([place[one] for one in zip(table["node"].to_pylist(), table["instance"].to_pylist(), strict=True)], dtype=np.intp)
            ends_ns = table["end"].to_numpy()
            starts_ns = np.minimum(table["start"].to_numpy(), ends_ns - 1)
            part = np.clip(np.minimum(ends_ns, end_ns) - np.maximum(starts_ns, begin_ns), 0, None) / (ends_ns - starts_ns)
            is_told &= np.isin(np.arange(len(places)), at[part > 0])
            for name in set(names) & set(table.column_names):
                sums[name] += np.bincount(at, np.maximum(np.nan_to_num(table[name].to_numpy()), 0.0) * part, len(places))
        return {name: np.where(is_told, one, np.nan) for name, one in sums.items()}


def _known(of_runs: Sequence[float | None]) -> list[float]:
    return [one for one in of_runs if one is not None]


def _is_disk(target: Target) -> bool:
    figures = COMPONENTS[target.component].figures if target.component in COMPONENTS else None
    return figures is not None and figures.serves == "devices" and "read_bytes" in figures.values


def _run(job: Job, profile: Mapping[str, Any], sorts: Sequence[Mapping[str, Any]]) -> _Run | None:
    """A run's phases of some sorts, in the order of time; None where it has none."""
    alike = []
    for phase in profile.get("phase_list") or ():
        point = point_of(phase)
        if point is not None and any(KINDS[int(point[0])] == one["kind"] and abs(point[1] - np.log(one["volume"])) <= ALIKE for one in sorts):
            alike.append((-point[2], phase["start_ns"], min(phase["end_ns"], phase["start_ns"] + SPAN_NS)))
    spans = sorted((begin_ns, end_ns) for _, begin_ns, end_ns in sorted(alike)[:PHASES_MAX])
    nodes = sorted({*job.node_names, *profile.get(NODES, ())})[:NODES_MAX]
    return _Run(job, frozenset(nodes), tuple(spans)) if spans else None
