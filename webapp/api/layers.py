"""A job's layers: what served it, and what that did meanwhile."""

from flask import Blueprint, current_app, g

from jobdb.job import Job
from jobdb.layers import LAYERS
from jobdb.runs import LATEST_NS
from jobdb.series import MAX_POINTS

from . import params
from .charts import POINTS
from .context import context
from .errors import bad_parameter
from .layer_answers import Question

blueprint = Blueprint("layers", __name__)

INSTANCE_LENGTH_MAX = 4096


@blueprint.get("/jobs/<job_id>/layers")
def job_layers(job: Job):
    """Volumes, latencies, queues and amplification of each layer."""
    params.only()
    return current_app.response_class(context().layers.of(job, names_jobs=g.viewer.is_admin), mimetype="application/json")


@blueprint.get("/jobs/<job_id>/layers/series")
def layer_series(job: Job):
    """A layer, or one of its components, over the job's time."""
    params.only("file_system", "layer", "node", "component", "instance", "from_ns", "to_ns", "points")
    layer = params.choice("layer", LAYERS[1:])
    if layer is None:
        raise bad_parameter("layer", "", f"one of {', '.join(LAYERS[1:])}")
    which = [params.text(name) for name in ("node", "component")] + [params.text("instance", INSTANCE_LENGTH_MAX)]
    given = [params.integer(name, None, 0, LATEST_NS) for name in ("from_ns", "to_ns")]
    question = Question(params.text("file_system"), layer, *which, *given, params.integer("points", POINTS, 1, MAX_POINTS))
    return current_app.response_class(context().layers.series(job, question), mimetype="application/json")
