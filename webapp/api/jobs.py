"""The list of jobs, and one job with its profile."""

import time

from flask import Blueprint, g, jsonify

from jobdb.job import Job
from jobdb.profile import LISTED
from jobdb.repository import LIMIT_MAX, SORTS, STATES, BadCursor
from pipeline.retention import DAY_NS

from . import params
from .context import agents, analyses, context, jobs
from .errors import bad_parameter
from .viewer import unnamed

blueprint = Blueprint("jobs", __name__)


def job_json(job: Job, now_ns: int) -> dict:
    """A job as the API shows it: its key stands as its id."""
    return {
        "job_id": job.key,
        "cluster": job.cluster,
        "user": job.user,
        "program": job.program,
        "command": job.command,
        "state": job.state,
        "settled": job.settled,
        "start_ns": job.start_ns,
        "end_ns": job.end_ns,
        "exit_code": job.exit_code,
        "runtime_s": job.runtime_s(now_ns),
        "node_names": job.node_names,
    }


@blueprint.get("/jobs")
def list_jobs():
    """A page of jobs with their headline figures."""
    params.only("search", "state", "sort", "limit", "cursor")
    sort, cursor = params.sort("-start", SORTS), params.text("cursor")
    try:
        page = jobs().jobs(
            search=params.text("search", params.SEARCH_LENGTH_MAX),
            state=params.choice("state", STATES),
            sort=sort,
            limit=params.integer("limit", 50, 1, LIMIT_MAX),
            cursor=cursor or None,
        )
    except BadCursor as error:
        raise bad_parameter("cursor", cursor, f"the next_cursor of an answer: this is {error}") from error
    now_ns = time.time_ns()
    figures = analyses().headlines(page.jobs)
    unknown = dict.fromkeys(LISTED)
    rows = [unknown | headline | job_json(job, now_ns) for (job, _), headline in zip(page.jobs, figures, strict=True)]
    return jsonify({"jobs": rows, "total": page.total, "next_cursor": page.next_cursor})


@blueprint.get("/jobs/<job_id>")
def one_job(job: Job):
    """A job, its profile, and what was lost on its nodes while it ran."""
    params.only()
    shown = job_json(job, time.time_ns())
    figures, seen = analyses().profile(job)
    profile = figures | {"job_id": job.key, "program": job.program, "runtime_s": shown["runtime_s"]}
    if profile["granularity"] == "node" and not g.viewer.is_admin:
        profile = unnamed(profile)
    # A job is launched from some nodes and runs on more.
    nodes = sorted({*job.node_names, *seen})
    losses = agents().losses(nodes, job.start_ns, job.end_ns)
    return jsonify({"job": shown, "profile": profile, "losses": losses, "records_dropped": _dropped(job), "groups_away": context().store.away()})


def _dropped(job: Job) -> bool:
    """Whether retention has dropped records of the job's time, perhaps its own. None goes on the day when it began."""
    now_ns = time.time_ns()
    if now_ns - job.start_ns < DAY_NS:
        return False
    end_ns = now_ns if job.end_ns is None else job.end_ns
    return any(part.data == "runs" and part.first_ns <= end_ns and part.last_ns >= job.start_ns for part in context().store.dropped())
