"""A miniature site on this machine: the servers of two log servers and of the centre, on loopback, for demo, trials and tests."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bellrock import paths
from bellrock.config import Jobdb
from bellrock.errors import BellrockError, Unavailable
from bellrock.jobdb_setup import set_up
from bellrock.stack.bellrock import Bellrock, Settings
from bellrock.stack.elasticsearch import Elasticsearch, Security, User, introduce
from bellrock.stack.mysql import MySql
from bellrock.stack.process import HOST, Server, end_below
from bellrock.stack.redis import Redis
from bellrock.stack.tls import Tls, certificate
from pipeline.store.elastic.roles import READER, RETENTION, SUMMARIES, roles, writer

# Of the log servers; `archive` is a node for what will be moved out of their way: nothing is, yet.
GROUPS = ("g1", "g2")
ARCHIVE = "archive"
QUEUE_MIB = 256
CACHE_MIB = 64
# The file by which a folder is known as a stack's, to be removed.
MARKER = "stack.json"


def site_dir() -> Path:
    """The site's place, not made yet: $BELLROCK_STACK, else root's /var/lib/bellrock/stack, else `stack` in the state directory.

    Root's servers run as an unprivileged user, to whom root's home is closed. Raises UsageError for a user without a home directory."""
    named = os.environ.get("BELLROCK_STACK")
    if named:
        return Path(named).absolute()
    return Path("/var/lib/bellrock/stack") if os.geteuid() == 0 else paths.state_dir() / "stack"


@dataclass(frozen=True)
class Part:
    """One process of the site; `serves` says to whom, `address` is for their configuration. `own`: Bellrock's, started when the others answer."""

    name: str
    serves: str
    server: Server
    address: str
    own: bool = False


class Site:
    """The servers of the site in a folder. Passwords and certificates are made once and kept in it, below `secrets`, for its owner alone.
    central, environ: further settings and variables of the central server."""

    def __init__(self, folder: Path, central: Settings | None = None, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder.absolute()
        self._central, self._environ = central or {}, environ or {}

    def parts(self) -> list[Part]:
        """Every process, in the order in which they are started. A new kind of process is one entry here. Makes passwords and certificates."""
        mysql = self._mysql()
        found = [Part("mysql", "job database of the central server", mysql, mysql.url("bellrock"))]
        queues = {group: Redis(self.folder / f"redis-{group}", password=self.password(f"redis-{group}"), memory_mib=QUEUE_MIB) for group in GROUPS}
        for group, queue in queues.items():
            found.append(Part(f"redis-{group}", f"queue of log server {group}", queue, queue.url))
        cache = Redis(self.folder / "redis-cache", password=self.password("redis-cache"), memory_mib=CACHE_MIB, durable=False)
        found.append(Part("redis-cache", "cache of the central server", cache, cache.url))
        nodes = self._nodes()
        for node in nodes:
            role = "nothing yet: a node for older records" if node.group == ARCHIVE else f"records of log server {node.group}"
            found.append(Part(node.name, role, node, node.url))
        for group, queue in queues.items():
            own = [node.url for node in nodes if node.group == group]
            ingest = Bellrock(self.folder / f"ingest-{group}", "ingest", self._ingest_settings(group, queue, own), ("ingest", "port"))
            found.append(Part(f"ingest-{group}", f"agents of group {group}", ingest, f"{HOST}:{ingest.port}", own=True))
        kept = {"url": cache.url, "password_file": str(self.password_file("redis-cache"))}
        central = {"jobdb": asdict(self._jobdb(mysql)), "cache": kept} | self._store("server", [node.url for node in nodes]) | self._central
        server = Bellrock(self.folder / "server", "server", central, ("http", "port"), environ=self._environ)
        found.append(Part("server", "people: pages and API", server, f"http://{HOST}:{server.port}", own=True))
        return found

    def part(self, name: str) -> Part:
        """The process of this name. Raises KeyError."""
        return {part.name: part for part in self.parts()}[name]

    def node_certificate(self, node: str) -> Tls:
        """For the agent of a node."""
        return certificate(self.folder / "secrets/ca", node, "node")

    def up(self, tell: Callable[[str], None] = lambda _: None) -> list[Part]:
        """Starts what does not run yet; `tell` learns what is waited for. Raises BellrockError; what was begun by then is ended again."""
        with self._held():
            parts = self.parts()
            before = {part.name for part in parts if part.server.running}
            try:
                _start([part for part in parts if not part.own], tell)
                if "server" not in before:
                    self._set_up_jobdb(next(part.server for part in parts if isinstance(part.server, MySql)))
                _start([part for part in parts if part.own], tell)
            except BaseException:
                for part in reversed(parts):
                    if part.name not in before:
                        part.server.stop()
                raise
            return parts

    def down(self, tell: Callable[[str], None] = lambda _: None, *, wipe: bool = False) -> list[str]:
        """Ends whatever of the site runs, and gives the names of those that did; with `wipe` all that they kept is removed."""
        if not (self.folder / MARKER).exists():
            return []
        with self._held():
            ended = []
            for part in reversed(self.parts()):
                if part.server.running:
                    tell(f"ending {part.server.title}")
                    part.server.stop()
                    ended.append(part.name)
            # What an earlier version of this list started.
            ended += end_below(self.folder)
            if wipe:
                shutil.rmtree(self.folder)
        return ended

    def status(self) -> list[dict[str, Any]]:
        """A row for each process: name, serves, state ("ready", "starting", "down"), pid, address, memory_mib, folder, log."""
        if not (self.folder / MARKER).exists():
            return []
        rows = []
        for part in self.parts():
            pid = part.server.pid
            state = "down" if pid is None else "ready" if part.server.answers() else "starting"
            rows.append(
                {
                    "name": part.name,
                    "serves": part.serves,
                    "state": state,
                    "pid": pid,
                    "address": part.address,
                    "memory_mib": None if pid is None else _memory_mib(pid),
                    "folder": str(part.server.folder),
                    "log": str(part.server.log),
                }
            )
        return rows

    def password(self, name: str) -> str:
        """The password of this name, made where there is none yet."""
        path = self.password_file(name)
        if not path.exists():
            paths.write_atomically(path, secrets.token_urlsafe(24) + "\n")
        return path.read_text().strip()

    def password_file(self, name: str) -> Path:
        return paths.private_dir(self.folder / "secrets") / f"{name}.password"

    @property
    def ca(self) -> Path:
        """The authority of all certificates of the site."""
        return self.folder / "secrets/ca/ca.crt"

    def _mysql(self) -> MySql:
        tls = certificate(self.folder / "secrets/ca", "server")
        return MySql(self.folder / "mysql", root_password=self.password("mysql-root"), tls=tls)

    def _jobdb(self, mysql: MySql) -> Jobdb:
        files = {"password_file": "mysql-bellrock", "analyst_password_file": "mysql-analyst"}
        return Jobdb(mysql.url("bellrock"), ca=str(self.ca), **{setting: str(self.password_file(name)) for setting, name in files.items()})

    def _set_up_jobdb(self, mysql: MySql) -> None:
        """Accounts, tables and views, as `bellrock jobdb setup` makes them."""
        for _ in set_up(self._jobdb(mysql), "root", self.password_file("mysql-root"), None, ()):
            pass  # each step that was done

    def _ingest_settings(self, group: str, queue: Redis, nodes: list[str]) -> Settings:
        tls = certificate(self.folder / "secrets/ca", "server")
        return {
            "ingest": {"tls_cert": str(tls.cert), "tls_key": str(tls.key), "tls_client_ca": str(tls.ca)},
            "queue": {"kind": "redis", "url": queue.url, "password_file": str(self.password_file(f"redis-{group}"))},
            "group": {"name": group},
            **self._store(f"ingest_{group}", nodes),
        }

    def _store(self, user: str, nodes: list[str]) -> Settings:
        files = {"password_file": str(self.password_file(f"elasticsearch-{user.replace('_', '-')}")), "ca": str(self.ca)}
        return {"store": {"kind": "elasticsearch"}, "elasticsearch": {"urls": nodes, "user": user, **files}}

    def _nodes(self) -> list[Elasticsearch]:
        tls = certificate(self.folder / "secrets/ca", "server")
        users = {f"ingest_{group}": User(self.password(f"elasticsearch-ingest-{group}"), (writer(group),)) for group in GROUPS}
        users["server"] = User(self.password("elasticsearch-server"), (READER, RETENTION, SUMMARIES))
        security = Security(tls, self.password("elasticsearch-admin"), users, roles(GROUPS))
        nodes = [
            Elasticsearch(self.folder / f"elasticsearch-{group}", name=f"elasticsearch-{group}", group=group, security=security) for group in (*GROUPS, ARCHIVE)
        ]
        introduce(nodes)
        return nodes

    @contextmanager
    def _held(self) -> Iterator[None]:
        """One command at a time starts or ends. Raises Unavailable."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Its servers' user goes through it, and sees nothing.
            self.folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
            handle = os.open(self.folder.with_name(f"{self.folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BellrockError(f"{error.filename}: {error.strerror}", "set BELLROCK_STACK to a folder that you may write") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable(f"another `bellrock stack` is at work on {self.folder}", "wait for it, then see `bellrock stack status`") from None
            marker = self.folder / MARKER
            if not marker.exists():
                if any(self.folder.iterdir()):
                    raise BellrockError(f"{self.folder} holds something else than a stack", "set BELLROCK_STACK to a folder that does not exist yet")
                paths.write_atomically(marker, '{"version": 1}\n')
            yield
        finally:
            os.close(handle)


def _start(parts: list[Part], tell: Callable[[str], None]) -> None:
    """Starts all at once, since nodes wait for each other, and waits until each answers."""
    for part in parts:
        tell(f"starting {part.server.title}")
        part.server.start(wait=False)
    for number, part in enumerate(parts):
        tell(f"waiting for {part.server.title} ({number} of {len(parts)} are ready)")
        part.server.wait_ready()


def _memory_mib(pid: int) -> int | None:
    """What a process holds of the memory, MiB; None where it has just ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) >> 10
    except OSError:
        pass  # told as None
    return None
