"""A job over time, and by file, process and node."""

import time

import numpy as np
from flask import Blueprint, g, jsonify

from jobdb.job import Job
from jobdb.runs import LATEST_NS
from jobdb.series import MAX_POINTS, Series, series
from jobdb.tables import FILE_SORTS, NODE_SORTS, PROCESS_SORTS

from . import params
from .analysis import Analysis
from .context import analyses
from .errors import ApiError, bad_parameter

blueprint = Blueprint("traffic", __name__)

ROWS_MAX = 1000
# Operations seen so long before a job's start or after its end still widen the span that is shown.
MARGIN_NS = 3600 * 10**9


@blueprint.get("/jobs/<job_id>/series")
def job_series(job: Job):
    """Rates over time."""
    params.only("from_ns", "to_ns", "points", "node", "process")
    points = params.integer("points", 600, 1, MAX_POINTS)
    given_from_ns, given_to_ns = (params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns"))
    node, process = params.text("node"), params.text("process")
    if node and process:
        raise bad_parameter("process", process, "either a node or a process")
    analysis = analyses().get(job)
    try:
        chosen = analysis.chosen(node, process)
    except KeyError as error:
        raise bad_parameter("process" if process else "node", process or node, "one of the job's; see its processes and nodes") from error
    now_ns = time.time_ns()
    from_ns, to_ns = _span(analysis, now_ns)
    from_ns = from_ns if given_from_ns is None else given_from_ns
    to_ns = to_ns if given_to_ns is None else given_to_ns
    if to_ns <= from_ns:
        if given_from_ns is not None and given_to_ns is not None:
            raise bad_parameter("to_ns", str(to_ns), f"an instant after from_ns ({from_ns})")
        from_ns, to_ns = (from_ns, from_ns + 10**9) if given_to_ns is None else (max(to_ns - 10**9, 0), max(to_ns, 1))
    try:
        found = series(analysis.runs, from_ns, to_ns, points, chosen)
        return jsonify(_series_json(found, job, now_ns, is_seen=analysis.profile["read_ops"] is not None))
    except ValueError as error:
        raise ApiError(400, "bad_parameter", f"parameters from_ns, to_ns and points: {error}", "ask for a shorter span or more points") from error


def _span(analysis: Analysis, now_ns: int) -> tuple[int, int]:
    job, runs = analysis.job, analysis.runs
    from_ns, to_ns = job.start_ns, job.end_ns if job.end_ns is not None else max(now_ns, job.start_ns)
    near = (runs.end_ns >= from_ns - MARGIN_NS) & (runs.start_ns <= to_ns + MARGIN_NS)
    if near.any():
        from_ns = max(min(from_ns, int(runs.start_ns[near].min())), from_ns - MARGIN_NS)
        to_ns = min(max(to_ns, int(runs.end_ns[near].max())), to_ns + MARGIN_NS)
    from_ns = min(max(from_ns, 0), LATEST_NS - 10**9)
    return from_ns, min(max(to_ns, from_ns + 1), LATEST_NS)


def _series_json(found: Series, job: Job, now_ns: int, is_seen: bool) -> dict:
    rates = {name: getattr(found, name) for name in Series.RATES}
    until_ns = job.end_ns if job.end_ns is not None else now_ns
    # Outside the job's life nothing is known to be 0, unless something was seen.
    outside = (found.t_ns + found.step_ns <= job.start_ns) | (found.t_ns > until_ns)
    outside &= np.sum(list(rates.values()), axis=0) == 0
    # Nor is anything known of a job that could not be watched.
    outside |= not is_seen
    shown = {
        name: [None if is_outside else value for value, is_outside in zip(values.tolist(), outside.tolist(), strict=True)]
        for name, values in rates.items()
    }
    return {"from_ns": found.from_ns, "to_ns": found.to_ns, "step_s": found.step_ns / 1e9, "t_ns": found.t_ns.tolist(), **shown}


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
