"""The list of jobs, and one job with its profile."""

import time

from flask import Blueprint, current_app, g, jsonify

from jobdb.job import Job
from jobdb.listing import LIMIT_MAX, SORTS, STATES, BadCursor

from . import params
from .context import agents, analyses, context, jobs
from .errors import bad_parameter
from .lists import Wanted, job_json
from .viewer import unnamed

blueprint = Blueprint("jobs", __name__)


@blueprint.get("/jobs")
def list_jobs():
    """A page of jobs with their headline figures."""
    params.only("search", "state", "sort", "limit", "cursor")
    sort, cursor = params.sort("-start", SORTS), params.text("cursor")
    search, state, limit = params.text("search", params.SEARCH_LENGTH_MAX), params.choice("state", STATES), params.integer("limit", 50, 1, LIMIT_MAX)
    try:
        answer = jobs().page(context().lists, Wanted(search, state, sort, limit, cursor or None))
    except BadCursor as error:
        raise bad_parameter("cursor", cursor, f"the next_cursor of an answer: this is {error}") from error
    return current_app.response_class(answer, mimetype="application/json")


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
    return jsonify({"job": shown, "profile": profile, "losses": losses, "records_dropped": analyses().lacks_records(job), "groups_away": context().store.away()})
