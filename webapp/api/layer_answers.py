"""The layers of jobs, as the API answers them; those of ended jobs are kept in the cache as long as nothing changes that they rest on."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from typing import Any

import orjson

from jobdb.job import Job
from jobdb.layers import TooManyToTell
from jobdb.layers.job import layers, rates, serves
from jobdb.layers.plan import Plan, plan
from jobdb.layers.served import Served
from jobdb.layers.spans import common, joined
from jobdb.repository import JobDB
from jobdb.runs import Runs
from jobdb.series import step_for
from pipeline.steps import MARGIN_NS
from pipeline.store import Store, TooManyComponents, TooManySamples

from .analysis import Analyses
from .as_json import encoded
from .cache import Cache
from .errors import ApiError, bad_parameter
from .job_records import QUEUE_GRAIN_NS
from .kept import Kept
from .threads import Threads

# Of the answers; in the keys of the cache, so that another version's answers are none.
FORMAT = 7
# Different answers that may be worked out at once, as far as there are threads for it.
TURNS = 64
# Of a running job layers are worked out once in so much of its time, and at most so often.
GRAIN_SHARE, GRAIN_NS = 100, 10 * 10**9
_KEYS = frozenset(("from_ns", "to_ns", "resolution_s", "has_topology", "file_systems", "elsewhere"))
_RATES = ("read_bytes_per_s", "write_bytes_per_s", "read_ops_per_s", "write_ops_per_s", "metadata_ops_per_s", "queue")
_SERIES_KEYS = frozenset(("from_ns", "to_ns", "resolution_s", "step_s", "t_ns", *_RATES))


@dataclass(frozen=True)
class Question:
    """Which components' series: those of a layer; node, component, instance: only such, "" for any. from_ns, to_ns: None for the job's time."""

    file_system: str
    layer: str
    node: str
    component: str
    instance: str
    from_ns: int | None
    to_ns: int | None
    points: int


class LayerAnswers:
    """Answers as JSON. Any thread may ask. threads: those that may work long; what is in the cache needs none of these, only one of `analyses` for a
    moment."""

    def __init__(self, store: Store, jobdb: JobDB, analyses: Analyses, cache: Cache, threads: Threads, clock_ns: Callable[[], int]) -> None:
        self._store, self._jobdb, self._analyses, self._cache, self._clock_ns = store, jobdb, analyses, cache, clock_ns
        self._kept = Kept(threads, turns=TURNS)

    def of(self, job: Job, names_jobs: bool) -> bytes:
        """All layers. names_jobs: other jobs' keys are told. Raises ApiError and Busy."""
        with _bounded():
            made = self._plan(job)
            found = self._answer(made, "layers", (), _is_layers, lambda: layers(made, self._store))
        answer = orjson.loads(found)
        for component in _components(answer):
            component["jobs"] = component["jobs"] if names_jobs else None
        return encoded(answer)

    def series(self, job: Job, question: Question) -> bytes:
        """A layer, or a component, over the job's time or a part of it. Raises ApiError and Busy."""
        with _bounded():
            made = self._plan(job)
            chosen = _chosen(made, question)
            made = _within(made, question)
            try:
                step_ns = step_for(made.from_ns, made.to_ns, question.points)
            except ValueError as error:
                raise ApiError(400, "bad_parameter", f"parameters from_ns, to_ns and points: {error}", "ask for a shorter span or fewer points") from error
            return self._answer(made, "series", astuple(question), _is_series, lambda: rates(made, self._store, chosen, step_ns))

    def _plan(self, job: Job) -> Plan:
        runs, is_seen = self._analyses.runs(job)
        # Of a large site's jobs it takes a second.
        with self._analyses.thread():
            return plan(job, runs, is_seen, *self._life(job, runs), self._store, self._jobdb)

    def _life(self, job: Job, runs: Runs) -> tuple[int, int]:
        """The job's time, up to its last operation where a batch system's whole seconds cut that off. Of a running one up to now, in grains: who asks again soon gets
        the same."""
        from_ns = max(job.start_ns, 0)
        if job.end_ns is not None:
            last_ns = min(int(runs.end_ns.max(initial=0)), job.end_ns + QUEUE_GRAIN_NS) if job.queue_nodes else 0
            return from_ns, max(job.end_ns, last_ns, from_ns + 1)
        lasted_ns = max(self._clock_ns() - from_ns, 1)
        grain_ns = min(max(GRAIN_NS, lasted_ns // GRAIN_SHARE), lasted_ns)
        return from_ns, from_ns + lasted_ns // grain_ns * grain_ns

    def _answer(self, made: Plan, what: str, more: tuple, is_answer: Callable[[bytes], bool], work_out: Callable[[], dict[str, Any]]) -> bytes:
        """An answer out of the cache, where that is of the same plan and samples, or worked out once for all who ask meanwhile."""
        slack_ns = MARGIN_NS + max([0, *(abs(offset) for _, offset in made.offsets)])
        changes = self._store.changes(made.nodes(), max(made.from_ns - slack_ns, 0), made.to_ns + slack_ns) if made.nodes() else ""
        digest = hashlib.sha256(repr(made).encode("utf-8", "surrogatepass")).hexdigest()
        key = f"{what} {FORMAT} {orjson.dumps([digest, changes, *more]).decode()}"
        kept = self._cache.get(key, is_answer) if changes is not None else None
        if kept is not None:
            return kept

        def worked_out() -> bytes:
            before = self._store.partial()
            answer = encoded(work_out())
            if changes is not None and self._store.partial() == before:
                self._cache.put(key, answer)
            return answer

        return self._kept.get(key, worked_out)


@contextmanager
def _bounded() -> Iterator[None]:
    """What is too much is an error that says so."""
    try:
        yield
    except (TooManyToTell, TooManyComponents, TooManySamples) as error:
        hint = "ask for one component of a layer, or for a part of the job's time, at /layers/series"
        raise ApiError(422, "too_many_samples" if isinstance(error, TooManySamples) else "too_many_components", str(error), hint) from error


def _chosen(made: Plan, question: Question) -> list[Served]:
    """The components whose series are asked for. Raises ApiError for what is none of the job's."""
    parts = [part for system in made.systems if system.name == question.file_system for part in system.parts]
    found = [part.served for part in parts if part.served.layer == question.layer]
    if question.node or question.component or question.instance:
        found = [one for one in found if all(getattr(question, name) in ("", getattr(one, name)) for name in ("node", "component", "instance"))]
    else:
        found = [one for one in found if serves(one) == "files"] or found
    if not found:
        raise ApiError(404, "no_component", "no such component served the job in this layer", "see those at /layers")
    return found


def _within(made: Plan, question: Question) -> Plan:
    """The plan of the part of the job's time that is asked for. Raises ApiError where there is none."""
    given = (made.from_ns if question.from_ns is None else question.from_ns, made.to_ns if question.to_ns is None else question.to_ns)
    here = common(joined([given]), [(made.from_ns, made.to_ns)])
    if not here:
        raise bad_parameter("from_ns", str(given[0]), f"a time of the job's, which is {made.from_ns} to {made.to_ns}")
    return replace(made, from_ns=here[0][0], to_ns=here[0][1])


def _components(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for system in answer["file_systems"]:
        for layer in system["layers"]:
            yield from layer["components"]


def _is_layers(kept: bytes) -> bool:
    """Whether a value out of the cache, in which others may have written, looks like what this version answers."""
    try:
        found = orjson.loads(kept)
        return type(found) is dict and found.keys() == _KEYS and all(type(one["jobs"]) is list for one in _components(found))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False


def _is_series(kept: bytes) -> bool:
    try:
        found = orjson.loads(kept)
    except orjson.JSONDecodeError:
        return False
    if type(found) is not dict or found.keys() != _SERIES_KEYS or type(found["t_ns"]) is not list:
        return False
    return all(found[name] is None or (type(found[name]) is list and len(found[name]) == len(found["t_ns"])) for name in _RATES)
