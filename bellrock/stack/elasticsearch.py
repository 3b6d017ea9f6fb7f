"""Elasticsearch nodes: the slim build of `artifacts`, one or several, plain or with TLS and users of the file realm."""

import base64
import hashlib
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bellrock.stack.artifacts import ELASTICSEARCH, unpacked
from bellrock.stack.java import java_home
from bellrock.stack.process import HOST, Server
from bellrock.stack.tls import Tls

HEAP_MIB = 512
READY_S = 300.0
ASK_S = 10.0
MASTER_S = 2
ANSWER_BYTES_MAX = 16 << 20
PBKDF2_ROUNDS = 10_000
# The user by which readiness is asked for; superuser, its password made anew in each folder.
ADMIN = "bellrock_admin"


@dataclass(frozen=True)
class User:
    """A user of the file realm, with roles of Elasticsearch's own or of `Security.roles`."""

    password: str = field(repr=False)
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Security:
    """TLS on both ports, users by name and roles by name as roles.yml has them ({"cluster": [...], "indices": [...]}).

    `admin_password` is that of ADMIN, who may do everything."""

    tls: Tls
    admin_password: str = field(repr=False)
    users: Mapping[str, User] = field(default_factory=dict)
    roles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Elasticsearch(Server):
    """One node. `group` is its node.attr.group; `peers`, which `introduce` sets, are the transport addresses
    ("127.0.0.1:9300") of all nodes of its cluster by their names; None: it is alone."""

    title = "Elasticsearch"
    ready_s = READY_S

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "node",
        group: str | None = None,
        security: Security | None = None,
        heap_mib: int = HEAP_MIB,
        port: int | None = None,
        transport_port: int | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.name = name
        self.group = group
        self.security = security
        self.heap_mib = heap_mib
        self.title = f"Elasticsearch node {name}"
        self.peers: Mapping[str, str] | None = None
        self._wanted_transport_port = transport_port
        self._session = _Session(security)

    @property
    def transport_port(self) -> int:
        return self.chosen_port("transport", self._wanted_transport_port)

    @property
    def url(self) -> str:
        """http://127.0.0.1:PORT, https where there is TLS."""
        return f"{'https' if self.security else 'http'}://{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        own = self.folder / "logs/bellrock.log"
        # What ends it before its log begins is said on its output.
        return own if own.exists() and own.stat().st_size else self.folder / "output.log"

    def ask(self, path: str, method: str = "GET", body: Any = None, *, timeout_s: float = ASK_S) -> Any:
        """The parsed answer of the node to ADMIN. Raises OSError (urllib's HTTPError for a refusal) and ValueError."""
        return self._session.ask(f"{self.url}/{path.lstrip('/')}", method, body, timeout_s)

    def settings(self) -> str:
        return json.dumps([self._yml(), self.heap_mib, self._realm()], sort_keys=True)

    def prepare(self) -> None:
        home = unpacked(ELASTICSEARCH)
        for name in ("data", "logs", "tmp", "config"):
            self.make(name)
        self.write("config/log4j2.properties", (home / "config/log4j2.properties").read_text())
        self.write("config/jvm.options", (home / "config/jvm.options").read_text() + f"\n-Xms{self.heap_mib}m\n-Xmx{self.heap_mib}m\n")
        self.write("config/elasticsearch.yml", self._yml())
        if self.security:
            for name, path in (("ca.crt", self.security.tls.ca), ("node.crt", self.security.tls.cert), ("node.key", self.security.tls.key)):
                self.write(f"config/{name}", path.read_text())
            for name, text in self._realm().items():
                self.write(f"config/{name}", text)
        # A crash leaves old words there that would be taken for this start's.
        (self.folder / "logs/bellrock.log").unlink(missing_ok=True)

    def command(self) -> Sequence[str]:
        # -d: the launcher, a Java of its own, ends once the node is up.
        return [str(unpacked(ELASTICSEARCH) / "bin/elasticsearch"), "-d", "-p", str(self.folder / "tmp/pid")]

    def environment(self) -> Mapping[str, str]:
        return {"ES_JAVA_HOME": str(java_home()), "ES_PATH_CONF": str(self.folder / "config"), "ES_TMPDIR": str(self.folder / "tmp")}

    def answers(self) -> bool:
        """Whether it is in a cluster that has a master and has read its state; other nodes may be missing."""
        try:
            # Health is told while everything else is still refused.
            state = self.ask(f"_cluster/state/master_node,blocks?master_timeout={MASTER_S}s")
        except (OSError, ValueError):
            return False
        blocks = state.get("blocks", {}).get("global", {})
        return bool(state.get("master_node")) and not any("read" in block.get("levels", ()) for block in blocks.values())

    def _yml(self) -> str:
        """elasticsearch.yml; JSON is YAML, too."""
        settings: dict[str, Any] = {
            "cluster.name": "bellrock",
            "node.name": self.name,
            "network.host": HOST,
            "http.port": self.port,
            "transport.port": self.transport_port,
            "path.data": str(self.folder / "data"),
            "path.logs": str(self.folder / "logs"),
            # The disk is one with everybody else's; what a full one does is for the tests to say.
            "cluster.routing.allocation.disk.threshold_enabled": False,
            "xpack.security.enabled": self.security is not None,
            "xpack.security.autoconfiguration.enabled": False,
        }
        if self.group:
            settings["node.attr.group"] = self.group
        if self.peers:
            settings["discovery.seed_hosts"] = list(self.peers.values())
            settings["cluster.initial_master_nodes"] = list(self.peers)
        else:
            settings["discovery.type"] = "single-node"
        if self.security:
            for part in ("http", "transport"):
                ssl_settings = {"enabled": True, "certificate": "node.crt", "key": "node.key", "certificate_authorities": ["ca.crt"]}
                settings |= {f"xpack.security.{part}.ssl.{key}": value for key, value in ssl_settings.items()}
            settings["xpack.security.transport.ssl.verification_mode"] = "full"
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())

    def _realm(self) -> dict[str, str]:
        """The files of the file realm by name; the same for the same passwords."""
        if not self.security:
            return {}
        users = {ADMIN: User(self.security.admin_password, ("superuser",)), **self.security.users}
        members: dict[str, list[str]] = {}
        for name, user in users.items():
            for role in user.roles:
                members.setdefault(role, []).append(name)
        return {
            "users": "".join(f"{name}:{_hashed(name, user.password)}\n" for name, user in users.items()),
            "users_roles": "".join(f"{role}:{','.join(names)}\n" for role, names in members.items()),
            "roles.yml": "".join(f"{name}: {json.dumps(role)}\n" for name, role in self.security.roles.items()),
        }


def introduce(nodes: Sequence[Elasticsearch]) -> None:
    """Makes nodes, none of which was started here yet, one cluster. Start each with wait=False, and then wait for each: alone none gets ready."""
    peers = {node.name: f"{HOST}:{node.transport_port}" for node in nodes}
    for node in nodes:
        node.peers = peers


class _Session:
    """HTTP as ADMIN, over TLS where the node has it."""

    def __init__(self, security: Security | None) -> None:
        self._security = security
        self._context: ssl.SSLContext | None = None

    def ask(self, url: str, method: str, body: Any, timeout_s: float) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._security:
            if self._context is None:
                self._context = ssl.create_default_context(cafile=str(self._security.tls.ca))
            headers["Authorization"] = "Basic " + base64.b64encode(f"{ADMIN}:{self._security.admin_password}".encode()).decode()
        request = urllib.request.Request(url, method=method, headers=headers, data=None if body is None else json.dumps(body).encode())
        # A proxy of the environment is for elsewhere.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context))
        with opener.open(request, timeout=timeout_s) as answer:
            return json.loads(answer.read(ANSWER_BYTES_MAX) or b"null")


def _hashed(name: str, password: str) -> str:
    """A password as the file realm keeps it. The salt follows from both, so that a start with the same users has the same settings."""
    salt = hashlib.sha256(f"{name}\0{password}".encode()).digest()
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, PBKDF2_ROUNDS, 32)
    return f"{{PBKDF2}}{PBKDF2_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"
