"""A component's values over time, as the API answers them; kept in the cache as long as nothing is added to them."""

from dataclasses import astuple, dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.components import COMPONENTS
from pipeline.steps import MARGIN_NS, SECOND_NS, Counter, Gauge, Histogram, Steps, steps
from pipeline.store import Store, TooManySamples
from pipeline.store.summaries import HOURS, MINUTES, SUMMARIES_MAX
from pipeline.summary import HOUR_NS
from pipeline.summary_steps import PART_NS, last_known, on_steps, summarised_now

from .as_json import encoded
from .cache import Cache
from .errors import ApiError

# Of the answers; in the keys of the cache, so that another version's answers are none.
FORMAT = 2
# A longer time is shown by the hour.
MINUTES_SPAN_NS = 31 * 24 * HOUR_NS
_KEYS = frozenset(("node", "component", "instance", "instance_what", "from_ns", "to_ns", "step_s", "t_ns", "last_ns", "resolution_s", "values", "values_left_out"))


@dataclass(frozen=True)
class Question:
    """names: of values that are asked for; none: all."""

    node: str
    component: str
    instance: str
    from_ns: int
    to_ns: int
    step_ns: int
    names: tuple[str, ...] = ()


class ComponentCharts:
    """Answers as JSON. Any thread may ask."""

    def __init__(self, store: Store, cache: Cache) -> None:
        self._store, self._cache = store, cache

    def answer(self, question: Question) -> bytes | None:
        """Values on steps, none where the component told nothing in this time; None for a node that nobody has heard of. Raises ValueError for a span that cannot be drawn, and ApiError for one that holds
        too many samples."""
        from_ns, to_ns = max(question.from_ns - question.step_ns - MARGIN_NS, 0), question.to_ns + question.step_ns + MARGIN_NS
        changes = self._store.changes([question.node], from_ns, to_ns)
        key = f"component {FORMAT} {orjson.dumps([changes, *astuple(question)]).decode()}"
        if changes is not None:
            kept = self._cache.get(key, _is_answer)
            if kept is not None:
                return kept
        before = self._store.partial()
        answer = self._work_out(question, from_ns, to_ns)
        if changes is not None and answer is not None and self._store.partial() == before:
            self._cache.put(key, answer)
        return answer

    def _work_out(self, question: Question, from_ns: int, to_ns: int) -> bytes | None:
        """Of samples where all of them are there, and no more than can be read at once; else, and of a long time, of summaries."""
        too_many: TooManySamples | None = None
        is_long = question.to_ns - question.from_ns > MINUTES_SPAN_NS
        if not is_long and question.from_ns >= self._store.kept_from_ns("samples"):
            try:
                samples = self._store.samples(question.component, [(question.node, question.instance)], from_ns, to_ns)
            except TooManySamples as error:
                too_many = error
            else:
                if not samples.num_rows and not self._store.boot_count(question.node):
                    return None
                found = steps(samples, question.component, question.from_ns, question.to_ns, question.step_ns, frozenset(question.names) or None)
                return _told(question, found, pc.max(samples["end"]).as_py(), None)
        data = HOURS if is_long or question.step_ns >= HOUR_NS or question.from_ns < self._store.kept_from_ns(MINUTES) else MINUTES
        return self._of_summaries(question, data, too_many)

    def _of_summaries(self, question: Question, data: str, too_many: TooManySamples | None) -> bytes | None:
        """too_many: where there are no summaries yet, this is why there is no answer."""
        of = question.node, question.component, question.instance
        step_ns = -(-question.step_ns // PART_NS[data]) * PART_NS[data]
        from_ns, to_ns = question.from_ns // step_ns * step_ns, -(-question.to_ns // step_ns) * step_ns
        rows = self._store.summaries(data, question.component, [(question.node, question.instance)], from_ns, to_ns)
        if rows.num_rows >= SUMMARIES_MAX:
            raise ApiError(422, "too_many_samples", f"there are more than {SUMMARIES_MAX} hours of this component in this time", "ask for a shorter span")
        # What is not summarised yet is, here and now.
        new_ns = rows["time"][-1].as_py() + HOUR_NS if rows.num_rows else from_ns
        last_ns = last_known(rows, data)
        if new_ns < to_ns:
            try:
                samples = self._store.samples(question.component, [(question.node, question.instance)], max(new_ns - MARGIN_NS, 0), to_ns + MARGIN_NS)
            except TooManySamples as error:
                raise _too_many(too_many or error, question) from error
            rows = pa.concat_tables([rows, summarised_now(samples, of, data, new_ns)])
            last_ns = max((ns for ns in (last_ns, pc.max(samples["end"]).as_py()) if ns is not None), default=None)
        if not rows.num_rows and not self._store.boot_count(question.node):
            return None
        found = on_steps(rows, data, question.component, from_ns, to_ns, step_ns, frozenset(question.names) or None)
        return _told(question, found, last_ns, PART_NS[data] // SECOND_NS)


def _told(question: Question, found: Steps, last_ns: int | None, resolution_s: int | None) -> bytes:
    known = COMPONENTS.get(question.component)
    told = {"node": question.node, "component": question.component, "instance": question.instance, "instance_what": known and known.instance}
    return encoded(told | _shown(found) | {"last_ns": last_ns, "resolution_s": resolution_s})


def _shown(found: Steps) -> dict[str, Any]:
    starts = found.t_ns.tolist()
    span = {"from_ns": starts[0], "to_ns": starts[-1] + found.step_ns, "step_s": found.step_ns / 1e9, "t_ns": starts}
    return span | {"values": [_value(value) for value in found.values], "values_left_out": found.left_out}


def _value(found: Counter | Gauge | Histogram) -> dict[str, Any]:
    """orjson writes NaN as null: nothing is known there."""
    value = found.told.value
    told = {"name": value.name, "kind": value.kind, "unit": value.unit, "what": value.what}
    if isinstance(found, Counter):
        return told | {"total": found.total} | {name: getattr(found, name).tolist() for name in ("per_s", "min_per_s", "max_per_s")}
    if isinstance(found, Gauge):
        return told | {name: getattr(found, name).tolist() for name in ("last", "min", "max", "mean")}
    bounds = [None if bound == float("inf") else bound for bound in found.told.bounds]
    return told | {"bounds": bounds, "totals": [bucket.total for bucket in found.buckets], "per_s": [bucket.per_s.tolist() for bucket in found.buckets]}


def _too_many(error: TooManySamples, question: Question) -> ApiError:
    until_ns = error.until_ns - MARGIN_NS - question.step_ns
    hint = f"ask for from_ns={question.from_ns} and to_ns={until_ns}" if until_ns > question.from_ns else "ask for a shorter span"
    return ApiError(422, "too_many_samples", str(error), hint)


def _is_answer(kept: bytes) -> bool:
    """Whether a value out of the cache, in which others may have written, looks like what this version answers."""
    try:
        found = orjson.loads(kept)
    except orjson.JSONDecodeError:
        return False
    if type(found) is not dict or found.keys() != _KEYS or type(found["t_ns"]) is not list or type(found["values"]) is not list:
        return False
    return all(type(value) is dict and _is_value(value, len(found["t_ns"])) for value in found["values"])


def _is_value(value: dict[str, Any], count: int) -> bool:
    given = [value.get(name) for name in ("per_s", "min_per_s", "max_per_s", "last", "min", "max", "mean") if name in value]
    if value.get("kind") == "histogram":
        given = value["per_s"] if type(value.get("per_s")) is list else [None]
    return all(type(array) is list and len(array) == count for array in given)
