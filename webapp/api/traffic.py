"""A job over time, and by file, process and node."""

import time
from contextlib import contextmanager

import numpy as np
from flask import Blueprint, g, jsonify

from jobdb.job import Job
from jobdb.runs import LATEST_NS
from jobdb.series import MAX_POINTS, SECOND_NS, Series, choose_step_ns, series, series_of_seconds, step_for
from jobdb.tables import FILE_SORTS, NODE_SORTS, PROCESS_SORTS
from pipeline.store import SECONDS_STEPS_MAX

from . import params
from .analysis import Analysis
from .context import analyses, context
from .errors import ApiError, bad_parameter, no_node

blueprint = Blueprint("traffic", __name__)

ROWS_MAX = 1000
# Operations seen so long before a job's start or after its end still widen the span that is shown.
MARGIN_NS = 3600 * 10**9
# Of a node's series, unless asked for otherwise.
NODE_SPAN_NS = 3600 * 10**9
NODE_LENGTH_MAX = 255


@blueprint.get("/jobs/<job_id>/series")
def job_series(job: Job):
    """Rates over time."""
    params.only("from_ns", "to_ns", "points", "node", "process")
    points = params.integer("points", 600, 1, MAX_POINTS)
    given_from_ns, given_to_ns = (params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns"))
    node, process = params.text("node"), params.text("process")
    if node and process:
        raise bad_parameter("process", process, "either a node or a process")
    found = is_seen = None
    now_ns = time.time_ns()
    if not process:
        found = _of_seconds(job, node, given_from_ns, given_to_ns, points, now_ns)
        is_seen = True
    if found is None:
        analysis = analyses().get(job)
        try:
            chosen = analysis.chosen(node, process)
        except KeyError as error:
            raise bad_parameter("process" if process else "node", process or node, "one of the job's; see its processes and nodes") from error
        from_ns, to_ns = _within(_span(analysis, now_ns), given_from_ns, given_to_ns)
        is_seen = analysis.profile["read_ops"] is not None
        with _too_fine():
            found = series(analysis.runs, from_ns, to_ns, points, chosen)
    return jsonify(_series_json(found, job, now_ns, is_seen=is_seen))


def _of_seconds(job: Job, node: str, given_from_ns: int | None, given_to_ns: int | None, points: int, now_ns: int) -> Series | None:
    """The series out of sums by second, or, where its bins are finer, out of the runs of the span that is asked for. None where the job's processes did
    nothing that is known, and where all of a short job is asked for: then its runs are what to look at."""
    from_ns, to_ns = _life(job, now_ns)
    is_whole = given_from_ns is None or given_to_ns is None
    asked_from_ns, asked_to_ns = (max(from_ns - MARGIN_NS, 0), to_ns + MARGIN_NS) if is_whole else (given_from_ns, given_to_ns)
    with _too_fine():
        step_ns = choose_step_ns(*_within((from_ns, to_ns), given_from_ns, given_to_ns), points)
        if step_ns < SECOND_NS:
            return None if is_whole else _of_span(job, node, given_from_ns, given_to_ns, points)
        step_s = step_ns // SECOND_NS
        if asked_to_ns - asked_from_ns > SECONDS_STEPS_MAX * step_ns // 2:
            return None
        sums = analyses().seconds(job, node, asked_from_ns, asked_to_ns, step_s)
        if not sums.num_rows:
            return None
        if is_whole:
            first_ns = int(sums["second"][0].as_py()) * SECOND_NS
            last_ns = max(second + seconds for second, seconds in zip(sums["second"].to_pylist(), sums["seconds"].to_pylist(), strict=True)) * SECOND_NS
            # A step's row says no more than that something was done in it.
            outside_from = max(first_ns, asked_from_ns) if first_ns + step_ns <= from_ns else from_ns
            outside_to = min(last_ns, asked_to_ns) if last_ns - step_ns >= to_ns else to_ns
            from_ns, to_ns = _within((outside_from, outside_to), given_from_ns, given_to_ns)
            wider_ns = choose_step_ns(from_ns, to_ns, points)
            if wider_ns != step_ns:
                step_ns = wider_ns
                sums = analyses().seconds(job, node, from_ns, to_ns, step_ns // SECOND_NS)
        else:
            from_ns, to_ns = _within((from_ns, to_ns), given_from_ns, given_to_ns)
        return series_of_seconds(sums, from_ns, to_ns, step_ns)


def _of_span(job: Job, node: str, from_ns: int, to_ns: int, points: int) -> Series | None:
    """The series of a short span, out of the runs that touch it (and those next to it, which tell until when they are drawn)."""
    runs = analyses().runs_of_span(job, max(from_ns - 2 * SECOND_NS, 0), to_ns + 2 * SECOND_NS)
    if runs.granularity == "node" or not len(runs) or (node and node not in runs.nodes):
        return None
    chosen = np.array([key[0] == node for key in runs.process_keys])[runs.process] if node else None
    return series(runs, from_ns, to_ns, points, chosen)


@contextmanager
def _too_fine():
    try:
        yield
    except ValueError as error:
        raise ApiError(400, "bad_parameter", f"parameters from_ns, to_ns and points: {error}", "ask for a shorter span or more points") from error


def _within(span: tuple[int, int], given_from_ns: int | None, given_to_ns: int | None) -> tuple[int, int]:
    """The span that is asked for, where the rest of it is `span`."""
    from_ns = span[0] if given_from_ns is None else given_from_ns
    to_ns = span[1] if given_to_ns is None else given_to_ns
    if to_ns > from_ns:
        return from_ns, to_ns
    if given_from_ns is not None and given_to_ns is not None:
        raise bad_parameter("to_ns", str(to_ns), f"an instant after from_ns ({from_ns})")
    return (from_ns, from_ns + 10**9) if given_to_ns is None else (max(to_ns - 10**9, 0), max(to_ns, 1))


@blueprint.get("/nodes/<node>/series")
def node_series(node: str):
    """Rates of a node over time, all jobs' together."""
    params.only("from_ns", "to_ns", "points")
    points = params.integer("points", 600, 1, MAX_POINTS)
    now_ns = time.time_ns()
    from_ns, to_ns = _within((now_ns - NODE_SPAN_NS, now_ns), *(params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns")))
    if len(node) > NODE_LENGTH_MAX:
        raise no_node(node)
    store = context().store
    with _too_fine():
        step_ns = step_for(from_ns, to_ns, points)
        asked = (None, None, [node], from_ns // SECOND_NS, -(-to_ns // SECOND_NS), step_ns // SECOND_NS)
        # What a file system's client tells of a node is what its processes did, seen once more: it stands in where no process is watched.
        sums = store.seconds(*asked)
        granularity = "process"
        if not sums.num_rows:
            sums = store.seconds(*asked, of_nodes=True)
            granularity = "node" if sums.num_rows else None
        found = series_of_seconds(sums, from_ns, to_ns, step_ns)
    if granularity is None and not store.boot_count(node):
        raise no_node(node)
    rates = {name: getattr(found, name).tolist() for name in Series.RATES}
    return jsonify(
        {"from_ns": found.from_ns, "to_ns": found.to_ns, "step_s": found.step_ns / 1e9, "t_ns": found.t_ns.tolist(), **rates, "granularity": granularity}
    )


def _life(job: Job, now_ns: int) -> tuple[int, int]:
    from_ns = min(max(job.start_ns, 0), LATEST_NS - 10**9)
    to_ns = job.end_ns if job.end_ns is not None else max(now_ns, job.start_ns)
    return from_ns, min(max(to_ns, from_ns + 1), LATEST_NS)


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
        name: [None if is_outside else value for value, is_outside in zip(values.tolist(), outside.tolist(), strict=True)] for name, values in rates.items()
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
