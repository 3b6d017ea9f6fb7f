"""`bellrock sql`: an analyst's query, as a table, CSV, JSON or Parquet. Rows pass through in batches; only a table is held whole, and so bounded."""

import csv
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bellrock import console, output, text
from bellrock.config import Config
from bellrock.errors import BellrockError, Unavailable, UsageError
from jobdb.address import Access
from jobdb.analyst import NoDatabase, QueryError, Rows, asking

# Rows of a table where --limit does not say.
TABLE_ROWS = 1000
SQL_BYTES_MAX = 1 << 20
# Of a query, from its fault on, characters.
SHOWN = 60
INT64 = 2**63


def access(config: Config, state: Path) -> Access:
    """The analyst's way to the job database. Raises UsageError where it has no password."""
    jobdb = config.jobdb
    if not jobdb.url:
        return jobdb.access(state)
    if not jobdb.analyst_password_file:
        raise UsageError("jobdb.analyst_password_file is not set", "`bellrock jobdb setup` makes the account; docs/analyst.md tells how")
    scheme, _, rest = jobdb.url.partition("://")
    return Access(f"{scheme}://{jobdb.analyst}@{rest.rpartition('@')[2]}", jobdb.analyst_password_file, jobdb.ca)


def read_query(given: str | None, file: Path | None) -> str:
    """The query of the command line, else of a file, "-" being standard input. Raises UsageError."""
    if (given is None) == (file is None):
        raise UsageError("give one query", "`bellrock sql \"SELECT …\"`, or `bellrock sql --file FILE`, - for standard input; --schema lists what there is")
    if given is not None:
        return given
    try:
        with sys.stdin.buffer if str(file) == "-" else open(file, "rb") as source:
            found = source.read(SQL_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "name a file that can be read") from error
    if len(found) > SQL_BYTES_MAX:
        raise UsageError(f"{file}: longer than {SQL_BYTES_MAX} bytes", "is it a query?")
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8: {error}", "is it a query?") from error


def run_sql(way: Access, sql: str, how: str, target: Path | None, timeout_s: float, limit: int | None) -> None:
    """Runs a query and writes its rows, at most `limit`, to `target` or standard output. Raises BellrockError."""
    sql = sql.strip().rstrip(";").rstrip()
    if limit is None and how == "table":
        limit = TABLE_ROWS
    if how == "parquet" and target is None:
        raise UsageError("Parquet is for a file", "name it with -o FILE")
    try:
        with asking(way, sql, timeout_s) as rows:
            cut = _Cut(rows.batches, limit)
            with _opened(target) as file:
                _WRITERS[how](Rows(rows.names, iter(cut)), file)
            if cut.more:
                console.say(f"only the first {limit} rows; --limit gives more, and --format csv all")
    except QueryError as error:
        raise BellrockError(*_told(sql, error)) from error
    except NoDatabase as error:
        raise Unavailable(str(error), "look at [jobdb] in server.toml, and whether the job database runs") from error


def schema() -> str:
    """The views and their columns, with units."""
    from jobdb.views import VIEWS

    lines = []
    for view in VIEWS:
        lines += [f"{view.name}: {view.doc}", *(f"  {c.name:<21}{c.unit:<11}{c.doc}" for c in view.columns), ""]
    return "\n".join(lines)


class _Cut:
    """The first `limit` rows, in batches, and whether there were more."""

    def __init__(self, batches: Iterator[list[tuple]], limit: int | None) -> None:
        self._batches, self._limit, self.more = batches, limit, False

    def __iter__(self) -> Iterator[list[tuple]]:
        left = self._limit
        for batch in self._batches:
            if left is not None and len(batch) > left:
                self.more = True
                yield batch[:left]
                return
            yield batch
            left = None if left is None else left - len(batch)


@contextmanager
def _opened(target: Path | None) -> Iterator[IO[Any]]:
    """Standard output, or a file that appears whole once all is written."""
    if target is None:
        with output.guarded():
            yield sys.stdout
        return
    with output.replacing(target, "w", encoding="utf-8", newline="") as file:
        yield file


def _write_table(rows: Rows, file: IO[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    held = list(itertools.chain.from_iterable(rows.batches))
    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(rows.names):
        numbers = any(type(row[place]) in (int, float) for row in held)
        table.add_column(Text(text.plain(name)), justify="right" if numbers else "left", overflow="fold")
    for row in held:
        table.add_row(*(Text("" if value is None else text.plain(value)) for value in row))
    if file is sys.stdout:
        output.show(table)
    else:
        Console(file=file, width=10_000, highlight=False, markup=False, emoji=False).print(table)


def _write_csv(rows: Rows, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(rows.names)
    for batch in rows.batches:
        writer.writerows(batch)


def _write_json(rows: Rows, file: IO[str]) -> None:
    between = "[\n"
    for batch in rows.batches:
        for row in batch:
            file.write(between + json.dumps(dict(zip(rows.names, row, strict=True)), ensure_ascii=False))
            between = ",\n"
    file.write("[]\n" if between == "[\n" else "\n]\n")


def _write_parquet(rows: Rows, file: IO[str]) -> None:
    """What a column holds is known once all rows were seen: they wait in a temporary file, a line of JSON a batch."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds: list[set[type]] = [set() for _ in rows.names]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as waiting:
        for batch in rows.batches:
            for row in batch:
                for found, value in zip(kinds, row, strict=True):
                    found.add(float if type(value) is int and not -INT64 <= value < INT64 else type(value))
            waiting.write(json.dumps(batch) + "\n")
        waiting.seek(0)
        types = [_arrow_type(pa, found - {type(None)}) for found in kinds]
        names = [name if rows.names.count(name) == 1 else f"{name}_{place}" for place, name in enumerate(rows.names)]
        fields = pa.schema(list(zip(names, types, strict=True)))
        with parquet.ParquetWriter(file.buffer, fields, compression="zstd") as writer:
            for line in waiting:
                columns = list(zip(*json.loads(line), strict=True))
                arrays = [pa.array([_as(kind, value) for value in column], kind) for column, kind in zip(columns, types, strict=True)]
                writer.write_batch(pa.record_batch(arrays, schema=fields))


def _arrow_type(pa: Any, kinds: set[type]) -> Any:
    if not kinds:
        return pa.null()
    if kinds <= {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, float} else pa.string()


def _as(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    return float(value) if kind == "double" else str(value) if kind == "string" else value


_WRITERS = {"table": _write_table, "csv": _write_csv, "json": _write_json, "parquet": _write_parquet}


def _told(sql: str, error: QueryError) -> tuple[str, str]:
    """The fault with its place, and how the query goes on from there."""
    if error.line is None:
        return str(error), "`bellrock sql --schema` lists views and columns"
    lines = sql.split("\n")
    rest = lines[error.line - 1][error.column - 1 :] if error.line <= len(lines) else ""
    return f"line {error.line}, column {error.column}: {error}", f"there it reads: {rest[:SHOWN]}" if rest else "there it ends"
