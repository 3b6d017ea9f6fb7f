"""A job's records line by line: asked for by pages, and written as they come, so that a trace of any length takes little memory."""

import csv
import errno
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellrock import output, text
from bellrock.errors import UsageError

if TYPE_CHECKING:
    from bellrock.client import Client

# Of a page: as many as the server gives out at once.
PAGE_ROWS = 20_000
# Lines, unless --limit says otherwise: for a person, and into a file.
LINES, FILE_LINES = 1000, 100_000_000
COLUMNS = ("start_ns", "end_ns", "node", "rank", "process", "layer", "op", "file", "offset", "stride", "count", "size", "bytes", "busy_ns", "errno", "flags")
_API_NAMES = {"start_ns": "start", "end_ns": "end"}
_TEXTS = ("node", "process", "layer", "op", "file")
_FLAGS = ("folded", "stdio", "partly", "unsure", "piece", "directory", "seconds", "static", "io_uring", "privileged", "foreign")
_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
# Rows that are written to Parquet at once.
_GROUP_ROWS = 1 << 16

Row = dict[str, Any]


def instant_ns(given: str, job_start_ns: int, option: str) -> int:
    """The instant that an option means: "+90s", "+250ms", "+5m" or "+2h" after the job's start, else as `bellrock.audit.instant_ns`. Raises UsageError."""
    from bellrock.audit import instant_ns as instant

    after = re.fullmatch(r"\+(\d{1,9})(ms|s|m|h)", given, re.ASCII)
    if after is not None:
        return job_start_ns + int(after[1]) * _UNITS[after[2]]
    if given.startswith("+"):
        raise UsageError(f"{option} {given}: no time after the job's start", "write +250ms, +90s, +5m or +2h")
    return instant(given, option=option)


class Trace:
    """Iterates over runs as they are. read: records that the server has looked at; at_ns: up to there, in the order of time, all has come; sought: while it looks through an archive, the
    share of it that it has looked at. on_page: is called for each page that has come."""

    def __init__(self, client: "Client", job_id: str, asked: dict[str, Any], limit: int, on_page: Callable[["Trace"], None] = lambda trace: None) -> None:
        self._client, self._job_id, self._asked, self._limit, self._on_page = client, job_id, asked, limit, on_page
        self.read = self.at_ns = 0
        self.sought: float | None = None

    def __iter__(self) -> Iterator[Row]:
        cursor = None
        while True:
            page = self._client.trace(self._job_id, **self._asked, limit=min(self._limit, PAGE_ROWS), cursor=cursor)
            self.read, self.at_ns, sought = self.read + page["read"], page["at_ns"], page["sought"]
            self.sought = None if sought is None else sought["read"] / max(sought["of"], 1)
            self._on_page(self)
            yield from _rows(page)
            cursor = page["next_cursor"]
            if cursor is None:
                return


def _rows(page: dict[str, Any]) -> Iterator[Row]:
    columns = []
    for name in COLUMNS:
        values = page["columns"][_API_NAMES.get(name, name)]
        texts = page["texts"].get(name)
        columns.append(values if texts is None else [None if at is None else texts[at] for at in values])
    for values in zip(*columns, strict=True):
        yield dict(zip(COLUMNS, values, strict=True))


def operations(run: Row) -> Iterator[Row]:
    """A run's operations, as far as they are known: evenly over its time, equally long, its bytes in equal whole parts."""
    count = run["count"]
    if count < 2:
        yield run
        return
    took_ns = min(run["busy_ns"] // count, run["end_ns"] - run["start_ns"])
    between_ns = run["end_ns"] - took_ns - run["start_ns"]
    for n in range(count):
        start_ns = run["start_ns"] + between_ns * n // (count - 1)
        yield run | {
            "start_ns": start_ns, "end_ns": start_ns + took_ns, "offset": run["offset"] + n * run["stride"], "stride": 0, "count": 1,
            "bytes": run["bytes"] * (n + 1) // count - run["bytes"] * n // count, "busy_ns": run["busy_ns"] * (n + 1) // count - run["busy_ns"] * n // count,
        }  # fmt: skip


def write_lines(rows: Iterable[Row]) -> None:
    """As a person reads them, each as it comes. What names say reaches the terminal as text alone."""
    with output.guarded():
        print(f"{'TIME':26} {'NODE':10} {'RANK':>5} {'PROCESS':14} {'LAYER':8} {'OP':8} {'OFFSET':>14} {'STRIDE':>10} {'COUNT':>8} {'SIZE':>10} {'BYTES':>12} {'TOOK':>9} {'ERROR':8} FLAGS FILE")
        for row in rows:
            time = f"{text.instant(row['start_ns'])}.{row['start_ns'] % 10**9 // 1000:06d}"
            rank = "-" if row["rank"] is None else row["rank"]
            failed = errno.errorcode.get(row["errno"], str(row["errno"])) if row["errno"] else "-"
            flags = ",".join(name for bit, name in enumerate(_FLAGS) if row["flags"] >> bit & 1) or "-"
            print(
                f"{time:26} {text.plain(row['node']):10} {rank:>5} {text.plain(row['process']):14} {text.plain(row['layer']):8} {row['op']:8} {row['offset']:>14} {row['stride']:>10} "
                f"{row['count']:>8} {row['size']:>10} {row['bytes']:>12} {text.duration(row['busy_ns'] / 1e9):>9} {failed:8} {flags:5} {text.plain(row['file'] or '-')}"
            )


def write_csv(rows: Iterable[Row]) -> None:
    """With a head; what is not known is empty."""
    with output.guarded():
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_json(rows: Iterable[Row]) -> None:
    """An object a line."""
    with output.guarded():
        for row in rows:
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


def write_parquet(rows: Iterable[Row], target: Path) -> None:
    """A file that appears whole once all is written. Raises BellrockError where it cannot be."""
    import pyarrow as pa
    from pyarrow import parquet

    numbers = {"rank": pa.int32(), "errno": pa.uint16(), "flags": pa.uint16()}
    schema = pa.schema([(name, pa.string() if name in _TEXTS else numbers.get(name, pa.int64())) for name in COLUMNS])
    with output.replacing(target, "wb") as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        group.append(row)
        if len(group) == _GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group


class Cut:
    """The first `limit` rows, and whether there were more. written: so far."""

    def __init__(self, rows: Iterable[Row], limit: int) -> None:
        self._rows, self._limit = rows, limit
        self.written, self.more = 0, False

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            if self.written == self._limit:
                self.more = True
                return
            self.written += 1
            yield row
