"""The detector of slow servers: OSTs and forwarding nodes, a minute after the other, whatever jobs run (docs/detection.md)."""

import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from anomaly.followed import Served
from anomaly.large_job_findings import kept
from anomaly.slow import Rules, Spell, Watch
from anomaly.slow_findings import SLOW_FORWARDING, SLOW_OST, found
from jobdb.findings import Found
from jobdb.layers.load import load
from jobdb.repository import JobDB
from pipeline.served import FORWARDING, MINUTE_NS, OST, Kind, Minutes, read_minutes
from pipeline.store import Heard, Store, TooManyComponents, TooManySamples

from .each_minute import EachMinute, end

log = logging.getLogger(__name__)

S = 10**9
DAY_MINUTES = 24 * 60
# Minutes that are read at once: from the first on, twice as many as long as they have few samples, up to the second.
PIECE, PIECE_MAX, FEW_SAMPLES = 60, DAY_MINUTES, 5000
# Samples of a minute that are taken; of more none are.
CROWD = 100_000
# After so long others have their turn.
TURN_S = 10.0
# What is known of servers is kept so often, minutes of theirs, or once an episode is found, reported or over: what was not kept is read again, and comes to the same.
KEEP_EVERY = 10
# Jobs that are told of one episode; and the last part of a long one of which they are looked for.
JOBS_MAX, JOBS_NS = 50, 6 * 3600 * S


# By kind of finding.
KINDS: dict[str, Kind] = {SLOW_OST: OST, SLOW_FORWARDING: FORWARDING}
CALLED = {SLOW_OST: "OST", SLOW_FORWARDING: "forwarding node"}
# What middles of buckets ten times as wide as each other come to is off by as much, this way or that, as times grow: see `anomaly.slow.Rules`.
UNSURE = {SLOW_OST: 0.0, SLOW_FORWARDING: math.log(1.2)}


@dataclass(frozen=True)
class Settings:
    """kinds: of findings that are looked for. delay_s: how long samples of a server that has told until then are waited for. first_days: how far back is looked at first. rules: of each kind of finding."""

    kinds: tuple[str, ...] = tuple(KINDS)
    delay_s: int = 300
    first_days: int = 7
    rules: dict[str, Rules] = dataclasses.field(default_factory=lambda: {name: Rules(kind.classes, unsure=UNSURE[name]) for name, kind in KINDS.items()})


class SlowServers(EachMinute):
    """Looks at what servers of all kinds did since the last time. What is known of them lies in the job database, with the findings that it made: killed at any moment, the next one goes on, and finds the same."""

    name = "slow_servers"

    def __init__(self, jobdb: JobDB, store: Store, settings: Settings, clock_ns: Callable[[], int] = time.time_ns) -> None:
        super().__init__(jobdb, [name for name in KINDS if name not in settings.kinds], [_OfKind(name, jobdb, store, settings) for name in settings.kinds], clock_ns)


class _OfKind:
    """Servers of one kind."""

    def __init__(self, name: str, jobdb: JobDB, store: Store, settings: Settings) -> None:
        self.name, self._jobdb, self._store, self._settings = name, jobdb, store, settings
        self._kind, self._rules = KINDS[name], settings.rules[name]
        self._place = place_of(name)
        self._watch: Watch | None = None
        self._is_read = False
        self._kept_at = 0
        # Of those that last, by key: whether it was reported when it was last written.
        self._open: dict[str, bool] = {}
        self._length = PIECE
        self._minutes = self._left_out = self._found = 0
        # Up to which minute samples were read: those of the time that is learnt from are read twice, and counted once.
        self._read_until = 0
        self._took_s = self._last_s = 0.0

    def status(self) -> dict[str, Any]:
        """`until_ns`: up to when was looked (None: nobody told anything yet). `is_learning`: costs are not known yet. `servers`, `lasting`: that are followed, and are slow. Since the start: `minutes` that were looked at,
        `left_out` samples in which something made no sense, `findings` begun, `took_s` for all that, and `last_s` of the last time."""
        watch = self._watch
        return {
            "until_ns": None if watch is None else watch.at * MINUTE_NS, "is_learning": watch is not None and watch.is_learning, "servers": 0 if watch is None else watch.servers,
            "lasting": len(self._open), "minutes": self._minutes, "left_out": self._left_out, "findings": self._found, "took_s": self._took_s, "last_s": self._last_s,
        }  # fmt: skip

    def look(self, now_ns: int, stop: threading.Event) -> bool:
        """Looks at the minutes that are over; whether all of them were looked at."""
        began_s = time.monotonic()
        try:
            return self._look(now_ns, stop, began_s + TURN_S)
        except Exception:
            # What is in memory may be ahead of what was kept.
            self._watch, self._is_read = None, False
            raise
        finally:
            self._last_s = time.monotonic() - began_s
            self._took_s += self._last_s

    def _look(self, now_ns: int, stop: threading.Event, until_s: float) -> bool:
        if not self._is_read:
            self._read()
        heard = self._store.components(0 if self._watch is None else self._watch.at * MINUTE_NS, now_ns, kinds=[self._kind.component])
        if not heard:
            return True
        if self._watch is None:
            last_ns = min(max(one.last_ns for one in heard), now_ns)
            first_ns = max(min(one.first_ns for one in heard), last_ns - self._settings.first_days * DAY_MINUTES * MINUTE_NS, 0)
            self._watch = Watch(self._rules, first_ns // MINUTE_NS)
            self._kept_at = self._watch.at
            end(self._jobdb, self.name)
        until, length = over_ns(heard, now_ns, self._settings.delay_s) // MINUTE_NS, self._length
        while self._watch.at < until and time.monotonic() < until_s and not stop.is_set():
            length = self._advance(self._watch, until, length)
        self._length = length
        return self._watch.at >= until

    def _advance(self, watch: Watch, until: int, length: int) -> int:
        """Looks at the next minutes; returns how many are to be tried next."""
        first = watch.at
        end = min(first + length, until, watch.most or until, self._read_until if first < self._read_until else until)
        try:
            told, rows = read_minutes(self._store, self._kind, first, end)
        except TooManySamples as error:
            fewer = min(max(error.until_ns // MINUTE_NS - first, 1), max((end - first) // 2, 1))
            if end - first > 1:
                return fewer
            told, rows = self._crowded(first)
        was_learning = watch.is_learning
        ended = watch.advance(end - first, None if told is None else _served(told))
        self._minutes += end - first
        if first >= self._read_until:
            self._left_out, self._read_until = self._left_out + (0 if told is None else told.left_out), end
        opened = {one.key: one for one in watch.open()}
        is_news = bool(ended) or {key: one.episode.is_reported for key, one in opened.items()} != self._open
        if is_news or watch.at - self._kept_at >= KEEP_EVERY or was_learning != watch.is_learning:
            self._keep(watch, ended, opened, is_news)
        return min(2 * length, PIECE_MAX) if rows <= FEW_SAMPLES else length

    def _crowded(self, minute: int) -> tuple[Minutes | None, int]:
        """One minute with more samples than are held at once; with far too many it counts as one of which nothing is known."""
        try:
            return read_minutes(self._store, self._kind, minute, minute + 1, most=CROWD)
        except TooManySamples as error:
            log.warning("slow servers: a minute is left out: %s", error)
            return None, 0

    def _read(self) -> None:
        known = self._jobdb.place(self._place)
        self._watch = None if known is None else Watch.from_dict(known, self._rules)
        if self._watch is not None:
            self._kept_at = self._watch.at
            self._open = {one.key: one.episode.is_reported for one in self._watch.open()}
        self._is_read = True

    def _keep(self, watch: Watch, ended: list[Spell], opened: dict[str, Spell], is_news: bool) -> None:
        """Writes what is known, and what was found."""
        is_due = is_news or watch.at - self._kept_at >= KEEP_EVERY
        found = [self._finding(one) for one in ([*ended, *opened.values()] if is_due else [])]
        # How they did within large jobs was told by others (`webapp.api.large_jobs`).
        before = self._jobdb.findings.under(self.name, [one.key for one in found])
        found = [kept(one, before[one.key].found if one.key in before else None) for one in found]
        self._jobdb.findings.record(found, place=(self._place, watch.to_dict()))
        self._found += len({*opened, *(one.key for one in ended)} - self._open.keys())
        self._open = {key: one.episode.is_reported for key, one in opened.items()}
        self._kept_at = watch.at

    def _finding(self, spell: Spell) -> Found:
        node, instance = spell.name
        begin_ns, end_ns = spell.episode.begin * MINUTE_NS, spell.episode.end * MINUTE_NS
        # Known events weigh in where it is recorded (`jobdb.weigh`).
        return found(self.name, CALLED[self.name], self._kind.component, self._kind.classes, spell, self._rules, jobs=self._jobs(node, instance, max(begin_ns, end_ns - JOBS_NS), end_ns))

    def _jobs(self, node: str, instance: str, from_ns: int, to_ns: int) -> list[dict[str, Any]] | None:
        """The jobs that were on a server, those that did most first; None where nothing tells."""
        if self._kind is OST:
            try:
                told = load(self._store, self._jobdb, (node, self._kind.component, instance), from_ns, to_ns)["by_job"]
            except (TooManySamples, TooManyComponents):
                return None
            if told is None:
                return None
            keys = self._jobdb.keys({row["name"] for row in told["rows"]}, from_ns, to_ns)
            return [{"job": keys[row["name"]], "read_bytes": row["read_bytes"], "write_bytes": row["write_bytes"]} for row in told["rows"] if row["name"] in keys][:JOBS_MAX]
        clients = {one.fact.node: ((one.from_ns, one.to_ns),) for one in self._jobdb.topology.clients(node, from_ns, to_ns)}
        if not clients:
            return None
        jobs = self._jobdb.jobs_on(clients, from_ns, to_ns).served(clients, [(from_ns, to_ns)])
        return [{"job": key} for key in sorted(jobs)[:JOBS_MAX]]


def place_of(name: str) -> str:
    """Under which name what is known of servers of a kind is kept (`JobDB.place`), as `anomaly.slow.Watch` has it."""
    return f"detect {name}"


def _served(told: Minutes) -> Served:
    return Served(told.keys, told.names, told.ops, told.bytes, told.service_s, told.seen)


def over_ns(heard: Sequence[Heard], now_ns: int, delay_s: int) -> int:
    """Up to when all who tell have told, of some of whom samples were heard; those who stopped are not waited for longer than the delay, and where nobody tells nothing is over."""
    settled_ns, last_ns = now_ns - delay_s * S, max(one.last_ns for one in heard)
    return min(max(min((one.last_ns for one in heard if one.last_ns >= settled_ns), default=last_ns), settled_ns), last_ns, now_ns)
