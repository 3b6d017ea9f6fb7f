"""What ran."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Queued:
    """What the batch system tells of a job beside its times and state; see `jobdb.queue.QueueJob`. job_id: as the queue shows it."""

    job_id: str
    submit_ns: int
    project: str
    name: str
    queue: str
    array: str
    het: str
    cores: int | None
    tasks: int | None
    suspended_s: float
    restarts: int


@dataclass(frozen=True)
class JobStep:
    """A step of a job as the batch system told it, see `jobdb.queue.Step`. nodes: in its order and Slurm's short form."""

    id: str
    name: str
    start_ns: int | None
    end_ns: int | None
    nodes: str
    tasks: int | None


@dataclass(frozen=True)
class Job:
    """A job as the launches that were reported make it, and the batch system where that tells of it.

    key: unique, stands in addresses: the job id, or with something behind it where another job had that id before.
    job_id: as the records claim it; with `uid` (trusted: the owner of the reporting file, or the batch system's word) it selects a job's runs.
    state: "running", "completed", "failed" (some launch ended with an exit code that is not 0, or with its launcher) or "unknown" (an epilog ended it that knows no code); where the batch system tells of
    it, its word: one of `jobdb.queue.STATES`.
    settled: it ended, and all that its processes did had been stored by then, or was waited for long enough. unheard: of how many nodes it was not.
    start_ns, end_ns: ns since the epoch; end_ns is None while a launch runs.
    node_names: where it ran; queue_nodes: those of them that the batch system gave it. queued: None where launches alone tell of it.
    """

    key: str
    job_id: str
    uid: int
    cluster: str
    user: str
    program: str
    command: str
    state: str
    settled: bool
    start_ns: int
    end_ns: int | None
    exit_code: int | None
    node_names: list[str] = field(default_factory=list)
    unheard: int = 0
    queue_nodes: tuple[str, ...] = ()
    queued: Queued | None = None

    def runtime_s(self, now_ns: int) -> float:
        """Seconds from start to end, or to `now_ns` while the job runs; never negative."""
        return max((self.end_ns if self.end_ns is not None else now_ns) - self.start_ns, 0) / 1e9


@dataclass(frozen=True)
class Owner:
    """A user of the cluster. Both must be a job's: the uid is the system's word, but may be given to another person one day; the name may be no more
    than a claim, where this machine does not know the uid."""

    uid: int
    name: str

    def owns(self, job: Job) -> bool:
        """Whether it is this user's job."""
        return (job.uid, job.user) == (self.uid, self.name)
