"""Reads archived runs, with the store's own questions: blocks are chosen by their heads, decoded, and asked in DuckDB's SQL, so that answers are those of before."""

import tempfile
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa
from tracepack.archive import DamagedError, Head, Primer, decode

from pipeline.archive import Archive, Damaged, State
from pipeline.archive.ids import IDS, Ids
from pipeline.rollup import SCHEMA, added
from pipeline.schema import KINDS
from pipeline.store import RUNS_MAX, TooManyRuns
from pipeline.store.duckdb_runs import MERGE_ABOVE, MERGED_COLUMNS, merged_runs, quoted
from pipeline.store.duckdb_runs import seconds as seconds_of

# A bound that is longer was cut, and has the last of all characters behind it.
BOUND_BYTES = 128
_LAST = chr(0x10FFFF).encode()
_RUNS = KINDS["run"].arrow
_SUMMED = ("node", "process", "uid", "op", "errno", "start", "end", "bytes", "count", "busy_ns")
_MEMORY_MAX = "1GiB"
# What archived runs are chosen by, besides their ids.
_TOLD_APART_BY = ("job", "start", "end")
# Rows of sums that are added up when there are so many.
ADDED_AT = 1 << 18
# What the store has of a subject, in pieces, with some columns.
Stored = Callable[[Sequence[str]], Generator[pa.Table]]


@dataclass(frozen=True)
class Zone:
    """What a question is about; None: anything. Instants ns since the epoch, both belong to it. ops: any of them. file: a path; file_start: what paths begin with."""

    nodes: frozenset[str] | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    rank: int | None = None
    ops: frozenset[str] | None = None
    file: str | None = None
    file_start: str | None = None

    def fits(self, head: Head) -> bool:
        """Whether a block may hold something of it."""
        if (self.from_ns is not None and head.end_ns < self.from_ns) or (self.to_ns is not None and head.start_ns > self.to_ns):
            return False
        if self.ops is not None and self.ops.isdisjoint(head.ops):
            return False
        if self.rank is not None and (head.ranks is None or not head.ranks[0] <= self.rank <= head.ranks[1]):
            return False
        if self.file is not None and not (_may_have(head.files, self.file) and head.may_have_file(self.file)):
            return False
        if self.file_start is not None and not _may_have(head.files, self.file_start, is_start=True):
            return False
        return self.nodes is None or self._may_have_node(head.nodes)

    @cached_property
    def _nodes_in_order(self) -> list[str]:
        return sorted(self.nodes or (), key=_encoded)

    def _may_have_node(self, bounds: tuple[str, str] | None) -> bool:
        """Of thousands of nodes, asked of thousands of blocks: where any lies within the bounds the first one does that is no less than the least."""
        at = 0 if bounds is None else bisect_left(self._nodes_in_order, _encoded(bounds[0]), key=_encoded)
        return at < len(self._nodes_in_order) and _may_have(bounds, self._nodes_in_order[at])


def _may_have(bounds: tuple[str, str] | None, text: str, *, is_start: bool = False) -> bool:
    """Whether a text, or one that begins with it, may lie between bounds, in the order of bytes."""
    if bounds is None:
        return False
    least, largest, sought = (_encoded(part) for part in (*bounds, text))
    if sought < least[: len(sought)] if is_start else sought < least:
        return False
    if len(largest) > BOUND_BYTES:
        # It was cut: whatever begins as it does may be there, also what comes behind the character at its end, the last of all.
        return sought <= largest or sought.startswith(largest[: -len(_LAST)])
    return sought <= largest


def _encoded(text: str) -> bytes:
    """What texts are in the order of."""
    return text.encode("utf-8", "surrogatepass")


def chosen(archive: Archive, state: State, zone: Zone = Zone()) -> list[tuple[int, Head]]:
    """The blocks that may hold something of a zone: their places, and what they are about. Raises Damaged."""
    heads = ((place, _head(told, state, place)) for place, told in enumerate(archive.heads(state)) if place not in state.primers)
    return [(place, head) for place, head in heads if zone.fits(head)]


def decoded(archive: Archive, state: State, blocks: Sequence[tuple[int, Head]], columns: Sequence[str] | None = None, file: str | None = None) -> Iterator[pa.Table]:
    """The runs of some blocks, of `chosen`, a block at a time; columns, file: see `tracepack.archive.decode`. Raises Damaged."""
    primer = _primer(archive, state) if any(head.is_primed for _, head in blocks) else None
    for (place, head), block in zip(blocks, archive.blocks(state, [place for place, _ in blocks]), strict=True):
        try:
            found = decode(block, primer if head.is_primed else None, columns, file)
        except DamagedError as error:
            raise _damaged(state, place, error) from error
        yield found


def tables(archive: Archive, state: State, zone: Zone = Zone(), columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The runs of the blocks that may hold something of a zone, a block at a time. Raises Damaged."""
    yield from decoded(archive, state, chosen(archive, state, zone), columns)


def checked(archive: Archive, state: State, places: Sequence[int]) -> Iterator[str | None]:
    """What is wrong with each of some blocks, None: nothing. Each is read and decoded."""
    try:
        primer = _primer(archive, state) if state.primers else None
    except Damaged as error:
        primer, lost = None, str(error)
    for place, block in zip(places, archive.blocks(state, places), strict=True):
        try:
            head = Head.read(block)
            if place in state.primers:
                Primer(block)
            elif head.is_primed and primer is None:
                yield lost if state.primers else "its primer is not there"
                continue
            else:
                decode(block, primer if head.is_primed else None)
            yield None
        except DamagedError as error:
            yield str(error)


def runs(
    archive: Archive,
    state: State,
    stored: Stored,
    columns: Sequence[str],
    *,
    claims: str | None = None,
    span: tuple[int, int] | None = None,
    most: int | None = None,
) -> pa.Table:
    """As `Store.runs`, of what the archive and the store have together, each id once; `stored` gives what the store has of it. claims: of the archive's only what claims this job id.
    Many are merged as they come, so that never many more than RUNS_MAX are held, or than 2 * MERGE_ABOVE where merging makes them few. Raises TooManyRuns."""
    can_merge = span is None and most is None and MERGED_COLUMNS.issuperset(columns)
    read = sorted(MERGED_COLUMNS) if can_merge else list(columns)
    bound, merge_at = RUNS_MAX if most is None else most, 2 * MERGE_ABOVE
    zone = Zone() if span is None else Zone(from_ns=span[0], to_ns=span[1])
    where, params = ["TRUE"], {}
    if claims is not None:
        where, params = [*where, "job = $job"], params | {"job": claims}
    if span is not None:
        where, params = [*where, '"start" <= $span_to AND "end" >= $span_from'], params | {"span_from": span[0], "span_to": span[1]}
    query = f"SELECT {quoted(read)} FROM runs WHERE {' AND '.join(where)}"
    found, rows, all_rows = [pa.schema([_RUNS.field(name) for name in read]).empty_table()], 0, 0
    with _asking() as cursor, closing(_union(archive, state, stored, read, zone)) as pieces:
        for table, is_archived in pieces:
            found.append(_ask(cursor, table, query, params) if is_archived else table)
            rows, all_rows = rows + found[-1].num_rows, all_rows + found[-1].num_rows
            if can_merge and rows > merge_at:
                found = [_ask(cursor, pa.concat_tables(found), merged_runs(read, "TRUE"))]
                rows = found[0].num_rows
                merge_at = 2 * max(rows, MERGE_ABOVE)
            if rows > (2 * RUNS_MAX if can_merge else bound):
                break
        whole = pa.concat_tables(found)
        if can_merge and all_rows > MERGE_ABOVE:
            whole = _ask(cursor, whole, merged_runs(read, "TRUE"))
    if whole.num_rows > bound:
        raise TooManyRuns(f"{state.subject[:200]} has more than {bound} archived runs, and no more are read at once")
    return whole.select(list(columns))


def seconds(archive: Archive, state: State, stored: Stored, uid: int | None, nodes: Sequence[str] | None, from_s: int, to_s: int, step_s: int) -> pa.Table:
    """As `Store.seconds`, of what processes did, in the archive and in the store; `stored` gives what the store has of it in this time. Sums are added up block by block, so
    that no more are held than there are seconds, and lengths of long runs; raises TooManyRuns where these are more than RUNS_MAX."""
    zone = Zone(None if nodes is None else frozenset(nodes), (from_s // step_s * step_s) * 10**9, -(-to_s // step_s) * step_s * 10**9)
    found, rows = [SCHEMA.empty_table()], 0
    with _asking() as cursor, closing(_union(archive, state, stored, _SUMMED, zone)) as pieces:
        for table, _ in pieces:
            cursor.register("runs", plain(table.select(_SUMMED)))
            found.append(seconds_of(cursor, None, uid, nodes, from_s, to_s, step_s, False, table.num_rows))
            rows += found[-1].num_rows
            if rows > ADDED_AT:
                found = [added(pa.concat_tables(found))]
                rows = found[0].num_rows
                if rows > RUNS_MAX:
                    raise TooManyRuns(f"{state.subject[:200]} has more than {RUNS_MAX} sums of runs between {from_s} and {to_s} s; ask for a shorter span")
    return added(pa.concat_tables(found))


def _union(archive: Archive, state: State, stored: Stored, columns: Sequence[str], zone: Zone) -> Generator[tuple[pa.Table, bool]]:
    """What the store has, then what the archive may have of a zone besides, and whether it is of the archive: that has all that is told apart by, too, as decoded."""
    known = Ids()
    with closing(stored(list(dict.fromkeys((*columns, *IDS))))) as pieces:
        for table in pieces:
            known.add(table)
            yield table.select(list(columns)), False
    for table in tables(archive, state, zone, list(dict.fromkeys((*columns, *IDS, *_TOLD_APART_BY)))):
        yield known.without(table), True


def plain(table: pa.Table) -> pa.Table:
    """Decoded runs as the schema has them."""
    return table.cast(pa.schema([_RUNS.field(name) for name in table.column_names]))


def _head(told: bytes, state: State, place: int) -> Head:
    try:
        return Head.read(told)
    except DamagedError as error:
        raise _damaged(state, place, error) from error


def _primer(archive: Archive, state: State) -> Primer:
    """The first copy that can be read."""
    why: DamagedError | str = "it has none"
    for place in state.primers:
        try:
            (block,) = archive.blocks(state, [place])
            return Primer(block)
        except DamagedError as error:
            why = error
    raise Damaged(f"the archive of {state.subject[:200]!r}: its primer, without which no block can be read: {why}")


def _damaged(state: State, place: int, error: DamagedError) -> Damaged:
    return Damaged(f"the archive of {state.subject[:200]!r}: block {place} is damaged: {error}; `bellrock archive --verify` tells of all blocks")


@contextmanager
def _asking() -> Iterator[duckdb.DuckDBPyConnection]:
    # What does not fit goes where other temporary files are, else into the folder that the server was started in.
    with tempfile.TemporaryDirectory(prefix="bellrock-") as folder, duckdb.connect(":memory:", config={"threads": 1, "memory_limit": _MEMORY_MAX, "temp_directory": folder}) as connection:
        yield connection


def _ask(cursor: duckdb.DuckDBPyConnection, table: pa.Table, query: str, params: dict[str, Any] | None = None) -> pa.Table:
    """The answer to a question to `runs`."""
    cursor.register("runs", table)
    try:
        return plain(cursor.sql(query, params=params or None).to_arrow_table())
    finally:
        cursor.unregister("runs")
