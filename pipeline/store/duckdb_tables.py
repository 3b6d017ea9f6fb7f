"""The tables in the store's DuckDB file, and how rows get into them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema import COMPONENT_LAYERS, KINDS, Kind

log = logging.getLogger(__name__)

# What agents tell of themselves is added up again and again, and lies apart from what they tell of other components, which may be a thousand times as
# much: among that, DuckDB would unpack nearly all of it to find a few rows.
SAMPLES = replace(KINDS["sample"], table="component_samples")
TABLES = {kind.table: kind for kind in (*KINDS.values(), SAMPLES) if kind.table}
DDL = [kind.ddl for kind in TABLES.values()]

# DuckDB gives each chunk of a table to one thread, and seals rows by so many: larger chunks would leave a thread waiting for another, smaller ones
# would have to be put together.
ROW_GROUP = 122_880

# Types that a column of an earlier version may have, by today's type.
_WIDENED = {"BIGINT": ("INTEGER", "UINTEGER", "USMALLINT")}


class OtherVersion(Exception):
    """A table is of a version of Bellrock whose records are not a part of today's."""


def bring_up(connection: duckdb.DuckDBPyConnection, kind: Kind) -> None:
    """Makes a kind's table what the schema says, rows kept: columns at its end that are new, wider, or nullable by now. Raises OtherVersion for
    any other difference, the table as it was."""
    assert kind.table is not None
    found = {name: (dtype, null == "YES") for name, dtype, null, *_ in connection.execute(f'DESCRIBE "{kind.table}"').fetchall()}
    steps = []
    for field in kind.fields:
        dtype, nullable = found.get(field.name, (None, True))
        if dtype is None and field.nullable:
            steps.append(f'ADD COLUMN "{field.name}" {field.duckdb}')
        elif dtype != field.duckdb and dtype not in _WIDENED.get(field.duckdb, ()):
            raise OtherVersion(f"table {kind.table}: column {field.name} is {dtype}, not {field.duckdb}")
        elif dtype != field.duckdb:
            steps.append(f'ALTER COLUMN "{field.name}" SET DATA TYPE {field.duckdb}')
        if field.nullable and not nullable:
            steps.append(f'ALTER COLUMN "{field.name}" DROP NOT NULL')
        elif nullable and not field.nullable:
            raise OtherVersion(f"table {kind.table}: column {field.name} may be null")
    names = [field.name for field in kind.fields]
    if list(found) != names[: len(found)]:
        raise OtherVersion(f"table {kind.table}: its columns are {', '.join(found)}")
    for step in steps:
        log.info("store: table %s: %s", kind.table, step)
        connection.execute(f'ALTER TABLE "{kind.table}" {step}')


def table_of(component: str) -> str | None:
    """The table of a component's samples."""
    return (KINDS["sample"] if component in COMPONENT_LAYERS else SAMPLES).table


def by_table(rows: Callable[[Kind], pa.Table]) -> dict[str | None, pa.Table]:
    """Rows by the table that they go into."""
    found = {kind.table: rows(kind) for kind in KINDS.values() if kind.table}
    samples = found[KINDS["sample"].table]
    is_agent = pc.is_in(samples["component"], pa.array(list(COMPONENT_LAYERS)))
    return found | {KINDS["sample"].table: samples.filter(is_agent), SAMPLES.table: samples.filter(pc.invert(is_agent))}


def upsert(cursor: duckdb.DuckDBPyConnection, name: str, table: pa.Table, values: Sequence[str]) -> None:
    """Insert rows, replacing the columns `values` of those whose key is there."""
    insert(cursor, name, table, f" ON CONFLICT DO UPDATE SET {', '.join(f'{v} = excluded.{v}' for v in values)}")


def insert(cursor: duckdb.DuckDBPyConnection, name: str, table: pa.Table, rest: str = "") -> None:
    """Insert rows."""
    if table.num_rows > ROW_GROUP:
        table = pa.Table.from_batches(table.to_batches(max_chunksize=ROW_GROUP), table.schema)
    cursor.register("incoming", table)
    try:
        cursor.execute(f'INSERT INTO "{name}" SELECT * FROM incoming{rest}')
    finally:
        cursor.unregister("incoming")


def roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    """End a transaction that failed."""
    try:
        cursor.rollback()
    except duckdb.Error as error:
        # The caller raises the first error; DuckDB has often rolled back by itself.
        log.debug("rollback: %s", error)
