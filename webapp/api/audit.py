"""The audit: what is missing, what was refused, and who is silent."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import orjson
from flask import Blueprint, Response, jsonify

from jobdb.runs import LATEST_NS
from pipeline.store import Progress, Proof, StoreError

from . import params
from .context import Context, context
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
    question = (node, since_ns, silent_s, limit, raw)
    if params.choice("deep", ("0", "1")) == "1":
        return _streamed(_deep(context(), question))
    fresh = params.choice("fresh", ("0", "1")) == "1"
    return jsonify(context().audits.get(question, lambda: _report(context(), *question), fresh=fresh))


def _report(parts: Context, node: str | None, since_ns: int, silent_s: int, limit: int, raw: bool, proof: Proof | None = None) -> dict:
    """Raises the 404 for a node that is not known."""
    _check_known(parts, node, since_ns)
    # Before the boots: of one that comes between the two it must not be said that it was not looked at.
    boots_total = parts.store.boot_count(node, since_ns)
    return report(
        parts.store.boots(node, since_ns),
        parts.store.letters(node, since_ns, raw),
        parts.told.since(since_ns),
        proof,
        now_ns=time.time_ns(),
        since_ns=since_ns,
        silent_s=silent_s,
        limit=limit,
        boots_total=boots_total,
        server_certificate=(parts.status().get("ingest") or {}).get("certificate"),
        dropped=parts.store.dropped(),
        dropped_letters=parts.store.dropped_letters(),
    )


def _check_known(parts: Context, node: str | None, since_ns: int) -> None:
    if node is not None and not parts.store.boot_count(node, since_ns) and not parts.store.letters(node, since_ns):
        raise ApiError(404, "no_node", f"no record of a node {node[:100]!r} has come", "`bellrock audit` lists all nodes")


def _deep(parts: Context, question: tuple) -> Iterator[dict]:
    """What the lines of a deep audit say: how far it is, and at last the report. Closing it ends the counting."""
    _check_known(parts, *question[:2])
    if not _proving.acquire(blocking=False):
        raise Busy("the server is counting all rows for another audit")
    try:
        with parts.audits.thread(), closing(parts.store.proof(*question[:2])) as steps:
            for step in steps:
                if isinstance(step, Progress):
                    yield {"progress": {"rows": step.read, "of": step.of}}
                else:
                    yield {"report": _report(parts, *question, step)}
    finally:
        _proving.release()


def _streamed(lines: Iterator[dict]) -> Response:
    """A line of JSON each. A client that goes away is noticed when the next one is sent, and `lines` is closed. The first one is waited for:
    errors until then are answers like any other; later ones are a line with the same text."""
    first = next(lines)

    def encoded() -> Iterator[bytes]:
        yield orjson.dumps(first) + b"\n"
        try:
            for line in lines:
                yield orjson.dumps(line) + b"\n"
        except (StoreError, ApiError) as error:
            yield orjson.dumps({"error": {"code": "audit_failed", "message": str(error), "hint": "look at the server's log, then ask again"}}) + b"\n"

    response = Response(encoded(), mimetype="application/x-ndjson")
    response.call_on_close(lines.close)
    return response
