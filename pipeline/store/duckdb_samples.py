"""The samples of components in the DuckDB file, and which components there are."""

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from pipeline.store import COMPONENTS_MAX, SAMPLES, SAMPLE_VALUES_MAX, SUMMED_MAX, Heard, TooManyComponents, TooManySamples, named_samples
from pipeline.store.duckdb_tables import TABLES, roll_back, table_of
from pipeline.store.summaries import HOURS, hours_until
from pipeline.summary import HOUR_NS

_TABLES = [table for table, kind in TABLES.items() if kind.name == "sample"]
_SPAN = '"start" <= $to AND "end" >= $from'
_NODES = "node IN (SELECT unnest($nodes::VARCHAR[]))"


def components(
    cursor: duckdb.DuckDBPyConnection, node: str | None, kinds: Sequence[str] | None, but: Sequence[str], from_ns: int, to_ns: int, kept_ns: int
) -> list[Heard]:
    """See `pipeline.store.Store.components`. kept_ns: of what samples that begin before may have been, summaries tell, too."""
    given = {"node": node, "kinds": None if kinds is None else list(kinds), "but": list(but) or None}
    params: dict[str, Any] = {"from": from_ns, "to": to_ns} | {name: value for name, value in given.items() if value is not None}
    where = _SPAN + ("" if node is None else " AND node = $node") + ("" if kinds is None else " AND component IN (SELECT unnest($kinds::VARCHAR[]))")
    where += " AND component NOT IN (SELECT unnest($but::VARCHAR[]))" if but else ""
    tables = _TABLES if kinds is None else sorted({str(table_of(kind)) for kind in kinds})
    return _heard(cursor, _told_of(tables, from_ns, kept_ns), where, params) if tables else []


def _told_of(tables: Sequence[str], from_ns: int, kept_ns: int) -> list[str]:
    """What tells which components there were: of a time of which samples were dropped, summaries, too."""
    hours = f'(SELECT node, component, instance, time AS "start", time + {HOUR_NS} AS "end" FROM {HOURS} WHERE time < {kept_ns})'
    return [*tables, hours] if from_ns < kept_ns else list(tables)


def called(
    cursor: duckdb.DuckDBPyConnection, component: str, nodes: Sequence[str], names: Sequence[str], stems: Sequence[str], from_ns: int, to_ns: int, kept_ns: int
) -> list[Heard]:
    """See `pipeline.store.Store.called`, and `components`."""
    which = "instance IN (SELECT unnest($names::VARCHAR[]))"
    params = {"component": component, "nodes": list(nodes), "from": from_ns, "to": to_ns, "names": list(names)}
    if stems:
        which += " OR (contains(instance, '.') AND split_part(instance, '.', 1) IN (SELECT unnest($stems::VARCHAR[])))"
        params["stems"] = list(stems)
    return _heard(cursor, _told_of([str(table_of(component))], from_ns, kept_ns), f"component = $component AND {_SPAN} AND {_NODES} AND ({which})", params)


def telling(cursor: duckdb.DuckDBPyConnection, component: str, nodes: Sequence[str], from_ns: int, to_ns: int, kept_ns: int) -> set[str]:
    """See `pipeline.store.Store.telling`, and `components`."""
    params = {"component": component, "nodes": list(nodes), "from": from_ns, "to": to_ns}
    queries = (f"SELECT node FROM {table} WHERE component = $component AND {_SPAN} AND {_NODES}" for table in _told_of([str(table_of(component))], from_ns, kept_ns))
    return {node for (node,) in cursor.execute(" UNION ".join(queries), params).fetchall()}


def _heard(cursor: duckdb.DuckDBPyConnection, tables: Sequence[str], where: str, params: dict[str, Any]) -> list[Heard]:
    parts = " UNION ALL ".join(f'SELECT node, component, instance, "start", "end" FROM {table} WHERE {where}' for table in tables)
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


def sums_of(
    cursor: duckdb.DuckDBPyConnection, component: str, node: str, begins: str, names: Sequence[str], from_ns: int, to_ns: int, kept_ns: int
) -> dict[str, dict[str, float]]:
    """See `pipeline.store.Store.sums_of`, and `components`."""
    which = "component = $component AND node = $node AND starts_with(instance, $begins)"
    params = {"component": component, "node": node, "begins": begins, "from": from_ns, "to": to_ns}
    values = ", ".join(f'"values"[$v{number}] AS v{number}' for number in range(len(names)))
    told = f"SELECT instance, {values} FROM {table_of(component)} WHERE {which} AND {_SPAN}"
    until = hours_until(kept_ns)
    if from_ns < until:
        sums = ", ".join(f'"values"[$v{number}]."sum"[1] AS v{number}' for number in range(len(names)))
        hours = f"SELECT instance, {sums} FROM {HOURS} WHERE {which} AND time > $from - {HOUR_NS} AND time <= $to AND time < {until}"
        told = f'{told} AND "start" >= {until} UNION ALL {hours}'
    params |= {f"v{number}": name for number, name in enumerate(names)}
    ((count, instances),) = cursor.execute(f"SELECT count(*), count(DISTINCT instance) FROM ({told})", params).fetchall()
    if count > SUMMED_MAX:
        raise TooManySamples(component, SUMMED_MAX, from_ns)
    if instances > COMPONENTS_MAX:
        raise TooManyComponents(f"there are more than {COMPONENTS_MAX} components")
    # What is no number would make the sum none.
    sums = ", ".join(f"sum(v{number}) FILTER (isfinite(v{number}))" for number in range(len(names)))
    rows = cursor.execute(f"SELECT instance, {sums} FROM ({told}) GROUP BY instance", params).fetchall()
    return {instance: {name: value for name, value in zip(names, of, strict=True) if value is not None} for instance, *of in rows}
