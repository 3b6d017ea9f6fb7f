"""The audit: what is missing, what was refused, and who is silent."""

import threading
import time

from flask import Blueprint, jsonify

from jobdb.runs import LATEST_NS
from pipeline.store import Proof

from . import params
from .context import context
from .errors import ApiError, Busy
from .flaws import SILENT_S, report

blueprint = Blueprint("audit", __name__)

BOOTS_LISTED_MAX = 10_000
# Counting all rows takes the store's two threads for long: one at a time.
_proving = threading.Lock()


@blueprint.get("/audit")
def audit():
    """Gaps, dead letters, losses, silent agents."""
    params.only("node", "since_ns", "silent_s", "limit", "raw", "fresh", "deep")
    node = params.text("node") or None
    since_ns = params.integer("since_ns", 0, 0, LATEST_NS)
    silent_s = params.integer("silent_s", SILENT_S, 1, 10**9)
    limit = params.integer("limit", 200, 1, BOOTS_LISTED_MAX)
    raw = params.choice("raw", ("0", "1")) == "1"
    if params.choice("deep", ("0", "1")) == "1":
        return jsonify(_report(node, since_ns, silent_s, limit, raw, _proof(node, since_ns)))
    question = (node, since_ns, silent_s, limit, raw)
    fresh = params.choice("fresh", ("0", "1")) == "1"
    return jsonify(context().audits.get(question, lambda: _report(*question), fresh=fresh))


def _report(node: str | None, since_ns: int, silent_s: int, limit: int, raw: bool, proof: Proof | None = None) -> dict:
    """Raises the 404 for a node that is not known."""
    store = context().store
    marks = store.boots(node, since_ns)
    letters = store.letters(node, since_ns, raw)
    if node is not None and not marks and not letters:
        raise ApiError(404, "no_node", f"no record of a node {node[:100]!r} has come", "`bellrock audit` lists all nodes")
    return report(
        marks,
        letters,
        context().told.since(since_ns),
        proof,
        now_ns=time.time_ns(),
        since_ns=since_ns,
        silent_s=silent_s,
        limit=limit,
        boots_total=store.boot_count(node, since_ns),
        server_certificate=(context().status().get("ingest") or {}).get("certificate"),
    )


def _proof(node: str | None, since_ns: int):
    if not _proving.acquire(blocking=False):
        raise Busy("the server is counting all rows for another audit")
    try:
        return context().store.proof(node, since_ns)
    finally:
        _proving.release()
