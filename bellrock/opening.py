"""Opens the parts that the settings name, each in one place for all commands: store, job database, cache, queue, and where agents
deliver and the proxy brings requests.

Each is imported where it is opened: they take long, and no command needs all.
"""

import dataclasses
import grp
import logging
import os
import resource
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellrock import ports
from bellrock.config import Config
from bellrock.errors import UsageError

if TYPE_CHECKING:
    from anomaly.harm import Bounds
    from anomaly import log_rules, names
    from anomaly.history import Limits
    from jobdb.queue_follow import QueueFollower
    from jobdb.repository import JobDB
    from pipeline.archive import Archive
    from pipeline.ingest import Ingest
    from pipeline.queue.redis import RedisSettings
    from pipeline.sink import Sink
    from webapp.api.cache import Cache
    from webapp.api.second_pass import SecondPass
    from webapp.api import large_jobs, system_wide
    from webapp.api.slow_servers import Settings

log = logging.getLogger(__name__)

# Open files of a place for a connection: those that have to go keep theirs for a while. And all else: of the store, of pages, of the job database.
FILES_EACH, FILES_BESIDE = 2, 1024


def open_store(config: Config, state: Path) -> Any:
    """The store of [store] kind; on Elasticsearch it takes records of the group of [group], without one it only reads those of all. Raises StoreError where it cannot be opened, UsageError for settings that cannot be."""
    if config.store.kind == "elasticsearch":
        from pipeline.store import StoreError
        from pipeline.store.elastic.client import Settings
        from pipeline.store.elastic.store import ElasticsearchStore

        try:
            return ElasticsearchStore(Settings(**dataclasses.asdict(config.elasticsearch), days=config.retention.days), config.group.name or None)
        except StoreError as error:
            raise UsageError(str(error), "the settings are those of [elasticsearch] in server.toml") from error
    from pipeline.store.duckdb import DuckDBStore

    return DuckDBStore(state / "records.duckdb")


def check_shards(store: Any) -> None:
    """Tells in the log where the groups' shards are too many for the cluster. Raises UsageError where they are, and this group would be a new one."""
    from pipeline.store import StoreError
    from pipeline.store.elastic.budget import DoesNotFit

    try:
        store.check_shards()
    except DoesNotFit as error:
        raise UsageError(str(error), "set that, or `cluster.max_shards_per_node` at Elasticsearch, then start it again") from error
    except StoreError as error:
        log.warning("whether Elasticsearch takes all shards could not be looked at: %s", error)


def open_archive(config: Config, state: Path) -> "Archive":
    """Where packed records lie: files beside the embedded store, or documents beside those of the groups. Raises UsageError for settings that cannot be."""
    if config.store.kind == "elasticsearch":
        from pipeline.archive.elastic import ElasticArchive
        from pipeline.store import StoreError
        from pipeline.store.elastic.client import Settings

        try:
            return ElasticArchive(Settings(**dataclasses.asdict(config.elasticsearch)), config.archive.group)
        except StoreError as error:
            raise UsageError(str(error), "the settings are those of [elasticsearch] in server.toml") from error
    from pipeline.archive.files import FileArchive

    return FileArchive(state / "archive")


def open_second_pass(config: Config, state: Path, store: Any, jobdb: "JobDB") -> "SecondPass | None":
    """What packs records into the archive, not started; its archive is to be closed. On one machine whoever has the records does, at a site the central server; None where nobody is to, or another."""
    from tracepack.archive import Precision

    from webapp.api.second_pass import SecondPass

    if not config.archive.run or config.is_archived_elsewhere:
        return None
    own = config.archive
    precision = Precision(own.time_step_ns, own.offset_step_bytes, own.handles)
    return SecondPass(jobdb, store, open_archive(config, state), own.after_s, own.patience_days, precision)


def bounds_of(config: Config) -> "Bounds":
    """From where on a job's I/O is a finding."""
    from anomaly.harm import Bounds

    own = config.findings
    return Bounds(own.mdops, own.nodes, own.least_bytes, own.small_bytes, own.one_sided_bytes, own.one_sided_nodes, own.discarded_bytes)


def rules_of(config: Config) -> "log_rules.Rules":
    """The rules by which messages tell of known events. Raises UsageError, which names file and line."""
    from anomaly.log_rules import RuleError, load

    own = config.findings.event_rules
    try:
        return load(Path(own) if own else None)
    except RuleError as error:
        raise UsageError(str(error), 'docs/findings.md, "Known events", has the form; findings.event_rules in server.toml names the file') from error
def slow_jobs_of(config: Config) -> "tuple[Limits, names.Rules]":
    """From where on a job is slow, and how programs are named. Raises UsageError for a rule that cannot be used."""
    from anomaly.history import Limits
    from anomaly.names import BadRule, Rules

    own = config.findings
    limits = Limits(own.slow_runs, own.slow_times, own.slow_spreads, float(own.slow_lost_s), max(own.slow_kept, own.slow_runs), own.slow_scale)
    try:
        return limits, Rules(own.programs)
    except BadRule as error:
        raise UsageError(f"findings.programs: {error}", "docs/detection.md tells how rules are written") from error


def slow_of(config: Config) -> "Settings":
    """How slow servers are looked for."""
    from anomaly.episodes import Report
    from anomaly.slow import Rules
    from anomaly.slow_findings import SLOW_FORWARDING, SLOW_OST
    from webapp.api.slow_servers import KINDS, UNSURE, Settings

    own = config.findings
    peaks = {SLOW_OST: own.peak_ost_mib_s, SLOW_FORWARDING: own.peak_forwarding_mib_s}
    report = Report(own.reported_percent / 100, own.reported_minutes)
    rules = {name: Rules(kind.classes, own.servers_learn_hours * 60, peaks[name] * float(1 << 20), report, UNSURE[name]) for name, kind in KINDS.items()}
    kinds = tuple(kind for kind, is_on in zip(KINDS, (own.slow_osts, own.slow_forwarding), strict=True) if is_on)
    return Settings(kinds, own.servers_delay_s, own.servers_first_days, rules)


def large_of(config: Config) -> "large_jobs.Settings":
    """How large jobs' servers are held against each other."""
    from anomaly.large_job_findings import KINDS
    from webapp.api.large_jobs import Settings

    own = config.findings
    return Settings(KINDS if own.large_jobs else (), own.large_job_nodes, slow_of(config))


def wide_of(config: Config) -> "system_wide.Settings":
    """How the system as such is looked at."""
    from anomaly.system import KINDS
    from webapp.api.system_wide import Settings

    own = config.findings
    kinds = tuple(kind for kind, is_on in zip(KINDS, (own.cache_thrashing, own.metadata_pressure, own.forwarding_load), strict=True) if is_on)
    return Settings(kinds, own.servers_delay_s, own.servers_first_days, own.discarded_bytes, float(own.mdops), own.load_peak_mib_s * float(1 << 20), tuple(own.job_classes))


def open_jobdb(config: Config, state: Path) -> "JobDB":
    """The job database that the settings mean, brought to the newest migration: the server's, and that of `bellrock account`. Raises JobDBError."""
    from jobdb.repository import JobDB

    return JobDB(config.jobdb.access(state))


def open_queue_follower(config: Config, jobdb: "JobDB") -> "QueueFollower | None":
    """What follows the batch system of [scheduler], not started; None where there is none."""
    from jobdb.queue import QueueTrouble, Read, ask, with_domain
    from jobdb.queue_follow import QueueFollower

    scheduler = config.scheduler
    if scheduler.kind == "none":
        return None

    def tell(since_s: float) -> Read:
        of_kind = ask.KINDS[scheduler.kind]
        if of_kind is not None and not scheduler.file:
            return with_domain(of_kind(since_s, scheduler.cluster), scheduler.domain)
        if not Path(scheduler.file).is_file():  # a pipe would keep us for ever
            raise QueueTrouble(f"{scheduler.file}: is no file (scheduler.file in server.toml)")
        return with_domain(ask.since(since_s, ask.from_file(scheduler.kind, Path(scheduler.file), scheduler.cluster, scheduler.prefix)), scheduler.domain)

    return QueueFollower(tell, jobdb, every_s=scheduler.every_s, first_s=scheduler.first_days * 86_400.0)


def open_cache(config: Config) -> "Cache":
    """Where answers are kept. Raises UsageError."""
    from webapp.api import cache

    try:
        return cache.open_cache(config.cache.url, config.cache.password_file)
    except ValueError as error:
        raise UsageError(f"cache.url: {error}", "the settings are those of [cache] in server.toml") from error


def queue_settings(config: Config) -> "RedisSettings":
    """Where the queue of [queue] is, and its bounds. Raises UsageError."""
    from pipeline.queue.redis import RedisSettings

    queue = config.queue
    password_file = Path(queue.password_file) if queue.password_file else None
    try:
        return RedisSettings(queue.url, password_file, queue.list, queue.items_max, queue.piece_items, queue.piece_mib << 20, queue.lease_s)
    except ValueError as error:
        raise UsageError(f"queue.url or queue.list: {error}", "they are settings of [queue] in server.toml") from error


def claim_ingest(config: Config) -> int:
    """ingest.port. Raises Unavailable where it is another's."""
    return ports.claim("ingest.port", ports.address(config.ingest.host), config.ingest.port)


def open_ingest(config: Config, sink: "Sink", port: int | None, unix: socket.socket | None = None) -> "Ingest":
    """What takes records into `sink`, not started: at `port` of ingest.host (None: no TCP), with TLS where that is set, and at a Unix socket. Raises the
    limit on open files where that is too low. Raises UsageError."""
    from pipeline.ingest import Ingest
    from pipeline.listen import BindError
    from pipeline.tls import TlsError, TlsFiles

    settings = config.ingest
    tls = TlsFiles(Path(settings.tls_cert), Path(settings.tls_key), Path(settings.tls_client_ca)) if settings.tls and port else None
    try:
        _allow_files(FILES_EACH * settings.connections_max + FILES_BESIDE)
        return Ingest(sink, ports.address(settings.host), port, unix=unix, tls=tls, connections_max=settings.connections_max)
    except (BindError, TlsError) as error:
        raise UsageError(str(error), "the settings are those of [ingest] in server.toml") from error


def listen_for_proxy(config: Config) -> socket.socket:
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


def read_scrape_token(config: Config) -> str:
    """The token of metrics.token_file. Raises UsageError."""
    from pipeline.secret import SecretError, read_secret

    try:
        return read_secret(Path(config.metrics.token_file))
    except SecretError as error:
        raise UsageError(f"metrics.token_file: {error}", "`openssl rand -hex 32` makes one") from error


def _allow_files(count: int) -> None:
    """Lets this process have so many files open at once, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        log.warning("at most %d files may be open at once; ingest.connections_max wants %d: raise `ulimit -Hn`, or LimitNOFILE of its unit", hard, count)
        count = hard
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
