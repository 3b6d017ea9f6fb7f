"""The HTTP API, version 1, and the built pages. openapi.yaml describes it; a test holds the two against each other."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flask import Flask, Response, request

from anomaly.harm import Bounds
from anomaly.history import Limits
from anomaly.names import Rules
from jobdb.repository import JobDB
from pipeline.retention import Keeper
from pipeline.store import Store

from . import archives, audit, components, deep, errors, findings, jobs, large_jobs, layers, messages, metrics, pages, retention, rights, security, session, sockets, system, system_wide, traffic
from .agents import Agents
from .aggressors import Aggressors
from .analysis import Analyses
from .as_json import Json
from .behind import Behind
from .cache import Cache, ProcessCache
from .charts import Charts
from .component_charts import ComponentCharts
from .context import Context
from .deep_answers import DeepAnswers
from .detection import Detection
from .held_up import HeldUp
from .kept import Kept
from .layer_answers import LayerAnswers
from .lists import Lists
from .live import Live
from .node_charts import NodeCharts
from .second_pass import SecondPass
from .signin import SignIn
from .slow_servers import Settings, SlowServers
from .threads import Threads
from .told import Told
from .trace import Traces

API = "/api/v1"
FRONTEND_DIR = Path(__file__).parents[1] / "frontend" / "dist"
BODY_BYTES_MAX = 1 << 16
# Threads, of all that answer requests, that no computation takes; those that may wait until one is free that may compute, a third of the rest at most; and
# those that audits may take: a deep one, one that is worked out, and two that wait for it. With few threads audits have half of what is not free. Jobs'
# layers share these, and the figures of jobs have the rest.
THREADS_FREE = 2
WAITING_THREADS_MAX = 4
AUDIT_THREADS_MAX = 4
THREADS_MIN = THREADS_FREE + 2


def create_app(
    config: Mapping[str, Any] | None = None,
    *,
    store: Store,
    jobdb: JobDB,
    status: Callable[[], dict],
    keeper: Keeper | None = None,
    cache: Cache | None = None,
    second_pass: SecondPass | None = None,
    bounds: Bounds | None = None,
    limits: Limits | None = None,
    rules: Rules | None = None,
    slow: Settings | None = None,
    large: large_jobs.Settings | None = None,
    wide: system_wide.Settings | None = None,
    names_aggressors: bool = True,
) -> Flask:
    """The WSGI application.

    config: FRONTEND_DIR (folder of the built pages; default webapp/frontend/dist), ALLOWED_HOSTS (names that may stand in the Host
    header besides loopback ones; default none), PROXY_HOSTS (those in requests that came through `callers.behind_proxy`; default none), PEER_UID (tells from a WSGI environment whose process asks, or None; default
    `sockets.peer_uid`, which knows waitress's connections), TRUSTS_OWNER (whether this process's user and root, by the kernel's word, are
    administrators without signing in; default True), KEY (who shows it as a token is one, too, though not through a proxy; default "": none), SCRAPE_TOKEN (who shows it may ask for /metrics and nothing else; default "": none), THREADS (that answer requests, at least THREADS_MIN; default 16), or any of
    Flask's. status: tells version, started_ns and ingest for /api/v1/status. keeper: drops what is older than it is to be kept.
    cache: of charts; default one in this process. second_pass: fills the archive, which then answers for what retention dropped. bounds: from where on a job's I/O is a finding; limits: from where on it is slow; rules: how
    programs are named. slow: how slow servers are looked for, large: and within large jobs; wide: what else of the system. names_aggressors: whether it is asked who slowed a job.
    """
    app = Flask(__name__, static_folder=None)
    app.config.update(FRONTEND_DIR=FRONTEND_DIR, ALLOWED_HOSTS=(), PROXY_HOSTS=(), PEER_UID=sockets.peer_uid, TRUSTS_OWNER=True, KEY="", SCRAPE_TOKEN="")
    app.config.update(THREADS=16, MAX_CONTENT_LENGTH=BODY_BYTES_MAX)
    app.config.update(config or {})
    app.json = Json(app)
    if app.config["THREADS"] < THREADS_MIN:
        raise ValueError(f"THREADS = {app.config['THREADS']}: at least {THREADS_MIN} are needed")
    threads = app.config["THREADS"] - THREADS_FREE
    waiting_threads = min(WAITING_THREADS_MAX, threads // 3)
    threads -= waiting_threads
    audit_threads = min(AUDIT_THREADS_MAX, threads // 2)
    waiting = threading.Semaphore(waiting_threads)
    analyses = Analyses(store, jobdb, Threads(threads - audit_threads, waiting), archive=None if second_pass is None else second_pass.archive)
    long_at_work = Threads(audit_threads, waiting)
    audits = Kept(long_at_work)
    cache = ProcessCache() if cache is None else cache
    traces = Traces(analyses)
    bounds = Bounds() if bounds is None else bounds
    behind = Behind(jobdb, store, bounds)
    slow, large, wide = slow or Settings(), large or large_jobs.Settings(), wide or system_wide.Settings()
    detectors = (SlowServers(jobdb, store, slow), large_jobs.LargeJobs(jobdb, store, large), system_wide.SystemWide(jobdb, store, wide))
    context = app.extensions["bellrock"] = Context(
        jobdb=jobdb,
        accounts=jobdb.accounts,
        sign_in=SignIn(jobdb.accounts),
        analyses=analyses,
        cache=cache,
        charts=Charts(analyses, jobdb, cache),
        node_charts=NodeCharts(store, cache),
        component_charts=ComponentCharts(store, cache),
        layers=LayerAnswers(store, jobdb, analyses, cache, long_at_work, time.time_ns),
        deep=DeepAnswers(analyses, jobdb, cache, traces),
        detection=Detection(jobdb, analyses, bounds, Live(jobdb, store, analyses, bounds, behind), behind, HeldUp(jobdb, store), limits, rules, detectors, Aggressors(jobdb, store, analyses) if names_aggressors else None),
        lists=Lists(jobdb, analyses, cache),
        agents=Agents(store, cache),
        told=Told(store),
        traces=traces,
        audits=audits,
        store=store,
        status=status,
        keeper=keeper,
        second_pass=second_pass,
    )
    errors.register(app)
    metrics.register(app, context)
    security.register(app, app.config["ALLOWED_HOSTS"], app.config["PROXY_HOSTS"])
    rights.register(app, jobdb, app.config["PEER_UID"], trusts_owner=app.config["TRUSTS_OWNER"], key=app.config["KEY"], scrape_token=app.config["SCRAPE_TOKEN"])
    app.register_blueprint(jobs.blueprint, url_prefix=API)
    app.register_blueprint(traffic.blueprint, url_prefix=API)
    app.register_blueprint(layers.blueprint, url_prefix=API)
    app.register_blueprint(deep.blueprint, url_prefix=API)
    app.register_blueprint(audit.blueprint, url_prefix=API)
    app.register_blueprint(components.blueprint, url_prefix=API)
    app.register_blueprint(messages.blueprint, url_prefix=API)
    app.register_blueprint(retention.blueprint, url_prefix=API)
    app.register_blueprint(archives.blueprint, url_prefix=API)
    app.register_blueprint(findings.blueprint, url_prefix=API)
    app.register_blueprint(session.blueprint, url_prefix=API)
    app.register_blueprint(system.blueprint)
    app.register_blueprint(metrics.blueprint)
    app.register_blueprint(pages.blueprint)

    @app.after_request
    def revalidate(response: Response) -> Response:
        """Answers carry a tag of their content: who polls what has not changed gets 304."""
        if request.method in ("GET", "HEAD") and response.status_code == 200 and response.mimetype == "application/json":
            # What one is answered is not for another who asks through the same proxy.
            response.headers.setdefault("Cache-Control", "private, no-cache")
            response.vary.update(("Authorization", "Cookie"))
            response.add_etag()
            response.make_conditional(request)
        return response

    return app
