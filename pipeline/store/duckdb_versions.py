"""What the versions of jobs are counted from, in the store's DuckDB file: for many jobs at once, since each question here is a scan of all runs."""

from collections.abc import Collection, Sequence
from typing import Any

import duckdb

from pipeline.store import Window

# Runs of a node for a time, which no process did.
OF_NODES = "job IS NULL AND process = 'node' AND node IN (SELECT unnest($nodes::VARCHAR[])) AND start <= $to AND \"end\" >= $from"

Asked = Sequence[tuple[str, Window | None]]


def claimed(cursor: duckdb.DuckDBPyConnection, jobs: Collection[str]) -> dict[str, int]:
    """How many runs claim each of the jobs."""
    rows = cursor.execute("SELECT job, count(*) FROM runs WHERE job IN (SELECT unnest($jobs::VARCHAR[])) GROUP BY job", {"jobs": list(jobs)})
    return dict.fromkeys(jobs, 0) | dict(rows.fetchall())


def within(cursor: duckdb.DuckDBPyConnection, asked: Asked, known: frozenset[str]) -> list[dict[str, Any]]:
    """Parameters of OF_NODES for each window; empty where nothing can be found there. known: the nodes that have such runs at all."""
    if not known or all(window is None for _, window in asked):
        return [{} for _ in asked]
    users = [(place, job, window.uid) for place, (job, window) in enumerate(asked) if window is not None]
    own: dict[int, set[str]] = {place: set() for place, *_ in users}
    rows = cursor.execute(
        f"SELECT DISTINCT place, node FROM runs JOIN ({_unnested(place='BIGINT', claim='VARCHAR', owner='BIGINT')}) ON job = claim AND uid = owner",
        dict(zip(("place", "claim", "owner"), map(list, zip(*users, strict=True)), strict=True)),
    )
    for place, node in rows.fetchall():
        own[place].add(node)
    found: list[dict[str, Any]] = []
    for place, (_, window) in enumerate(asked):
        nodes = sorted(known & {*window.nodes, *own[place]}) if window is not None else []
        found.append({"nodes": nodes, "from": window.from_ns, "to": window.to_ns} if window is not None and nodes else {})
    return found


def of_nodes(cursor: duckdb.DuckDBPyConnection, windows: Sequence[dict[str, Any]]) -> list[int]:
    """How many runs OF_NODES finds with each of these parameters."""
    counts = [0] * len(windows)
    each = [(place, node, given["from"], given["to"]) for place, given in enumerate(windows) if given for node in given["nodes"]]
    if not each:
        return counts
    columns = dict(zip(("place", "host", "since", "until"), map(list, zip(*each, strict=True)), strict=True))
    bounds = {"nodes": sorted(set(columns["host"])), "from": min(columns["since"]), "to": max(columns["until"])}
    rows = cursor.execute(
        f"SELECT place, count(*) FROM runs JOIN ({_unnested(place='BIGINT', host='VARCHAR', since='BIGINT', until='BIGINT')}) "
        f'ON node = host AND start <= until AND "end" >= since WHERE {OF_NODES} GROUP BY place',
        columns | bounds,
    )
    for place, count in rows.fetchall():
        counts[place] = count
    return counts


def _unnested(**columns: str) -> str:
    """SELECT of a table that is given as a list for each of its columns (name and type)."""
    return "SELECT " + ", ".join(f"unnest(${name}::{dtype}[]) AS {name}" for name, dtype in columns.items())
