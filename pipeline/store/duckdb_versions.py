"""What the versions of jobs are counted from, in the store's DuckDB file: for many jobs at once, since each question here is a scan of all runs."""

from collections.abc import Collection, Sequence
from typing import Any

import duckdb

from pipeline.store import Given, Window

# Runs of a node for a time, which no process did.
OF_NODES = "job IS NULL AND process = 'node' AND node IN (SELECT unnest($nodes::VARCHAR[])) AND start <= $to AND \"end\" >= $from"

# Runs of processes that are a job's by what a batch system says.
GIVEN = (
    "uid = $uid AND node IN (SELECT unnest($given::VARCHAR[])) AND "
    "(job = $job OR (process <> 'node' AND node IN (SELECT unnest($own::VARCHAR[])) AND (job IS NULL OR job NOT IN (SELECT unnest($others::VARCHAR[])))))"
)
_IN_TIME = "start <= $to AND \"end\" >= $from"
# Of what claims another job, or none, that which began in the job's time.
_BEGAN = "(job = $job OR (start >= $begin AND (start < $until OR node NOT IN (SELECT unnest($followed::VARCHAR[])))))"

Asked = Sequence[tuple[str, Window | None]]


def of_job(job: str, uid: int | None, given: Given | None) -> tuple[str, dict[str, Any]]:
    """A condition for the runs of a job's processes, whenever they were, and its parameters."""
    if given is None:
        return "job = $job", {"job": job}
    return GIVEN, {"job": job, "uid": uid, "given": list(given.nodes), "own": list(given.own), "others": list(given.others)}


def in_window(job: str, window: Window | None) -> tuple[str, dict[str, Any]]:
    """As `of_job`, within the time of a window."""
    if window is None:
        return of_job(job, None, None)
    if window.given is None:
        where, params = of_job(job, None, None)
        from_ns, to_ns = window.claims
        return f"{where} AND start >= $claims_from AND start <= $claims_to", params | {"claims_from": from_ns, "claims_to": to_ns}
    where, params = of_job(job, window.uid, window.given)
    began = {"begin": window.given.begin_ns, "until": window.given.end_ns, "followed": list(window.given.followed)}
    return f"({where}) AND {_IN_TIME} AND {_BEGAN}", params | {"from": window.from_ns, "to": window.to_ns} | began


def claimed(cursor: duckdb.DuckDBPyConnection, jobs: Collection[str]) -> dict[str, int]:
    """How many runs claim each of the jobs, whenever they began: at least as many as count, and more whenever those become more."""
    rows = cursor.execute("SELECT job, count(*) FROM runs WHERE job IN (SELECT unnest($jobs::VARCHAR[])) GROUP BY job", {"jobs": list(jobs)})
    return dict.fromkeys(jobs, 0) | dict(rows.fetchall())


def within(cursor: duckdb.DuckDBPyConnection, asked: Asked, known: frozenset[str]) -> list[dict[str, Any]]:
    """Parameters of OF_NODES for each window; empty where nothing can be found there. known: the nodes that have such runs at all."""
    if not known or all(window is None for _, window in asked):
        return [{} for _ in asked]
    users = [(place, job, window.uid, *window.claims) for place, (job, window) in enumerate(asked) if window is not None and window.given is None]
    own: dict[int, set[str]] = {place: set() for place, *_ in users}
    rows: list[tuple] = []
    if users:
        columns = dict(zip(("place", "claim", "owner", "since", "until"), map(list, zip(*users, strict=True)), strict=True))
        given_users = _unnested(place="BIGINT", claim="VARCHAR", owner="BIGINT", since="BIGINT", until="BIGINT")
        rows = cursor.execute(f"SELECT DISTINCT place, node FROM runs JOIN ({given_users}) ON job = claim AND uid = owner AND start >= since AND start <= until", columns).fetchall()
    for place, node in rows:
        own[place].add(node)
    found: list[dict[str, Any]] = []
    for place, (_, window) in enumerate(asked):
        nodes = sorted(known & {*window.nodes, *own.get(place, ())}) if window is not None else []
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


def of_given(cursor: duckdb.DuckDBPyConnection, asked: Asked) -> dict[int, int]:
    """By place of those that have a window with `given`, how many runs their users' processes did on their nodes in their time, whatever these claim: at least
    as many as are the job's, and more whenever those become more."""
    each = [
        (place, node, window.from_ns, window.to_ns, window.uid)
        for place, (_, window) in enumerate(asked)
        if window is not None and window.given is not None
        for node in window.given.nodes
    ]
    counts = {place: 0 for place, (_, window) in enumerate(asked) if window is not None and window.given is not None}
    if not each:
        return counts
    columns = dict(zip(("place", "host", "since", "until", "owner"), map(list, zip(*each, strict=True)), strict=True))
    bounds = {"from": min(columns["since"]), "to": max(columns["until"])}
    rows = cursor.execute(
        f"SELECT place, count(*) FROM runs JOIN ({_unnested(place='BIGINT', host='VARCHAR', since='BIGINT', until='BIGINT', owner='BIGINT')}) "
        f'ON node = host AND uid = owner AND start <= until AND "end" >= since WHERE {_IN_TIME} GROUP BY place',
        columns | bounds,
    )
    return counts | dict(rows.fetchall())


def _unnested(**columns: str) -> str:
    """SELECT of a table that is given as a list for each of its columns (name and type)."""
    return "SELECT " + ", ".join(f"unnest(${name}::{dtype}[]) AS {name}" for name, dtype in columns.items())
