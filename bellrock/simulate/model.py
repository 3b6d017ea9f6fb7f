"""What a job does, told by a few numbers a process: bursts of like operations."""

from dataclasses import dataclass, field, replace

import numpy as np

# Places of a burst's operations in `expand.Columns.op`; the names are the schema's.
OPS = ("start", "read", "write", "open", "close", "stat", "access", "unlink", "rename", "mkdir", "rmdir", "readdir", "link", "truncate", "sync")
METADATA_OPS = frozenset(OPS) - {"start", "read", "write"}
# No machine begins to work later: what 32 bits hold, s since 1970.
START_S_MAX = (1 << 32) - 1


@dataclass(frozen=True)
class Burst:
    """What some processes do at about the same time, all of them alike: `runs` runs each, of one operation.

    The arrays have one element a process, in ascending order of processes. Its runs share its time, from `start_ns` to `end_ns` (since the job's
    start), without a pause; with `slots` > 1 each run has only the `slot`-th of so many equal parts of its share, so that
    bursts of several operations can take turns.

    process: its number. file: number of its first run's file; `file_step` on from each run to the next. count: operations a run, of `size`
    bytes each. offset: of the first run's first operation; `stride` on from each operation to the next, `run_step` from each run to the next.
    scatter: where not 0, the length of a file over which the operations lie at random, at multiples of `size`; then `count` is at most 2.
    busy: share of the time that passes inside of calls. phase: number of the phase that the burst belongs to.
    """

    op: str
    phase: int
    process: np.ndarray
    file: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    runs: int
    count: np.ndarray
    size: int = 0
    offset: np.ndarray | int = 0
    stride: int = 0
    run_step: np.ndarray | int = 0
    scatter: int = 0
    file_step: int = 0
    handle: int = -1
    errno: int = 0
    slot: int = 0
    slots: int = 1
    busy: float = 0.8

    @property
    def rows(self) -> int:
        """Number of runs."""
        return len(self.process) * self.runs

    def edges(self, part: np.ndarray) -> np.ndarray:
        """When each process's time is over by so many of its `runs * slots` equal parts, ns since the job's start, shape (processes, parts)."""
        length, rest = np.divmod(self.end_ns - self.start_ns, self.runs * self.slots)
        # length * part // parts, which would not fit 64 bits.
        return self.start_ns[:, None] + length[:, None] * part + rest[:, None] * part // (self.runs * self.slots)

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """When each run begins and ends, ns since the job's start, shape (processes, runs)."""
        part = np.arange(self.runs) * self.slots + self.slot
        return self.edges(part), self.edges(part + 1)

    def span(self) -> tuple[int, int]:
        """When the first run of all begins and the last one ends, ns since the job's start."""
        if self.slots == 1:
            return int(self.start_ns.min()), int(self.end_ns.max())
        first, last = self.slot, (self.runs - 1) * self.slots + self.slot + 1
        return int(self.edges(np.array([first])).min()), int(self.edges(np.array([last])).max())


@dataclass(frozen=True)
class Step:
    """What all processes do before they go on together: from `begin_ns` to `end_ns` since the job's start where nobody is in the way, bursts
    `first` to before `last` of the model. stripes: on how many targets each file lies. is_shared: all use one file."""

    begin_ns: int
    end_ns: int
    first: int
    last: int
    stripes: int
    is_shared: bool


@dataclass(frozen=True)
class FileGroup:
    """Files whose names differ in a number: `prefix`, the number with six digits, `suffix`; a group of one has no number."""

    prefix: str
    suffix: str
    count: int


@dataclass(frozen=True)
class Model:
    """A job before it has a place: processes 0 … nodes * per_node - 1, node by node, and their bursts.

    mode_read, mode_write: the I/O mode that a kind of job is built to have. ranked: its processes bear ranks. wall_ns: from start to end.
    Files are numbered through their groups, in order.
    """

    kind: str
    program: str
    nodes: int
    per_node: int
    ranked: bool
    mode_read: str | None
    mode_write: str | None
    wall_ns: int
    bursts: list[Burst] = field(default_factory=list)
    files: list[FileGroup] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def processes(self) -> int:
        """Number of processes."""
        return self.nodes * self.per_node

    @property
    def rows(self) -> int:
        """Number of records: the runs, and a notice of each process's start."""
        return self.processes + sum(burst.rows for burst in self.bursts)

    def delayed(self, begin_ns: np.ndarray, end_ns: np.ndarray, wall_ns: int) -> "Model":
        """The model with its steps at other times since the job's start, one element a step, and another end. Between steps nothing may change but when."""
        before = np.array([0, *(instant for step in self.steps for instant in (step.begin_ns, step.end_ns)), self.wall_ns], dtype=float)
        after = np.array([0, *np.column_stack((begin_ns, end_ns)).ravel(), wall_ns], dtype=float)

        def then(instants_ns: np.ndarray) -> np.ndarray:
            return np.interp(instants_ns, before, after).astype(np.int64)

        bursts = [replace(burst, start_ns=then(burst.start_ns), end_ns=then(burst.end_ns)) for burst in self.bursts]
        steps = [replace(step, begin_ns=int(begin), end_ns=int(end)) for step, begin, end in zip(self.steps, begin_ns, end_ns, strict=True)]
        return replace(self, bursts=bursts, steps=steps, wall_ns=wall_ns)


    def cut(self, count: int) -> "Model":
        """The model of a job that ended after so many steps, at least one: what ends a job comes as long after the last of them."""
        if count == len(self.steps):
            return self
        last = self.steps[count - 1]
        wall_ns = last.end_ns + self.wall_ns - self.steps[-1].end_ns
        return replace(self, steps=self.steps[:count], bursts=self.bursts[: last.last], wall_ns=wall_ns)


@dataclass(frozen=True)
class Job:
    """A job in its place. number: from 0, in the order of submission. first_node: number of its first node; the rest follow, without a gap.
    start_ns, submitted_ns: since the epoch. seed: of what `expand` still draws. scratch: where its user's files lie."""

    number: int
    job_id: str
    uid: int
    user: str
    first_node: int
    start_ns: int
    seed: np.random.SeedSequence
    model: Model
    scratch: str = "/scratch"
    submitted_ns: int = 0

    @property
    def end_ns(self) -> int:
        """When it ended, since the epoch."""
        return self.start_ns + self.model.wall_ns

    @property
    def folder(self) -> str:
        """Where its files lie."""
        return f"{self.scratch}/{self.user}/{self.job_id}"

    @property
    def node_names(self) -> list[str]:
        """Its nodes."""
        return [node_name(self.first_node + number) for number in range(self.model.nodes)]


def node_name(number: int) -> str:
    """Name of a node, numbers from 0."""
    return f"cn{number + 1:04d}"
