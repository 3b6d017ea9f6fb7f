"""/metrics, in Prometheus's text format: of this server, of the store and of the agents. An administrator's, or whoever shows the scrape token."""

import time
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Flask, Response, current_app, g, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest

from jobdb.engine import JobDBError
from pipeline.metrics import registry
from pipeline.store import StoreError

from .context import Context

blueprint = Blueprint("metrics", __name__)

# Seconds; an answer is to come within 0.1 s, and an audit may take minutes.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
# An agent that tells nothing for so long is counted as silent.
SILENT_NS = 300 * 10**9
NO_ROUTE = "none"
_REGISTRY = "bellrock.metrics"


def register(app: Flask, context: Context) -> None:
    """Count and time each request of `app`, by route and not by address: nobody can make labels."""
    made = app.extensions[_REGISTRY] = registry(str(context.status().get("version", "")), lambda: _ask(context))
    requests = Counter("bellrock_http_requests", "Requests answered.", ["route", "method", "status"], registry=made)
    seconds = Histogram("bellrock_http_request_seconds", "How long they took.", ["route"], buckets=BUCKETS, registry=made)

    @app.before_request
    def begin() -> None:
        g.began_s = time.perf_counter()

    @app.after_request
    def end(response: Response) -> Response:
        route = request.url_rule.rule if request.url_rule else NO_ROUTE
        # A method that Flask does not serve is any text that a client chose.
        method = request.method if request.url_rule else NO_ROUTE
        requests.labels(route, method, str(response.status_code)).inc()
        if "began_s" in g:
            seconds.labels(route).observe(time.perf_counter() - g.began_s)
        return response


@blueprint.get("/metrics")
def metrics() -> Response:
    """What a Prometheus asks for every few seconds."""
    made: CollectorRegistry = current_app.extensions[_REGISTRY]
    return Response(generate_latest(made), content_type=CONTENT_TYPE_LATEST)


def _ask(context: Context) -> Mapping[str, Any]:
    found = dict(context.status())
    # The process's own child, whose figures come with its records.
    found.pop("agent", None)
    try:
        stored = context.store.status()
        agents = context.agents.totals(stored.get("high_water", []))
        newest = time.time_ns() - SILENT_NS
        found["agents"] = {
            "known": len(agents),
            "silent": sum((entry["last_seen_ns"] or 0) < newest for entry in agents),
            "with_losses": len(context.agents.ever_lost(agents)),
        }
        found["store"] = {name: value for name, value in stored.items() if name != "high_water"}
    except (StoreError, JobDBError) as error:
        found["store"] = {"error": str(error)}
    return found
