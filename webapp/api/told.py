"""What agents count as lost, kept added up, so that no audit reads all samples again."""

import threading
from collections.abc import Sequence

from jobdb.runs import LATEST_NS
from pipeline.store import BEGIN, PlaceLost, Store
from pipeline.store.mark import Key

from .losses import TOLD

# Sums are kept by the hour in which a sample begins, and by two, four … where they would be more than so many.
SUMS_MAX = 100_000
GRAIN_NS = 3600 * 10**9
GRAIN_NS_MAX = 1 << 62


class Told:
    """Sums of the values `TOLD` of all agents' samples, those that are not 0; of samples that are new only they are read. Any thread may ask."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()  # owner of the rest
        self._place = BEGIN  # in the store's samples; what lies before it is in _sums
        self._grain_ns = GRAIN_NS
        self._sums: dict[tuple[Key, int, str], float] = {}  # by boot, begin in grains, and name

    def since(self, since_ns: int) -> dict[Key, dict[str, float]]:
        """By (node, boot), what its agent counts in samples that end at or after a time."""
        with self._lock:
            self._update()
            grain_ns, sums = self._grain_ns, dict(self._sums)
        # A sample that begins in a later grain ends after the time, too; of the others the store tells exactly.
        first = since_ns // grain_ns + 1
        nodes = sorted({key[0] for key, begin, _ in sums if begin < first}) if since_ns > 0 else []
        told = self._store.sample_sums("agent", TOLD, nodes, since_ns, min(first * grain_ns - 1, LATEST_NS)) if nodes else {}
        for (key, begin, name), value in sums.items():
            if begin >= first or since_ns <= 0:
                of_boot = told.setdefault(key, {})
                of_boot[name] = of_boot.get(name, 0) + value
        return told

    def _update(self) -> None:
        try:
            self._read()
        except PlaceLost:
            self._place, self._grain_ns, self._sums = BEGIN, GRAIN_NS, {}
            self._read()

    def _read(self) -> None:
        while True:
            # With one grain for all times there is nothing left to merge: then their number is that of the boots that ever lost anything.
            limit = SUMS_MAX + 1 if self._grain_ns < GRAIN_NS_MAX else LATEST_NS
            rows, place = self._store.sample_sums_by_time("agent", TOLD, self._place, self._grain_ns, limit)
            if len(rows) < limit:
                break
            self._coarsen()
        self._place = place
        self._add(rows)
        while len(self._sums) > SUMS_MAX and self._grain_ns < GRAIN_NS_MAX:
            self._coarsen()

    def _coarsen(self) -> None:
        self._grain_ns *= 2
        sums, self._sums = self._sums, {}
        self._add([(key, begin // 2, name, value) for (key, begin, name), value in sums.items()])

    def _add(self, rows: Sequence[tuple[Key, int, str, float]]) -> None:
        for key, begin, name, value in rows:
            self._sums[key, begin, name] = self._sums.get((key, begin, name), 0) + value
