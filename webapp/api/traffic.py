"""A job over time, and by file, process and node."""

import time

from flask import Blueprint, current_app, g, jsonify

from jobdb.job import Job
from jobdb.runs import LATEST_NS
from jobdb.series import MAX_POINTS
from jobdb.tables import FILE_SORTS, NODE_SORTS, PROCESS_SORTS

from . import params
from .charts import POINTS, Question, too_fine, within
from .context import analyses, context
from .errors import bad_parameter, no_node

blueprint = Blueprint("traffic", __name__)

ROWS_MAX = 1000
# Of a node's series, unless asked for otherwise.
NODE_SPAN_NS = 3600 * 10**9
NODE_LENGTH_MAX = 255


@blueprint.get("/jobs/<job_id>/series")
def job_series(job: Job):
    """Rates over time."""
    params.only("from_ns", "to_ns", "points", "node", "process")
    points = params.integer("points", POINTS, 1, MAX_POINTS)
    given = [params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns")]
    node, process = params.text("node"), params.text("process")
    if node and process:
        raise bad_parameter("process", process, "either a node or a process")
    question = Question(*given, points, node, process)
    return current_app.response_class(context().charts.answer(job, question), mimetype="application/json")


@blueprint.get("/nodes/<node>/series")
def node_series(node: str):
    """Rates of a node over time, all jobs' together."""
    params.only("from_ns", "to_ns", "points")
    points = params.integer("points", POINTS, 1, MAX_POINTS)
    now_ns = time.time_ns()
    from_ns, to_ns = within((now_ns - NODE_SPAN_NS, now_ns), *(params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns")))
    if len(node) > NODE_LENGTH_MAX:
        raise no_node(node)
    with too_fine():
        answer = context().node_charts.answer(node, from_ns, to_ns, points)
    if answer is None:
        raise no_node(node)
    return current_app.response_class(answer, mimetype="application/json")


@blueprint.get("/jobs/<job_id>/files")
def job_files(job: Job):
    """Files by traffic."""
    params.only("sort", "limit", "cursor", "search")
    return _page(job, "files", "-bytes", FILE_SORTS, params.text("search", params.SEARCH_LENGTH_MAX))


@blueprint.get("/jobs/<job_id>/processes")
def job_processes(job: Job):
    """Processes by traffic."""
    params.only("sort", "limit", "cursor")
    return _page(job, "processes", "-bytes", PROCESS_SORTS)


@blueprint.get("/jobs/<job_id>/nodes")
def job_nodes(job: Job):
    """Nodes by traffic."""
    params.only("sort", "limit", "cursor")
    return _page(job, "nodes", "-bytes", NODE_SORTS)


def _page(job: Job, name: str, default_sort: str, sorts: tuple[str, ...], search: str = ""):
    sort, limit, start = params.sort(default_sort, sorts), params.integer("limit", 100, 1, ROWS_MAX), params.offset()
    analysis = analyses().get(job)
    # What whole nodes did while a job used them is its user's to know; which files others used there is not.
    is_unnamed = name == "files" and analysis.runs.granularity == "node" and not g.viewer.is_admin
    table = analysis.table("unnamed_files" if is_unnamed else name)
    order = table.order(sort, search)
    return jsonify(
        {
            name: table.rows(order[start : start + limit]),
            "total": len(order),
            "next_cursor": params.offset_cursor(start + limit) if start + limit < len(order) else None,
        }
    )
