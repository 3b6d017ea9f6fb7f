"""Who asks, and what they may see."""

from dataclasses import dataclass

from jobdb.accounts import Account
from jobdb.job import Job, Owner
from jobdb.repository import JobDB

from .lists import NO_JOBS, Lists, Wanted


@dataclass(frozen=True)
class Viewer:
    """Somebody who may ask. via: "owner" (the server's own user, or root), "session" or "token". account: None for the owner alone.
    expires_ns: when the session ends."""

    name: str
    role: str
    via: str
    account: Account | None = None
    expires_ns: int | None = None

    @property
    def is_admin(self) -> bool:
        """Whether everything is theirs to see."""
        return self.role == "admin"

    @property
    def owner(self) -> Owner | None:
        """Whose jobs they see; None: nobody's."""
        return None if self.account is None or self.account.uid is None else Owner(self.account.uid, self.account.name)


class VisibleJobs:
    """The job database as one viewer may see it: a job of somebody else does not exist."""

    def __init__(self, jobdb: JobDB, viewer: Viewer) -> None:
        self._jobdb, self._viewer = jobdb, viewer

    def job(self, key: str) -> Job | None:
        """The job with this key, or None."""
        job, owner = self._jobdb.job(key), self._viewer.owner
        if job is None or self._viewer.is_admin:
            return job
        return job if owner is not None and owner.owns(job) else None

    def page(self, lists: Lists, wanted: Wanted) -> bytes:
        """As `Lists.answer`."""
        if self._viewer.is_admin:
            return lists.answer(wanted, None)
        return NO_JOBS if self._viewer.owner is None else lists.answer(wanted, self._viewer.owner)


def unnamed(profile: dict) -> dict:
    """A profile without the names of files: for who may know what whole nodes did while a job used them, but not what others did there."""

    def of(slowest: dict | None) -> dict | None:
        return slowest and slowest | {"file": None}

    latency = (
        {kind: figures | {"slowest": of(figures["slowest"])} for kind, figures in profile["latency"].items()} if profile["latency"] else profile["latency"]
    )
    return profile | {"slowest_op": of(profile["slowest_op"]), "latency": latency}
