"""What batch systems tell of their jobs: one module a system, from its own words to `QueueJob`s. None of it knows a database.

What a queue says is believed of nodes, users and times, and of nothing else: names and commands are a user's words. An entry that cannot be read is told as a
`Problem`, and the others are read all the same.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import orjson

from pipeline.schema.times import EARLIEST_NS

# Longer answers than a queue gives of one entry are none.
NODES_MAX = 200_000
STEPS_MAX = 10_000
PROBLEM_CHARACTERS_MAX = 300
LATEST_S = 9_200_000_000
_INTEGER = re.compile(r" *[+-]?[0-9]{1,30}(\.0*)? *", re.ASCII)

PENDING, RUNNING, SUSPENDED, COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, PREEMPTED, REQUEUED, UNKNOWN = STATES = (
    "pending", "running", "suspended", "completed", "failed", "cancelled", "timeout", "node_fail", "out_of_memory", "preempted", "requeued", "unknown",
)  # fmt: skip
# Nothing more comes of these.
ENDED = frozenset(STATES) - {PENDING, RUNNING, SUSPENDED, UNKNOWN}


class QueueTrouble(Exception):
    """The queue did not answer, or not in words that are known here; the text says what, and what to run next."""


@dataclass(frozen=True)
class Problem:
    """An entry that could not be read: which one, and why."""

    entry: str
    why: str

    def __str__(self) -> str:
        return f"{self.entry}: {self.why}"


@dataclass(frozen=True)
class Step:
    """A part of a job that was started by itself: `srun`'s step, ALPS's application. id: within the job, such as "0" or "batch"."""

    id: str
    name: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    nodes: tuple[str, ...] = ()
    tasks: int | None = None


QueueKey = tuple[str, str, int]  # cluster, job_id, submit_ns


@dataclass(frozen=True)
class QueueJob:
    """One run of a job. (cluster, job_id, submit_ns) names it: a queue counts its ids from the beginning again one day, and one that was requeued has the
    same id and another submit time.

    job_id: as the queue shows it: "123", "123_7" (task 7 of an array), "123+1" (component 1 of a heterogeneous job). claims: what its processes find in their
    environment, and records claim. array, het: the id of the whole, "" where it is none. Instants: ns since the epoch; None where there is none yet.
    suspended_s: for how long it was halted. restarts: how often it began again under the same submit time. nodes: in the queue's order. cores, tasks: of all nodes;
    None where the queue does not tell."""

    cluster: str
    job_id: str
    submit_ns: int
    user: str
    uid: int | None = None
    project: str = ""
    name: str = ""
    queue: str = ""
    state: str = UNKNOWN
    start_ns: int | None = None
    end_ns: int | None = None
    exit_code: int | None = None
    nodes: tuple[str, ...] = ()
    cores: int | None = None
    tasks: int | None = None
    claims: tuple[str, ...] = ()
    array: str = ""
    het: str = ""
    suspended_s: float = 0.0
    restarts: int = 0
    steps: tuple[Step, ...] = field(default=())

    @property
    def key(self) -> QueueKey:
        return self.cluster, self.job_id, self.submit_ns


Read = tuple[list[QueueJob], list[Problem]]
T = TypeVar("T")


def read_each(entries: Iterable[tuple[object, T]], read: Callable[[T], QueueJob | None]) -> Read:
    """The jobs of entries, each with what it is called; `read` gives None for one that has not begun, and raises ValueError for one that cannot be read."""
    jobs: list[QueueJob] = []
    problems: list[Problem] = []
    for name, entry in entries:
        try:
            job = read(entry)
        except ValueError as error:
            problems.append(problem(name, error))
            continue
        if job is not None:
            jobs.append(job)
    return jobs, problems


def with_domain(read: Read, domain: str) -> Read:
    """With the ends that agents have behind the batch system's names of nodes; those that bear it stay."""
    if not domain:
        return read

    def named(nodes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(node if node.endswith(domain) else node + domain for node in nodes)

    jobs, problems = read
    return [replace(job, nodes=named(job.nodes), steps=tuple(replace(step, nodes=named(step.nodes)) for step in job.steps)) for job in jobs], problems


def integer(value: object, what: str, least: int = 0, most: int = 1 << 62) -> int:
    """A whole number as queues write it: 5, "5", 5.0. Raises ValueError."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and _INTEGER.fullmatch(value)):
        raise ValueError(f"{what}: expected a number, got {shown(value)}")
    try:
        number = int(value.partition(".")[0]) if isinstance(value, str) else int(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{what}: expected a number, got {shown(value)}") from None
    if number != (float(value) if isinstance(value, float) else number) or not least <= number <= most:
        raise ValueError(f"{what}: {shown(value)} is not between {least} and {most}")
    return number


def instant_ns(seconds: int | float | None, what: str) -> int | None:
    """Seconds since the epoch as ns; None for 0 and None, which queues write for "not yet". Raises ValueError for a time that is none of this century."""
    if not seconds:
        return None
    if not EARLIEST_NS // 10**9 <= seconds <= LATEST_S:
        raise ValueError(f"{what}: {shown(seconds)} is no time of a job, in seconds since the epoch")
    return int(seconds * 10**9) if isinstance(seconds, float) else seconds * 10**9


def text(value: object, what: str) -> str:
    """A text that may be missing. Raises ValueError."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{what}: expected a text, got {shown(value)}")
    return value


def parsed(data: bytes) -> Any:
    """JSON whose texts need not be UTF-8: users name their jobs. Raises orjson.JSONDecodeError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return orjson.loads(data.decode("utf-8", "replace"))


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """An object of JSON that may be missing. Raises ValueError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{what}: expected an object, got {shown(value)}")
    return value


def sequence(value: object, what: str) -> Sequence[Any]:
    """A list of JSON that may be missing. Raises ValueError."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{what}: expected a list, got {shown(value)}")
    return value


def problem(entry: object, why: object) -> Problem:
    return Problem(shown(entry), str(why)[:PROBLEM_CHARACTERS_MAX])


def shown(value: object) -> str:
    """A value as it may stand in a message."""
    return ascii(value)[:80]
