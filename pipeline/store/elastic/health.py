"""What an administrator must see of each group: whether its indices are there and take records."""

import re
from typing import Any

from pipeline.store.elastic.client import Client

_GROUP = re.compile(r"bellrock-(?:books|[a-z]+-[a-z]+)-([a-z0-9_]{1,32})(?:-[0-9a-z.]+)?")


def group_states(client: Client, last: dict[str, dict]) -> list[dict[str, Any]]:
    """By name. last: as `pipeline.store.elastic.books.read_totals` gives it."""
    states: dict[str, dict[str, Any]] = {}

    def of(index: str) -> dict[str, Any] | None:
        found = _GROUP.fullmatch(index)
        if found is None:
            return None
        group = found[1]
        commit = last.get(group)
        new = {"group": group, "commits": commit and commit["number"], "last_commit_ns": commit and commit["time_ns"]}
        return states.setdefault(group, new | {"indices": 0, "unassigned": [], "blocked": []})

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
