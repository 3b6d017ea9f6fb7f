"""The detector of what is wrong with the system as such: thrashed caches and load of forwarding nodes, and pressure on metadata servers, a minute after the other, whatever jobs run (docs/detection.md)."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anomaly.system import CACHE_THRASHING, FORWARDING_LOAD, HOUR, KINDS, METADATA_PRESSURE, Load, Pressure, Thrashing
from jobdb.findings import Found
from jobdb.layers.load import FORWARDING_NODES, UNKNOWN, classes_of
from jobdb.repository import JobDB
from pipeline.asked import MOUNT, SERVER, Mounts, Requests, clients_of, read_mounts, read_requests
from pipeline.served import MINUTE_NS
from pipeline.store import Heard, Store

from .each_minute import EachMinute
from .look import Look
from .slow_servers import S

# What tells that a node is a forwarding node where no topology does.
FORWARDING_LOG = "lwfs_server"


@dataclass(frozen=True)
class Settings:
    """kinds: of findings that are looked for. delay_s, first_days: see `webapp.api.slow_servers.Settings`. discarded_bytes: see `anomaly.system.Thrashing`, least_per_s `Pressure`, peak_per_s `Load`. job_classes: classes of client on which jobs
    run."""

    kinds: tuple[str, ...] = KINDS
    delay_s: int = 300
    first_days: int = 7
    discarded_bytes: int = 10**9
    least_per_s: float = 300.0
    peak_per_s: float = 0.0
    job_classes: tuple[str, ...] = ("compute", "forwarding")


class SystemWide(EachMinute):
    """Looks at what was asked since the last time, of forwarding nodes (`forwarding`) and metadata servers (`metadata`). What is known lies in the job database, with the findings that it made: killed at any moment, the next one goes on, and finds the same."""

    name = "system"

    def __init__(self, jobdb: JobDB, store: Store, settings: Settings, clock_ns: Callable[[], int] = time.time_ns) -> None:
        looks = [one for one in (_Forwarding(jobdb, store, settings), _Metadata(jobdb, store, settings)) if one.kinds]
        super().__init__(jobdb, [kind for kind in KINDS if kind not in settings.kinds], looks, clock_ns)


class _Forwarding(Look):
    """Mounts of forwarding nodes."""

    name, _of = "forwarding", (CACHE_THRASHING, FORWARDING_LOAD)

    def __init__(self, jobdb: JobDB, store: Store, settings: Settings) -> None:
        super().__init__(jobdb, store, settings)
        # Those of an hour, by a topology's version.
        self._known: list[str] = []
        self._known_at = (-1, -1)

    def _heard(self, from_ns: int, now_ns: int) -> list[Heard]:
        # Those of all that time: where those of an hour alone have gone, or are none yet, others go on.
        nodes = self._nodes(from_ns, self._jobdb.topology.forwarders_in_use(from_ns, now_ns + 1), now_ns)
        return [one for one in self._store.components(from_ns, now_ns, kinds=[MOUNT.component]) if one.node in nodes] if nodes else []

    def _make(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        own = self._settings
        return {CACHE_THRASHING: Thrashing(own.discarded_bytes, kept.get(CACHE_THRASHING)), FORWARDING_LOAD: Load(own.peak_per_s, kept.get(FORWARDING_LOAD))}

    def _of_hour(self, at_ns: int) -> list[str]:
        """Forwarding nodes that serve anybody, by the topology, at the beginning of an hour."""
        begin_ns = at_ns // (HOUR * MINUTE_NS) * HOUR * MINUTE_NS
        if self._known_at != (at := (begin_ns, self._jobdb.topology.version())):
            self._known, self._known_at = self._jobdb.topology.forwarders_in_use(begin_ns, begin_ns + 1), at
        return self._known

    def _nodes(self, from_ns: int, known: Sequence[str], to_ns: int) -> dict[str, int]:
        """Forwarding nodes, and since when each is one. Where the topology knows none: that tell of their LWFS server in [from_ns, to_ns]."""
        if known:
            return dict.fromkeys(known, from_ns)
        found: dict[str, int] = {}
        for one in self._store.components(from_ns, to_ns, kinds=[FORWARDING_LOG]):
            found[one.node] = min(found.get(one.node, one.first_ns), one.first_ns)
        return found

    def _read(self, first: int, until: int, most: int) -> tuple[Mounts | None, int]:
        hour_ns = first // HOUR * HOUR * MINUTE_NS
        nodes = self._nodes(hour_ns, self._of_hour(hour_ns), until * MINUTE_NS - 1)
        told, rows = read_mounts(self._store, nodes, first, until, most)
        if told is not None:
            # Whoever becomes one within the hour is one from then on, however the hour is cut.
            minutes = np.arange(first, until)[:, np.newaxis]
            is_none = minutes < np.array([nodes[node] // MINUTE_NS for node, _ in told.names])
            for array in (told.hits, told.misses, told.discards, told.moved):
                array[is_none] = np.nan
            self._left_out += told.left_out
        self._components = 0 if told is None else len(told.names)
        return told, rows

    def _advance(self, first: int, minutes: int, told: Mounts | None) -> list[Found]:
        followers = self._followers or {}
        names, nothing = [] if told is None else told.names, np.zeros((minutes, 0))
        over: list[Found] = []
        if CACHE_THRASHING in followers:
            over += followers[CACHE_THRASHING].advance(first, names, *((nothing,) * 3 if told is None else (told.hits, told.misses, told.discards)))
        if FORWARDING_LOAD in followers:
            over += followers[FORWARDING_LOAD].advance(first, minutes, *_by_node(names, nothing if told is None else told.moved))
        return over


class _Metadata(Look):
    """Clients of metadata servers."""

    name, _of = "metadata", (METADATA_PRESSURE,)

    def __init__(self, jobdb: JobDB, store: Store, settings: Settings) -> None:
        super().__init__(jobdb, store, settings)
        self._of_jobs = {*settings.job_classes, FORWARDING_NODES, UNKNOWN}
        # Classes of clients in an hour, by a topology's version.
        self._classes: dict[str, str] = {}
        self._classes_at = (-1, -1)

    def _heard(self, from_ns: int, now_ns: int) -> list[Heard]:
        servers = self._store.components(from_ns, now_ns, kinds=[SERVER.component])
        # Of clients those alone that may be waited for.
        return [*servers, *clients_of(self._store, servers, max(now_ns - self._settings.delay_s * S, from_ns), now_ns)]

    def _make(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        return {METADATA_PRESSURE: Pressure(self._settings.least_per_s, kept.get(METADATA_PRESSURE))}

    def _read(self, first: int, until: int, most: int) -> tuple[list[Requests], int]:
        told, rows = read_requests(self._store, lambda addresses: self._class_of(first // HOUR, addresses), first, until, most)
        self._left_out += sum(one.left_out for one in told)
        self._components = len(told)
        return told, rows

    def _class_of(self, hour: int, addresses: Collection[str]) -> dict[str, str]:
        if self._classes_at != (at := (hour, self._jobdb.topology.version())):
            self._classes, self._classes_at = {}, at
        new = addresses - self._classes.keys()  # type: ignore[operator]
        if new:
            begin_ns = hour * HOUR * MINUTE_NS
            self._classes |= classes_of(self._jobdb, new, begin_ns, begin_ns + 1)
        return self._classes

    def _advance(self, first: int, minutes: int, told: list[Requests] | None) -> list[Found]:
        return self._followers[METADATA_PRESSURE].advance(first, minutes, told or (), self._of_jobs) if self._followers else []


def _by_node(names: Sequence[tuple[str, str]], moved: np.ndarray) -> tuple[list[str], np.ndarray]:
    """What all mounts of a node moved; NaN where of none that is known."""
    nodes = sorted({node for node, _ in names})
    sums = np.full((len(moved), len(nodes)), np.nan)
    for column, (node, _) in enumerate(names):
        mine = sums[:, nodes.index(node)]
        mine[:] = np.where(np.isnan(mine), moved[:, column], mine + np.nan_to_num(moved[:, column]))
    return nodes, sums
