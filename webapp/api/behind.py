"""What the layers behind a job tell of it that hurts: asked for in the background, of jobs that did much."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anomaly.behind import KINDS, in_layers, is_worth, over_targets
from anomaly.harm import Bounds
from jobdb.findings import Found
from jobdb.grouping import sums
from jobdb.job import Job
from jobdb.layers import FILES_MAX, TooManyToTell
from jobdb.layers.job import layers
from jobdb.layers.plan import plan
from jobdb.repository import JobDB
from jobdb.runs import Runs
from jobdb.topology.layouts import file_id
from pipeline.store import Store, StoreError, TooManyComponents

from .errors import Busy

log = logging.getLogger(__name__)

_METADATA = ("mdt", "mds")


class Behind:
    """Asks topology and servers' samples, as a page of a job's layers does. Any thread may ask. `_lock` owns the number of jobs of which it could not be told."""

    def __init__(self, jobdb: JobDB, store: Store, bounds: Bounds) -> None:
        self._jobdb, self._store, self._bounds = jobdb, store, bounds
        self._lock, self._skipped = threading.Lock(), 0

    @property
    def skipped(self) -> int:
        """Of how many jobs it could not be told."""
        with self._lock:
            return self._skipped

    def look(self, job: Job, profile: Mapping[str, Any], to_ns: int, read: Callable[[], tuple[Runs, bool]]) -> tuple[list[Found], tuple[str, ...]]:
        """What is found in a job's time up to an instant, and the kinds of which that is all: none where it cannot be told, as there is too much of it, or something of it is away.
        read: gives its runs, and whether it could be watched. Raises JobDBError."""
        if not is_worth(profile, self._bounds):
            return [], KINDS
        from_ns = max(job.start_ns, 0)
        to_ns = max(to_ns, from_ns + 1)
        targets = [one.fact for one in self._jobdb.topology.targets(from_ns, to_ns)]
        if not targets:
            return [], KINDS
        offered = {name: len({one.target for one in targets if one.file_system == name and one.kind not in _METADATA}) for name in {one.file_system for one in targets}}
        try:
            runs, is_seen = read()
            answer = layers(plan(job, runs, is_seen, from_ns, to_ns, self._store, self._jobdb), self._store)
            return in_layers(job, profile, answer, offered, self._by_layout(runs, from_ns, to_ns), self._bounds), KINDS
        except (StoreError, TooManyToTell, TooManyComponents, Busy, ValueError, ArithmeticError) as error:
            log.info("what lies behind job %s is not looked at: %s", job.key[:200], error)
            with self._lock:
                self._skipped += 1
            return [], ()

    def _by_layout(self, runs: Runs, from_ns: int, to_ns: int) -> dict[str, dict[str, int]]:
        """By file system, the bytes on its targets, of those all of whose files, but for a hundredth of their bytes, have a known layout."""
        moved = runs.mask("read", "write") & (runs.file >= 0)
        by_file = sums(runs.file[moved], runs.bytes[moved], len(runs.paths))
        which = np.flatnonzero(by_file)
        if not len(which) or len(which) > FILES_MAX:
            return {}
        paths = {path: int(by_file[number]) for number in which.tolist() if (path := runs.path(number)) is not None}
        held = {one.fact.file_id: one.fact.parts for one in self._jobdb.topology.layouts.of(list(paths), from_ns, to_ns)}
        if not held:
            return {}
        system_of, files, unknown = self._jobdb.topology.mounts(to_ns - 1), defaultdict(list), defaultdict(int)
        for path, size in paths.items():
            name, parts = system_of(path), held.get(file_id(path))
            if name is not None and parts is None:
                unknown[name] += size
            elif name is not None:
                files[name].append((size, parts))
        return {name: over_targets(of) for name, of in files.items() if 100 * unknown[name] <= sum(size for size, _ in of)}
