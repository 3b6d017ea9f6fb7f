"""What must hold of settings, and among them. All raise UsageError; `where` names the file in errors."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bellrock.errors import UsageError
from jobdb import address
from pipeline.listen import is_loopback

if TYPE_CHECKING:
    from bellrock.config import Config, Elasticsearch, Http, Ingest, Jobdb, Scheduler

_DOMAIN = re.compile(r"(\.[A-Za-z0-9-]{1,63}){0,8}")
_CLUSTER = re.compile(r"[A-Za-z0-9_.-]{0,64}")
_GROUP = re.compile(r"[a-z0-9_]{0,32}")


def check_value(name: str, value: Any, default: Any, bounds: Mapping[str, Any], where: str) -> None:
    """One setting, of its default's type. bounds: `between` (least, most) or `one_of`, where it has any."""
    if type(value) is not type(default) and (type(value), type(default)) != (int, float):
        raise UsageError(f"{where}: {name} = {value!r} is not of type {type(default).__name__}", f"its default is {default!r}")
    if "one_of" in bounds and value not in bounds["one_of"]:
        raise UsageError(f"{where}: {name} = {value!r} is not known", f"take {' or '.join(bounds['one_of'])}")
    if "between" in bounds:
        least, most = bounds["between"]
        if not least <= value <= most:
            raise UsageError(f"{where}: {name} = {value} is out of range", f"take {least} to {most}")


def check(config: "Config", where: str, source: Callable[[str], str]) -> None:
    """All of them together. source: where the value of a setting comes from, by its name."""
    _check_tls(config.ingest, where)
    _check_logs(config.agent.lwfs_client_logs, where)
    _check_jobdb(config.jobdb, where)
    _check_elasticsearch(config.elasticsearch, where)
    if config.is_central:
        _check_central(config, where)
    if config.retention.run and config.is_archived_elsewhere:
        raise UsageError(
            f"{where}: retention.run and group.name are set, and archive.run is",
            "at a site with groups the central server packs runs into the archive, then drops them: "
            "set retention.run there alone, or, where no server keeps an archive, archive.run = false",
        )
    _check_path("queue.password_file", config.queue.password_file, where)
    _check_path("cache.password_file", config.cache.password_file, where)
    if config.cache.password_file and not config.cache.url:
        raise UsageError(f"{where}: cache.password_file is set and cache.url is not", "the cache in this process needs none: set cache.url, or take that away")
    _check_scheduler(config.scheduler, where)
    _check_path("metrics.token_file", config.metrics.token_file, where)
    _check_path("findings.event_rules", config.findings.event_rules, where)
    if config.findings.servers_first_days * 24 < config.findings.servers_learn_hours:
        raise UsageError(
            f"{where}: findings.servers_first_days = {config.findings.servers_first_days} is less than findings.servers_learn_hours = {config.findings.servers_learn_hours}",
            "what is learnt from is held against itself: begin at least as far back",
        )
    if not _GROUP.fullmatch(config.group.name):
        raise UsageError(f"{source('group.name')}: group.name = {config.group.name!r} cannot be part of an index's name", "take up to 32 of a-z, 0-9 and _")
    if not _GROUP.fullmatch(config.archive.group) or not config.archive.group:
        raise UsageError(f"{where}: archive.group = {config.archive.group!r} is no group of nodes", "take up to 32 of a-z, 0-9 and _")
    _check_host("http.host", config.http.host, source("http.host"), "and the port speaks no TLS")
    _check_proxy(config.http, where)
    if not config.ingest.tls:
        _check_host("ingest.host", config.ingest.host, where, "and there is no TLS: ingest.tls_cert is not set")


def _check_tls(ingest: "Ingest", where: str) -> None:
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


def _check_jobdb(jobdb: "Jobdb", where: str) -> None:
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


def _check_scheduler(scheduler: "Scheduler", where: str) -> None:
    if scheduler.kind == "csv" and not scheduler.file:
        raise UsageError(f"{where}: scheduler.file is missing", 'scheduler.kind = "csv" reads a table: name it; docs/queue.md has its columns')
    if scheduler.kind == "none" and scheduler.file:
        raise UsageError(f'{where}: scheduler.file is set, and scheduler.kind is "none"', "say which batch system wrote it")
    if scheduler.kind != "csv" and scheduler.prefix:
        raise UsageError(f'{where}: scheduler.prefix is set, and scheduler.kind is not "csv"', "batch systems tell whole names: take that away")
    _check_path("scheduler.file", scheduler.file, where)
    if not _DOMAIN.fullmatch(scheduler.domain):
        raise UsageError(f"{where}: scheduler.domain = {scheduler.domain[:80]!r} is no end of a node's name", 'write it as ".site.org"')
    if not _CLUSTER.fullmatch(scheduler.cluster):
        raise UsageError(f"{where}: scheduler.cluster = {scheduler.cluster[:80]!r} is no name of a cluster", "take up to 64 letters, digits, '_', '.' and '-'")


def _check_path(name: str, path: str, where: str) -> None:
    if path and (not Path(path).is_absolute() or "\0" in path):
        raise UsageError(f"{where}: {name} = {path!r} is not an absolute path", "begin it with /")


def _check_elasticsearch(given: "Elasticsearch", where: str) -> None:
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


def _check_central(config: "Config", where: str) -> None:
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


def _check_proxy(http: "Http", where: str) -> None:
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
