"""Where and when a job did its I/O: maps that are worked out on the server, however large the job is."""

from flask import Blueprint, current_app, g

from jobdb.heat import BINS_MAX, BY, MEASURES, ROWS_MAX
from jobdb.job import Job
from jobdb.runs import LATEST_NS
from jobdb.timeline import BY as TIMELINE_BY
from jobdb.timeline import LANES_MAX

from . import params
from .as_json import encoded
from .context import context
from .deep_answers import HeatQuestion, OffsetsQuestion, TimelineQuestion
from .errors import bad_parameter
from .trace import LAYERS, OPS, ORDERS, Place, Wanted, page_json
from .trace import ROWS_MAX as TRACE_ROWS_MAX

blueprint = Blueprint("deep", __name__)

# Unless asked for otherwise: as the job's page shows it.
ROWS, BINS = 128, 300
LANES, LANE_MAX = 32, 10**9
PATH_LENGTH_MAX = 4096
TRACE_ROWS = 1000
RANK_MAX = 2**31 - 1


@blueprint.get("/jobs/<job_id>/heat")
def job_heat(job: Job):
    """Sums by node or rank and time."""
    params.only("from_ns", "to_ns", "by", "measure", "rows", "bins")
    by, measure = params.choice("by", BY) or BY[0], params.choice("measure", MEASURES) or MEASURES[0]
    question = HeatQuestion(*_span(), by, measure, params.integer("rows", ROWS, 1, ROWS_MAX), params.integer("bins", BINS, 1, BINS_MAX))
    return current_app.response_class(context().deep.heat(job, question), mimetype="application/json")


@blueprint.get("/jobs/<job_id>/timeline")
def job_timeline(job: Job):
    """Marks of runs, on a lane a rank or file."""
    params.only("from_ns", "to_ns", "by", "first", "lanes", "rank", "file")
    by, first, lanes = params.choice("by", TIMELINE_BY) or TIMELINE_BY[0], params.integer("first", 0, 0, LANE_MAX), params.integer("lanes", LANES, 1, LANES_MAX)
    question = TimelineQuestion(*_span(), by, first, lanes, params.text("rank"), params.text("file", PATH_LENGTH_MAX))
    # Which files others used on a node while a job used it is not its user's to know.
    answer = context().deep.timeline(job, question, names_files=g.viewer.is_admin)
    return current_app.response_class(answer, mimetype="application/json")


@blueprint.get("/jobs/<job_id>/offsets")
def job_offsets(job: Job):
    """Where in one file was read and written over time."""
    params.only("from_ns", "to_ns", "file")
    answer = context().deep.offsets(job, OffsetsQuestion(*_span(), params.text("file", PATH_LENGTH_MAX)), names_files=g.viewer.is_admin)
    return current_app.response_class(answer, mimetype="application/json")


@blueprint.get("/jobs/<job_id>/trace")
def job_trace(job: Job):
    """A page of the job's records."""
    params.only("from_ns", "to_ns", "node", "rank", "file", "op", "layer", "order", "limit", "cursor")
    from_ns, to_ns = _span()
    from_ns, to_ns = from_ns or 0, LATEST_NS + 1 if to_ns is None else to_ns
    if to_ns <= from_ns:
        raise bad_parameter("to_ns", str(to_ns), f"an instant after from_ns ({from_ns})")
    wanted = Wanted(
        from_ns, to_ns, params.text("node"), params.integer("rank", None, -RANK_MAX - 1, RANK_MAX), params.text("file"), params.choice("op", OPS) or "", params.choice("layer", LAYERS) or "",
    )  # fmt: skip
    order, limit = params.choice("order", ORDERS) or ORDERS[0], params.integer("limit", TRACE_ROWS, 1, TRACE_ROWS_MAX)
    page = context().traces.page(job, wanted, order, limit, _place(), names_files=g.viewer.is_admin)
    return current_app.response_class(encoded(page_json(page)), mimetype="application/json")


def _place() -> Place:
    given = params.text("cursor")
    try:
        return Place.of(given) if given else Place()
    except ValueError as error:
        raise bad_parameter("cursor", given, "the next_cursor of an answer") from error


def _span() -> tuple[int | None, int | None]:
    return params.integer("from_ns", None, 0, LATEST_NS), params.integer("to_ns", None, 0, LATEST_NS)
