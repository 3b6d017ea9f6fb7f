"""What is older than it is to be kept: what would go, and to let it go."""

import dataclasses
import time

from flask import Blueprint, jsonify

from pipeline.retention import Keeper, limits
from pipeline.store.parts import Part

from . import params
from .context import context
from .errors import ApiError

blueprint = Blueprint("retention", __name__)


@blueprint.get("/retention")
def plan():
    """What would go now, and what went before."""
    params.only()
    keeper = _keeper()
    shards = getattr(context().store, "shards", None)
    told = {"shards": None if shards is None else dataclasses.asdict(shards())}
    told |= {"days": keeper.days, "before_ns": limits(keeper.days, time.time_ns()), "runs": keeper.status()["runs"]}
    return jsonify(told | {"expired": _shown(keeper.plan()), "dropped": _shown(keeper.dropped())})


@blueprint.post("/retention")
def apply():
    """Drops it. Takes as long as it takes."""
    params.only()
    went, left = _keeper().apply()
    return jsonify({"dropped": _shown(went), "left": _shown(left)})


def _keeper() -> Keeper:
    keeper = context().keeper
    if keeper is None:
        raise ApiError(404, "no_retention", "this server keeps no retention", "set days in [retention] of server.toml, then start it again")
    return keeper


def _shown(parts: list[Part]) -> list[dict]:
    return [part.json() for part in parts]
