"""Where and when a job's records are sought."""

from dataclasses import dataclass

# Clocks differ: what claims a job counts where it begins no further from the job's time than this.
CLAIMED_NS = 24 * 3600 * 10**9


@dataclass(frozen=True)
class Given:
    """What a batch system says of a job's nodes. A record's claim of the job counts only on `nodes`, of the job's user and within its time. On `own`, nodes that
    this job alone of its user had then, all that the user did counts, but for what claims one of `others`: jobs of the user that ran there meanwhile.

    What does not claim the job counts for that one in whose time it began, ns since the epoch: at `begin_ns` or later, and on `followed`, nodes that the user's next job
    had from this one's end on, before `end_ns`. Sums by second know no begin: they are of what was done in the time."""

    nodes: tuple[str, ...]
    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    begin_ns: int = 0
    end_ns: int = 2**63 - 1
    followed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Window:
    """A job's nodes for a time: where runs that no process did, and so no job claims, are sought. Without `given`, to `nodes` are added those from which a
    record of user `uid` claims the job, and claims count in `claims` alone. Both instants ns since the epoch, both belong to it."""

    nodes: tuple[str, ...]
    uid: int
    from_ns: int
    to_ns: int
    given: Given | None = None

    @property
    def claims(self) -> tuple[int, int]:
        """When a record may begin whose claim counts, where no batch system tells whose records are the job's. Both instants belong to it."""
        return max(self.from_ns - CLAIMED_NS, 0), min(self.to_ns + CLAIMED_NS, (1 << 63) - 1)
