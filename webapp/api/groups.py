"""What is wrong with a group of nodes, for an administrator: pure functions from what its log servers and Elasticsearch say."""

from collections.abc import Mapping
from typing import Any

# A log server that has said nothing for so many of its intervals, and at least so long, is silent.
SILENT_INTERVALS = 6
SILENT_S = 30.0
# Of what a queue may hold, or of a disk, so much is told.
NEARLY_FULL = 0.8
DISK_NEARLY_FULL = 0.85
_SECOND = 10**9


def with_troubles(groups: list[dict[str, Any]], now_ns: int) -> list[dict[str, Any]]:
    """The groups, each with `troubles`: a list of {text, hint}, the worst first, and `silent` in each of its log servers."""
    shown = []
    for group in groups:
        servers = [server | {"silent": is_silent(server, now_ns)} for server in group["log_servers"]]
        shown.append(group | {"log_servers": servers, "troubles": troubles(group | {"log_servers": servers}, now_ns)})
    return shown


def is_silent(server: Mapping[str, Any], now_ns: int) -> bool:
    """Whether a log server that did not end has said nothing for long."""
    return not server["ended"] and now_ns - server["time_ns"] > max(SILENT_S, SILENT_INTERVALS * server["every_s"]) * _SECOND


def troubles(group: Mapping[str, Any], now_ns: int) -> list[dict[str, str]]:
    """Of one group, the worst first. No log servers: Logstash writes, or an older one, which says nothing."""
    return [*_of_indices(group), *_of_nodes(group, now_ns), *_of_disks(group), *(one for server in group["log_servers"] for one in _of_server(server, now_ns))]


def _of_indices(group: Mapping[str, Any]) -> list[dict[str, str]]:
    found = []
    if group["unassigned"]:
        text = f"its Elasticsearch node is down: {_count(group['unassigned'], 'index')} cannot be read, and nothing is stored"
        found.append(_trouble(text, f"start Elasticsearch on {group['group']}'s log server; `curl …/_cat/shards/bellrock-*?v` shows the rest"))
    if group["blocked"]:
        text = f"{_count(group['blocked'], 'index')} take nothing: the disk is over the flood stage, or somebody set them read-only"
        hint = "free disk space there; then `PUT /bellrock-*/_settings` with index.blocks.read_only_allow_delete null, or `bellrock retention --apply` makes room"
        found.append(_trouble(text, hint))
    return found


def _of_nodes(group: Mapping[str, Any], now_ns: int) -> list[dict[str, str]]:
    """A copy is missed only while another one is there."""
    if not group["nodes"]:
        return []
    hint = "start Elasticsearch there: until then nothing is kept twice; one that was taken out for good is told of for a day"
    return [_trouble(f"its second node {node['name']} has been away for {_span((now_ns - node['seen_ns']) / _SECOND)}", hint) for node in group["nodes_away"]]


def _of_disks(group: Mapping[str, Any]) -> list[dict[str, str]]:
    found = []
    for node in group["nodes"]:
        total, free = node["disk_bytes"], node["disk_free_bytes"]
        if total and free is not None and 1 - free / total > DISK_NEARLY_FULL:
            text = f"the disk of {node['name']} is {100 * (1 - free / total):.0f} % full"
            found.append(_trouble(text, "Elasticsearch makes no index above 85 %, and takes nothing above 95 %: free space, or keep records for fewer days in [retention]"))
    return found


def _of_server(server: Mapping[str, Any], now_ns: int) -> list[dict[str, str]]:
    who = f"{server['host']} ({' and '.join(_HALVES[half] for half in server['halves'])})"
    if server["ended"]:
        return []
    if server["silent"]:
        seconds = (now_ns - server["time_ns"]) / _SECOND
        hint = f"look there with `systemctl status bellrock-ingest`; what agents on {server['host']}'s nodes see waits in their spools"
        return [_trouble(f"{who} has been silent for {_span(seconds)}", hint)]
    found = []
    for half in ("store", "receive"):
        error = (server[half] or {}).get("error")
        if error:
            found.append(_trouble(f"{who} {_FAILS[half]}: {error}", "agents hold their records back until it works again"))
    waits_for = (server["store"] or {}).get("waits_for")
    if waits_for:
        found.append(_trouble(f"{who} waits: {waits_for} empties the same queue", "one process a group may: end one of them"))
    ends_ns = (server["receive"] or {}).get("certificate_ends_ns")
    if ends_ns is not None and ends_ns < now_ns:
        found.append(_trouble(f"the certificate of {who} has ended: no agent delivers", "put a new one in its place (docs/tls.md); no restart is needed"))
    return found + _of_queue(who, server["queue"] or {})


def _of_queue(who: str, queue: Mapping[str, Any]) -> list[dict[str, str]]:
    if queue.get("error"):
        return [_trouble(f"{who} cannot reach its queue: {queue['error']}", "start Redis there (`systemctl status bellrock-redis` where Ansible set it up); agents hold their records back")]
    found = []
    waiting, most = queue.get("waiting", 0), queue.get("items_max", 0)
    if most and waiting >= NEARLY_FULL * most:
        text = f"the queue of {who} holds {waiting:,} of at most {most:,} records"
        found.append(_trouble(text, "Elasticsearch takes fewer than agents bring, or nobody stores; beyond that agents hold their records back"))
    memory, bound = queue.get("memory_bytes", 0), queue.get("memory_max_bytes", 0)
    if bound and memory >= NEARLY_FULL * bound:
        text = f"the Redis of {who} has used {100 * memory / bound:.0f} % of its memory"
        found.append(_trouble(text, "at 100 % it takes nothing, and agents hold their records back: give it more with maxmemory in redis.conf"))
    return found + [_trouble(f"the queue of {who} may lose records: {text}", "") for text in queue.get("unsafe", [])]


_HALVES = {"receive": "receives", "store": "stores"}
_FAILS = {"receive": "cannot pass on what it receives", "store": "cannot store"}


def _trouble(text: str, hint: str) -> dict[str, str]:
    return {"text": text, "hint": hint}


def _count(names: list, noun: str) -> str:
    return f"{len(names)} {noun if len(names) == 1 else 'indices'}"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
