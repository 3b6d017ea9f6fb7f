"""What ran."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Job:
    """A job as the launches that were reported make it.

    key: unique, stands in addresses: the job id, or `job_id~uid` where another user had claimed the id before.
    job_id: as the records claim it; with `uid` (the owner of the reporting file, trusted) it selects a job's runs.
    state: "running", "completed" or "failed" (some launch ended with an exit code that is not 0).
    settled: every launch ended, and all that its processes did on its node had been stored by then.
    start_ns, end_ns: ns since the epoch; end_ns is None while a launch runs.
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
