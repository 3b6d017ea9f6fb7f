"""A node's rates over time, all jobs' together, as the API answers them; kept in the cache as long as nothing is added to them."""

import orjson

from jobdb.series import SECOND_NS, Series, series_of_seconds, step_for
from pipeline.store import Store

from .as_json import encoded
from .cache import Cache
from .charts import is_answer

# Of the answers; in the keys of the cache, so that another version's answers are none.
FORMAT = 1


class NodeCharts:
    """Answers as JSON. Any thread may ask."""

    def __init__(self, store: Store, cache: Cache) -> None:
        self._store, self._cache = store, cache

    def answer(self, node: str, from_ns: int, to_ns: int, points: int) -> bytes | None:
        """Rates over time; None for a node that nobody has heard of. Raises ValueError for a span that cannot be drawn."""
        step_ns = step_for(from_ns, to_ns, points)
        # Steps are whole ones.
        changes = self._store.changes([node], max(from_ns - step_ns, 0), to_ns + step_ns)
        key = f"node {FORMAT} {orjson.dumps([changes, node, from_ns, to_ns, points]).decode()}"
        if changes is not None:
            kept = self._cache.get(key, lambda kept: is_answer(kept, {"granularity"}))
            if kept is not None:
                return kept
        before = self._store.partial()
        answer = self._work_out(node, from_ns, to_ns, step_ns)
        if changes is not None and answer is not None and self._store.partial() == before:
            self._cache.put(key, answer)
        return answer

    def _work_out(self, node: str, from_ns: int, to_ns: int, step_ns: int) -> bytes | None:
        asked = (None, None, [node], from_ns // SECOND_NS, -(-to_ns // SECOND_NS), step_ns // SECOND_NS)
        # What a file system's client tells of a node is what its processes did, seen once more: it stands in where no process is watched.
        sums = self._store.seconds(*asked)
        granularity = "process"
        if not sums.num_rows:
            sums = self._store.seconds(*asked, of_nodes=True)
            granularity = "node" if sums.num_rows else None
        if granularity is None and not self._store.boot_count(node):
            return None
        found = series_of_seconds(sums, from_ns, to_ns, step_ns)
        rates = {name: getattr(found, name).tolist() for name in Series.RATES}
        span = {"from_ns": found.from_ns, "to_ns": found.to_ns, "step_s": found.step_ns / 1e9, "t_ns": found.t_ns.tolist()}
        return encoded(span | rates | {"granularity": granularity})
