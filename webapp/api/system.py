"""The server itself: status, health, and the description of the API."""

import time
from functools import cache
from pathlib import Path

import yaml
from flask import Blueprint, jsonify

from pipeline.schema import KINDS

from . import params
from .agents import is_loss
from .context import agents, context
from .groups import with_troubles

blueprint = Blueprint("system", __name__)

# How long status tells of a loss: a warning that never ends is read by nobody.
LOSSES_SHOWN_NS = 24 * 3600 * 10**9


@cache
def description() -> dict:
    """The OpenAPI description, from openapi.yaml beside this file."""
    return yaml.safe_load(Path(__file__).with_name("openapi.yaml").read_text())


@blueprint.get("/api/v1/openapi.json")
def openapi():
    """The OpenAPI description."""
    params.only()
    return jsonify(description())


@blueprint.get("/healthz")
def health():
    """Whether the server answers."""
    return jsonify({"status": "ok"})


@blueprint.get("/api/v1/status")
def status():
    """The server, its records and its agents."""
    params.only()
    stored, own = context().store.status(), context().status()
    losses_since_ns = time.time_ns() - LOSSES_SHOWN_NS
    records, totals = stored.get("records", {}), agents().totals(stored.get("high_water", []))
    return jsonify(
        {
            **own,
            "records": {kind: records.get(kind, 0) for kind in KINDS},
            "records_dropped": stored.get("records_dropped", {}),
            "dead_letters": stored.get("dead_letters", 0),
            "dead_letters_dropped": stored.get("dead_letters_dropped", 0),
            "duplicates": stored.get("duplicates", 0),
            "missing": stored.get("missing", 0),
            "last_append_ns": stored.get("last_append_ns"),
            "store_error": stored.get("error"),
            "groups": with_troubles(stored.get("groups", []), time.time_ns()),
            "retention": None if context().keeper is None else context().keeper.status(),
            "detection": context().detection.status(),
            "archive": None if context().second_pass is None else context().second_pass.status(),
            "cache": context().cache.status(),
            "agents": totals,
            "losses": [entry for entry in agents().losses(agents().ever_lost(totals), losses_since_ns, None) if is_loss(entry)],
        }
    )
