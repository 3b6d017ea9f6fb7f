"""The samples of components in the DuckDB file, and which components there are."""

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from pipeline.store import COMPONENTS_MAX, SAMPLES, SAMPLE_VALUES_MAX, Heard, TooManyComponents, TooManySamples, named_samples
from pipeline.store.duckdb_tables import TABLES, roll_back, table_of

_TABLES = [table for table, kind in TABLES.items() if kind.name == "sample"]
_SPAN = '"start" <= $to AND "end" >= $from'


def components(cursor: duckdb.DuckDBPyConnection, node: str | None, from_ns: int, to_ns: int) -> list[Heard]:
    """See `pipeline.store.Store.components`."""
    params: dict[str, Any] = {"from": from_ns, "to": to_ns} | ({} if node is None else {"node": node})
    where = _SPAN if node is None else f"{_SPAN} AND node = $node"
    parts = " UNION ALL ".join(f'SELECT node, component, instance, "start", "end" FROM {table} WHERE {where}' for table in _TABLES)
    rows = cursor.execute(
        f'SELECT node, component, instance, min("start"), max("end") FROM ({parts}) GROUP BY ALL ORDER BY node, component, instance LIMIT {COMPONENTS_MAX + 1}',
        params,
    ).fetchall()
    if len(rows) > COMPONENTS_MAX:
        raise TooManyComponents(f"there are more than {COMPONENTS_MAX} components")
    return [Heard(*row) for row in rows]


def samples(
    cursor: duckdb.DuckDBPyConnection, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int, most: int, names: Sequence[str] | None
) -> pa.Table:
    """See `pipeline.store.Store.samples`."""
    nodes, instances = [node for node, _ in of], [instance for _, instance in of]
    # One is what charts ask for, and costs no join.
    which = "node = $node AND instance = $instance" if len(of) == 1 else "(node, instance) IN (SELECT unnest($node::VARCHAR[]), unnest($instance::VARCHAR[]))"
    where = f"FROM {table_of(component)} WHERE component = $component AND {_SPAN} AND {which}"
    params = {"component": component, "from": from_ns, "to": to_ns}
    params |= {"node": nodes[0], "instance": instances[0]} if len(of) == 1 else {"node": nodes, "instance": instances}
    # Both questions look at one state of the file: what is added between them must not pass the bound.
    cursor.begin()
    try:
        # To count what each sample has takes as long as to read it.
        amount = 'coalesce(sum(cardinality("values")), 0)' if names is None else f"count(*) * {len(names)}"
        ((count, values),) = cursor.execute(f"SELECT count(*), ({amount})::BIGINT {where}", params).fetchall()
        if count > most or values > SAMPLE_VALUES_MAX:
            kept = most if values <= SAMPLE_VALUES_MAX else min(most, count * SAMPLE_VALUES_MAX // values)
            row = cursor.execute(f'SELECT "start" {where} ORDER BY "start" LIMIT 1 OFFSET {kept}', params).fetchall()
            # What begins in that instant may be one too many.
            raise TooManySamples(component, most, max(from_ns, row[0][0] - 1))
        if names is not None:
            return _named(cursor, where, params, names)
        columns = ", ".join(f'"{name}"' for name in SAMPLES.names)
        return cursor.sql(f'SELECT {columns} {where} ORDER BY "start", "end"', params=params).to_arrow_table().cast(SAMPLES)
    finally:
        roll_back(cursor)


def _named(cursor: duckdb.DuckDBPyConnection, where: str, params: dict[str, Any], names: Sequence[str]) -> pa.Table:
    """Samples with a column for each of some values."""
    schema = named_samples(names)
    columns = [f'"{name}"' for name in schema.names[: len(schema) - len(names)]] + [f'"values"[$v{number}] AS v{number}' for number in range(len(names))]
    found = cursor.sql(f"SELECT {', '.join(columns)} {where}", params=params | {f"v{number}": name for number, name in enumerate(names)})
    return found.to_arrow_table().rename_columns(schema.names).cast(schema)
