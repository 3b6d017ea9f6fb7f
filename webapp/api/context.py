"""What the routes work with; `create_app` puts it into the app."""

from dataclasses import dataclass

from flask import current_app

from jobdb.job import Job
from jobdb.repository import JobDB

from .agents import Agents
from .analysis import Analyses
from .errors import no_job
from .kept import Kept
from .told import Told


@dataclass(frozen=True)
class Context:
    """The parts of one app."""

    jobdb: JobDB
    analyses: Analyses
    agents: Agents
    told: Told
    audits: Kept
    store: object
    status: object


def context() -> Context:
    """The parts of the app that answers."""
    return current_app.extensions["bellrock"]


def jobdb() -> JobDB:
    """The job database."""
    return context().jobdb


def analyses() -> Analyses:
    """Profiles and tables."""
    return context().analyses


def agents() -> Agents:
    """What the agents say of themselves."""
    return context().agents


def find_job(key: str) -> Job:
    """The job with this key. Raises the 404."""
    job = jobdb().job(key) if len(key) <= 500 else None
    if job is None:
        raise no_job(key)
    return job
