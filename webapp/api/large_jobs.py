"""The detector of servers that stood out within large jobs, an hour after the other (docs/detection.md): which served them, by what servers count of jobs or by the map, and what these did meanwhile."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from anomaly.followed import Served
from anomaly.large_job_findings import KINDS, STRAGGLING_FORWARDING, STRAGGLING_OST, found, key_of, with_jobs
from anomaly.large_jobs import WINDOW, LargeJobs as Follower, Straggler, Work
from anomaly.service import Cost
from anomaly.slow import Watch
from anomaly.slow_findings import SLOW_FORWARDING, SLOW_OST
from jobdb.findings import Found, Sought
from jobdb.job import Job
from jobdb.layers import each
from jobdb.repository import JobDB
from pipeline.asked import read_work
from pipeline.served import MINUTE_NS, OST, SAMPLES_AT_ONCE, Minutes, read_minutes
from pipeline.store import Heard, Store, TooManySamples

from .each_minute import EachMinute, end, ended
from .slow_servers import CALLED, CROWD, DAY_MINUTES, KINDS as SERVERS, TURN_S, Settings as OfServers, over_ns, place_of

log = logging.getLogger(__name__)

T = TypeVar("T")
# By kind of finding, that of servers that are slow by themselves.
BY_ITSELF = {STRAGGLING_OST: SLOW_OST, STRAGGLING_FORWARDING: SLOW_FORWARDING}
# Large jobs of one hour that are looked at, those that began last: on 40,960 nodes 40 of 1,024 nodes run at once. With 1,000 OSTs each takes 2 MB.
JOBS_MAX = 64
# Findings of one server and time that get what is known of large jobs.
SAME_MAX = 20
MAP = "map"


@dataclass(frozen=True)
class Settings:
    """kinds: of findings that are looked for. nodes: from so many on a job is large. servers: how these are looked at by themselves, of which delay, days and rules hold here, too."""

    kinds: tuple[str, ...] = KINDS
    nodes: int = 1024
    servers: OfServers = OfServers()


class _Stopped(Exception):
    """The server stops: an hour that was not finished is looked at again."""


def _until(stop: threading.Event, of_jobs: Iterable[T]) -> Iterator[T]:
    """What there is of some jobs, one after the other. With 1,000 OSTs each may take seconds. Raises _Stopped."""
    for one in of_jobs:
        if stop.is_set():
            raise _Stopped
        yield one


class LargeJobs(EachMinute):
    """Looks at the hours that are over since the last time. What is known of servers lies in the job database, with the findings that it made: killed at any moment, the next one goes on, and finds the same."""

    name = "large_jobs"

    def __init__(self, jobdb: JobDB, store: Store, settings: Settings, clock_ns: Callable[[], int] = time.time_ns) -> None:
        super().__init__(jobdb, [name for name in KINDS if name not in settings.kinds], [_OfKind(name, jobdb, store, settings) for name in settings.kinds], clock_ns)


class _OfKind:
    """Servers of one kind."""

    def __init__(self, name: str, jobdb: JobDB, store: Store, settings: Settings) -> None:
        self.name, self._jobdb, self._store, self._settings = name, jobdb, store, settings
        self._by_itself = BY_ITSELF[name]
        self._kind, self._rules = SERVERS[self._by_itself], settings.servers.rules[self._by_itself]
        self._place = f"detect {name}"
        self._follower: Follower | None = None
        self._is_read = False
        # Keys of findings that last.
        self._open: set[str] = set()
        self._windows = self._jobs = self._left_out = self._found = 0
        self._took_s = self._last_s = 0.0

    def status(self) -> dict[str, Any]:
        """`until_ns`: up to when was looked (None: nobody told anything yet, or what demands take is still learnt). `servers`, `lasting`: that are followed, and stand out. Since the start: `windows` (hours), `jobs` in these, one of two hours twice,
        `left_out` jobs of which too much would have had to be read, `findings` begun, `took_s` for all that, and `last_s` of the last time."""
        follower = self._follower
        return {
            "until_ns": None if follower is None else follower.at * MINUTE_NS, "servers": 0 if follower is None else follower.servers, "lasting": len(self._open), "windows": self._windows, "jobs": self._jobs,
            "left_out": self._left_out, "findings": self._found, "took_s": self._took_s, "last_s": self._last_s,
        }  # fmt: skip

    def look(self, now_ns: int, stop: threading.Event) -> bool:
        """Looks at the hours that are over; whether all of them were looked at."""
        began_s = time.monotonic()
        try:
            return self._look(now_ns, stop, began_s + TURN_S)
        except Exception as error:
            # What is in memory may be ahead of what was kept.
            self._follower, self._is_read = None, False
            if isinstance(error, _Stopped):
                return False
            raise
        finally:
            self._last_s = time.monotonic() - began_s
            self._took_s += self._last_s

    def _look(self, now_ns: int, stop: threading.Event, until_s: float) -> bool:
        if not self._is_read:
            self._read()
        heard = self._store.components(0 if self._follower is None else self._follower.at * MINUTE_NS, now_ns, kinds=[self._kind.component])
        if not heard:
            return True
        until, costs = over_ns(heard, now_ns, self._settings.servers.delay_s) // MINUTE_NS, ()
        if self._follower is not None and self._follower.at + WINDOW > until:
            return True
        if self._by_itself in self._settings.servers.kinds:
            # Behind whoever follows servers by themselves: who has learnt what demands take, and whose findings are known by then.
            kept = self._jobdb.place(place_of(self._by_itself))
            watch = None if kept is None else Watch.from_dict(kept, self._rules)
            if watch is None or watch.is_learning:
                return True
            until, costs = min(until, watch.at), watch.costs
        if self._follower is None:
            last_ns = min(max(one.last_ns for one in heard), now_ns)
            first_ns = max(min(one.first_ns for one in heard), last_ns - self._settings.servers.first_days * DAY_MINUTES * MINUTE_NS, 0)
            self._follower = Follower(self._rules, first_ns // MINUTE_NS // WINDOW * WINDOW)
            end(self._jobdb, self.name)
        while self._follower.at + WINDOW <= until and time.monotonic() < until_s and not stop.is_set():
            self._advance(self._follower, costs, stop)
        return self._follower.at + WINDOW > until

    def _advance(self, follower: Follower, costs: Sequence[Cost | None], stop: threading.Event) -> None:
        first = follower.at
        jobs = self._jobdb.large(self._settings.nodes, first * MINUTE_NS, (first + WINDOW) * MINUTE_NS, JOBS_MAX)
        served, works = self._read_window(jobs, first, stop) if jobs else (None, [])
        over = follower.advance(served, _until(stop, works), costs)
        self._windows += 1
        self._jobs += len(jobs)
        self._keep(follower, over)

    def _read(self) -> None:
        kept = self._jobdb.place(self._place)
        self._follower = None if kept is None or kept.get("nodes") != self._settings.nodes else Follower.from_dict(kept, self._rules)
        self._open = set() if self._follower is None else {key_of(one) for one in self._follower.open()}
        self._is_read = True

    # -- what servers did

    def _read_window(self, jobs: Sequence[Job], first: int, stop: threading.Event) -> tuple[Served | None, list[Work]]:
        """What servers did in a window's minutes at work for large jobs, and what of it was these jobs'."""
        until = first + WINDOW
        heard = self._store.components(first * MINUTE_NS, until * MINUTE_NS - 1, kinds=[self._kind.component])
        told = [(job, self._of_job(job, heard, first) if self._kind is OST else None) for job in _until(stop, jobs)]
        is_wanted = np.zeros(WINDOW, dtype=bool)
        by_map: dict[str, Counter[str]] = {}
        for job, of in told:
            if of is None:
                by_map[job.key] = self._by_map(job, first)
                is_wanted |= self._ran(job, first) & bool(by_map[job.key])
            else:
                is_wanted |= of.ops.any(axis=1)
        served = _put_together(self._in_pieces(lambda begin, until, most: read_minutes(self._store, self._kind, begin, until, most)[0], _spans(is_wanted, first)), first)
        if served is None:
            return None, []
        works = [self._placed(job, of, served) if of is not None else self._mapped(job, by_map[job.key], served, first) for job, of in told]
        return served, [work for work in works if work.ops.any()]

    def _of_job(self, job: Job, heard: Sequence[Heard], first: int) -> "_Told | None":
        """What OSTs count of a job; None where they tell nothing of it."""
        from_ns, to_ns = first * MINUTE_NS, (first + WINDOW) * MINUTE_NS - 1
        counted = each.of_job(self._store, each.names_of(job), [(one.node, one.component, one.instance) for one in heard], from_ns, to_ns)
        if counted is None:
            return None
        of = sorted({(node, f"{instance} {name}") for (node, _, instance), names in counted.of.items() for name in names})
        found = _Told(sorted({instance for _, _, instance in counted.of}), counted.how)
        for begin, until, told in self._in_pieces(lambda begin, until, most: read_work(self._store, counted.kind, of, begin, until, most), [(first, first + WINDOW)]):
            if told is None:
                self._left_out += 1
                return _Told([], counted.how)
            found.add(begin - first, until - first, *told)
        return found

    def _placed(self, job: Job, of: "_Told", served: Served) -> Work:
        ops, bytes_ = (np.zeros(served.seen.shape) for _ in range(2))
        place = {key: number for number, key in enumerate(served.keys)}
        for number, key in enumerate(of.targets):
            if key in place:
                ops[:, place[key]], bytes_[:, place[key]] = of.ops[:, number], of.bytes[:, number]
        return Work(job.key, ops, bytes_, of.how)

    def _by_map(self, job: Job, first: int) -> Counter[str]:
        """How many of a job's nodes each server served: forwarding nodes by their name, OSTs, which serve all of them, by their instance."""
        from_ns, to_ns = first * MINUTE_NS, (first + WINDOW) * MINUTE_NS
        forwarding = [one.fact for one in self._jobdb.topology.forwarding(job.node_names, from_ns, to_ns)]
        if self._kind is not OST:
            return Counter(one.forwarder for one in {(one.node, one.forwarder): one for one in forwarding}.values())
        systems = {one.file_system for one in forwarding}
        targets = {one.fact.instance for one in self._jobdb.topology.targets(from_ns, to_ns) if one.fact.component == OST.component and (not systems or one.fact.file_system in systems)}
        return Counter(dict.fromkeys(targets, len(job.node_names)))

    def _mapped(self, job: Job, nodes: Counter[str], served: Served, first: int) -> Work:
        """What servers did while a job ran that they served by the map: which part of that was its is not known."""
        of = np.array([nodes[instance if self._kind is OST else node] for node, instance in served.names], dtype=float)
        is_its = self._ran(job, first)[:, None] & (of > 0)
        return Work(job.key, np.where(is_its, served.ops.sum(axis=2), 0.0), np.where(is_its, served.bytes.sum(axis=2), 0.0), MAP, of)

    @staticmethod
    def _ran(job: Job, first: int) -> np.ndarray:
        """Whole minutes of a window in which a job ran."""
        begin_ns = (first + np.arange(WINDOW)) * MINUTE_NS
        return (begin_ns >= job.start_ns) & (begin_ns + MINUTE_NS <= (begin_ns[-1] + MINUTE_NS if job.end_ns is None else job.end_ns))

    @staticmethod
    def _in_pieces(read: Callable[[int, int, int], T], spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, T | None]]:
        """What is read of minutes, in as many parts as have not too many samples: begin, end, and what is told; None of a minute that alone has far too many."""
        for first, until in spans:
            length = until - first
            while first < until:
                last = min(first + length, until)
                try:
                    told = read(first, last, SAMPLES_AT_ONCE if last - first > 1 else CROWD)
                except TooManySamples as error:
                    if last - first > 1:
                        length = min(max(error.until_ns // MINUTE_NS - first, 1), (last - first) // 2)
                        continue
                    log.warning("large jobs: a minute is left out: %s", error)
                    told = None
                yield first, last, told
                first = last

    # -- what is found

    def _keep(self, follower: Follower, over: Sequence[Straggler]) -> None:
        """Writes what is known, and what was found: where a server is known to be slow by itself, there."""
        lasting = follower.open()
        write: dict[tuple[str, str], Found] = {}
        gone = []
        for one in (*over, *lasting):
            same = self._same(one, write)
            write |= {(of.kind, of.key): with_jobs(of, one) for of in same}
            if same:
                gone.append((self.name, key_of(one)))
            else:
                write[self.name, key_of(one)] = found(self.name, CALLED[self._by_itself], self._kind.component, one, self._rules, self._settings.nodes)
        # What people said something of stays when it is taken back, and is over.
        left = ended(self._jobdb, self.name, [key for kind, key in write if kind == self.name]) if gone else []
        self._jobdb.findings.record([*write.values(), *left], place=(self._place, {"nodes": self._settings.nodes, **follower.to_dict()}), gone=gone)
        known = {key_of(one) for one in lasting}
        self._found += len((known | {key_of(one) for one in over}) - self._open)
        self._open = known

    def _same(self, one: Straggler, written: dict[tuple[str, str], Found]) -> list[Found]:
        """Findings of the same server, slow by itself, of the same time, as they are going to be written."""
        node, instance = one.name
        begin_ns, end_ns = one.episode.begin * MINUTE_NS, one.episode.end * MINUTE_NS
        sought = Sought(kind=self._by_itself, node="" if self._kind.by_instance else node, component=self._kind.component, instance=instance, from_ns=begin_ns, to_ns=end_ns)
        return [written.get((of.found.kind, of.found.key), of.found) for of in self._jobdb.findings.page(sought, SAME_MAX)[0]]


class _Told:
    """What targets count of one job in a window, shape (minutes, targets)."""

    def __init__(self, targets: list[str], how: str) -> None:
        self.targets, self.how = targets, how
        self.ops, self.bytes = (np.zeros((WINDOW, len(targets))) for _ in range(2))

    def add(self, begin: int, until: int, targets: Sequence[str], ops: np.ndarray, bytes_: np.ndarray) -> None:
        """Minutes of the window, and what some of the targets did in them."""
        place = [self.targets.index(target) for target in targets]
        self.ops[begin:until, place], self.bytes[begin:until, place] = ops, bytes_


def _spans(is_wanted: np.ndarray, first: int) -> list[tuple[int, int]]:
    """Minutes that follow each other."""
    change = np.flatnonzero(np.diff(np.pad(is_wanted.astype(np.int8), 1)))
    return [(first + begin, first + end) for begin, end in change.reshape(-1, 2).tolist()]


def _put_together(pieces: Iterable[tuple[int, int, Minutes | None]], first: int) -> Served | None:
    """What was read of a window; of minutes that were not nothing is known."""
    told = [(begin - first, until - first, one) for begin, until, one in pieces if one is not None]
    if not told:
        return None
    names = {key: name for _, _, one in told for key, name in zip(one.keys, one.names, strict=True)}
    keys = sorted(names)
    place = {key: number for number, key in enumerate(keys)}
    shape = (WINDOW, len(keys), told[0][2].ops.shape[2])
    found = Served(keys, [names[key] for key in keys], *(np.zeros(shape) for _ in range(3)), np.zeros(shape[:2], dtype=bool))
    for begin, until, one in told:
        here = [place[key] for key in one.keys]
        for whole, part in ((found.ops, one.ops), (found.bytes, one.bytes), (found.service_s, one.service_s), (found.seen, one.seen)):
            whole[begin:until, here] = part
    return found
