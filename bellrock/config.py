"""The server's settings: server.toml, each setting documented in server.sample.toml beside this file."""

import dataclasses
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bellrock.errors import UsageError
from jobdb import address
from jobdb.address import Access
from pipeline.listen import is_loopback

# Classes of data that [retention] has a setting of: `pipeline.store.parts.CLASSES`, which is not imported here, since that would bring numpy's threads
# into every command before it holds its signals back.
RETAINED = ("runs", "samples", "rollups", "letters", "job_events")
SAMPLE = Path(__file__).with_name("server.sample.toml")


@dataclass(frozen=True)
class Http:
    """Pages and API. `socket`: where a proxy of this machine, which speaks TLS to the outside, brings requests; "": there is none."""

    host: str = "127.0.0.1"
    port: int = 8425
    threads: int = 12
    socket: str = ""
    socket_group: str = ""
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ingest:
    """Where agents deliver records, beside the state directory's own socket. Port 0: nowhere. The tls_ settings are paths: all or none."""

    host: str = "127.0.0.1"
    port: int = 0
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""

    @property
    def tls(self) -> bool:
        """Whether the port speaks TLS."""
        return bool(self.tls_cert)


@dataclass(frozen=True)
class Agent:
    """The agent of this machine, run as the server's child."""

    run: bool = True
    spool_mib: int = 1024
    drain_s: int = 20
    lwfs_client_logs: list[str] = field(default_factory=list)
    lwfs_client_time_zone: str = ""


@dataclass(frozen=True)
class Jobdb:
    """The job database: "" is SQLite in the state, else an address as jobdb.address has it. The analyst's account is for `bellrock sql`."""

    url: str = ""
    password_file: str = ""
    ca: str = ""
    analyst: str = "analyst"
    analyst_password_file: str = ""

    def access(self, state: Path) -> Access:
        """The server's way to it."""
        return Access(self.url, self.password_file, self.ca) if self.url else Access(f"sqlite:///{state / 'jobs.db'}")


@dataclass(frozen=True)
class Store:
    """Where records are kept: "duckdb" (in the state directory) or "elasticsearch"."""

    kind: str = "duckdb"


@dataclass(frozen=True)
class Elasticsearch:
    """The Elasticsearch of [store] kind = "elasticsearch". ca and password_file are paths."""

    urls: list[str] = field(default_factory=lambda: ["http://127.0.0.1:9200"])
    user: str = ""
    password_file: str = ""
    ca: str = ""
    timeout_s: int = 60
    period: str = "month"
    bulk_threads: int = 4


@dataclass(frozen=True)
class Queue:
    """What lies between the half of a log server that receives and the half that stores. password_file: a path, "" for none."""

    kind: str = "none"
    url: str = "redis://127.0.0.1:6379/0"
    password_file: str = ""
    list: str = "bellrock"
    items_max: int = 1_000_000
    piece_items: int = 50_000
    piece_mib: int = 32
    lease_s: int = 10


@dataclass(frozen=True)
class Cache:
    """Where answers that are dear are kept: "" is in this process, else a Redis. password_file: a path, "" for none."""

    url: str = ""
    password_file: str = ""


@dataclass(frozen=True)
class Group:
    """The group of nodes that a log server takes records of; "" where there are no groups."""

    name: str = ""


@dataclass(frozen=True)
class Metrics:
    """Figures for a Prometheus. `port`: of `bellrock ingest`, on loopback, 0: none. token_file: a path; who shows the token may ask the server for /metrics."""

    port: int = 0
    token_file: str = ""


@dataclass(frozen=True)
class Retention:
    """How many days records are kept, by class (0: for ever), and whether the server drops what is older by itself."""

    run: bool = False
    runs: int = 180
    samples: int = 180
    rollups: int = 180
    letters: int = 180
    job_events: int = 180

    @property
    def days(self) -> dict[str, int]:
        """By class of data."""
        return {name: getattr(self, name) for name in RETAINED}


@dataclass(frozen=True)
class Config:
    """All settings. `explicit` holds those that were set ("http.port"), for where a default may give way and a wish may not."""

    http: Http = field(default_factory=Http)
    ingest: Ingest = field(default_factory=Ingest)
    agent: Agent = field(default_factory=Agent)
    jobdb: Jobdb = field(default_factory=Jobdb)
    store: Store = field(default_factory=Store)
    elasticsearch: Elasticsearch = field(default_factory=Elasticsearch)
    queue: Queue = field(default_factory=Queue)
    cache: Cache = field(default_factory=Cache)
    group: Group = field(default_factory=Group)
    metrics: Metrics = field(default_factory=Metrics)
    retention: Retention = field(default_factory=Retention)
    explicit: frozenset[str] = frozenset()

    @property
    def is_central(self) -> bool:
        """Whether records come from log servers: this process reads those of all groups, and takes none."""
        return self.store.kind == "elasticsearch" and not self.group.name


SECTIONS: dict[str, type] = {
    "http": Http,
    "ingest": Ingest,
    "agent": Agent,
    "jobdb": Jobdb,
    "store": Store,
    "elasticsearch": Elasticsearch,
    "queue": Queue,
    "cache": Cache,
    "group": Group,
    "metrics": Metrics,
    "retention": Retention,
}
_AT_LEAST = {
    "http.port": 0,
    "ingest.port": 0,
    "metrics.port": 0,
    "http.threads": 4,
    "agent.spool_mib": 1,
    "agent.drain_s": 1,
    "elasticsearch.timeout_s": 1,
    "elasticsearch.bulk_threads": 1,
    "queue.items_max": 1000,
    "queue.piece_items": 1,
    "queue.piece_mib": 1,
    "queue.lease_s": 3,
    **{f"retention.{name}": 0 for name in RETAINED},
}
_AT_MOST = {
    "http.port": 65535,
    "ingest.port": 65535,
    "metrics.port": 65535,
    "http.threads": 256,
    "agent.spool_mib": 1 << 20,
    "agent.drain_s": 600,
    "elasticsearch.timeout_s": 600,
    "elasticsearch.bulk_threads": 16,
    "queue.items_max": 10**9,
    "queue.piece_items": 100_000,
    "queue.piece_mib": 256,
    "queue.lease_s": 600,
    **{f"retention.{name}": 36500 for name in RETAINED},
}
_ONE_OF = {"store.kind": ("duckdb", "elasticsearch"), "elasticsearch.period": ("day", "week", "month"), "queue.kind": ("none", "redis")}
_GROUP = re.compile(r"[a-z0-9_]{0,32}")


def load(path: Path | None, state: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Settings from `path` (default: server.toml in the state directory, where there is one), then `overrides`
    ({"http.port": 8000}; None: not given).

    Raises UsageError for a file that cannot be read, an unknown key, a wrong type, and a host that is not loopback, but for ingest's with TLS."""
    table: dict[str, Any] = {}
    where = path or state / "server.toml"
    if path is not None or where.exists():
        try:
            table = tomllib.loads(where.read_text())
        except OSError as error:
            raise UsageError(f"{where}: cannot be read: {error.strerror}", "`bellrock server --sample-config` prints one to start from") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{where}: not TOML: {error}", "`bellrock server --sample-config` prints one to start from") from error
    return parse(table, str(where), overrides)


def parse(table: dict[str, Any], where: str, overrides: dict[str, Any] | None = None) -> Config:
    """Settings from a parsed TOML table; `where` names it in errors. Raises UsageError."""
    given: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for section, values in table.items():
        if section not in SECTIONS:
            raise UsageError(f"{where}: unknown section [{section}]", f"known: {', '.join(f'[{s}]' for s in SECTIONS)}")
        if not isinstance(values, dict):
            raise UsageError(f"{where}: {section} is a section", f"write [{section}] on a line of its own, and its settings below")
        known = {f.name: f for f in dataclasses.fields(SECTIONS[section])}
        for key, value in values.items():
            if key not in known:
                raise UsageError(f"{where}: unknown setting {key} in [{section}]", f"known: {', '.join(known)}")
            given[section][key] = value
    for name, value in (overrides or {}).items():
        if value is not None:
            section, key = name.split(".")
            given[section][key] = value

    def source(name: str) -> str:
        return "the command line" if (overrides or {}).get(name) is not None else where

    for section, values in given.items():
        for key, value in values.items():
            name = f"{section}.{key}"
            _check(name, value, getattr(SECTIONS[section](), key), source(name))
    explicit = frozenset(f"{section}.{key}" for section, values in given.items() for key in values)
    parsed = Config(**{name: section(**given[name]) for name, section in SECTIONS.items()}, explicit=explicit)
    _check_tls(parsed.ingest, where)
    _check_logs(parsed.agent.lwfs_client_logs, where)
    _check_jobdb(parsed.jobdb, where)
    _check_elasticsearch(parsed.elasticsearch, where)
    if parsed.is_central:
        _check_central(parsed, where)
    _check_path("queue.password_file", parsed.queue.password_file, where)
    _check_path("cache.password_file", parsed.cache.password_file, where)
    if parsed.cache.password_file and not parsed.cache.url:
        raise UsageError(f"{where}: cache.password_file is set and cache.url is not", "the cache in this process needs none: set cache.url, or take that away")
    _check_path("metrics.token_file", parsed.metrics.token_file, where)
    if not _GROUP.fullmatch(parsed.group.name):
        raise UsageError(f"{source('group.name')}: group.name = {parsed.group.name!r} cannot be part of an index's name", "take up to 32 of a-z, 0-9 and _")
    _check_host("http.host", parsed.http.host, source("http.host"), "and the port speaks no TLS")
    _check_proxy(parsed.http, where)
    if not parsed.ingest.tls:
        _check_host("ingest.host", parsed.ingest.host, where, "and there is no TLS: ingest.tls_cert is not set")
    return parsed


def _check_tls(ingest: Ingest, where: str) -> None:
    paths = {name: getattr(ingest, name) for name in ("tls_cert", "tls_key", "tls_client_ca")}
    if not any(paths.values()):
        return
    for name, path in paths.items():
        if not path:
            raise UsageError(
                f"{where}: ingest.{name} is missing", f"TLS wants all of {', '.join(f'ingest.{n}' for n in paths)}; docs/tls.md tells how to make them"
            )
        if not Path(path).is_absolute():
            raise UsageError(f"{where}: ingest.{name} = {path!r} is not an absolute path", "begin it with /")


def _check_jobdb(jobdb: Jobdb, where: str) -> None:
    if not jobdb.url:
        for name in ("password_file", "ca", "analyst_password_file"):
            if getattr(jobdb, name):
                raise UsageError(f"{where}: jobdb.{name} is set and jobdb.url is not", "SQLite needs none: set jobdb.url, or take that away")
        return
    try:
        for path in (jobdb.password_file, jobdb.analyst_password_file):
            address.parse(jobdb.url, path, jobdb.ca)
    except address.BadAddress as error:
        raise UsageError(f"{where}: [jobdb]: {error.args[0]}", error.hint) from error
    if not address.NAME.fullmatch(jobdb.analyst):
        raise UsageError(f"{where}: jobdb.analyst = {jobdb.analyst!r} is no name of an account", "take a-z, 0-9 and _, beginning with a letter, 32 at most")


def _check_path(name: str, path: str, where: str) -> None:
    if path and not Path(path).is_absolute():
        raise UsageError(f"{where}: {name} = {path!r} is not an absolute path", "begin it with /")


def _check_elasticsearch(given: Elasticsearch, where: str) -> None:
    if not given.urls:
        raise UsageError(f"{where}: elasticsearch.urls is empty", 'write it as ["https://es1:9200"]')
    for url in given.urls:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise UsageError(f"{where}: elasticsearch.urls has {url!r}, which is no URL", 'write it as ["https://es1:9200"]')
        if "@" in url:
            raise UsageError(f"{where}: elasticsearch.urls names a user or password", "write elasticsearch.user and elasticsearch.password_file")
        host = (urlsplit(url).hostname or "").strip("[]")
        if url.startswith("http://") and not is_loopback(host):
            raise UsageError(
                f"{where}: elasticsearch.urls has {url!r}: beyond this machine nothing is sent without TLS", "write https://, and elasticsearch.ca"
            )
    if bool(given.user) != bool(given.password_file):
        raise UsageError(f"{where}: elasticsearch.user and elasticsearch.password_file go together", "set both or none")
    _check_path("elasticsearch.password_file", given.password_file, where)
    _check_path("elasticsearch.ca", given.ca, where)


def _check_central(config: Config, where: str) -> None:
    taking = {"ingest.port": bool(config.ingest.port), "queue.kind": config.queue.kind != "none", "agent.run": config.agent.run and "agent.run" in config.explicit}
    for name, is_set in taking.items():
        if is_set:
            raise UsageError(
                f"{where}: {name} is set, and group.name is not",
                "records are written into Elasticsearch under the name of their group; a server without one shows those of all, and takes none",
            )


def _check_logs(logs: list[Any], where: str) -> None:
    for log in logs:
        if not isinstance(log, str) or not Path(log).is_absolute():
            raise UsageError(f"{where}: agent.lwfs_client_logs has {log!r}, which is no absolute path", 'write it as ["/var/log/lwfs/client.log"]')


def _check_proxy(http: Http, where: str) -> None:
    for name in http.names:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", name, re.ASCII):
            raise UsageError(f"{where}: http.names has {name!r}, which is no host name", 'write it as ["bellrock.example.org"], without a port')
    if http.socket and not Path(http.socket).is_absolute():
        raise UsageError(f"{where}: http.socket = {http.socket!r} is not an absolute path", "begin it with /")
    if http.socket and not http.names:
        raise UsageError(f"{where}: http.names is missing", 'http.socket wants the host names of the proxy, such as ["bellrock.example.org"]; see docs/rights.md')
    if not http.socket and (http.names or http.socket_group):
        raise UsageError(f"{where}: http.names and http.socket_group need http.socket", "they are for requests that a proxy brings; see docs/rights.md")


def _check_host(name: str, host: str, where: str, why: str) -> None:
    if ":" in host and is_loopback(host):
        raise UsageError(f"{where}: {name} = {host!r} is IPv6, of which no loopback address is taken", "keep 127.0.0.1")
    if not is_loopback(host):
        raise UsageError(
            f"{where}: {name} = {host!r} is not a loopback address, {why}",
            "keep 127.0.0.1; to see the pages from another machine use `ssh -L 8425:127.0.0.1:8425 HOST`, or a proxy with TLS (docs/rights.md); "
            "for agents elsewhere see docs/tls.md",
        )


def _check(name: str, value: Any, default: Any, where: str) -> None:
    if type(value) is not type(default):
        raise UsageError(f"{where}: {name} = {value!r} is not of type {type(default).__name__}", f"its default is {default!r}")
    if name in _ONE_OF and value not in _ONE_OF[name]:
        raise UsageError(f"{where}: {name} = {value!r} is not known", f"take {' or '.join(_ONE_OF[name])}")
    if name in _AT_LEAST and not _AT_LEAST[name] <= value <= _AT_MOST[name]:
        raise UsageError(f"{where}: {name} = {value} is out of range", f"take {_AT_LEAST[name]} to {_AT_MOST[name]}")


def sample() -> str:
    """The commented sample configuration."""
    return SAMPLE.read_text()
