"""What the agents say of themselves: their samples, added up."""

import threading
import time

from pipeline.store import Store

# Samples that were held back on their node for longer than this are counted only after a restart of the server.
LATE_NS = 2 * 86400 * 10**9
# The last value stands; all other values of an agent's samples are what was counted in an interval, and are added up.
GAUGES = ("spool_bytes", "rings", "rss_bytes")


class Agents:
    """The totals of each agent since its spool was born. Reads only samples that are new; one entry a (node, boot)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()  # owner of the rest
        self._read_ns: int | None = None
        self._counted: dict[tuple[str, str], tuple[int, dict[str, float]]] = {}

    def list(self, high_water: list[dict]) -> list[dict]:
        """One entry for each (node, boot) of the store's status, with the values of its samples."""
        with self._lock:
            self._update()
            return [
                {
                    "node": mark["node"],
                    "boot": mark["boot"],
                    "seq": mark["seq"],
                    "missing": mark.get("missing", 0),
                    "last_seen_ns": mark.get("last_append_ns"),
                    "values": dict(self._counted.get((mark["node"], mark["boot"]), (0, {}))[1]),
                }
                for mark in high_water
            ]

    def _update(self) -> None:
        now_ns = time.time_ns()
        samples = self._store.samples("agent", None if self._read_ns is None else self._read_ns - LATE_NS)
        self._read_ns = now_ns
        samples = samples.select(["node", "boot", "seq", "values"]).sort_by("seq")
        columns = (samples[name].to_pylist() for name in ("node", "boot", "seq", "values"))
        for node, boot, seq, values in zip(*columns, strict=True):
            key = (node, boot if isinstance(boot, str) else f"{boot:016x}")
            counted, totals = self._counted.get(key, (0, {}))
            if seq <= counted:
                continue
            totals = dict(totals)
            for name, value in values.items() if isinstance(values, dict) else values:
                totals[name] = value if name in GAUGES else totals.get(name, 0) + value
            self._counted[key] = (seq, totals)
