"""A job's records one by one, by pages: what its figures are made of."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobdb.drawn import LATEST_NS, NODE_PROCESS
from jobdb.heat import natural
from jobdb.job import Job
from pipeline.archive import ArchiveError, State
from pipeline.archive.ids import IDS, Ids
from pipeline.archive.read import Zone
from pipeline.schema import KINDS
from pipeline.store import TooManyRuns

from .analysis import Analyses
from .errors import ApiError
from .readings import READ_MAX, Blocks, Decode, Key, Readings, Sweep, Walk, behind, coded, in_time, key_of, upto, used

# Records that are read at once, as few as that for a short page, and looked at for one page; a page may hold fewer than were asked for, and none, and still be followed by more.
PIECE_RUNS, PIECE_RUNS_MIN = 400_000, 50_000
PAGE_READ_MAX = 1_000_000
# Those that may touch one instant, which cannot be divided.
INSTANT_RUNS = 1_000_000
# Records that fit, where another order than that of time is asked for; and those that are looked at for them.
SORTED_MAX, SORTED_READ_MAX = 200_000, 4_000_000
ROWS_MAX = 20_000
# Of names of files on a page.
TEXT_BYTES_MAX = 8 << 20
# stored: in the order that takes least, block by block where the job is archived, else that of time.
ORDERS = ("time", "rank", "node", "stored")
_VALUES = {field.name: field.values or () for field in KINDS["run"].fields}
OPS, LAYERS = _VALUES["op"], _VALUES["layer"]
NOTICES = ("start", "unseen")
TEXTS = ("node", "process", "layer", "op", "file")
NUMBERS = ("rank", "offset", "stride", "size", "count", "bytes", "start", "end", "busy_ns", "errno", "flags")
COLUMNS = (*TEXTS, *NUMBERS, "uid", "boot", "seq")
_NONE = pa.schema([KINDS["run"].arrow.field(name) for name in COLUMNS]).empty_table()
_EMPTY = coded(_NONE)


@dataclass(frozen=True)
class Wanted:
    """Records that began in [from_ns, to_ns); "" and None: any. file: a pattern in which * stands for any text and ? for one character. Without an
    op notices are left out."""

    from_ns: int
    to_ns: int
    node: str = ""
    rank: int | None = None
    file: str = ""
    op: str = ""
    layer: str = ""


@dataclass(frozen=True)
class Place:
    """Where a page begins: at an instant, or behind a record that began then (order "time"); behind so many (`skip`); at a block of the archive, behind so many of its records that
    fit, and once all blocks are told, at an instant of what the store has besides (order "stored"). packed: the generation of that archive, and when the store had last dropped records."""

    at_ns: int = 0
    behind: Key | None = None
    skip: int = 0
    block: int | None = None
    packed: tuple[int, int] | None = None

    def text(self) -> str:
        """As a cursor."""
        packed = "" if self.packed is None else "p{}.{}.".format(*self.packed)
        if self.block is not None:
            return f"{packed}b{self.block}.{self.skip}"
        if self.skip:
            return f"n{self.skip}"
        return packed + (f"t{self.at_ns}" if self.behind is None else "t{0}.{2}.{3}.{1}".format(*self.behind))

    @classmethod
    def of(cls, cursor: str) -> "Place":
        """Of `text`. Raises ValueError for what is none."""
        if match := re.fullmatch(r"n(\d{1,15})", cursor, re.ASCII):
            return cls(skip=int(match[1]))
        packed = None
        if match := re.match(r"p(\d{1,15})\.(\d{1,19})\.", cursor, re.ASCII):
            packed, cursor = (int(match[1]), int(match[2])), cursor[match.end() :]
            if match := re.fullmatch(r"b(\d{1,9})\.(\d{1,9})", cursor, re.ASCII):
                return cls(block=int(match[1]), skip=int(match[2]), packed=packed)
        if match := re.fullmatch(r"t(\d{1,19})(?:\.(\d{1,20})\.(\d{1,19})\.(.*))?", cursor, re.ASCII | re.DOTALL):
            at_ns = int(match[1])
            if at_ns <= LATEST_NS + 1:
                return cls(at_ns, None if match[2] is None else (at_ns, match[4], int(match[2]), int(match[3])), packed=packed)
        raise ValueError(cursor)


@dataclass
class Page:
    """records: in their order. next: where the next page begins, None: there is none. at_ns: up to there it is known (order "time"). read: records that were
    looked at. sought: while an archive is looked through, before any record can be told: how many of how many records that has come to."""

    records: pa.Table
    next: Place | None
    at_ns: int
    read: int = 0
    sought: tuple[int, int] | None = None


@dataclass(frozen=True)
class Part:
    """Some of `Traces.matching`. read: records that were looked at for it; left: those of the archive that are not looked at by now, None: not known yet."""

    records: pa.Table
    read: int
    left: int | None


@dataclass(frozen=True)
class _Asked:
    """A page that is wanted. names_files: see `Traces.page`; of_nodes: see `Traces.pieces`."""

    wanted: Wanted
    order: str
    limit: int
    place: Place
    names_files: bool
    of_nodes: bool


class Traces:
    """Pages of records. Any thread may ask. All raise Busy and StoreError."""

    def __init__(self, analyses: Analyses) -> None:
        self._analyses = analyses
        self._sweeps: Readings[Sweep] = Readings()
        self._walks: Readings[Walk] = Readings()

    def page(self, job: Job, wanted: Wanted, order: str, limit: int, place: Place, *, names_files: bool) -> Page:
        """Up to `limit` records, after a bounded number that are looked at. names_files: those of nodes bear the names of files. Raises ApiError where too many would have to be sorted."""
        asked = _Asked(wanted, order, limit, place, names_files, self.is_of_nodes(job))
        tell = {"time": self._by_time, "stored": self._stored}.get(order, self._sorted)
        with self._analyses.thread():
            state = self._analyses.archived(job)
            try:
                return tell(job, asked, state)
            except ArchiveError:
                now = self._analyses.archived(job)
                if state is None or now is None or now.generation == state.generation:
                    raise
                return tell(job, asked, now)

    def matching(
        self, job: Job, columns: tuple[str, ...], zone: Zone, fit: Callable[[pa.Table], pa.Table], first_rows: int, archived_max: int, *, of_nodes: bool
    ) -> Iterator["Part"]:
        """The job's own records that touch the time of a zone, those of them that `fit` leaves, in any order. Of an archive no other blocks are looked at than those that may hold
        something of the zone, with about `archived_max` records, evenly over all of them. columns: as `pieces`, and IDS come with them."""
        assert zone.from_ns is not None and zone.to_ns is not None
        state = self._analyses.archived(job)
        columns = tuple(dict.fromkeys((*columns, *IDS)))
        known = Ids()
        for _, piece in self.pieces(job, columns, zone.from_ns, zone.to_ns + 1, first_rows, of_nodes=of_nodes, touching=True):
            found = coded(fit(piece))
            known.add(found)
            yield Part(found, piece.num_rows, None)
        if state is None:
            return
        blocks = self._analyses.blocks_of(job, state, zone)
        left = sum(head.rows for _, head in blocks)
        if left > archived_max:
            blocks = [blocks[at] for at in np.linspace(0, len(blocks) - 1, max(len(blocks) * archived_max // left, 1)).astype(int)]
        for (_, head), table in zip(blocks, self._analyses.archived_records(job, state, blocks, columns, zone.file), strict=True):
            left -= head.rows
            touching = pc.and_(pc.less_equal(table["start"], zone.to_ns), pc.greater_equal(table["end"], zone.from_ns))
            yield Part(coded(known.without(fit(_own(table.filter(touching), job, of_nodes)))), head.rows, left)

    def pieces(
        self, job: Job, columns: tuple[str, ...], from_ns: int, to_ns: int, first_rows: int, *, of_nodes: bool, touching: bool = False
    ) -> Iterator[tuple[int, pa.Table]]:
        """The job's own records in the store that began in [from_ns, to_ns), a span after the other, and until when each goes; the first of about `first_rows`, each later one longer.
        of_nodes: records of whole nodes stand in for those of processes. touching: those that began before, and went on, are among the first. uid, process, start and end
        among the columns."""
        lasted_ns = max((time.time_ns() if job.end_ns is None else job.end_ns) - job.start_ns, 1)
        # Outside of its life a job has few records, if any.
        inside = [min(max(edge, from_ns), to_ns) for edge in (job.start_ns, job.start_ns + lasted_ns)]
        most = min(max(4 * first_rows, PIECE_RUNS_MIN), PIECE_RUNS)
        lengths = (to_ns - from_ns, lasted_ns * first_rows // max(self._analyses.version(job), 1), to_ns - from_ns)
        for since_ns, until_ns, length_ns in zip((from_ns, *inside), (*inside, to_ns), lengths, strict=True):
            for known_ns, piece in self._pieces(job, columns, since_ns, until_ns, max(length_ns, 1), most):
                began = pc.less(piece["start"], known_ns)
                if not touching:
                    began = pc.and_(began, pc.greater_equal(piece["start"], since_ns))
                yield known_ns, _own(piece.filter(began), job, of_nodes)
                since_ns, touching = known_ns, False

    def _pieces(self, job: Job, columns: tuple[str, ...], at_ns: int, to_ns: int, length_ns: int, most: int) -> Iterator[tuple[int, pa.Table]]:
        """All records that touch spans which follow each other, as long as they are no more than `most`; INSTANT_RUNS where time cannot be divided further."""
        while at_ns < to_ns:
            until_ns = min(at_ns + length_ns, to_ns)
            try:
                found = self._analyses.records_of(job, columns, at_ns, until_ns - 1, INSTANT_RUNS if length_ns == 1 else most)
            except TooManyRuns as error:
                if length_ns == 1:
                    raise _too_many_at_once(at_ns) from error
                length_ns = max(min(length_ns, to_ns - at_ns) // 4, 1)
                continue
            yield until_ns, found
            at_ns = until_ns
            if found.num_rows < most // 4:
                length_ns *= 2

    def is_of_nodes(self, job: Job) -> bool:
        """Whether the records of whole nodes stand in for those of processes, as in the job's profile."""
        try:
            return self._analyses.profile(job)[0]["granularity"] == "node"
        except TooManyRuns:
            return False

    def _by_time(self, job: Job, asked: _Asked, state: State | None) -> Page:
        if state is None:
            return self._merged(job, asked, None, 0)
        place = asked.place
        after = place.behind or ((place.at_ns, "", 0, -1) if place.at_ns else None)
        with self._sweep(job, asked, state, after) as sweep:
            read = sweep.go_on(self._decode(job, asked, state))
            if not sweep.is_finished:
                return Page(_EMPTY, place, place.at_ns, read, (sweep.read, sweep.of))
            return self._merged(job, asked, sweep, read)

    def _merged(self, job: Job, asked: _Asked, sweep: Sweep | None, read: int) -> Page:
        """Of what the store has, and what a sweep has found in the archive."""
        wanted, limit, place = asked.wanted, asked.limit, asked.place
        last = None if sweep is None else sweep.last
        from_ns, to_ns = max(wanted.from_ns, place.at_ns), wanted.to_ns if last is None else min(wanted.to_ns, last[0] + 1)
        parts, rows, known_ns = [], 0, from_ns
        for until_ns, piece in self.pieces(job, COLUMNS, from_ns, to_ns, limit, of_nodes=asked.of_nodes):
            part = coded(_fitting(piece, wanted, asked.names_files))
            kept = None if sweep is None else sweep.between(known_ns, until_ns)
            part = in_time(part if kept is None else pa.concat_tables([part, Ids([part]).without(kept)]))
            part = part if place.behind is None else behind(part, place.behind)
            part = part if last is None else upto(part, last)
            parts.append(part)
            known_ns, rows, read = until_ns, rows + part.num_rows, read + piece.num_rows
            if rows > limit or read > PAGE_READ_MAX:
                break
        found = pa.concat_tables(parts) if parts else _EMPTY
        shown = found.slice(0, _fitting_rows(found, limit))
        if shown.num_rows < found.num_rows:
            key = key_of(shown, shown.num_rows - 1)
            return Page(shown, Place(key[0], key), key[0], read)
        if last is not None and known_ns > last[0]:
            return Page(shown, Place(last[0], last), last[0], read)
        return Page(shown, Place(known_ns) if known_ns < wanted.to_ns else None, known_ns, read)

    def _sorted(self, job: Job, asked: _Asked, state: State | None) -> Page:
        if state is None:
            return self._sorted_with(job, asked, None, 0)
        with self._sweep(job, asked, state, None) as sweep:
            read = sweep.go_on(self._decode(job, asked, state))
            if sweep.rows > SORTED_MAX or sweep.last is not None:
                raise _too_many_to_sort(asked.order, f"more than {SORTED_MAX} records fit")
            if not sweep.is_finished:
                return Page(_EMPTY, asked.place, asked.wanted.to_ns, read, (sweep.read, sweep.of))
            return self._sorted_with(job, asked, sweep, read)

    def _sorted_with(self, job: Job, asked: _Asked, sweep: Sweep | None, read: int) -> Page:
        wanted, place = asked.wanted, asked.place
        kept = None if sweep is None else sweep.between(0, LATEST_NS + 1)
        parts, rows = [_EMPTY], 0 if kept is None else kept.num_rows
        for _, piece in self.pieces(job, COLUMNS, wanted.from_ns, wanted.to_ns, PIECE_RUNS // 2, of_nodes=asked.of_nodes):
            parts.append(coded(_fitting(piece, wanted, asked.names_files)))
            rows, read = rows + parts[-1].num_rows, read + piece.num_rows
            if rows > SORTED_MAX or read > SORTED_READ_MAX:
                what = f"more than {SORTED_MAX} records fit" if rows > SORTED_MAX else f"more than {SORTED_READ_MAX} records would have to be looked at"
                raise _too_many_to_sort(asked.order, what)
        found = pa.concat_tables(parts)
        found = found if kept is None else pa.concat_tables([found, Ids([found]).without(kept)])
        found = found.take(_order(found, asked.order)).slice(place.skip)
        shown = found.slice(0, _fitting_rows(found, asked.limit))
        more = Place(skip=place.skip + shown.num_rows) if shown.num_rows < found.num_rows else None
        return Page(shown, more, wanted.to_ns, read)

    def _stored(self, job: Job, asked: _Asked, state: State | None) -> Page:
        """Blocks first, then what the store has, in the order of time."""
        place = asked.place
        packed = None if state is None else (state.generation, self._analyses.lost_ns(job))
        if place.packed not in (None, packed):
            raise ApiError(409, "packed_anew", "the job's records were packed anew, or dropped, and are stored in another order now", "begin again without a cursor")
        if state is None or (place.packed is None and place.at_ns):
            # There was no archive when it was begun; there may be one by now.
            return self._by_time(job, asked, state)
        if place.at_ns:
            page = self._merged(job, asked, None, 0)
            return replace(page, next=None if page.next is None else replace(page.next, packed=packed))
        question = self._question(job, asked, state), packed
        begin = lambda: Walk(question, lambda: self._blocks(job, asked, state))  # noqa: E731
        with self._walks.one(question, None, begin) as walk:
            if walk.held is None:
                walk.held = self._held(job, asked)
            parts, rows, read = [_EMPTY], 0, 0
            for block, looked, found in walk.since(place.block or 0, self._decode(job, asked, state)):
                skip = place.skip if block == place.block else 0
                part = found.slice(skip)
                part = part.slice(0, _fitting_rows(part, asked.limit - rows))
                parts.append(part)
                rows, read = rows + part.num_rows, read + looked
                if skip + part.num_rows < found.num_rows:
                    return Page(pa.concat_tables(parts), Place(block=block, skip=skip + part.num_rows, packed=packed), asked.wanted.from_ns, read)
                if rows >= asked.limit or read >= READ_MAX:
                    return Page(pa.concat_tables(parts), Place(block=block + 1, packed=packed), asked.wanted.from_ns, read)
        return Page(pa.concat_tables(parts), Place(max(asked.wanted.from_ns, 1), packed=packed), asked.wanted.from_ns, read)

    def _held(self, job: Job, asked: _Asked) -> Ids:
        """The ids of what the store has of the job."""
        wanted = asked.wanted
        try:
            found = self._analyses.records_of(job, (*IDS, "start", "end"), wanted.from_ns, wanted.to_ns - 1, PIECE_RUNS)
        except TooManyRuns as error:
            message = f"over {PIECE_RUNS} of the job's records of this time are in the store, and may be in the archive, too"
            raise ApiError(422, "too_many_runs", message, "ask in the order of time") from error
        return Ids([found])

    def _sweep(self, job: Job, asked: _Asked, state: State, after: Key | None) -> AbstractContextManager[Sweep]:
        question = self._question(job, asked, state)
        wanted = asked.wanted if after is None else replace(asked.wanted, from_ns=max(asked.wanted.from_ns, after[0]))
        asked = replace(asked, wanted=wanted)
        return self._sweeps.one(question, after, lambda: Sweep(question, lambda: self._blocks(job, asked, state), after))

    def _question(self, job: Job, asked: _Asked, state: State) -> tuple:
        """What a reading is of: another one where anything says that other records are the job's."""
        return self._archive(job, state), asked.wanted, asked.names_files, asked.of_nodes

    def _archive(self, job: Job, state: State) -> tuple:
        return job.key, state.generation, state.made_ns, repr(self._analyses.basis(job))

    def _blocks(self, job: Job, asked: _Asked, state: State) -> Blocks:
        # Whoever is not told others' files must not find out how these are called by how many records are looked at.
        wanted = asked.wanted if asked.names_files else replace(asked.wanted, file="")
        return self._analyses.blocks_of(job, state, _zone(wanted))

    def _decode(self, job: Job, asked: _Asked, state: State) -> Decode:
        wanted = asked.wanted
        # As `_blocks`: who is not told others' files gets all records, and these without the names.
        file = _zone(wanted).file if asked.names_files else None

        def tables(blocks: Blocks) -> Iterator[pa.Table]:
            for table in self._analyses.archived_records(job, state, blocks, COLUMNS, file):
                began = pc.and_(pc.greater_equal(table["start"], wanted.from_ns), pc.less(table["start"], wanted.to_ns))
                yield _fitting(_own(table.filter(began), job, asked.of_nodes), wanted, asked.names_files)

        return tables


def _own(records: pa.Table, job: Job, of_nodes: bool) -> pa.Table:
    own = pc.fill_null(pc.equal(records["uid"], job.uid), True)
    return records.filter(own if of_nodes else pc.and_(own, _where(records["process"], lambda texts: pc.not_equal(texts, NODE_PROCESS))))


def _zone(wanted: Wanted) -> Zone:
    """What blocks must hold so that something of them can fit."""
    is_exact = not re.search(r"[*?]", wanted.file)
    return Zone(
        frozenset((wanted.node,)) if wanted.node else None, wanted.from_ns, wanted.to_ns - 1, wanted.rank, frozenset((wanted.op,)) if wanted.op else frozenset(OPS) - frozenset(NOTICES),
        wanted.file if wanted.file and is_exact else None, None if is_exact else re.split(r"[*?]", wanted.file)[0],
    )  # fmt: skip


def _too_many_at_once(at_ns: int) -> ApiError:
    hint = f"ask for what began before it (to_ns={at_ns}), and go on behind it (from_ns={at_ns + 1}; `bellrock trace --until`, `--since`)"
    return ApiError(422, "too_many_at_once", f"more than {INSTANT_RUNS} records touch the instant {at_ns}, and no more are read at once", hint)


def _too_many_to_sort(order: str, what: str) -> ApiError:
    return ApiError(422, "too_many_to_sort", f"{what}, and no more are sorted by {order}", "ask for fewer, by time, node, rank or file, or in the order of time")


def page_json(page: Page) -> dict:
    """A page by columns, texts told by their place among those of the page."""
    columns: dict[str, list] = {name: page.records[name].to_pylist() for name in NUMBERS}
    texts: dict[str, list[str]] = {}
    for name in TEXTS:
        told = used(page.records[name].unify_dictionaries().combine_chunks())
        columns[name], texts[name] = told.indices.to_pylist(), told.dictionary.to_pylist()
    sought = None if page.sought is None else {"read": page.sought[0], "of": page.sought[1]}
    cursor = None if page.next is None else page.next.text()
    return {"rows": page.records.num_rows, "columns": columns, "texts": texts, "at_ns": page.at_ns, "read": page.read, "sought": sought, "next_cursor": cursor}


def _fitting(records: pa.Table, wanted: Wanted, names_files: bool) -> pa.Table:
    if not names_files:
        # Before it is asked which fit: what others did on a node must not be guessed by asking.
        is_node = _where(records["process"], lambda texts: pc.equal(texts, NODE_PROCESS))
        file = pc.if_else(is_node, pa.scalar(None, pa.string()), records["file"].cast(pa.string()))
        records = records.set_column(records.column_names.index("file"), "file", file) if pc.any(is_node).as_py() else records
    ops = pa.array([wanted.op] if wanted.op else [op for op in OPS if op not in NOTICES])
    fits = _where(records["op"], lambda texts: pc.is_in(texts, ops))
    for name in ("node", "layer"):
        if value := getattr(wanted, name):
            fits = pc.and_(fits, _where(records[name], lambda texts, value=value: pc.equal(texts, value)))
    if wanted.rank is not None:
        fits = pc.and_(fits, pc.fill_null(pc.equal(records["rank"], wanted.rank), False))
    if wanted.file:
        fits = pc.and_(fits, _where(records["file"], lambda texts: pc.match_substring_regex(texts, _pattern(wanted.file))))
    return records.filter(fits)


def _where(column: pa.ChunkedArray, test: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """Which texts pass a test, each of them tested once; those that are not there do not."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return pa.chunked_array([pc.fill_null(test(chunk.dictionary).take(chunk.indices), False) for chunk in encoded.chunks], pa.bool_())


def _pattern(glob: str) -> str:
    """Arrow's expressions take a time that grows with the text alone, whatever the pattern."""
    parts = (".*" if part == "*" else "." if part == "?" else re.escape(part) for part in re.split(r"([*?])", glob))
    return f"(?s)^{''.join(parts)}$"


def _order(records: pa.Table, order: str) -> np.ndarray:
    node = records["node"].cast(pa.string()).to_numpy(zero_copy_only=False)
    number = {name: at for at, name in enumerate(sorted(set(node), key=natural))}
    of_node = np.array([number[name] for name in node], dtype=np.int64)
    rank = pc.fill_null(records["rank"].cast(pa.int64()), LATEST_NS).to_numpy()
    process = pc.rank(records["process"].cast(pa.string()), tiebreaker="dense").to_numpy() if len(node) else of_node
    start, seq = records["start"].to_numpy(), records["seq"].to_numpy()
    keys = (seq, start, process, of_node) if order == "node" else (seq, start, process, of_node, rank)
    return np.lexsort(keys)


def _fitting_rows(records: pa.Table, limit: int) -> int:
    """So many records a page holds: at least one, if there is any and one is wanted. A page tells each path once."""
    if limit < 1:
        return 0
    paths = records.slice(0, limit)["file"].unify_dictionaries().combine_chunks()
    path, first = np.unique(pc.fill_null(paths.indices, -1).to_numpy(), return_index=True)
    lengths = np.zeros(len(paths), dtype=np.int64)
    lengths[first[path >= 0]] = pc.binary_length(paths.dictionary).to_numpy()[path[path >= 0]]
    within = int(np.searchsorted(np.cumsum(lengths), TEXT_BYTES_MAX, side="right"))
    return min(max(within, 1), len(paths))
