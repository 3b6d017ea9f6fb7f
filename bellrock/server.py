"""The server: one process with store, job database, ingest, API and pages, and one agent beside it.

The central server of a site has neither ingest nor agent: its records lie in Elasticsearch, where log servers write them, and it follows the job events there.

This is the only file that wires. The state directory holds records.duckdb, jobs.db (where no other job database is set), spool/, agent.toml, agent.log, ingest.sock (where
the agent delivers), lock (held while a server owns the state) and server.json (where the server is, for every other command).
"""

import grp
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellrock import __version__, paths, ports
from bellrock.agent import AgentChild, agent_toml
from bellrock.config import Config
from bellrock.errors import BellrockError, UsageError
from bellrock.state import StateLock, Where, where
from bellrock.stores import check_shards, open_store

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
        self._follower: Any = None
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
        http_host, ingest_host = _address(config.http.host), _address(config.ingest.host)
        if config.ingest.port:
            self.ingest_port = ports.claim("ingest.port", ingest_host, config.ingest.port)
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
        from webapp.api import create_app
        from webapp.api.settle import Settler
        from webapp.serve import HttpServer

        store = open_store(config, self.state)
        self._closing.insert(0, ("the store", store.close))
        if config.store.kind == "elasticsearch":
            check_shards(store)
        jobdb = open_jobdb(config, self.state)
        self._closing.insert(0, ("the job database", jobdb.close))
        if config.is_central:
            self._follow(store, jobdb)
        else:
            self._take_records(store, jobdb, ingest_host)
        # `make build` leaves the pages there; without them the API's own default holds.
        built = paths.build_dir() / "frontend"
        settings = {"THREADS": config.http.threads} | ({"FRONTEND_DIR": built} if built.is_dir() else {})
        # With a proxy nobody is trusted for being this user or root: the proxy may be led to the port by mistake, and may run as either.
        key = secrets.token_urlsafe(32) if config.http.socket else ""
        if config.metrics.token_file:
            settings["SCRAPE_TOKEN"] = _scrape_token(config)
        settings |= {"TRUSTS_OWNER": not key, "KEY": key, "PROXY_HOSTS": config.http.names}
        keeper = Keeper(store, config.retention.days)
        if config.retention.run:
            keeper.start()
        self._closing.insert(0, ("retention", keeper.stop))
        cache = _open_cache(config)
        self._closing.insert(0, ("the cache", cache.close))
        app = self.app = create_app(settings, store=store, jobdb=jobdb, status=self.status, keeper=keeper, cache=cache)
        self._settler = Settler(jobdb, app.extensions["bellrock"].analyses, warm=app.extensions["bellrock"].charts.warm)
        self._settler.start()
        self._closing.insert(0, ("the profiles' thread", self._settler.stop))
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

    def _take_records(self, store: Any, jobdb: "JobDB", host: str) -> None:
        from pipeline.ingest import Ingest
        from pipeline.listen import BindError
        from pipeline.sink import StoreSink
        from pipeline.tls import TlsError, TlsFiles

        settings, tls = self.config.ingest, None
        if settings.tls and not self.ingest_port and self.kind == "server":
            log.warning("ingest.tls_cert is set and ingest.port is not: only this machine's agent can deliver")
        elif settings.tls and self.ingest_port:
            tls = TlsFiles(Path(settings.tls_cert), Path(settings.tls_key), Path(settings.tls_client_ca))
        try:
            ingest = Ingest(StoreSink(store, jobdb.apply_event), host, self.ingest_port or None, unix=self._socket, tls=tls)
        except (BindError, TlsError) as error:
            raise UsageError(str(error), "the settings are those of [ingest] in server.toml") from error
        ingest.start()
        self._ingest = ingest
        self._closing.insert(0, ("ingest", self._ingest.stop))

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
            "profiles": self._settler.status() if self._settler else None,
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


def open_jobdb(config: Config, state: Path) -> "JobDB":
    """The job database that the settings mean, brought to the newest migration: the server's, and that of `bellrock account`. Raises JobDBError."""
    from jobdb.repository import JobDB

    return JobDB(config.jobdb.access(state))


def listen_for_proxy(config: Config) -> Any:
    """The socket where the proxy brings requests: in a directory where no stranger can put another in its place. Raises UsageError."""
    from pipeline.listen import listen_unix

    path, group = Path(config.http.socket), config.http.socket_group
    try:
        folder = path.parent.stat()
        if folder.st_uid not in (0, os.geteuid()) or folder.st_mode & stat.S_IWOTH:
            raise UsageError(
                f"http.socket: {path.parent} is another user's, or anybody may write there (owner {folder.st_uid}, {stat.filemode(folder.st_mode)})",
                "put the socket into a directory of this user's, such as one of systemd's RuntimeDirectory=",
            )
        return listen_unix(path, grp.getgrnam(group).gr_gid if group else None)
    except KeyError as error:
        raise UsageError(f"http.socket_group: this machine knows no group {group!r}", "see `getent group`") from error
    except OSError as error:
        raise UsageError(f"http.socket: {path}: no socket can be made there: {error.strerror}", f"look with `ls -ld {path.parent}`") from error


def _scrape_token(config: Config) -> str:
    from pipeline.secret import SecretError, read_secret

    try:
        return read_secret(Path(config.metrics.token_file))
    except SecretError as error:
        raise UsageError(f"metrics.token_file: {error}", "`openssl rand -hex 32` makes one") from error


def _open_cache(config: Config) -> Any:
    from webapp.api.cache import open_cache

    try:
        return open_cache(config.cache.url, config.cache.password_file)
    except ValueError as error:
        raise UsageError(f"cache.url: {error}", "the settings are those of [cache] in server.toml") from error


def _address(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host
