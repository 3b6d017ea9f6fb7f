"""A job's rates over time, as the API answers them; those of jobs that have ended are kept in the cache."""

import contextlib
import time
from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass

import numpy as np
import orjson

from jobdb.drawn import Drawn
from jobdb.job import Job
from jobdb.repository import JobDB
from jobdb.runs import LATEST_NS
from jobdb.series import SECOND_NS, Series, choose_step_ns, series, series_of_seconds
from pipeline.store import SECONDS_STEPS_MAX

from .analysis import Analyses, is_final
from .cache import Cache
from .errors import ApiError, bad_parameter

# As the job's page asks.
POINTS = 600
# Operations seen so long before a job's start or after its end still widen the span that is shown.
MARGIN_NS = 3600 * 10**9
# Of the answers; in the keys of the cache, so that another version's answers are none.
FORMAT = 1
_LISTS = ("t_ns", *Series.RATES)
_KEYS = frozenset(("from_ns", "to_ns", "step_s", *_LISTS))


@dataclass(frozen=True)
class Question:
    """from_ns, to_ns: None for the job's life. node, process: "" for all; not both."""

    from_ns: int | None = None
    to_ns: int | None = None
    points: int = POINTS
    node: str = ""
    process: str = ""


class Charts:
    """Answers as JSON. Whoever is given one may see the job: an answer is the same for all who may. Any thread may ask."""

    def __init__(self, analyses: Analyses, jobdb: JobDB, cache: Cache) -> None:
        self._analyses, self._jobdb, self._cache = analyses, jobdb, cache

    def answer(self, job: Job, question: Question) -> bytes:
        """Rates over time, of the cache where the job's stored profile is of the same records. Raises ApiError."""
        key = self._key(job, question)
        if key is None:
            return self._work_out(job, question)
        kept = self._cache.get(key, is_answer)
        if kept is not None:
            return kept
        before = self._analyses.partial()
        answer = self._work_out(job, question)
        if self._analyses.partial() == before:
            self._cache.put(key, answer)
        return answer

    def warm(self, job: Job) -> None:
        """Works out what the page of a settled job asks for first, unless that is so short that its runs are looked at. Raises StoreError."""
        question, now_ns = Question(), time.time_ns()
        version, before = self._jobdb.profile_version(job.key), self._analyses.partial()
        with contextlib.suppress(ApiError):
            found = None if version is None else self._of_sums(job, question, now_ns)
            if found is not None and self._analyses.partial() == before:
                self._cache.put(_key(job, version, question), orjson.dumps(_series_json(found, job, now_ns, is_seen=True)))

    def _key(self, job: Job, question: Question) -> str | None:
        version = self._jobdb.profile_version(job.key) if is_final(job) else None
        return None if version is None else _key(job, version, question)

    def _of_sums(self, job: Job, question: Question, now_ns: int) -> Series | None:
        return _of_seconds(self._analyses, job, question.node, question.from_ns, question.to_ns, question.points, now_ns)

    def _work_out(self, job: Job, question: Question) -> bytes:
        found, now_ns = None, time.time_ns()
        is_seen = True
        if not question.process:
            found = self._of_sums(job, question, now_ns)
        if found is None:
            runs, is_seen = self._analyses.drawn(job)
            try:
                chosen = _chosen(runs, question.node, question.process)
            except KeyError as error:
                name, value = ("process", question.process) if question.process else ("node", question.node)
                raise bad_parameter(name, value, "one of the job's; see its processes and nodes") from error
            from_ns, to_ns = within(shown_span(job, runs, now_ns), question.from_ns, question.to_ns)
            with too_fine():
                found = series(runs, from_ns, to_ns, question.points, chosen)
        return orjson.dumps(_series_json(found, job, now_ns, is_seen=is_seen))


def _key(job: Job, version: int, question: Question) -> str:
    return f"series {FORMAT} {orjson.dumps([job.key, job.uid, job.start_ns, job.end_ns, version, *astuple(question)]).decode()}"


def is_answer(kept: bytes, more: Collection[str] = ()) -> bool:
    """Whether a value out of the cache, in which others may have written, is what this version answers; `more`: texts, or null, that it has besides."""
    try:
        found = orjson.loads(kept)
    except orjson.JSONDecodeError:
        return False
    if (
        type(found) is not dict
        or found.keys() != _KEYS.union(more)
        or any(type(found[name]) is not list or len(found[name]) != len(found["t_ns"]) for name in _LISTS)
    ):
        return False
    numbers = [found["from_ns"], found["to_ns"], found["step_s"], *found["t_ns"]]
    if not all(found[name] is None or type(found[name]) is str for name in more):
        return False
    return all(type(value) in (int, float) for value in numbers) and all(
        value is None or type(value) in (int, float) for name in Series.RATES for value in found[name]
    )


def _of_seconds(analyses: Analyses, job: Job, node: str, given_from_ns: int | None, given_to_ns: int | None, points: int, now_ns: int) -> Series | None:
    """The series out of sums by second, or, where its bins are finer, out of the runs of the span that is asked for. None where the job's processes did
    nothing that is known, and where all of a short job is asked for, unless it has so many runs that seconds must do: then its runs are what to look at."""
    from_ns, to_ns = life(job, now_ns)
    is_whole = given_from_ns is None or given_to_ns is None
    asked_from_ns, asked_to_ns = (max(from_ns - MARGIN_NS, 0), to_ns + MARGIN_NS) if is_whole else (given_from_ns, given_to_ns)
    with too_fine():
        step_ns = choose_step_ns(*within((from_ns, to_ns), given_from_ns, given_to_ns), points)
        if step_ns < SECOND_NS:
            if not is_whole:
                return _of_span(analyses, job, node, given_from_ns, given_to_ns, points)
            if analyses.has_few_runs(job):
                return None
            step_ns = SECOND_NS
        step_s = step_ns // SECOND_NS
        if asked_to_ns - asked_from_ns > SECONDS_STEPS_MAX * step_ns // 2:
            return None
        sums = analyses.seconds(job, node, asked_from_ns, asked_to_ns, step_s)
        if not sums.num_rows:
            return None
        if is_whole:
            first_ns = int(sums["second"][0].as_py()) * SECOND_NS
            last_ns = max(second + seconds for second, seconds in zip(sums["second"].to_pylist(), sums["seconds"].to_pylist(), strict=True)) * SECOND_NS
            # A step's row says no more than that something was done in it.
            outside_from = max(first_ns, asked_from_ns) if first_ns + step_ns <= from_ns else from_ns
            outside_to = min(last_ns, asked_to_ns) if last_ns - step_ns >= to_ns else to_ns
            from_ns, to_ns = within((outside_from, outside_to), given_from_ns, given_to_ns)
            wider_ns = max(choose_step_ns(from_ns, to_ns, points), SECOND_NS)
            if wider_ns != step_ns:
                step_ns = wider_ns
                sums = analyses.seconds(job, node, from_ns, to_ns, step_ns // SECOND_NS)
        else:
            from_ns, to_ns = within((from_ns, to_ns), given_from_ns, given_to_ns)
        return series_of_seconds(sums, from_ns, to_ns, step_ns)


def _of_span(analyses: Analyses, job: Job, node: str, from_ns: int, to_ns: int, points: int) -> Series | None:
    """The series of a short span, out of the runs that touch it (and those next to it, which tell until when they are drawn)."""
    runs = analyses.drawn_of_span(job, max(from_ns - 2 * SECOND_NS, 0), to_ns + 2 * SECOND_NS)
    if runs.granularity == "node" or not len(runs) or (node and node not in runs.nodes):
        return None
    chosen = np.array([key[0] == node for key in runs.process_keys])[runs.process] if node else None
    return series(runs, from_ns, to_ns, points, chosen)


@contextlib.contextmanager
def too_fine() -> Iterator[None]:
    """Says what is wrong with a span that cannot be drawn."""
    try:
        yield
    except ValueError as error:
        raise ApiError(400, "bad_parameter", f"parameters from_ns, to_ns and points: {error}", "ask for a shorter span or more points") from error


def within(span: tuple[int, int], given_from_ns: int | None, given_to_ns: int | None) -> tuple[int, int]:
    """The span that is asked for, where the rest of it is `span`."""
    from_ns = span[0] if given_from_ns is None else given_from_ns
    to_ns = span[1] if given_to_ns is None else given_to_ns
    if to_ns > from_ns:
        return from_ns, to_ns
    if given_from_ns is not None and given_to_ns is not None:
        raise bad_parameter("to_ns", str(to_ns), f"an instant after from_ns ({from_ns})")
    return (from_ns, from_ns + 10**9) if given_to_ns is None else (max(to_ns - 10**9, 0), max(to_ns, 1))


def life(job: Job, now_ns: int) -> tuple[int, int]:
    """From its start to its end, or to now."""
    from_ns = min(max(job.start_ns, 0), LATEST_NS - 10**9)
    to_ns = job.end_ns if job.end_ns is not None else max(now_ns, job.start_ns)
    return from_ns, min(max(to_ns, from_ns + 1), LATEST_NS)


def _chosen(runs: Drawn, node: str, process: str) -> np.ndarray | None:
    """Mask of the runs of a node, or of a process "NODE:PID.TICKS"; None for all. Raises KeyError for one that the job does not have."""
    if process:
        key = tuple(process.rsplit(":", 1))
        if key not in runs.process_keys:
            raise KeyError(process)
        return runs.process == runs.process_keys.index(key)
    if node:
        if node not in runs.nodes:
            raise KeyError(node)
        return np.array([key[0] == node for key in runs.process_keys])[runs.process]
    return None


def shown_span(job: Job, runs: Drawn, now_ns: int) -> tuple[int, int]:
    """The job's life, and what was seen of it shortly before or after."""
    from_ns, to_ns = job.start_ns, job.end_ns if job.end_ns is not None else max(now_ns, job.start_ns)
    near = (runs.end_ns >= from_ns - MARGIN_NS) & (runs.start_ns <= to_ns + MARGIN_NS)
    if near.any():
        from_ns = max(min(from_ns, int(runs.start_ns[near].min())), from_ns - MARGIN_NS)
        to_ns = min(max(to_ns, int(runs.end_ns[near].max())), to_ns + MARGIN_NS)
    from_ns = min(max(from_ns, 0), LATEST_NS - 10**9)
    return from_ns, min(max(to_ns, from_ns + 1), LATEST_NS)


def _series_json(found: Series, job: Job, now_ns: int, is_seen: bool) -> dict:
    rates = {name: getattr(found, name) for name in Series.RATES}
    until_ns = job.end_ns if job.end_ns is not None else now_ns
    # Outside the job's life nothing is known to be 0, unless something was seen.
    outside = (found.t_ns + found.step_ns <= job.start_ns) | (found.t_ns > until_ns)
    outside &= np.sum(list(rates.values()), axis=0) == 0
    # Nor is anything known of a job that could not be watched.
    outside |= not is_seen
    shown = {
        name: [None if is_outside else value for value, is_outside in zip(values.tolist(), outside.tolist(), strict=True)] for name, values in rates.items()
    }
    return {"from_ns": found.from_ns, "to_ns": found.to_ns, "step_s": found.step_ns / 1e9, "t_ns": found.t_ns.tolist(), **shown}
