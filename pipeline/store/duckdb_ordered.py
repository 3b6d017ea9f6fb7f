"""Runs in the order of the archive, out of the store's DuckDB file."""

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from pipeline.schema import KINDS
from pipeline.store.duckdb_runs import quoted
from pipeline.store.sought import DAY_NS, PIECE_ROWS

_RUNS = KINDS["run"].arrow


def counts(cursor: duckdb.DuckDBPyConnection, where: str, params: dict[str, Any]) -> dict[str, int]:
    """See `Orderly.run_counts`, of the runs `where` a condition holds."""
    return dict(cursor.execute(f"SELECT node, count(*) FROM runs WHERE {where} GROUP BY node", params).fetchall())


def ordered(cursor: duckdb.DuckDBPyConnection, where: str, params: dict[str, Any], nodes: Sequence[str]) -> Iterator[pa.Table]:
    """See `Orderly.ordered_runs`."""
    turns = "(SELECT unnest($asked::VARCHAR[]) AS asked, unnest($turns::BIGINT[]) AS turn)"
    query = f"SELECT {quoted(_RUNS.names)} FROM runs JOIN {turns} ON node = asked WHERE {where} ORDER BY turn, boot, seq"
    found = cursor.sql(query, params=params | {"asked": list(nodes), "turns": list(range(len(nodes)))})
    for batch in found.to_arrow_reader(PIECE_ROWS):
        yield pa.Table.from_batches([batch]).cast(_RUNS)


def days(cursor: duckdb.DuckDBPyConnection, before_ns: int) -> dict[tuple[int, str], int]:
    """See `Orderly.run_days`."""
    rows = cursor.execute(f'SELECT "start" // {DAY_NS}, count(*) FROM runs WHERE "start" < $before GROUP BY 1', {"before": before_ns}).fetchall()
    return {(day * DAY_NS, ""): count for day, count in rows}
