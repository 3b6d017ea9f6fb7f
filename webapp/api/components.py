"""Components that agents watch (disks, servers of file systems, nodes themselves): which there are, and one over time."""

import time
from collections import Counter
from collections.abc import Callable

from flask import Blueprint, current_app, jsonify

from jobdb.layers.load import load
from jobdb.runs import LATEST_NS
from jobdb.series import MAX_POINTS, SECOND_NS, step_for
from pipeline.schema.components import CROWDED
from pipeline.store import Heard, TooManyComponents, TooManySamples

from . import params
from .charts import POINTS, too_fine, within
from .component_charts import Question
from .context import context
from .errors import ApiError, bad_parameter, no_node

blueprint = Blueprint("components", __name__)

ROWS_MAX = 1000
NAMES_MAX = 100
# Unless asked for otherwise: which components were heard of, and of how long a chart is.
HEARD_SPAN_NS = 24 * 3600 * SECOND_NS
SPAN_NS = 3600 * SECOND_NS
STEP_S_MAX = 366 * 24 * 3600
INSTANCE_LENGTH_MAX = 4096
# Sort → the field of `Heard`. Those that are alike follow by node, component and instance.
SORTS = {"node": "node", "component": "component", "instance": "instance", "first_ns": "first_ns", "last_ns": "last_ns"}


@blueprint.get("/components")
def list_components():
    """Components, with when they were heard of in a time."""
    params.only("node", "component", "search", "from_ns", "to_ns", "sort", "limit", "cursor")
    node, component, search = params.text("node"), params.text("component"), params.text("search", params.SEARCH_LENGTH_MAX).casefold()
    sort, limit, start = params.sort("node", tuple(SORTS)), params.integer("limit", 100, 1, ROWS_MAX), params.offset()
    span = span_of(HEARD_SPAN_NS)
    # Of the last day, by default, an answer is given out again for a while; what is asked for otherwise is a question of its own.
    is_crowded = component in CROWDED
    question = ("components", node, component if is_crowded else "", *(params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns")))
    which = ([component], ()) if is_crowded else (None, CROWDED)
    heard = context().audits.get(question, lambda: context().store.components(*span, node or None, *which))
    found = [one for one in heard if component in ("", one.component) and (not search or _fits(one, search))]
    if sort != "node":
        found.sort(key=_key(sort), reverse=sort.startswith("-"))
    page = found[start : start + limit]
    nodes = Counter(one.node for one in found)
    return jsonify(
        {
            "components": [vars(one) for one in page],
            "total": len(found),
            "nodes": len(nodes),
            "of_node": {one.node: nodes[one.node] for one in page},
            "kinds": dict(sorted(Counter(one.component for one in found).items())),
            "next_cursor": params.offset_cursor(start + limit) if start + limit < len(found) else None,
        }
    )


@blueprint.get("/components/series")
def component_series():
    """The values of one component over time."""
    params.only("node", "component", "instance", "from_ns", "to_ns", "points", "step_s", "names")
    node, component, instance = params.text("node"), params.text("component"), params.text("instance", INSTANCE_LENGTH_MAX)
    if not node:
        raise bad_parameter("node", node, "a node's name")
    from_ns, to_ns = span_of(SPAN_NS)
    points, step_s = params.integer("points", POINTS, 1, MAX_POINTS), params.integer("step_s", None, 1, STEP_S_MAX)
    names = tuple(sorted({name for name in params.text("names").split(",") if name}))
    if len(names) > NAMES_MAX:
        raise bad_parameter("names", ",".join(names), f"{NAMES_MAX} names at most, with commas between them")
    with too_fine():
        step_ns = step_for(from_ns, to_ns, points) if step_s is None else step_s * SECOND_NS
        answer = context().component_charts.answer(Question(node, component, instance, from_ns, to_ns, step_ns, names))
    if answer is None:
        raise no_node(node)
    return current_app.response_class(answer, mimetype="application/json")


@blueprint.get("/components/load")
def component_load():
    """Who put load on one component."""
    params.only("node", "component", "instance", "from_ns", "to_ns")
    of = (params.text("node"), params.text("component"), params.text("instance", INSTANCE_LENGTH_MAX))
    given = tuple(params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns"))
    span = span_of(SPAN_NS)
    try:
        return jsonify(context().audits.get(("load", *of, *given), lambda: load(context().store, context().jobdb, of, *span)))
    except (TooManySamples, TooManyComponents) as error:
        raise ApiError(422, "too_many_samples", str(error), "ask for a shorter span") from error


def span_of(length_ns: int) -> tuple[int, int]:
    """The time that is asked for; by default the last `length_ns`."""
    now_ns = time.time_ns()
    return within((now_ns - length_ns, now_ns), *(params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns")))


def _fits(one: Heard, search: str) -> bool:
    return any(search in text.casefold() for text in (one.node, one.component, one.instance))


def _key(sort: str) -> Callable[[Heard], object]:
    field = SORTS[sort.removeprefix("-")]
    return lambda one: getattr(one, field)
