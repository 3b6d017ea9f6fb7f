"""Packs the records of a subject into the archive, in bounded memory, and so that to do it again gives the same."""

import logging
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tracepack.archive import EXACT, Archiver, Head, Precision

from pipeline.archive import Archive, State
from pipeline.archive.ids import IDS, Ids
from pipeline.archive.read import Zone, plain, tables
from pipeline.schema import KINDS
from pipeline.store import StoreError
from pipeline.store.sought import DAY_NS, Begun, Orderly, Sought

log = logging.getLogger(__name__)

# Records of the nodes that are asked for at once; one node alone may have more.
ROWS_AT_ONCE = 1 << 18
_RUNS = KINDS["run"].arrow
_NUMBER = re.compile(r"(\d{1,18})", re.ASCII)


class Stopped(Exception):
    """It was told to end; nothing of it counts."""


@dataclass(frozen=True)
class Task:
    """What is to be packed: the records that the store has of a subject (`sought`), and those that the newest generation (`before`) holds and the store has not any more.

    counted: how many the store has, as it counts them, asked before this. basis: a text that says what else tells which are the subject's: where it differs from that of `before`,
    records that the store has, and gives to somebody else by now, go. from_ns, until_ns: the subject's time. elsewhere: gives the ids, among those of some nodes, of records
    that other archives hold, which are left out."""

    subject: str
    sought: Sought
    counted: int
    basis: str
    from_ns: int
    until_ns: int
    before: State | None = None
    elsewhere: Callable[[frozenset[str]], Ids] | None = None


class Watching(Protocol):
    """Who waits for it."""

    def at(self, rows: int, of: int) -> None:
        """So many records are packed. Raises Stopped where it is to end."""
        ...


def natural(name: str) -> tuple:
    """What names are sorted by, so that cn2 comes before cn10."""
    return [int(part) if place % 2 else part for place, part in enumerate(_NUMBER.split(name))], name


def pack(store: Orderly, archive: Archive, task: Task, watching: Watching, precision: Precision = EXACT) -> State | None:
    """Makes the next generation, and seals it. No id goes that the one before holds, but what is somebody else's by now. precision: how exact records are kept. None where there is
    nothing to pack: what there was stays. Raises StoreError, also where records went meanwhile, Overtaken where another writer was faster, Stopped, and ValueError for records that
    cannot be.

    In memory are a piece of the store's (PIECE_ROWS) and a block of the generation before, what becomes a block of these (some 4 times as much), and the ids elsewhere; not what a node,
    or the subject, has in all. Measured: 64 MB of Arrow at the peak with 0.7 million records of one node, and with 2.6 million."""
    began_ns = time.time_ns()
    before, counts = task.before, store.run_counts(task.sought)
    if not counts and (before is None or task.elsewhere is None):
        return None
    elsewhere = None if task.elsewhere is None else task.elsewhere(frozenset(counts) | (_nodes_of(archive, before) if before is not None else set()))
    of = max(sum(counts.values()), 0 if before is None else before.rows)
    packed = _Packed(task, _records(store, archive, task, counts, elsewhere), of, watching, precision)
    generation = 1 if before is None else before.generation + 1
    # What reads the store is ended here, whatever fails: it would keep the store from being closed.
    with closing(packed.blocks()) as blocks:
        writing = archive.write(task.subject, generation, task.from_ns, blocks)
    # What the store has not any more is in no count of it.
    has_kept = before is not None and packed.rows > sum(counts.values())
    state = State(
        task.subject, generation, writing, task.counted + (before.version if before is not None and has_kept else 0), task.counted, task.basis, packed.rows, packed.record_bytes,
        tuple(packed.sizes), tuple(packed.primers), task.from_ns, task.until_ns, began_ns,
    )  # fmt: skip
    archive.seal(state, before)
    log.info("archive: packed %s: %d records, %d bytes in %d blocks, generation %d", task.subject[:200], state.rows, state.bytes, len(state.blocks), generation)
    return state


class _Packed:
    """The blocks of a generation as they are made, and what is known of them by now."""

    def __init__(self, task: Task, records: Generator[pa.Table], of: int, watching: Watching, precision: Precision) -> None:
        self.rows = self.record_bytes = 0
        self.sizes: list[tuple[int, int]] = []
        self.primers: list[int] = []
        self._task, self._records, self._of, self._watching, self._precision = task, records, of, watching, precision

    def blocks(self) -> Generator[bytes]:
        """All of them, and the primer once more at the end, since without it nothing can be read."""
        archiver = Archiver(self._task.from_ns, self._task.until_ns, self._precision)
        primer: bytes | None = None
        with closing(self._records) as records:
            for table in records:
                self._watching.at(self.rows, max(self.rows, self._of))
                self.rows += table.num_rows
                self.record_bytes += table.nbytes
                for block in archiver.push(table):
                    primer = self._keep(block) or primer
                    yield block
        for block in archiver.finish():
            primer = self._keep(block) or primer
            yield block
        if primer is not None:
            self._keep(primer)
            yield primer

    def _keep(self, block: bytes) -> bytes | None:
        head = Head.read(block)
        if head.is_primer:
            self.primers.append(len(self.sizes))
        self.sizes.append((len(block), head.head_bytes))
        return block if head.is_primer else None


def _records(store: Orderly, archive: Archive, task: Task, counts: Mapping[str, int], elsewhere: Ids | None) -> Generator[pa.Table]:
    """All records of the subject, by node, boot and seq."""
    with closing(in_order(store, task.sought, counts, is_exact=elsewhere is None)) as stored:
        found: Iterable[pa.Table] = stored
        if task.before is not None:
            kept = map(plain, tables(archive, task.before))
            found = merged(stored, kept if task.basis == task.before.basis else map(lambda table: _gone(store, table), kept))
        for table in found:
            table = table if elsewhere is None else elsewhere.without(table)
            if table.num_rows:
                yield table


def in_order(store: Orderly, sought: Sought, counts: Mapping[str, int], *, is_exact: bool = False) -> Generator[pa.Table]:
    """What the store has, by node, boot and seq, in pieces. counts: as it told them. is_exact: raises StoreError where it gives out fewer."""
    for nodes in _parts(sorted(counts, key=natural), counts):
        rows, counted = 0, sum(counts[node] for node in nodes)
        with closing(store.ordered_runs(sought, nodes)) as stored:
            for table in stored:
                rows += table.num_rows
                yield table
        if is_exact and rows < counted:
            raise StoreError(f"{counted - rows} records of {nodes[0][:100]} and other nodes went while they were packed; they are packed again")


def merged(stored: Iterable[pa.Table], kept: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The records of both, each id once, then as `stored` has it. Both are by node, boot and seq, as what comes out is; a piece of each is held."""
    ours, theirs = _Pieces(stored), _Pieces(kept)
    while ours.table is not None and theirs.table is not None:
        names = pa.array(sorted({*ours.nodes(), *theirs.nodes()}, key=natural), pa.string())
        keys = [_keys(table, names) for table in (ours.table, theirs.table)]
        # Up to here nothing more can come on either side.
        end = min(tuple(column[-1] for column in key) for key in keys)
        both = pa.concat_tables([of.take(_until(key, end)) for of, key in zip((ours, theirs), keys, strict=True)])
        turn, boot, seq = _keys(both, names)
        order = np.lexsort((seq, boot, turn))
        turn, boot, seq = turn[order], boot[order], seq[order]
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (turn[1:] != turn[:-1]) | (boot[1:] != boot[:-1]) | (seq[1:] != seq[:-1])
        yield both.take(pa.array(order[is_new]))
    for of in (ours, theirs):
        while of.table is not None:
            yield of.take(of.table.num_rows)


class _Pieces:
    """Tables one after the other. table: what is left of the one in hand; None: nothing is."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        self._left = (table for table in tables if table.num_rows)
        self.table = next(self._left, None)

    def nodes(self) -> list[str]:
        return [] if self.table is None else self.table["node"].unique().to_pylist()

    def take(self, rows: int) -> pa.Table:
        """The next ones."""
        assert self.table is not None
        given, left = self.table.slice(0, rows), self.table.slice(rows)
        self.table = left if left.num_rows else next(self._left, None)
        return given


def _keys(table: pa.Table, names: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return pc.index_in(table["node"], names).to_numpy(), table["boot"].to_numpy(), table["seq"].to_numpy()


def _until(key: tuple[np.ndarray, np.ndarray, np.ndarray], end: tuple) -> int:
    """How many rows come no later."""
    turn, boot, seq = key
    return int(((turn < end[0]) | ((turn == end[0]) & ((boot < end[1]) | ((boot == end[1]) & (seq <= end[2]))))).sum())


def _gone(store: Orderly, table: pa.Table) -> pa.Table:
    """Of archived records those that the store has not any more, whosever they are."""
    nodes, times = table["node"].unique().to_pylist(), pc.min_max(table["start"])
    # They may have been rounded down.
    there = Begun(times["min"].as_py() // DAY_NS * DAY_NS, times["max"].as_py() + DAY_NS)
    with closing(store.ordered_runs(there, nodes)) as stored:
        return Ids(stored).without(table)


def _nodes_of(archive: Archive, state: State) -> set[str]:
    return {node for table in tables(archive, state, columns=("node",)) for node in table["node"].unique().to_pylist()}


def ids_of(archive: Archive, state: State, zone: Zone) -> Iterator[pa.Table]:
    """The ids (columns IDS) of the records in an archive that are of the nodes of a zone and begin in its time, block by block."""
    names = pa.array(sorted(zone.nodes or ()), pa.string())
    for table in tables(archive, state, zone, (*IDS, "start")):
        in_time = pc.and_(pc.greater_equal(table["start"], zone.from_ns), pc.less_equal(table["start"], zone.to_ns))
        yield table.select(IDS).filter(pc.and_(pc.is_in(table["node"].cast(pa.string()), names), in_time))


def _parts(nodes: Sequence[str], counts: Mapping[str, int]) -> Iterator[list[str]]:
    part: list[str] = []
    rows = 0
    for node in nodes:
        if part and rows + counts[node] > ROWS_AT_ONCE:
            yield part
            part, rows = [], 0
        part.append(node)
        rows += counts[node]
    if part:
        yield part

