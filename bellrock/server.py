"""The server: one process with store, job database, ingest, API and pages, and one agent beside it.

The central server of a site has neither ingest nor agent: its records lie in Elasticsearch, where log servers write them, and it follows the job events there.

The parts are opened in bellrock/opening.py, and put together here. The state directory holds records.duckdb, jobs.db (where no other job database is set), archive/,
spool/, agent.toml, agent.log, ingest.sock (where the agent delivers), lock (held while a server owns the state) and server.json (where the server is, for
every other command).
"""

import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellrock import __version__, paths, ports
from bellrock.agent import AgentChild, agent_toml
from bellrock.config import Config
from bellrock.errors import BellrockError
from bellrock.opening import (
    bounds_of, check_shards, claim_ingest, large_of, listen_for_proxy, open_cache, open_ingest, open_jobdb, open_queue_follower, open_second_pass, open_store, read_scrape_token, rules_of, slow_jobs_of, slow_of, wide_of,
)
from bellrock.state import StateLock, Where, where

if TYPE_CHECKING:
    from jobdb.repository import JobDB

log = logging.getLogger(__name__)

SOCKET = "ingest.sock"


class Server:
    """start() brings everything up or nothing, stop() ends it in the order in which nothing is lost. One use.

    `kind` is the command that runs it, for those that find it. takes_proxy: whether requests of `http.socket` are its own to answer; else `app` is for whoever
    listens there (`bellrock.wsgi`). Everything here is owned by the thread that calls
    start and stop; the parts' own threads only read."""

    def __init__(self, config: Config, state: Path, kind: str = "server", *, takes_proxy: bool = True) -> None:
        self.config = config
        self.state = state
        self.kind = kind
        self.url = ""
        self.app: Any = None  # from start on
        self._takes_proxy = takes_proxy
        self.ingest_port = 0  # 0: no TCP
        self.started_ns = 0
        self._lock = StateLock(state)
        self._agent: AgentChild | None = None
        self._ingest: Any = None
        self._settler: Any = None
        self._summariser: Any = None
        self._log_events: Any = None
        self._follower: Any = None
        self._queue: Any = None
        # Ours until the ingest has it.
        self._socket: Any = None
        # What stop() closes after the agent, in this order.
        self._closing: list[tuple[str, Callable[[], Any]]] = []

    def start(self) -> None:
        """Raises Unavailable when the state belongs to another server or a wished port is taken, BellrockError when a
        part is missing."""
        paths.private_dir(self.state)
        self._lock.acquire()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self.started_ns = time.time_ns()
        config = self.config
        # A killed server's port is taken again where it is free: open pages find it there.
        before = where(self.state)
        if before is not None and before.kind != self.kind:
            before = None
        http_host = ports.address(config.http.host)
        if config.ingest.port:
            self.ingest_port = claim_ingest(config)
        if config.agent.run and not config.is_central:
            # First of all, so that programs under watch find their rings emptied while the slower parts come up.
            self._agent = self._make_agent()
            # Before there is a socket: an agent that ends tries to deliver for a while if something listens.
            self._agent.replace_orphan()
        if not config.is_central:
            self._socket = self._listen()
        if self._agent is not None:
            self._agent.start()

        # Imported here: they take most of a second, which neither the agent nor `bellrock --help` waits for.
        from pipeline.retention import Keeper
        from pipeline.summarise import Summariser
        from webapp.api import create_app
        from webapp.api.log_events import LogEvents
        from webapp.api.settle import Settler
        from webapp.serve import HttpServer

        event_rules = rules_of(config)
        store = open_store(config, self.state)
        self._closing.insert(0, ("the store", store.close))
        if config.store.kind == "elasticsearch":
            check_shards(store)
        jobdb = open_jobdb(config, self.state)
        self._closing.insert(0, ("the job database", jobdb.close))
        if config.is_central:
            self._follow(store, jobdb)
        else:
            self._take_records(store, jobdb)
        self._queue = open_queue_follower(config, jobdb)
        if self._queue is not None:
            self._queue.start()
            self._closing.insert(0, ("the thread that follows the batch system", self._queue.stop))
        # `make build` leaves the pages there; without them the API's own default holds.
        built = paths.build_dir() / "frontend"
        settings = {"THREADS": config.http.threads} | ({"FRONTEND_DIR": built} if built.is_dir() else {})
        # With a proxy nobody is trusted for being this user or root: the proxy may be led to the port by mistake, and may run as either.
        key = secrets.token_urlsafe(32) if config.http.socket else ""
        if config.metrics.token_file:
            settings["SCRAPE_TOKEN"] = read_scrape_token(config)
        settings |= {"TRUSTS_OWNER": not key, "KEY": key, "PROXY_HOSTS": config.http.names}
        self._summariser = Summariser(store)
        self._summariser.start()
        self._closing.insert(0, ("the summaries' thread", self._summariser.stop))
        second_pass = open_second_pass(config, self.state, store, jobdb)
        if second_pass is not None:
            self._closing.insert(0, ("the archive", second_pass.archive.close))
        keeper = Keeper(store, config.retention.days, second_pass, is_elsewhere=config.is_archived_elsewhere)
        if config.retention.run:
            keeper.start()
        self._closing.insert(0, ("retention", keeper.stop))
        cache = open_cache(config)
        self._closing.insert(0, ("the cache", cache.close))
        limits, programs = slow_jobs_of(config)
        app = self.app = create_app(
            settings, store=store, jobdb=jobdb, status=self.status, keeper=keeper, cache=cache, second_pass=second_pass, bounds=bounds_of(config), limits=limits, rules=programs,
            slow=slow_of(config), large=large_of(config), wide=wide_of(config), names_aggressors=config.findings.interference,
        )  # fmt: skip
        self._settler = Settler(jobdb, store, app.extensions["bellrock"].analyses, warm=app.extensions["bellrock"].charts.warm)
        self._settler.start()
        self._closing.insert(0, ("the profiles' thread", self._settler.stop))
        if config.findings.run and (config.is_central or config.store.kind != "elasticsearch"):
            detection = app.extensions["bellrock"].detection
            detection.start()
            self._closing.insert(0, ("detection", detection.stop))
            self._log_events = LogEvents(jobdb, store, event_rules)
            self._log_events.start()
            self._closing.insert(0, ("the thread that reads events from logs", self._log_events.stop))
        # A command's own server is there beside a program under watch, and not for long.
        if second_pass is not None and self.kind == "server":
            second_pass.start()
            self._closing.insert(0, ("the second pass", second_pass.stop))
        if "http.port" not in config.explicit:
            http_port = ports.pick_port(http_host, config.http.port, before and ports.of_url(before.url))
        elif config.http.port:
            http_port = ports.claim("http.port", http_host, config.http.port)
        else:
            http_port = ports.free_port(http_host)
        proxy = None
        if config.http.socket and self._takes_proxy:
            proxy = listen_for_proxy(config)
            self._closing.insert(0, ("the proxy's socket", lambda: Path(config.http.socket).unlink(missing_ok=True)))
        pages = HttpServer(app, http_host, http_port, config.http.threads, proxy)
        pages.start()
        self._closing.insert(0, ("pages", pages.stop))
        self.url = f"http://{http_host}:{http_port}"
        told = Where(self.url, os.getpid(), self.kind, self.started_ns, self._lock.host, self._lock.instance, key)
        paths.write_atomically(self.state / "server.json", json.dumps(told.__dict__))

    def _follow(self, store: Any, jobdb: "JobDB") -> None:
        """Job events come by the store."""
        from jobdb.follow import JobFollower

        self._follower = JobFollower(store, jobdb)
        self._follower.start()
        self._closing.insert(0, ("the thread that follows job events", self._follower.stop))

    def _take_records(self, store: Any, jobdb: "JobDB") -> None:
        from pipeline.sink import StoreSink

        if self.config.ingest.tls and not self.ingest_port and self.kind == "server":
            log.warning("ingest.tls_cert is set and ingest.port is not: only this machine's agent can deliver")
        ingest = open_ingest(self.config, StoreSink(store, jobdb.apply_event), self.ingest_port or None, self._socket)
        ingest.start()
        self._ingest = ingest
        self._closing.insert(0, ("ingest", ingest.stop))

    def _listen(self) -> Any:
        """The socket where the agent delivers; in a directory of this user's alone, so nobody else can take its place."""
        from pipeline.listen import listen_unix

        try:
            return listen_unix(self.state / SOCKET)
        except OSError as error:
            raise BellrockError(
                f"{self.state / SOCKET}: no socket can be made there: {error.strerror}",
                "set BELLROCK_STATE to a directory on a local file system",
            ) from error

    def _make_agent(self) -> AgentChild:
        configuration = self.state / "agent.toml"
        spool = paths.private_dir(self.state / "spool")
        paths.user_rings()
        paths.write_atomically(configuration, agent_toml(paths.rings_dir(), spool, self.state / SOCKET, self.config.agent))
        return AgentChild(paths.artefact(paths.AGENT), configuration, self.state)

    def status(self) -> dict[str, Any]:
        """What the API's status page shows of this process, beside what the store says."""
        agent = self._agent
        return {
            "version": __version__,
            "started_ns": self.started_ns,
            "pid": os.getpid(),
            "url": self.url,
            "agent": {"pid": agent.pid, "restarts": agent.restarts} if agent else None,
            "ingest": self._ingest.status() if self._ingest else None,
            "job_events": self._follower.status() if self._follower else None,
            "queue": self._queue.status() if self._queue else None,
            "profiles": self._settler.status() if self._settler else None,
            "summaries": self._summariser.status() if self._summariser else None,
            "log_events": self._log_events.status() if self._log_events else None,
        }

    def stop(self) -> None:
        """Let the agent deliver, then close pages, ingest and stores. What fails is told and does not keep the rest."""
        if self._ingest is None and self._socket is not None:
            # Nobody will answer there: the agent need not wait.
            self._socket.close()
        if self._agent is not None and not self._agent.stop(self.config.agent.drain_s):
            log.warning("the agent did not deliver within %d s; what it holds waits for the next server", self.config.agent.drain_s)
        for name, close in self._closing:
            try:
                close()
            except Exception:
                log.exception("closing %s failed", name)
        self._closing = []
        found = where(self.state)
        if found is not None and found.instance == self._lock.instance:
            (self.state / "server.json").unlink(missing_ok=True)
        if self._socket is not None:
            (self.state / SOCKET).unlink(missing_ok=True)
        self._lock.release()
