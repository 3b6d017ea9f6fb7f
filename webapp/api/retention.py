"""What is older than it is to be kept: what would go, and to let it go."""

from flask import Blueprint, jsonify

from pipeline.retention import Keeper, NotHere

from . import params
from .context import context
from .errors import ApiError

blueprint = Blueprint("retention", __name__)


@blueprint.get("/retention")
def plan():
    """What would go now, and what went before."""
    params.only()
    return jsonify(_keeper().report())


@blueprint.post("/retention")
def apply():
    """Drops it. Takes as long as it takes."""
    params.only()
    try:
        return jsonify(_keeper().apply_and_report())
    except NotHere as error:
        raise ApiError(409, "not_here", str(error), error.hint) from error


def _keeper() -> Keeper:
    keeper = context().keeper
    if keeper is None:
        raise ApiError(404, "no_retention", "this server keeps no retention", "set days in [retention] of server.toml, then start it again")
    return keeper
