"""The server's settings: server.toml, each setting documented in server.sample.toml beside this file, and what must hold among them in config_checks.py."""

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bellrock.config_checks import check, check_value
from bellrock.errors import UsageError
from jobdb.address import Access

# Classes of data that [retention] has a setting of: `pipeline.store.parts.CLASSES`, which is not imported here, since that would bring numpy's threads
# into every command before it holds its signals back.
RETAINED = ("runs", "samples", "minutes", "hours", "messages", "rollups", "letters", "job_events")
PORT_MAX = 65535
SAMPLE = Path(__file__).with_name("server.sample.toml")


def _between(least: float, most: float, *, default: float) -> Any:
    return field(default=default, metadata={"between": (least, most)})


def _one_of(*known: str, default: str) -> Any:
    return field(default=default, metadata={"one_of": known})


@dataclass(frozen=True)
class Http:
    """Pages and API. `socket`: where a proxy of this machine, which speaks TLS to the outside, brings requests; "": there is none."""

    host: str = "127.0.0.1"
    port: int = _between(0, PORT_MAX, default=8425)
    threads: int = _between(4, 256, default=16)
    socket: str = ""
    socket_group: str = ""
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ingest:
    """Where agents deliver records, beside the state directory's own socket. Port 0: nowhere. The tls_ settings are paths: all or none.
    connections_max: over TCP at once."""

    host: str = "127.0.0.1"
    port: int = _between(0, PORT_MAX, default=0)
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    connections_max: int = _between(8, 4096, default=1024)

    @property
    def tls(self) -> bool:
        """Whether the port speaks TLS."""
        return bool(self.tls_cert)


@dataclass(frozen=True)
class Agent:
    """The agent of this machine, run as the server's child."""

    run: bool = True
    spool_mib: int = _between(1, 1 << 20, default=1024)
    drain_s: int = _between(1, 600, default=20)
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

    kind: str = _one_of("duckdb", "elasticsearch", default="duckdb")


@dataclass(frozen=True)
class Elasticsearch:
    """The Elasticsearch of [store] kind = "elasticsearch". ca and password_file are paths."""

    urls: list[str] = field(default_factory=lambda: ["http://127.0.0.1:9200"])
    user: str = ""
    password_file: str = ""
    ca: str = ""
    timeout_s: int = _between(1, 600, default=60)
    period: str = _one_of("day", "week", "month", default="month")
    bulk_threads: int = _between(1, 16, default=4)


@dataclass(frozen=True)
class Queue:
    """What lies between the half of a log server that receives and the half that stores. password_file: a path, "" for none."""

    kind: str = _one_of("none", "redis", default="none")
    url: str = "redis://127.0.0.1:6379/0"
    password_file: str = ""
    list: str = "bellrock"
    items_max: int = _between(1000, 10**9, default=1_000_000)
    piece_items: int = _between(1, 100_000, default=50_000)
    piece_mib: int = _between(1, 256, default=32)
    lease_s: int = _between(3, 600, default=10)


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

    port: int = _between(0, PORT_MAX, default=0)
    token_file: str = ""


@dataclass(frozen=True)
class Scheduler:
    """The batch system whose jobs are followed. file: what it wrote, to be read instead of asking. prefix: of kind "csv"."""

    kind: str = _one_of("none", "slurm", "pbs", "lsf", "csv", default="none")
    cluster: str = ""
    every_s: int = _between(1, 3600, default=30)
    first_days: int = _between(0, 3650, default=7)
    domain: str = ""
    file: str = ""
    prefix: str = ""


@dataclass(frozen=True)
class Retention:
    """How many days records are kept, by class (0: for ever), and whether the server drops what is older by itself."""

    run: bool = False
    runs: int = _between(0, 36500, default=180)
    samples: int = _between(0, 36500, default=180)
    minutes: int = _between(0, 36500, default=400)
    hours: int = _between(0, 36500, default=0)
    messages: int = _between(0, 36500, default=180)
    rollups: int = _between(0, 36500, default=180)
    letters: int = _between(0, 36500, default=180)
    job_events: int = _between(0, 36500, default=180)

    @property
    def days(self) -> dict[str, int]:
        """By class of data."""
        return {name: getattr(self, name) for name in RETAINED}


@dataclass(frozen=True)
class Archive:
    """Whether jobs' records are packed into the archive, so long after they settled; what cannot be packed holds retention for so many days. group: of the nodes
    of Elasticsearch where it lies. Times and offsets are rounded down to multiples of their steps, 1: not at all; handles: they are kept."""

    run: bool = True
    after_s: int = _between(0, 86_400, default=600)
    patience_days: int = _between(0, 3650, default=30)
    group: str = "archive"
    time_step_ns: int = _between(1, 60 * 10**9, default=1)
    offset_step_bytes: int = _between(1, 1 << 40, default=1)
    handles: bool = True


@dataclass(frozen=True)
class Findings:
    """Whether the server looks for findings by itself, and from where on a job's I/O is one; see `anomaly.harm.Bounds`. event_rules: a path, "" for none: a site's own rules
    of which messages tell of known events; see `anomaly.log_rules`. programs: rules for their names, see `anomaly.names.Rules`; slow_: from where on a job is slow, see `anomaly.history.Limits`; interference: whether it is asked who slowed it.
    slow_osts, slow_forwarding, servers_: see `webapp.api.slow_servers.Settings`; large_: `webapp.api.large_jobs.Settings`; cache_thrashing and so on, job_classes: `webapp.api.system_wide.Settings`; peaks: 0 where they are learnt."""

    run: bool = True
    mdops: int = _between(1, 10**9, default=300)
    nodes: int = _between(1, 10**9, default=32)
    least_bytes: int = _between(0, 1 << 60, default=200_000_000)
    small_bytes: int = _between(1, 1 << 40, default=16_384)
    one_sided_bytes: int = _between(0, 1 << 60, default=10_000_000_000)
    one_sided_nodes: int = _between(2, 10**9, default=8)
    discarded_bytes: int = _between(0, 1 << 60, default=1_000_000_000)
    event_rules: str = ""
    programs: list[str] = field(default_factory=list)
    slow_times: float = _between(1.05, 1000.0, default=1.3)
    slow_spreads: float = _between(2.0, 8.0, default=4.0)
    slow_lost_s: int = _between(0, 86_400, default=10)
    slow_runs: int = _between(5, 1000, default=8)
    slow_kept: int = _between(10, 1000, default=100)
    slow_scale: float = _between(1.0, 100.0, default=1.25)
    interference: bool = True
    slow_osts: bool = True
    slow_forwarding: bool = True
    servers_learn_hours: int = _between(1, 24 * 30, default=24)
    servers_first_days: int = _between(1, 3650, default=7)
    servers_delay_s: int = _between(0, 86_400, default=300)
    reported_percent: int = _between(1, 100, default=30)
    reported_minutes: int = _between(1, 7 * 24 * 60, default=60)
    peak_ost_mib_s: int = _between(0, 1 << 30, default=0)
    peak_forwarding_mib_s: int = _between(0, 1 << 30, default=0)
    large_jobs: bool = True
    large_job_nodes: int = _between(2, 10**9, default=1024)
    cache_thrashing: bool = True
    metadata_pressure: bool = True
    forwarding_load: bool = True
    load_peak_mib_s: int = _between(0, 1 << 30, default=0)
    job_classes: list[str] = field(default_factory=lambda: ["compute", "forwarding"])


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
    scheduler: Scheduler = field(default_factory=Scheduler)
    retention: Retention = field(default_factory=Retention)
    archive: Archive = field(default_factory=Archive)
    findings: Findings = field(default_factory=Findings)
    explicit: frozenset[str] = frozenset()

    @property
    def is_central(self) -> bool:
        """Whether records come from log servers: this process reads those of all groups, and takes none."""
        return self.store.kind == "elasticsearch" and not self.group.name

    @property
    def is_archived_elsewhere(self) -> bool:
        """Whether the site's central server archives runs before they are dropped, so that this process may drop none."""
        return self.archive.run and self.store.kind == "elasticsearch" and not self.is_central


# By name.
SECTIONS: dict[str, type] = {section.name: section.default_factory for section in dataclasses.fields(Config) if section.name != "explicit"}  # type: ignore[misc]


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
    known = {name: {setting.name: setting for setting in dataclasses.fields(section)} for name, section in SECTIONS.items()}
    given: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for section, values in table.items():
        if section not in SECTIONS:
            raise UsageError(f"{where}: unknown section [{section}]", f"known: {', '.join(f'[{s}]' for s in SECTIONS)}")
        if not isinstance(values, dict):
            raise UsageError(f"{where}: {section} is a section", f"write [{section}] on a line of its own, and its settings below")
        for key, value in values.items():
            if key not in known[section]:
                raise UsageError(f"{where}: unknown setting {key} in [{section}]", f"known: {', '.join(known[section])}")
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
            check_value(name, value, getattr(SECTIONS[section](), key), known[section][key].metadata, source(name))
    explicit = frozenset(f"{section}.{key}" for section, values in given.items() for key in values)
    parsed = Config(**{name: section(**given[name]) for name, section in SECTIONS.items()}, explicit=explicit)
    check(parsed, where, source)
    return parsed


def sample() -> str:
    """The commented sample configuration."""
    return SAMPLE.read_text()
