"""The store on Elasticsearch: one writer a group of nodes, and all groups for readers.

A batch is committed by one document (see `books`): the records before it are written in bulk under ids of their own, so that what is sent
again overwrites itself, and bear the number of the commit, so that they count once that is there. Elasticsearch syncs its log before it answers.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import orjson
import pyarrow as pa

from pipeline.rollup import COLUMNS, run_columns
from pipeline.schema import KINDS
from pipeline.store import (
    BEGIN, CONFLICT, MESSAGES_MAX, MESSAGES_SOUGHT_MAX, RUNS_MAX, SAMPLES, SAMPLES_MAX, Appended, Given, Heard, Letters, Place, Progress, Proof, StoreError, Undecodable, Window, decoded, named_samples,
)  # fmt: skip
from pipeline.store.batch import RAW_CHARACTERS_MAX, REASON_CHARACTERS_MAX, Batch, check_clock
from pipeline.store.elastic import audit, booked, budget, components, documents, messages, names, ordered, retention, rollups, runs, samples
from pipeline.store.elastic.away import GroupAway, Groups
from pipeline.store.elastic.books import Books, TakenOver
from pipeline.store.elastic.bulk import Body, Bulk, action, bodies_of, removals
from pipeline.store.elastic.client import Client, Settings, dumps
from pipeline.store.elastic.health import NodesSeen, group_states
from pipeline.store.elastic.job_events import JobEvents
from pipeline.store.elastic.reader import Reader
from pipeline.store.elastic.runs import Asked
from pipeline.store.elastic.summaries import Summaries, summaries
from pipeline.store.mark import Key, Mark
from pipeline.store.parts import CLASSES, TOLD_MAX, Drops, Part
from pipeline.store.sought import OfJob, Sought
from pipeline.store.summaries import HOURS, MINUTES, Due, Told

log = logging.getLogger(__name__)

T = TypeVar("T")

HIGH_WATER_SHOWN_MAX = 1000
# Letters of a group that are kept, and how many more may come before some are dropped.
LETTERS_KEPT = 100_000
LETTERS_SLACK = 10_000


class ElasticsearchStore:
    """A `pipeline.store.Store` on the Elasticsearch of `settings`. group: the group of nodes whose records `append` takes; None: it takes none.

    Nothing is asked of Elasticsearch before it is needed: it may come up later. Raises StoreError for settings that cannot be."""

    few_runs = 100  # of each it unpacks a block of its neighbours, too
    is_grouped = True
    seconds_of = "rollups"

    def __init__(self, settings: Settings, group: str | None = None) -> None:
        if settings.period not in names.PERIODS:
            raise StoreError(f"elasticsearch.period = {settings.period!r}: expected one of {', '.join(names.PERIODS)}")
        self.client = Client(settings)
        self._settings = settings
        self._group = group
        self._bulk = Bulk(self.client, settings.bulk_threads)
        self._committed: tuple[str, int] | None = None  # by this object
        self._reader = Reader(self.client, lambda: self._committed)
        self._marks = booked.Marks()
        self._groups = Groups(self._reader, self._marks)
        self._nodes = NodesSeen()
        self._summaries = Summaries(self.client, self._bulk, self._reader)
        self._books = None if group is None else Books(self.client, self._bulk, self._reader, names.check_group(group), settings.period)
        self._append_lock = threading.Lock()  # owner of _books, _is_open, _taken
        self._is_open = self._begins_anew = False
        self._taken: str | None = None
        self._error: str | None = None
        self._last_append_ns: int | None = None
        self._status: dict[str, Any] = {}  # what was told last
        self._closed = False
        # Of this object: groups may begin anew, and their commits bear the same numbers again.
        self._token = secrets.token_hex(8)
        self._dropped = retention.Dropped()

    # -- writing

    def append(self, events: Sequence[dict | Undecodable]) -> Appended:
        """See `Store.append`. What Elasticsearch refuses for good becomes a dead letter, too."""
        return self._take_in(lambda batch: batch.add(events), len(events), None)

    def take(self, payloads: Sequence[bytes], decode: Callable[[bytes], Any] = decoded) -> Appended:
        """See `Store.take`, and `append`. A record goes into Elasticsearch as it came, where it holds nothing that the schema does not know."""
        return self._take_in(lambda batch: batch.take(payloads, decode), len(payloads), payloads)

    def _take_in(self, fill: Callable[[Batch], None], count: int, payloads: Sequence[bytes] | None) -> Appended:
        with self._append_lock:
            self._check_open()
            if self._books is None:
                raise StoreError("this process writes no group's records into Elasticsearch: set group.name")
            if self._begins_anew:
                self._begins_anew, self._is_open, self._taken = False, False, None
            if self._taken is not None:
                raise StoreError(self._taken)
            try:
                if not self._is_open:
                    self.check_shards()
                    self._committed = None
                    self._books.open()
                    self._committed = (self._books.group, self._books.head)
                    self._is_open = True
                appended = self._append(self._books, fill, count, payloads) if count else Appended()
            except TakenOver as error:
                self._is_open, self._committed = False, None
                self._taken = self._error = f"{error}; then start this one again"
                raise
            except BaseException as error:
                # What of the batch is there is not known: the books are read again, and what no commit tells of is removed.
                self._is_open = False
                if isinstance(error, StoreError):
                    self._error = str(error)
                raise
            self._error = None
            self._last_append_ns = time.time_ns()
            return appended

    def _append(self, books: Books, fill: Callable[[Batch], None], count: int, payloads: Sequence[bytes] | None) -> Appended:
        now_ns = time.time_ns()
        batch = Batch(books.marks, now_ns, books.marks.last_append_ns)
        fill(batch)
        check_clock(now_ns, batch.ahead_ns, books.marks, f"remove the indices bellrock-*-{books.group}* and start again")
        number = books.next

        def event_at(place: int) -> dict:
            return batch.events[place] if place in batch.events else decoded(payloads[place])

        sums: list[bytes] = []

        def bodies() -> Iterator[Body]:
            found, indices = documents.bodies(batch, payloads, books.group, books.dated, number)
            books.make_indices(indices)
            yield from found
            # Made while those are under way; their places are those after the batch's.
            lines, indices = rollups.lines(run_columns(batch.runs(COLUMNS)), books.group, books.dated, number)
            books.make_indices(indices)
            sums.extend(lines)
            yield from bodies_of(sums, range(count, count + len(sums)))

        refused = self._bulk.send_bodies(bodies(), lambda at: documents.plain(event_at(at), number) if at < count else sums[at - count].splitlines()[1])
        rollups.check({at: why for at, why in refused.items() if at >= count})
        if refused:
            self._sum_up_without(books, batch, [event_at(place) for place in refused], number, sums)
        result, marks = batch.result, batch.marks
        letters = list(zip(sorted(batch.result.refused), batch.letters, strict=True))
        for place, reason in sorted(refused.items()):
            result, letter = _refused(event_at(place), place, reason, now_ns, result, marks)
            letters.append((place, letter))
        new = result.records | {"duplicates": result.duplicates, "dead_letters": result.dead_letters, "missing": result.missing - result.filled}
        totals = books.totals | {name: books.totals[name] + n for name, n in new.items()}
        if letters:
            totals["letters_dropped"] += self._write_letters(books, letters, totals, number, now_ns)
        books.commit(number, marks, totals)
        self._committed = (books.group, number)
        try:
            books.bring_up()
        except StoreError:
            # The batch is committed. The table is behind, which the next opening makes good.
            log.warning("store: the table of marks of group %s could not be brought up", books.group, exc_info=True)
            self._is_open = False
        return result

    def _sum_up_without(self, books: Books, batch: Batch, refused: Sequence[dict], number: int, before: list[bytes]) -> None:
        """Writes the sums of a commit once more, over those of before, without the records that are refused."""
        without = {(event["node"], int(event["boot"], 16), event["seq"]) for event in refused}
        sums, _ = rollups.lines(run_columns(batch.runs(COLUMNS, without)), books.group, books.dated, number)
        # Another index may have a place's id by now: what was there before goes first.
        self._bulk.send(removals([orjson.loads(line.splitlines()[0])["index"] for line in before]))
        rollups.check(self._bulk.send(sums))

    def _write_letters(self, books: Books, letters: list[tuple[int, dict]], totals: dict[str, int], number: int, now_ns: int) -> int:
        """Writes letters, and drops some where there are too many. How many."""
        period = names.period_of(now_ns, "month")
        books.make_indices([("letter", "all", period)])
        index = names.index("letter", "all", books.group, period)
        lines = []
        for place, letter in letters:
            boot = letter["boot"]
            document = letter | {"boot": None if boot is None else f"{boot:016x}", "cause": letter["reason"].split(":")[0], "commit": number, "place": place}
            lines.append(action(index, _letter_id(letter, number, place)) + dumps(document) + b"\n")
        refused = self._bulk.send(lines)
        if refused:
            raise StoreError(f"index {index} does not take dead letters: {next(iter(refused.values()))}")
        if totals["dead_letters"] - totals["letters_dropped"] - LETTERS_KEPT <= LETTERS_SLACK:
            return 0
        left = audit.drop_letters(self._reader, self._bulk, names.index("letter", "all", books.group, "*"), LETTERS_KEPT)
        return totals["dead_letters"] - left - totals["letters_dropped"]

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
        """See `Store.runs`. None are merged."""
        fields = KINDS["run"].arrow.names
        unknown = [c for c in columns or () if c not in fields]
        if unknown:
            raise KeyError(f"runs have no column {unknown[0]!r}; they have {', '.join(fields)}")
        wanted = fields if columns is None else columns
        if known is None and window is not None and window.given is not None:
            known = window.given.nodes
        return self._ask(lambda reader: runs.table(reader, job, wanted, window, span, known, RUNS_MAX if most is None else most), _nodes_of(window), known)

    def run_counts(self, sought: Sought) -> dict[str, int]:
        """See `Orderly.run_counts`."""
        nodes = _nodes_of(sought.window) if isinstance(sought, OfJob) else None
        return self._ask(lambda reader: ordered.counts(reader, sought), nodes)

    def ordered_runs(self, sought: Sought, nodes: Sequence[str]) -> Generator[pa.Table]:
        """See `Orderly.ordered_runs`. A question for each node; where one fails midway, all of it is to be asked again."""
        known = self._ask(lambda reader: ordered.claiming(reader, sought), nodes)
        for node in nodes:
            yield from self._ask(lambda reader, node=node: ordered.ordered(reader, sought, node, known), (node,), (node,))

    def run_days(self, before_ns: int) -> dict[tuple[int, str], int]:
        """See `Orderly.run_days`."""
        return self._ask(lambda reader: ordered.days(reader, before_ns), None)

    def nodes(self, job: str, uid: int) -> list[str]:
        """See `Store.nodes`."""
        return self._ask(lambda reader: runs.nodes(reader, job, uid), ())

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
        """See `Store.seconds`: of the sums that were written along with the runs, and of runs that others wrote without (looked for every 30 s)."""
        since_s = from_s if since_s is None else since_s
        if known is None and given is not None:
            known = given.nodes
        return self._ask(
            lambda reader: rollups.seconds(reader, job, uid, nodes, from_s, to_s, step_s, of_nodes, since_s, RUNS_MAX, given),
            nodes or (),
            known if nodes is None else nodes,
        )

    def doings(self, from_ns: int, to_ns: int) -> pa.Table:
        """See `Store.doings`: of the sums that were written along with the runs, so without what others wrote."""
        return self._ask(lambda reader: rollups.doings(reader, from_ns, to_ns), ())

    def version(self, job: str, window: Window | None = None) -> int:
        """See `Store.version`."""
        return self._ask(lambda reader: runs.versions(reader, [(job, window)]), _nodes_of(window))[0]

    def versions(self, asked: Asked) -> list[int | None]:
        """See `Store.versions`: numbers of documents."""

        def ask(reader: Reader) -> list[int | None]:
            away = self._groups.away()
            whole = [place for place, (_, window) in enumerate(asked) if self._groups.lacking(away, _nodes_of(window)) is None]
            found = dict(zip(whole, runs.versions(reader, [asked[place] for place in whole]), strict=True))
            return [found.get(place) for place in range(len(asked))]

        return self._ask(ask, ())

    def away(self) -> list[str]:
        """See `Store.away`."""
        self._check_open()
        return sorted(self._groups.away())

    def begin_anew(self) -> None:
        """See `Store.begin_anew`: the books are taken over again."""
        self._begins_anew = True

    def partial(self) -> int:
        """See `Store.partial`."""
        return self._groups.partial

    def _ask(self, question: Callable[[Reader], T], nodes: Collection[str] | None, within: Collection[str] | None = None) -> T:
        """The answer of all groups, or of those that are there where no other can have records of `nodes` (None: where any can). within: nodes that all
        which is asked for comes from, so that only their groups need be asked. Raises StoreError."""
        self._check_open()
        away = self._groups.away()
        try:
            return question(self._groups.reader(away, nodes, within))
        except GroupAway:
            raise
        except StoreError:
            now = self._groups.look()
            if now == away:
                raise
            return question(self._groups.reader(now, nodes, within))

    def sample_totals(self, component: str, nodes: Sequence[str], after: Place = BEGIN) -> tuple[list[tuple[str, str, float, float]], Place]:
        """See `Store.sample_totals`. A place is, by group, the number of the last commit that was read."""
        return self._ask(lambda reader: samples.totals(reader, component, nodes, after), ())

    def sample_sums(self, component: str, names: Sequence[str], nodes: Sequence[str], from_ns: int, to_ns: int) -> dict[tuple[str, int], dict[str, float]]:
        """See `Store.sample_sums`."""
        return self._ask(lambda reader: samples.sums(reader, component, names, nodes, from_ns, to_ns), nodes, nodes)

    def sample_sums_by_time(
        self, component: str, names: Sequence[str], after: Place, grain_ns: int, limit: int
    ) -> tuple[list[tuple[Key, int, str, float]], Place]:
        """See `Store.sample_sums_by_time`."""
        return self._ask(lambda reader: samples.sums_by_time(reader, component, names, after, grain_ns, limit), ())

    def components(self, from_ns: int, to_ns: int, node: str | None = None, kinds: Sequence[str] | None = None, but: Sequence[str] = ()) -> list[Heard]:
        """See `Store.components`; of the groups that are there."""
        asked, kept_ns = () if node is None else (node,), self.kept_from_ns("samples")
        return self._ask(lambda reader: components.components(reader, node, kinds, but, from_ns, to_ns, kept_ns), asked, asked or None)

    def called(self, component: str, nodes: Sequence[str], names: Sequence[str], stems: Sequence[str], from_ns: int, to_ns: int) -> list[Heard]:
        """See `Store.called`."""
        kept_ns = self.kept_from_ns("samples")
        return self._ask(lambda reader: components.called(reader, component, nodes, names, stems, from_ns, to_ns, kept_ns), nodes, nodes) if nodes else []

    def telling(self, component: str, nodes: Sequence[str], from_ns: int, to_ns: int) -> set[str]:
        """See `Store.telling`."""
        kept_ns = self.kept_from_ns("samples")
        return self._ask(lambda reader: components.telling(reader, component, nodes, from_ns, to_ns, kept_ns), nodes, nodes) if nodes else set()

    def samples(
        self, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int, most: int = SAMPLES_MAX, names: Sequence[str] | None = None
    ) -> pa.Table:
        """See `Store.samples`."""
        if not of:
            return (SAMPLES if names is None else named_samples(names)).empty_table()
        nodes = {node for node, _ in of}
        return self._ask(lambda reader: components.samples(reader, component, of, from_ns, to_ns, most, names), nodes, nodes)

    def sums_of(self, component: str, node: str, begins: str, names: Sequence[str], from_ns: int, to_ns: int) -> dict[str, dict[str, float]]:
        """See `Store.sums_of`."""
        kept_ns = self.kept_from_ns("samples")
        return self._ask(lambda reader: components.sums_of(reader, component, node, begins, names, from_ns, to_ns, kept_ns), (node,), (node,))

    def messages(
        self, node: str, from_ns: int, to_ns: int, severity: int = 7, event: str | None = None, skip: int = 0, most: int = MESSAGES_MAX
    ) -> tuple[pa.Table, int]:
        """See `Store.messages`."""
        return self._ask(lambda reader: messages.messages(reader, node, from_ns, to_ns, severity, event, skip, most), (node,), (node,))

    def messages_since(self, events: Sequence[str] | None, from_ns: int, after: Place = BEGIN, limit: int = MESSAGES_SOUGHT_MAX) -> tuple[pa.Table, Place]:
        """See `Store.messages_since`. Those that others (Logstash) wrote are given out until an hour after they came; those of a group that is away come later."""

        def ask(reader: Reader) -> tuple[pa.Table, Place]:
            self._groups.learn()
            return messages.since(reader, reader is not self._reader, events, from_ns, after, limit)

        return self._ask(ask, ())

    def missing(self, nodes: Sequence[str], from_ns: int, to_ns: int) -> dict[str, int]:
        """See `Store.missing`."""
        return self._ask(lambda reader: audit.missing(reader, self._marks, nodes, from_ns, to_ns), nodes, nodes)

    def changes(self, nodes: Sequence[str], from_ns: int, to_ns: int) -> str | None:
        """See `Store.changes`: how far all groups have committed, and how much was dropped. None where others write, who commit nothing, and while a group is away."""
        if self.away() or self._ask(lambda reader: reader.has_others(), ()):
            return None
        gone = self.dropped()
        return f"{self._token}/{samples.to_place(self._reader.heads(None))}/{len(gone)}/{gone[0].id if gone else ''}"

    def boots(self, node: str | None = None, since_ns: int = 0) -> list[tuple[Key, Mark]]:
        """See `Store.boots`."""
        return self._ask(lambda reader: audit.boots(reader, self._marks, node, since_ns), None)[: audit.BOOTS_MAX]

    def boot_count(self, node: str | None = None, since_ns: int = 0) -> int:
        """See `Store.boot_count`."""
        return len(self._ask(lambda reader: audit.boots(reader, self._marks, node, since_ns), None))

    def letters(self, node: str | None = None, since_ns: int = 0, raw: bool = False) -> list[Letters]:
        """See `Store.letters`."""
        return self._ask(lambda reader: audit.letters(reader, node, since_ns, raw), None)

    def proof(self, node: str | None = None, since_ns: int = 0) -> Iterator[Progress | Proof]:
        """See `Store.proof`."""
        self._check_open()
        for step in audit.proof(self._reader, self._marks, node, since_ns):
            yield step
            self._check_open()

    def job_events(self, after: Place = BEGIN, limit: int = 10_000) -> tuple[list[dict], Place]:
        """Job events of all groups since a place, and the place to go on from: of a group in the order of its commits, `limit` of them or, where one
        commit has more, all of that. The same event may come twice. Those that others (Logstash) wrote are given out until an hour after they came. Those of
        a group that is away come later."""

        def ask(reader: Reader) -> tuple[list[dict], Place]:
            self._groups.learn()
            return JobEvents(reader, is_partial=reader is not self._reader).since(after, limit)

        return self._ask(ask, ())

    # -- summaries

    def summary_groups(self) -> list[str]:
        """See `Summarisable.summary_groups`: its own, or, of one that takes no records, all that have books."""
        self._check_open()
        return sorted(self._reader.heads(None)) if self._group is None else [self._group]

    def due(self, group: str, settled_ns: int) -> Due | None:
        """See `Summarisable.due`. What others wrote without commits counts if it is there when its hour is summarised."""
        self._check_open()
        return self._summaries.due(group, settled_ns, self._drops().kept_from_by_group("samples").get(group, 0))

    def told(self, due: Due, after: Told | None, limit: int) -> list[Told]:
        """See `Summarisable.told`."""
        self._check_open()
        return self._summaries.told(due, after, limit)

    def put_summaries(self, due: Due, minutes: pa.Table, hours: pa.Table) -> None:
        """See `Summarisable.put_summaries`. Where a node's samples lie in several groups, each of these has a row of it."""
        self._check_open()
        self._summaries.put(due, {MINUTES: minutes, HOURS: hours})

    def done(self, due: Due) -> None:
        """See `Summarisable.done`."""
        self._check_open()
        self._summaries.done(due)

    def summarised_ns(self) -> int:
        """See `Summarisable.summarised_ns`."""
        self._check_open()
        return self._summaries.summarised_ns(self._drops().kept_from_by_group("samples"))

    def summaries(self, data: str, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int) -> pa.Table:
        """See `Summarisable.summaries`."""
        nodes = {node for node, _ in of}
        return self._ask(lambda reader: summaries(reader, data, component, of, from_ns, to_ns), nodes, nodes)

    # -- retention

    def expired(self, before_ns: Mapping[str, int]) -> list[Part]:
        """See `pipeline.retention.Droppable.expired`: indices whose period has ended before."""
        self._check_open()
        return retention.expired(self._reader, before_ns, time.time_ns())

    def drop(self, part: Part) -> Part | None:
        """See `pipeline.retention.Droppable.drop`."""
        self._check_open()
        try:
            return retention.drop(self._reader, self._bulk, part)
        finally:
            self._dropped.forget()

    def dropped(self, limit: int = TOLD_MAX) -> list[Part]:
        """See `pipeline.retention.Droppable.dropped`; what others drop, up to DROPPED_KEPT_S later."""
        return self._ask(self._dropped.parts, ())[:limit]

    def dropped_ns(self, data: str, spans: Sequence[tuple[int, int]], group: str | None = None) -> list[int]:
        """See `pipeline.retention.Droppable.dropped_ns`; as `dropped`."""
        return self._drops().last_ns(data, spans, group)

    def kept_from_ns(self, data: str) -> int:
        """See `pipeline.retention.Droppable.kept_from_ns`; as `dropped`."""
        return self._drops().kept_from_ns(data)

    def _drops(self) -> Drops:
        return self._ask(self._dropped.drops, ())

    def check_shards(self) -> budget.Budget:
        """See `pipeline.store.elastic.budget.check`."""
        return budget.check(self.client, self._settings.days, self._settings.period, self._group)

    def shards(self) -> budget.Budget:
        """How many shards all groups will have, and how many the cluster takes."""
        return budget.of_cluster(self.client, self._settings.days, self._settings.period, None)

    def dropped_letters(self) -> dict[Key, tuple[int, int]]:
        """See `Store.dropped_letters`."""
        self._check_open()
        return retention.gone(self._reader).letters

    def status(self) -> dict[str, Any]:
        """See `Store.status`, over all groups that are there; `error` tells which is away. While Elasticsearch does not answer it tells what it told last.
        Besides: `url`, and `groups`: a list of what
        `pipeline.store.elastic.health.group_states` tells of each, and `nodes_away` of `NodesSeen` there."""

        def ask(reader: Reader) -> tuple:
            known = self._marks.read(reader, None)
            marks = audit.boots(reader, self._marks, None, 0, known)
            letters = reader.count("bellrock-letter-*", reader.committed("letter"))
            last = booked.totals(reader)
            return last, marks, self._dropped.parts(reader), letters, group_states(reader, last, known)

        self._check_open()
        try:
            last, marks, dropped, letters, groups = self._ask(ask, ())
            dead_letters = sum(of["totals"]["dead_letters"] for of in last.values())
            self._status = {
                "records": {name: sum(of["totals"].get(name, 0) for of in last.values()) for name in KINDS},
                "records_dropped": {name: sum(part.records for part in dropped if CLASSES[part.data] == name) for name in KINDS},
                "dead_letters": dead_letters,
                "dead_letters_dropped": max(0, dead_letters - letters),
                "duplicates": sum(of["totals"]["duplicates"] for of in last.values()),
                "missing": sum(mark.missing for _, mark in marks),
                "high_water": [_shown(key, mark) for key, mark in marks[:HIGH_WATER_SHOWN_MAX]],
                "groups": self._nodes.away(groups, time.time_ns()),
            }
            error = self._groups.lacking(self._groups.away(), None)
        except StoreError as failed:
            error = str(failed)
        nothing = {
            "records": dict.fromkeys(KINDS, 0),
            "records_dropped": dict.fromkeys(KINDS, 0),
            "dead_letters": 0,
            "dead_letters_dropped": 0,
            "duplicates": 0,
            "missing": 0,
            "high_water": [],
            "groups": [],
        }
        return nothing | self._status | {"url": self.client.where, "last_append_ns": self._last_append_ns, "error": self._error or error}

    def close(self) -> None:
        """See `Store.close`. Waits for the append under way."""
        with self._append_lock:
            if not self._closed:
                self._closed = True
                self._bulk.close()
                self.client.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store on Elasticsearch at {self.client.where} is closed")


def _nodes_of(window: Window | None) -> Collection[str] | None:
    if window is None:
        return None
    return window.nodes or None if window.given is None else window.given.nodes


def _refused(event: dict, place: int, why: str, now_ns: int, result: Appended, marks: dict[Key, Mark]) -> tuple[Appended, dict]:
    """A record that Elasticsearch will not have, as a dead letter: its number has come."""
    kind, key = event["kind"], (event["node"], int(event["boot"], 16))
    field = f"{kind}s"
    mark = marks[key]
    marks[key] = replace(mark, letters=mark.letters + 1, jobs=mark.jobs - (kind == "job"))
    changed = {field: result.records[kind] - 1, "dead_letters": result.dead_letters + 1, "refused": result.refused | {place}}
    reason = f"elasticsearch: {why}"[:REASON_CHARACTERS_MAX]
    letter = {"received_ns": now_ns, "node": key[0], "boot": key[1], "seq": event["seq"], "reason": reason}
    return replace(result, **changed), letter | {"raw": dumps(event).decode()[:RAW_CHARACTERS_MAX]}


def _letter_id(letter: dict, number: int, place: int) -> str:
    """That of the record where this is all that came with its number, so that it, too, overwrites itself; else that of the commit."""
    if letter["seq"] is None or letter["reason"].startswith((f"{CONFLICT}:", "seq:")):
        return f"{number}/{place}"
    return names.record_id(letter["node"], letter["boot"], letter["seq"])


def _shown(key: Key, mark: Mark) -> dict[str, Any]:
    return {
        "node": key[0],
        "boot": f"{key[1]:016x}",
        "seq": mark.seq,
        "missing": mark.missing,
        "last_append_ns": mark.last_ns,
        "clock_offset_ns": mark.clock_offset_ns,
        "ended": mark.ended,
    }
