"""Reading of archived jobs that goes on from request to request: a page decodes a bounded number of blocks, and none of them again for the next.

The blocks of an archive lie by nodes, each over all of the job's time, so that a page in the order of time needs something of all. A `Sweep` goes through them once and keeps the
first records, as many as its bounds allow; they make many pages. In all, the records of a job in the order of time take one sweep for each of these portions: records × records ÷ portion,
which is what memory that does not grow with the job costs. A `Walk` goes block by block, each once."""

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tracepack.archive import Head

from pipeline.archive.ids import IDS, Ids
from pipeline.schema import KINDS

from .errors import Busy

# Records that a sweep keeps, and their bytes; while it goes on it may hold twice as much.
ROWS_MAX, BYTES_MAX = 800_000, 96 << 20
# Records that are decoded for one request, about: a second or two.
READ_MAX = 400_000
# Bytes of readings of a kind that are kept after a request, and how many may be amid their blocks.
KEPT_BYTES_MAX, UNFINISHED_MAX = 192 << 20, 4
# One that nobody has asked for so long makes room. So long a request waits for another one with the same question.
IDLE_S, WAIT_S = 10.0, 5.0
_RUNS = KINDS["run"].arrow
# What a record is sorted by in the order of time.
Key = tuple[int, str, int, int]
Blocks = Sequence[tuple[int, Head]]
# Decodes blocks, one table each, of which only what is asked for is left.
Decode = Callable[[Blocks], Iterator[pa.Table]]
OfBlocks = Callable[[], Blocks]


def coded(records: pa.Table) -> pa.Table:
    """Records with the schema's types, texts as dictionaries that hold what is used."""
    columns = []
    for field in (_RUNS.field(name) for name in records.column_names):
        column = records[field.name]
        if pa.types.is_string(field.type):
            column = column if pa.types.is_dictionary(column.type) else column.cast(field.type).dictionary_encode()
            column = pa.chunked_array([used(chunk) for chunk in column.chunks], pa.dictionary(pa.int32(), pa.string()))
        else:
            column = column.cast(field.type)
        columns.append(column)
    return pa.table(columns, records.column_names)


def used(texts: pa.DictionaryArray) -> pa.DictionaryArray:
    """With those texts alone that occur, in the order in which they do."""
    places = texts.indices.unique().drop_null()
    return pa.DictionaryArray.from_arrays(pc.index_in(texts.indices, places), texts.dictionary.take(places).cast(pa.string()))


def in_time(records: pa.Table) -> pa.Table:
    """Records, as `coded`, by start, node, boot and seq."""
    if not records.num_rows:
        return records
    node = records["node"].unify_dictionaries().combine_chunks()
    place = pc.rank(node.dictionary, tiebreaker="dense").to_numpy()[node.indices.to_numpy()]
    return records.take(np.lexsort((records["seq"].to_numpy(), records["boot"].to_numpy(), place, records["start"].to_numpy())))


def key_of(records: pa.Table, row: int) -> Key:
    """Where a record, as `coded`, stands in the order of time."""
    start, node, boot, seq = (records[name][row].as_py() for name in ("start", *IDS))
    return start, node, boot, seq


def behind(records: pa.Table, key: Key) -> pa.Table:
    """Those of `in_time` that come after a key."""
    return records.slice(_upto(records, key))


def upto(records: pa.Table, key: Key) -> pa.Table:
    """Those of `in_time` up to a key, with it."""
    return records.slice(0, _upto(records, key))


def _upto(records: pa.Table, key: Key) -> int:
    start = records["start"].to_numpy()
    low, high = (int(np.searchsorted(start, key[0], side)) for side in ("left", "right"))
    # Of one instant there are few, but there may be all.
    while low < high:
        middle = (low + high) // 2
        if _order(key_of(records, middle)) <= _order(key):
            low = middle + 1
        else:
            high = middle
    return low


def _order(key: Key) -> tuple[int, bytes, int, int]:
    return key[0], key[1].encode("utf-8", "surrogatepass"), *key[2:]


class Reading:
    """What is common to both. question: what it is of. Who has `lock` may go on with it. is_finished: it needs no further block."""

    def __init__(self, question: Hashable, of_blocks: OfBlocks) -> None:
        self.question, self.lock, self.used_s = question, threading.Lock(), 0.0
        self.nbytes, self.is_finished = 0, False
        self._of_blocks = of_blocks

    def has(self, place: Key | None) -> bool:
        """Whether what comes after a key can be had of it."""
        raise NotImplementedError


class Sweep(Reading):
    """The first records after a key, in the order of time. read, of: records of blocks that were looked at, and of all. Once it is finished: last: the key up to which it has
    all, None: to the end."""

    def __init__(self, question: Hashable, of_blocks: OfBlocks, after: Key | None) -> None:
        super().__init__(question, of_blocks)
        self.after = after
        self.last: Key | None = None
        self.read = self.of = 0
        self._blocks: Blocks | None = None
        self._parts: list[pa.Table] = []
        self._rows, self._rows_max = 0, ROWS_MAX

    def has(self, place: Key | None) -> bool:
        """See `Reading.has`."""
        if self.after is not None and (place is None or _order(place) < _order(self.after)):
            return False
        if not self.is_finished:
            return place == self.after
        return self.last is None or place is None or _order(place) < _order(self.last)

    @property
    def rows(self) -> int:
        """Records that it holds by now."""
        return self._rows

    def go_on(self, decode: Decode) -> int:
        """Goes through further blocks, of READ_MAX records or the next one alone; returns how many records were looked at. Raises what `decode` raises: then nothing of it
        counts."""
        if self.is_finished:
            return 0
        if self._blocks is None:
            self._blocks = self._of_blocks()
            self.of = sum(head.rows for _, head in self._blocks)
        read, place = 0, 0
        for place, table in enumerate(decode(self._blocks), 1):
            rows = self._blocks[place - 1][1].rows
            self._take(table)
            read, self.read = read + rows, self.read + rows
            if place < len(self._blocks) and read + self._blocks[place][1].rows > READ_MAX:
                break
        self._blocks = self._blocks[place:]
        if not self._blocks:
            self._cut()
            self.is_finished = True
        return read

    def between(self, from_ns: int, to_ns: int) -> pa.Table | None:
        """Of a finished one, the records that began in [from_ns, to_ns), in the order of time; None: there are none at all."""
        if not self._parts:
            return None
        first, end = np.searchsorted(self._parts[0]["start"].to_numpy(), (from_ns, to_ns))
        return self._parts[0].slice(first, max(end - first, 0))

    def _take(self, table: pa.Table) -> None:
        if self.after is not None:
            table = table.filter(pc.greater_equal(table["start"], self.after[0]))
        if self.last is not None:
            table = table.filter(pc.less_equal(table["start"], self.last[0]))
        if table.num_rows:
            self._parts.append(coded(table))
            self._rows += table.num_rows
            self.nbytes += self._parts[-1].nbytes
        if self._rows > 2 * self._rows_max or self.nbytes > 2 * BYTES_MAX:
            self._cut()

    def _cut(self) -> None:
        """Sorts what is held, and leaves the first of it."""
        if not self._parts:
            return
        found = in_time(pa.concat_tables(self._parts).unify_dictionaries())
        found = found if self.after is None else behind(found, self.after)
        found = found if self.last is None else upto(found, self.last)
        while found.num_rows > self._rows_max or (found.nbytes > BYTES_MAX and found.num_rows > 1):
            if found.num_rows <= self._rows_max:
                self._rows_max = max(found.num_rows // 2, 1)  # long names: fewer of them
            # A copy: what is left out is not to be held.
            found = coded(found.take(np.arange(self._rows_max)).combine_chunks())
            self.last = key_of(found, found.num_rows - 1)
        self._parts = [found.combine_chunks()] if found.num_rows else []
        self._rows, self.nbytes = found.num_rows, found.nbytes


class Walk(Reading):
    """Blocks one after the other. held: records that are left out, once they are known."""

    def __init__(self, question: Hashable, of_blocks: OfBlocks) -> None:
        super().__init__(question, of_blocks)
        self.is_finished = True
        self.held: Ids | None = None
        self._blocks: Blocks | None = None
        self._now: tuple[int, pa.Table] | None = None

    def has(self, place: Key | None) -> bool:
        """See `Reading.has`."""
        return True

    def since(self, place: int, decode: Decode) -> Iterator[tuple[int, int, pa.Table]]:
        """Of each block from a place on: its place, how many records were decoded for it now, and those that are asked for. The last one is kept."""
        if self._blocks is None:
            self._blocks = self._of_blocks()
        blocks = [one for one in self._blocks if one[0] >= place]
        if blocks and self._now is not None and self._now[0] == blocks[0][0]:
            yield blocks[0][0], 0, self._now[1]
            blocks = blocks[1:]
        for (at, head), table in zip(blocks, decode(blocks), strict=True):
            found = coded(table if self.held is None else self.held.without(table))
            self._now, self.nbytes = (at, found), found.nbytes
            yield at, head.rows, found


R = TypeVar("R", bound=Reading)


class Readings(Generic[R]):
    """Those of a kind that were asked for last, within KEPT_BYTES_MAX. Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._kept: list[R] = []  # the last used one last

    @contextmanager
    def one(self, question: Hashable, place: Key | None, begin: Callable[[], R]) -> Iterator[R]:
        """The reading of a question from which what comes after `place` can be had, for this thread alone; `begin` makes one where there is none. Raises Busy."""
        found = self._locked(question, place, begin)
        try:
            yield found
        except BaseException:
            # What is half done is begun anew.
            self._drop(found)
            raise
        finally:
            found.lock.release()
            with self._lock:
                self._used(found)

    def _locked(self, question: Hashable, place: Key | None, begin: Callable[[], R]) -> R:
        while True:
            with self._lock:
                found = next((one for one in self._kept if one.question == question and one.has(place)), None)
                if found is None:
                    self._make_room()
                    found = begin()
                    self._kept.append(found)
            if not found.lock.acquire(timeout=WAIT_S):
                raise Busy("the server is still reading the same records for another request")
            with self._lock:
                if found in self._kept and found.has(place):
                    return found
            # It has failed, or gone, meanwhile.
            found.lock.release()

    def _make_room(self) -> None:
        """Where as many as may be are amid their blocks, one that nobody asked for of late goes. Raises Busy where each was."""
        unfinished = [one for one in self._kept if not one.is_finished]
        if len(unfinished) < UNFINISHED_MAX:
            return
        idle = [one for one in unfinished if not one.lock.locked() and self._clock() - one.used_s > IDLE_S]
        if not idle:
            raise Busy("the server is reading through the archives of other jobs")
        self._kept.remove(idle[0])

    def _used(self, reading: R) -> None:
        reading.used_s = self._clock()
        if reading in self._kept:
            self._kept.remove(reading)
            self._kept.append(reading)
        for one in list(self._kept[:-1]):
            if sum(kept.nbytes for kept in self._kept) > KEPT_BYTES_MAX and one.is_finished:
                self._kept.remove(one)

    def _drop(self, reading: R) -> None:
        with self._lock:
            if reading in self._kept:
                self._kept.remove(reading)
