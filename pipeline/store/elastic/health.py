"""What an administrator must see of each group: whether its indices are there and take records."""

import re
import threading
from typing import Any

from pipeline.store.elastic import logservers
from pipeline.store.elastic.client import Client
from pipeline.store.elastic.reader import Reader
from pipeline.store.mark import Key, Mark

# Roles in a node's letters that let it hold indices such as ours: data, and data_content.
_DATA = frozenset("ds")
# A node that has gone for good is missed for so long.
MISSED_NS = 24 * 3600 * 10**9
# The archive is of no group.
_GROUP = re.compile(r"bellrock-(?:books|(?!archive-)[a-z]+-[a-z]+)-([a-z0-9_]{1,32})(?:-[0-9a-z.]+)?")


def group_of(index: str) -> str | None:
    """The group that an index belongs to; None for one that is not ours."""
    found = _GROUP.fullmatch(index)
    return found and found[1]


def group_states(reader: Reader, last: dict[str, dict], booked: list[tuple[str, Key, Mark]]) -> list[dict[str, Any]]:
    """By name. last: as `pipeline.store.elastic.booked.totals` gives it, booked: as `Marks.read` there does. Of each: the number and time of its last commit, its indices and which of
    them have no node (`unassigned`) or take nothing (`blocked`), its data `nodes`, how many `agents` (nodes of the machine) have written, and its `log_servers`."""
    client = reader.client
    servers, agents, nodes = logservers.read(reader), dict[str, set[str]](), nodes_of_groups(client)
    for group, key, _ in booked:
        agents.setdefault(group, set()).add(key[0])
    states: dict[str, dict[str, Any]] = {}

    def of(index: str) -> dict[str, Any] | None:
        group = group_of(index)
        if group is None:
            return None
        commit = last.get(group)
        new = {"group": group, "commits": commit and commit["number"], "last_commit_ns": commit and commit["time_ns"]}
        told = {"nodes": nodes.get(group, []), "agents": len(agents.get(group, ())), "log_servers": servers.get(group, [])}
        return states.setdefault(group, new | {"indices": 0, "unassigned": [], "blocked": []} | told)

    for row in client.ask("GET", "/_cat/indices/bellrock-*?format=json&h=index,health&expand_wildcards=open"):
        state = of(row["index"])
        if state is not None:
            state["indices"] += 1
            if row["health"] == "red":
                state["unassigned"].append(row["index"])
    for index, settings in client.ask("GET", "/bellrock-*/_settings/index.blocks.*?flat_settings=true").items():
        state = of(index)
        if state is not None and any(value == "true" for value in settings["settings"].values()):
            state["blocked"].append(index)
    for state in states.values():
        state["unassigned"].sort()
        state["blocked"].sort()
    return [states[group] for group in sorted(states)]


class NodesSeen:
    """Which data nodes each group had, so that one of two that is away is missed: Elasticsearch itself forgets it. Known since this process began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # owner of the rest
        self._seen_ns: dict[str, dict[str, int]] = {}  # by group and name, when it was there last

    def away(self, states: list[dict[str, Any]], now_ns: int) -> list[dict[str, Any]]:
        """The states, each with `nodes_away`: name and `seen_ns` of those that were there within a day and are not."""
        with self._lock:
            for state in states:
                seen = self._seen_ns.setdefault(state["group"], {}) | {node["name"]: now_ns for node in state["nodes"]}
                self._seen_ns[state["group"]] = {name: at_ns for name, at_ns in seen.items() if now_ns - at_ns < MISSED_NS}
            return [
                state | {"nodes_away": [{"name": name, "seen_ns": at_ns} for name, at_ns in sorted(self._seen_ns[state["group"]].items()) if at_ns != now_ns]}
                for state in states
            ]


def nodes_of_groups(client: Client) -> dict[str, list[dict[str, Any]]]:
    """By group, the data nodes that are there: name, version, and bytes of their disk. Raises StoreError."""
    groups = {row["node"]: row["value"] for row in client.ask("GET", "/_cat/nodeattrs?format=json&h=node,attr,value") if row["attr"] == "group"}
    found: dict[str, list[dict[str, Any]]] = {}
    for row in client.ask("GET", "/_cat/nodes?format=json&bytes=b&h=name,version,node.role,disk.total,disk.avail"):
        if row["name"] in groups and _DATA.intersection(row["node.role"]):
            disk = {"disk_bytes": _number(row["disk.total"]), "disk_free_bytes": _number(row["disk.avail"])}
            found.setdefault(groups[row["name"]], []).append({"name": row["name"], "version": row["version"], **disk})
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
