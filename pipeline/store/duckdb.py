"""The store on one DuckDB file.

Durable: DuckDB writes and syncs its log before a commit returns, and large batches go straight into the synced file.
One process owns the file; DuckDB's lock on it keeps others out.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from pipeline.schema import KINDS
from pipeline.store import (
    BEGIN, MESSAGES_MAX, MESSAGES_SOUGHT_MAX, RUNS_MAX, SAMPLES, SAMPLES_MAX, Appended, Given, Heard, Letters, Place, PlaceLost, Progress, Proof, StoreError, TooManyRuns, Undecodable, Window, decoded, named_samples,
)
from pipeline.store.batch import Batch, check_clock
from pipeline.store.bulk import Bulk
from pipeline.store import duckdb_retention as retention
from pipeline.store import duckdb_samples as samples
from pipeline.store import duckdb_summaries as summaries
from pipeline.store import duckdb_messages, duckdb_ordered
from pipeline.store.duckdb_audit import letters_by_reason, proof, sums_by_time
from pipeline.store.duckdb_books import (
    LETTERS_KEPT,
    LETTERS_SLACK,
    count_marks,
    drop_letters,
    read_marks,
    read_totals,
    write_books,
)
from pipeline.store.duckdb_file import DuckDBFile
from pipeline.store.duckdb_runs import MERGE_ABOVE, MERGED_COLUMNS, doings, merged_runs, quoted, seconds
from pipeline.store.duckdb_tables import by_table, insert, roll_back, table_of
from pipeline.store.duckdb_versions import OF_NODES, Asked, claimed, in_window, of_given, of_nodes, within
from pipeline.store.mark import Key, Mark
from pipeline.store.marks import MARKS_KEPT, Marks
from pipeline.store.parts import CLASSES, TOLD_MAX, Drops, Part
from pipeline.store.sought import Begun, Sought
from pipeline.store.summaries import HOURS, MINUTES, Due, Told
from pipeline.store.touched import Touched, spans_of
from pipeline.summary import HOUR_NS

log = logging.getLogger(__name__)

# Jobs whose row count is held in memory.
VERSIONS_MAX = 100_000
# Boots that `status` tells of.
HIGH_WATER_SHOWN_MAX = 1000
# Boots that an audit looks at.
BOOTS_MAX = 100_000

# After these DuckDB refuses all further use of the database until it is opened anew.
_FATAL = (duckdb.FatalException, duckdb.InternalException)


class DuckDBStore:
    """A `pipeline.store.Store` in the DuckDB file at `path`, which is made where it is missing; its folder must exist.

    Raises StoreError where the file cannot be opened, is another process's, or has tables of another layout.
    """

    few_runs = 100_000  # with 50 MB
    is_grouped = False
    seconds_of = "runs"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file = DuckDBFile(self._path)
        self._append_lock = threading.Lock()  # one batch at a time
        # Held to change what follows (all but _versions in an append or opening only), and to read it elsewhere; never for long.
        self._facts = threading.Lock()
        self._marks = Marks([], self._fetch_mark)
        self._missing = 0
        self._totals: dict[str, int] = {}
        self._versions: dict[str, int] = {}
        self._nodes_with_runs: set[str] = set()  # of their own, which no process did
        self._appends = 0  # begun and ended: odd while one is under way
        self._drops, self._dropped = 0, dict[str, int]()  # how often rows were dropped, and by class how many
        self._gone: list[Part] = []
        self._when = Drops([])  # the same, as it is asked for
        self._touched = Touched()
        # Owner: _append_lock. Samples of hours below are noted as late: those of hours that are summarised, or just being summarised.
        self._summarised_below = 0
        self._looked_ns = 0  # up to where the look under way has come; its owner is who summarises
        self._error: str | None = None
        self._last_append_ns: int | None = None
        self._file.open(self._load)

    # -- writing

    def append(self, events: Sequence[dict | Undecodable]) -> Appended:
        """See `Store.append`."""
        return self._take_in(lambda now_ns: self._batch(now_ns, lambda batch: batch.add(events)))

    def take(self, payloads: Sequence[bytes], decode: Callable[[bytes], Any] = decoded) -> Appended:
        """See `Store.take`."""
        return self._take_in(lambda now_ns: self._batch(now_ns, lambda batch: batch.take(payloads, decode)))

    def _batch(self, now_ns: int, fill: Callable[[Batch], None]) -> Batch:
        batch = Batch(self._marks, now_ns, self._marks.last_append_ns)
        fill(batch)
        return batch

    def load(self, runs: pa.Table) -> Appended:
        """Stores a table of runs in one transaction, many times as fast as `append`; on return it is durable.

        For records that are known to be good: nothing of them is looked at but that they have the schema's columns, in its order (texts may be
        dictionaries, and what is all null of no type), and that each boot's numbers follow its mark, each once. Raises ValueError where that is not so."""
        return self._take_in(lambda now_ns: Bulk(runs, self._marks, now_ns))

    def _take_in(self, make: Callable[[int], Batch | Bulk]) -> Appended:
        with self._append_lock:
            try:
                if not self._file.is_open:
                    self._file.open(self._load)
                appended = self._append(make)
            except duckdb.Error as error:
                self._error = f"cannot append to {self._path}: {error}"
                self._recover(error)
                raise StoreError(self._error) from error
            except StoreError as error:
                self._error = str(error)
                raise
            self._error = None
            self._last_append_ns = time.time_ns()
            return appended

    def _append(self, make: Callable[[int], Batch | Bulk]) -> Appended:
        now_ns = time.time_ns()
        batch = make(now_ns)
        check_clock(now_ns, batch.ahead_ns, self._marks, f"move {self._path} away and start again")
        result = batch.result
        new = result.records | {"duplicates": result.duplicates, "dead_letters": result.dead_letters}
        totals = self._totals | {name: self._totals[name] + n for name, n in new.items()}
        excess = totals["dead_letters"] - totals["letters_dropped"] - LETTERS_KEPT
        excess = excess if excess > LETTERS_SLACK else 0
        totals["letters_dropped"] += excess
        tables = by_table(batch.table)
        spans = [span for rows in tables.values() for span in spans_of(rows)]
        late = summaries.late_hours([tables[name] for name in summaries.SAMPLES], self._summarised_below)
        # What is missing of a boot concerns the time since it was last heard, whenever that was.
        of_gaps = {key[0] for key, mark in batch.marks.items() if mark.gaps != _gaps(self._marks.get(key))}
        with self._facts:
            self._appends += 1
        try:
            self._commit(batch, tables, late, totals, excess)
            # Only now, after the commit: a reader that sees a new version must also see the rows that it stands for.
            with self._facts:
                self._marks.move(batch.marks)
                self._missing += result.missing - result.filled
                self._totals = totals
                for job, rows in batch.rows_by_job().items():
                    if job in self._versions:
                        self._versions[job] += rows
                self._nodes_with_runs |= batch.nodes_with_runs()
                self._touched.add(spans, of_gaps)
        finally:
            with self._facts:
                self._appends += 1
        return result

    def _commit(self, batch: Batch | Bulk, tables: Mapping[str, pa.Table], late: pa.Table, totals: dict[str, int], excess: int) -> None:
        before = {key: self._marks.get(key) for key in batch.marks}
        changed = {name: value for name, value in totals.items() if value != self._totals[name]}
        with self._file.cursor() as cursor:
            cursor.begin()
            try:
                for name, table in tables.items():
                    if table.num_rows:
                        insert(cursor, name, table)
                if late.num_rows:
                    summaries.note_late(cursor, late)
                write_books(cursor, batch.marks, before, batch.letters, changed)
                if excess:
                    drop_letters(cursor, excess)
                cursor.commit()
            except BaseException:
                roll_back(cursor)
                raise

    def _fetch_mark(self, key: Key) -> Mark | None:
        with self._file.cursor() as cursor:
            found = read_marks(cursor, node=key[0], boot=key[1], limit=1)
        return found[0][1] if found else None

    def _recover(self, error: duckdb.Error) -> None:
        """After a failed append, of which `_error` tells: whether it was committed is only known from the file, so the marks are read again."""
        if isinstance(error, _FATAL) or "invalidated" in str(error):
            self._file.shut(self._error)
            return  # the next append opens it anew
        try:
            with self._file.cursor() as cursor:
                self._load(cursor)
        except duckdb.Error:
            log.exception("store %s: cannot read its marks after a failed append; opening it anew", self._path)
            self._file.shut(self._error)

    # -- reading

    def runs(
        self,
        job: str,
        columns: Sequence[str] | None = None,
        window: Window | None = None,
        span: tuple[int, int] | None = None,
        *,
        known: Sequence[str] | None = None,
        most: int | None = None,
    ) -> pa.Table:
        """See `Store.runs`."""
        names = KINDS["run"].arrow.names
        unknown = [c for c in columns or () if c not in names]
        if unknown:
            raise KeyError(f"runs have no column {unknown[0]!r}; they have {', '.join(names)}")
        wanted = list(names if columns is None else columns)
        where, params = self._of_job(job, window)
        if span is not None:
            where, params = f'({where}) AND "start" <= $span_to AND "end" >= $span_from', params | {"span_from": span[0], "span_to": span[1]}
        can_merge = span is None and MERGED_COLUMNS.issuperset(wanted) and most is None
        bound = RUNS_MAX if most is None else most
        with self._file.reading() as cursor:
            # How many there are shows when they are read: to count them first would be a second scan.
            limit = MERGE_ABOVE if can_merge else bound
            table = cursor.sql(f"SELECT {quoted(wanted)} FROM runs WHERE {where} LIMIT {limit + 1}", params=params).to_arrow_table()
            if can_merge and table.num_rows > MERGE_ABOVE:
                table = cursor.sql(f"{merged_runs(wanted, where)} LIMIT {RUNS_MAX + 1}", params=params).to_arrow_table()
        if table.num_rows > bound:
            rest = "even merged ones" if can_merge else "and no more are read at once"
            raise TooManyRuns(f"job {job[:200]!r} has more than {bound} runs, {rest}")
        return table.cast(pa.schema([KINDS["run"].arrow.field(name) for name in wanted]))

    def _of_job(self, job: str, window: Window | None) -> tuple[str, dict[str, Any]]:
        """A condition for what `runs` gives of a job, and its parameters."""
        where, params = in_window(job, window)
        found = self._within([(job, window)])[0]
        return (f"(({where}) OR {OF_NODES})", params | found) if found else (where, params)

    def _sought(self, sought: Sought) -> tuple[str, dict[str, Any]]:
        if isinstance(sought, Begun):
            return '"start" >= $from AND "start" < $to', {"from": sought.from_ns, "to": sought.to_ns}
        return self._of_job(sought.job, sought.window)

    def run_counts(self, sought: Sought) -> dict[str, int]:
        """See `Orderly.run_counts`."""
        where, params = self._sought(sought)
        with self._file.reading() as cursor:
            return duckdb_ordered.counts(cursor, where, params)

    def ordered_runs(self, sought: Sought, nodes: Sequence[str]) -> Generator[pa.Table]:
        """See `Orderly.ordered_runs`."""
        where, params = self._sought(sought)
        with self._file.reading() as cursor:
            yield from duckdb_ordered.ordered(cursor, where, params, nodes)

    def run_days(self, before_ns: int) -> dict[tuple[int, str], int]:
        """See `Orderly.run_days`."""
        with self._file.reading() as cursor:
            return duckdb_ordered.days(cursor, before_ns)

    def sample_totals(self, component: str, nodes: Sequence[str], after: Place = BEGIN) -> tuple[list[tuple[str, str, float, float]], Place]:
        """See `Store.sample_totals`. Places are those of the rows, which move where some are dropped."""
        drops, first = self._row_after(after)
        rows = self._fetch(
            "SELECT node, name, sum(value), arg_max(value, place), max(place) FROM ("
            'SELECT node, rowid AS place, unnest(map_keys("values")) AS name, unnest(map_values("values")) AS value '
            f"FROM {table_of(component)} WHERE rowid >= $after AND component = $component AND node IN (SELECT unnest($nodes::VARCHAR[]))) GROUP BY node, name",
            {"component": component, "nodes": list(nodes), "after": first},
        )
        return [row[:4] for row in rows], self._place(drops, max(row[4] + 1 for row in rows)) if rows else after

    def sample_sums(self, component: str, names: Sequence[str], nodes: Sequence[str], from_ns: int, to_ns: int) -> dict[tuple[str, int], dict[str, float]]:
        """See `Store.sample_sums`."""
        rows = self._fetch(
            "SELECT node, boot, name, sum(value) FROM ("
            'SELECT node, boot, unnest(map_keys("values")) AS name, unnest(map_values("values")) AS value '
            f'FROM {table_of(component)} WHERE component = $component AND "end" >= $from AND start <= $to AND node IN (SELECT unnest($nodes::VARCHAR[]))) '
            "WHERE name IN (SELECT unnest($names::VARCHAR[])) GROUP BY ALL ORDER BY ALL",
            {"component": component, "names": list(names), "nodes": list(nodes), "from": from_ns, "to": to_ns},
        )
        sums: dict[tuple[str, int], dict[str, float]] = {}
        for node, boot, name, value in rows:
            sums.setdefault((node, boot), {})[name] = value
        return sums

    def sample_sums_by_time(
        self, component: str, names: Sequence[str], after: Place, grain_ns: int, limit: int
    ) -> tuple[list[tuple[Key, int, str, float]], Place]:
        """See `Store.sample_sums_by_time`. Places are those of the rows, which move where some are dropped."""
        drops, first = self._row_after(after)
        with self._file.reading() as cursor:
            rows, place = sums_by_time(cursor, component, names, first, grain_ns, limit)
        return rows, self._place(drops, place) if place else BEGIN

    def components(self, from_ns: int, to_ns: int, node: str | None = None, kinds: Sequence[str] | None = None, but: Sequence[str] = ()) -> list[Heard]:
        """See `Store.components`."""
        kept_ns = self.kept_from_ns("samples")
        with self._file.reading() as cursor:
            return samples.components(cursor, node, kinds, but, from_ns, to_ns, kept_ns)

    def called(self, component: str, nodes: Sequence[str], names: Sequence[str], stems: Sequence[str], from_ns: int, to_ns: int) -> list[Heard]:
        """See `Store.called`."""
        kept_ns = self.kept_from_ns("samples")
        with self._file.reading() as cursor:
            return samples.called(cursor, component, nodes, names, stems, from_ns, to_ns, kept_ns)

    def telling(self, component: str, nodes: Sequence[str], from_ns: int, to_ns: int) -> set[str]:
        """See `Store.telling`."""
        kept_ns = self.kept_from_ns("samples")
        with self._file.reading() as cursor:
            return samples.telling(cursor, component, nodes, from_ns, to_ns, kept_ns)

    def samples(
        self, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int, most: int = SAMPLES_MAX, names: Sequence[str] | None = None
    ) -> pa.Table:
        """See `Store.samples`."""
        if not of:
            return (SAMPLES if names is None else named_samples(names)).empty_table()
        with self._file.reading() as cursor:
            return samples.samples(cursor, component, of, from_ns, to_ns, most, names)

    def sums_of(self, component: str, node: str, begins: str, names: Sequence[str], from_ns: int, to_ns: int) -> dict[str, dict[str, float]]:
        """See `Store.sums_of`."""
        kept_ns = self.kept_from_ns("samples")
        with self._file.reading() as cursor:
            return samples.sums_of(cursor, component, node, begins, names, from_ns, to_ns, kept_ns)

    def messages(
        self, node: str, from_ns: int, to_ns: int, severity: int = 7, event: str | None = None, skip: int = 0, most: int = MESSAGES_MAX
    ) -> tuple[pa.Table, int]:
        """See `Store.messages`."""
        with self._file.reading() as cursor:
            return duckdb_messages.messages(cursor, node, from_ns, to_ns, severity, event, skip, most)

    def messages_since(self, events: Sequence[str] | None, from_ns: int, after: Place = BEGIN, limit: int = MESSAGES_SOUGHT_MAX) -> tuple[pa.Table, Place]:
        """See `Store.messages_since`. Places are those of the rows, which move where some are dropped."""
        drops, first = self._row_after(after)
        with self._file.reading() as cursor:
            found, place = duckdb_messages.since(cursor, events, from_ns, first, limit)
        return found, self._place(drops, place)

    def _row_after(self, place: Place) -> tuple[int, int]:
        """How often rows were dropped by now, and the number of the row that a place stands before."""
        with self._facts:
            drops = self._drops
        given, _, row = place.rpartition("/")
        if place and int(given or 0) != drops:
            raise PlaceLost("rows were dropped since, and have other places now")
        return drops, int(row or 0)

    def _place(self, drops: int, row: int) -> Place:
        """Raises PlaceLost where rows were dropped while they were read."""
        with self._facts:
            if self._drops != drops:
                raise PlaceLost("rows were dropped while they were read")
        return f"{drops}/{row}" if drops else str(row)

    def missing(self, nodes: Sequence[str], from_ns: int, to_ns: int) -> dict[str, int]:
        """See `Store.missing`."""
        with self._facts:
            if not self._missing:
                return {}
        rows = self._fetch(
            "SELECT node, sum(missing)::BIGINT FROM open_gaps "
            "WHERE until_ns >= $from AND since_ns <= $to AND node IN (SELECT unnest($nodes::VARCHAR[])) GROUP BY node",
            {"nodes": list(nodes), "from": from_ns, "to": to_ns},
        )
        return dict(rows)

    def changes(self, nodes: Sequence[str], from_ns: int, to_ns: int) -> str | None:
        """See `Store.changes`; from memory."""
        with self._facts:
            return self._touched.of(nodes, from_ns, to_ns)

    def boots(self, node: str | None = None, since_ns: int = 0) -> list[tuple[Key, Mark]]:
        """See `Store.boots`."""
        with self._file.reading() as cursor:
            return read_marks(cursor, node=node, since_ns=since_ns, limit=BOOTS_MAX)

    def boot_count(self, node: str | None = None, since_ns: int = 0) -> int:
        """See `Store.boot_count`."""
        with self._file.reading() as cursor:
            return count_marks(cursor, node=node, since_ns=since_ns)

    def letters(self, node: str | None = None, since_ns: int = 0, raw: bool = False) -> list[Letters]:
        """See `Store.letters`."""
        with self._file.reading() as cursor:
            return letters_by_reason(cursor, node, since_ns, raw)

    def dropped_letters(self) -> dict[Key, tuple[int, int]]:
        """See `Store.dropped_letters`."""
        with self._file.reading() as cursor:
            return retention.dropped_letters(cursor)

    # -- summaries

    def summary_groups(self) -> list[str]:
        """See `Summarisable.summary_groups`."""
        return [""]

    def due(self, group: str, settled_ns: int) -> Due | None:
        """See `Summarisable.due`."""
        kept_ns = self.kept_from_ns("samples")
        if kept_ns and not self._looked_ns:
            self._change(lambda cursor: summaries.leave_closed(cursor, kept_ns), "note what is not summarised in")
        with self._file.reading() as cursor:
            found = summaries.due(cursor, settled_ns, kept_ns, self._looked_ns)
        self._looked_ns = 0 if found is None else found.hour_ns + HOUR_NS
        if found is not None and found.nodes is None:
            # Whatever is appended before this is read with the hour; what comes after it is noted.
            with self._append_lock:
                self._summarised_below = max(self._summarised_below, found.hour_ns + HOUR_NS)
        return found

    def told(self, due: Due, after: Told | None, limit: int) -> list[Told]:
        """See `Summarisable.told`."""
        with self._file.reading() as cursor:
            return summaries.told(cursor, due, after, limit)

    def put_summaries(self, due: Due, minutes: pa.Table, hours: pa.Table) -> None:
        """See `Summarisable.put_summaries`."""
        self._change(lambda cursor: summaries.put(cursor, {MINUTES: minutes, HOURS: hours}), "keep summaries in")

    def done(self, due: Due) -> None:
        """See `Summarisable.done`."""
        self._change(lambda cursor: summaries.done(cursor, due), "note what is summarised in")

    def summarised_ns(self) -> int:
        """See `Summarisable.summarised_ns`."""
        kept_ns = self.kept_from_ns("samples")
        with self._file.reading() as cursor:
            return summaries.summarised_ns(cursor, kept_ns)

    def summaries(self, data: str, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int) -> pa.Table:
        """See `Summarisable.summaries`."""
        with self._file.reading() as cursor:
            return summaries.summaries(cursor, data, component, of, from_ns, to_ns)

    def _change(self, change: Callable[[duckdb.DuckDBPyConnection], None], what: str) -> None:
        """In one transaction, between appends."""
        with self._append_lock:
            try:
                with self._file.cursor() as cursor:
                    cursor.begin()
                    try:
                        change(cursor)
                        cursor.commit()
                    except BaseException:
                        roll_back(cursor)
                        raise
            except duckdb.Error as error:
                raise StoreError(f"cannot {what} {self._path}: {error}") from error

    # -- retention

    def expired(self, before_ns: Mapping[str, int]) -> list[Part]:
        """See `pipeline.retention.Droppable.expired`."""
        with self._file.reading() as cursor:
            return retention.expired(cursor, before_ns, time.time_ns())

    def drop(self, part: Part) -> Part | None:
        """See `pipeline.retention.Droppable.drop`. DuckDB uses the room in its file again; the file stays as large as it is."""
        with self._append_lock:
            # Readers learn first that places do not hold any more, then rows go: who asked between the two asks again.
            with self._facts:
                self._appends += 1
                self._drops += 1
            try:
                with self._file.cursor() as cursor:
                    cursor.begin()
                    try:
                        went = retention.drop(cursor, part)
                        cursor.commit()
                    except BaseException:
                        roll_back(cursor)
                        raise
            except duckdb.Error as error:
                raise StoreError(f"cannot drop {part.name} from {self._path}: {error}") from error
            finally:
                with self._file.cursor() as cursor:
                    self._load(cursor)
                with self._facts:
                    self._appends += 1
            return went

    def dropped(self, limit: int = TOLD_MAX) -> list[Part]:
        """See `pipeline.retention.Droppable.dropped`; from memory."""
        self._file.check_open()
        with self._facts:
            return self._gone[:limit]

    def dropped_ns(self, data: str, spans: Sequence[tuple[int, int]], group: str | None = None) -> list[int]:
        """See `pipeline.retention.Droppable.dropped_ns`; from memory. All is of one group."""
        self._file.check_open()
        with self._facts:
            when = self._when
        return when.last_ns(data, spans)

    def kept_from_ns(self, data: str) -> int:
        """See `pipeline.retention.Droppable.kept_from_ns`; from memory."""
        self._file.check_open()
        with self._facts:
            return self._when.kept_from_ns(data)

    def shards(self) -> None:
        """See `pipeline.retention.Droppable.shards`."""

    def proof(self, node: str | None = None, since_ns: int = 0) -> Iterator[Progress | Proof]:
        """See `Store.proof`. Ends with StoreError where the store is closed, or opened anew, meanwhile. Measured: 4 million rows in 10 s on two busy cores, 2 s of
        processor time, with 0.25 GB in all."""
        with self._file.reading() as cursor, closing(proof(cursor, node, since_ns, BOOTS_MAX)) as steps:
            for step in steps:
                yield step
                self._file.check_open()

    def nodes(self, job: str, uid: int) -> list[str]:
        """See `Store.nodes`."""
        rows = self._fetch("SELECT DISTINCT node FROM runs WHERE job = $job AND uid = $uid ORDER BY node", {"job": job, "uid": uid})
        return [node for (node,) in rows]

    def seconds(
        self,
        job: str | None,
        uid: int | None,
        nodes: Sequence[str] | None,
        from_s: int,
        to_s: int,
        step_s: int = 1,
        *,
        of_nodes: bool = False,
        since_s: int | None = None,
        known: Sequence[str] | None = None,
        given: Given | None = None,
    ) -> pa.Table:
        """See `Store.seconds`: worked out of the runs, whenever they began."""
        with self._file.reading() as cursor:
            return seconds(cursor, job, uid, nodes, from_s, to_s, step_s, of_nodes, RUNS_MAX, given)

    def doings(self, from_ns: int, to_ns: int) -> pa.Table:
        """See `Store.doings`."""
        with self._file.reading() as cursor:
            return doings(cursor, from_ns, to_ns)

    def version(self, job: str, window: Window | None = None) -> int:
        """See `Store.version`."""
        return self.versions([(job, window)])[0]

    def versions(self, asked: Asked) -> list[int]:
        """See `Store.versions`: the numbers of rows. Four scans at most, however many are asked for."""
        windows = self._within(asked)
        by_claim = [window is None or window.given is None for _, window in asked]
        claims = self._claimed({job for (job, _), is_so in zip(asked, by_claim, strict=True) if is_so})
        found, given = [0] * len(asked), {}
        if any(windows) or not all(by_claim):
            with self._file.reading() as cursor:
                found, given = of_nodes(cursor, windows), of_given(cursor, asked)
        return [given[place] + count if place in given else claims[asked[place][0]] + count for place, count in enumerate(found)]

    def _within(self, asked: Asked) -> list[dict[str, Any]]:
        """Parameters of OF_NODES for each; empty where nothing can be found, which is so at once where no node has such a source."""
        with self._facts:
            known = frozenset(self._nodes_with_runs)
        if not known:
            return [{} for _ in asked]
        with self._file.reading() as cursor:
            return within(cursor, asked, known)

    def _claimed(self, jobs: set[str]) -> dict[str, int]:
        with self._facts:
            counts = {job: self._versions[job] for job in jobs if job in self._versions}
            appends = self._appends
        unknown = jobs - counts.keys()
        if not unknown:
            return counts
        with self._file.reading() as cursor:
            counts |= claimed(cursor, unknown)
        with self._facts:
            # While an append was under way the counts may or may not have its rows, which are then added to what is kept here.
            if self._appends == appends and appends % 2 == 0:
                if len(self._versions) + len(unknown) > VERSIONS_MAX:
                    self._versions.clear()
                self._versions |= {job: counts[job] for job in unknown}
        return counts

    def begin_anew(self) -> None:
        """See `Store.begin_anew`: nobody else can have written into the file."""

    def partial(self) -> int:
        """See `Store.partial`."""
        return 0

    def away(self) -> list[str]:
        """See `Store.away`: all is in one file."""
        return []

    def status(self) -> dict[str, Any]:
        """See `Store.status`; answers from memory, also while the file is in trouble. The latest appended come first in `high_water`.
        Besides: `path`, and `bytes` and `wal_bytes`, the sizes of the file and its log."""
        if self._file.closed:
            raise StoreError(f"{self._path} is closed")
        with self._facts:
            marks, missing, totals = self._marks.newest(HIGH_WATER_SHOWN_MAX), self._missing, self._totals
            dropped = {CLASSES[data]: records for data, records in self._dropped.items()}
        return {
            "path": str(self._path),
            "bytes": _size(self._path),
            "wal_bytes": _size(Path(f"{self._path}.wal")),
            "records": {name: totals[name] for name in KINDS},
            "records_dropped": {name: dropped.get(name, 0) for name in KINDS},
            "dead_letters": totals["dead_letters"],
            "dead_letters_dropped": totals["letters_dropped"],
            "duplicates": totals["duplicates"],
            "missing": missing,
            "high_water": [
                {
                    "node": key[0],
                    "boot": f"{key[1]:016x}",
                    "seq": mark.seq,
                    "missing": mark.missing,
                    "last_append_ns": mark.last_ns,
                    "clock_offset_ns": mark.clock_offset_ns,
                    "ended": mark.ended,
                }
                for key, mark in marks
            ],
            "last_append_ns": self._last_append_ns,
            "error": self._error,
        }

    def _fetch(self, query: str, params: dict[str, Any] | None = None) -> list[tuple]:
        with self._file.reading() as cursor:
            return cursor.execute(query, params or {}).fetchall()

    def _load(self, connection: duckdb.DuckDBPyConnection) -> None:
        marks = read_marks(connection, limit=MARKS_KEPT + 1)
        missing = connection.execute("SELECT coalesce(sum(missing), 0)::BIGINT FROM high_water").fetchone()
        totals = read_totals(connection)
        drops, dropped = retention.times_dropped(connection)
        gone = retention.dropped(connection)
        when = Drops(gone)
        nodes = connection.execute("SELECT DISTINCT node FROM runs WHERE job IS NULL AND process = 'node'").fetchall()
        # Never less than it was: an hour may be in hand.
        self._summarised_below = max(self._summarised_below, summaries.summarised_below(connection))
        with self._facts:
            self._marks = Marks(marks, self._fetch_mark)
            self._missing = missing[0] if missing else 0
            self._totals = totals
            self._drops, self._dropped, self._gone, self._when = drops, dropped, gone, when
            self._touched.forget()
            self._versions = {}
            self._nodes_with_runs = {node for (node,) in nodes}

    def close(self) -> None:
        """See `Store.close`. Waits for the append and the reads under way."""
        with self._append_lock:
            self._file.close()


def _gaps(mark: Mark | None) -> tuple:
    return () if mark is None else mark.gaps


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
