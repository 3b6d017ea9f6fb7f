"""Sorts a batch of events into rows, duplicates and dead letters. Knows no database."""

import datetime
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

import orjson
import pyarrow as pa

from pipeline.schema import KINDS, Kind, RecordError, describe, identity, implausible, kind_of
from pipeline.schema.times import AHEAD_NS, EARLIEST_NS, LATE_NS, LONGEST_NS
from pipeline.store import CONFLICT, Appended, StoreError, Undecodable
from pipeline.store.arrow import as_table
from pipeline.store.mark import Gap, Key, Mark, filled, find, opened
from pipeline.store.marks import Marks
from pipeline.store.spans import Spans

# Of a dead letter's text, so much is kept.
RAW_CHARACTERS_MAX = 4096
REASON_CHARACTERS_MAX = 512
# Sequence numbers rise by one. None jumps so far in earnest; taken at its word, it would make duplicates of all that come after it.
SEQ_JUMP_MAX = 1 << 32

# A step of the server's clock back by more than this stops it where records would be refused for it.
CLOCK_BACK_NS_MAX = 24 * 3600 * 10**9

# The component of an agent's samples of itself, and the value of its last one when it ends as asked.
AGENT = "agent"
ENDED = "ended"
_SAMPLE_COMPONENT, _SAMPLE_END, _SAMPLE_VALUES = map(KINDS["sample"].arrow.names.index, ("component", "end", "values"))
NOTHING = Mark(0)
_SCHEMA = zlib.crc32(repr([(kind.name, kind.arrow.names) for kind in KINDS.values()]).encode()) >> 1 or 1

Who = tuple[str, int, int]  # node, boot, seq


class Known(Protocol):
    """Marks by (node, boot); a dict is one."""

    def get(self, key: Key, /) -> Mark | None: ...


class _Boot:
    """What a batch makes of one boot's mark."""

    __slots__ = ("conflicts", "duplicates", "gaps", "jobs", "known", "last_row", "late", "letters", "sample", "seq")

    def __init__(self, known: Mark) -> None:
        self.known = known
        self.seq = known.seq
        self.gaps = known.gaps
        self.jobs = self.letters = self.duplicates = self.conflicts = self.late = 0
        # Of the record `seq`, where it came in this batch and is well-formed; a run as it came, where it has not been decoded.
        self.last_row: tuple | bytes | None = None
        self.sample: tuple | None = None  # the agent's newest sample

    def row(self) -> tuple | None:
        """`last_row`, decoded."""
        if type(self.last_row) is bytes:
            self.last_row = KINDS["run"].row(orjson.loads(self.last_row))
        return self.last_row

    def mark(self, now_ns: int) -> Mark:
        """What is known after the batch."""
        known, clock_offset_ns, ended = self.known, self.known.clock_offset_ns, self.known.ended
        fingerprint = known.fingerprint
        if self.seq != known.seq:
            row = self.row()
            fingerprint = 0 if row is None else _fingerprint(row)
            ended = False  # something came after the sample that said so
        if self.sample is not None:
            clock_offset_ns = self.sample[_SAMPLE_END] - now_ns
            ended = self.sample[2] == self.seq and any(name == ENDED and value > 0 for name, value in self.sample[_SAMPLE_VALUES])
        return Mark(
            seq=self.seq,
            gaps=self.gaps,
            jobs=known.jobs + self.jobs,
            letters=known.letters + self.letters,
            duplicates=known.duplicates + self.duplicates,
            conflicts=known.conflicts + self.conflicts,
            late=known.late + self.late,
            first_ns=known.first_ns or now_ns,
            last_ns=now_ns if self.seq != known.seq else known.last_ns,
            fingerprint=fingerprint,
            clock_offset_ns=clock_offset_ns,
            ended=ended,
        )


class Batch:
    """What one transaction is to write. `known` holds the marks before it, and is not changed.

    heard_ns: tells when anything of a node came last, 0 where nothing did.
    After `add` or `take`: `marks` (new marks of the boots that it saw), `letters` (rows of dead_letters), `result`, `table(kind)`, `spans` (runs that
    are kept and were not looked at one by one), `events` (the others, by place), and `ahead_ns` (the earliest end of a record that was refused for
    ending ahead of the server's clock, None where none was).
    """

    def __init__(self, known: Known, now_ns: int, heard_ns: Callable[[str], int] = lambda node: 0) -> None:
        self._known = known
        self._now_ns = now_ns
        self._heard_ns = heard_ns
        self._rows: dict[str, list[tuple]] = {name: [] for name in KINDS}
        self._boots: dict[Key, _Boot] = {}
        self._duplicates = self._jumped = self._filled = 0
        self._place = 0  # in the batch, of an event that is not simply the next
        self._refused_places: list[int] = []
        self._again_places: list[int] = []
        self.spans = Spans()
        self.events: dict[int, Any] = {}
        self.marks: dict[Key, Mark] = {}
        self.letters: list[dict] = []
        self.ahead_ns: int | None = None

    @property
    def result(self) -> Appended:
        rows = self._rows
        return Appended(
            len(rows["run"]) + len(self.spans),
            len(rows["sample"]),
            len(rows["job"]),
            len(rows["message"]),
            self._duplicates,
            len(self.letters),
            self._jumped,
            self._filled,
            frozenset(self._refused_places),
            self.events,
        )

    @property
    def kept(self) -> list[int]:
        """Places of those of `events` that are kept: no duplicates, no dead letters."""
        dropped = {*self._refused_places, *self._again_places}
        return [place for place in self.events if place not in dropped]

    def add(self, events: Sequence[Any]) -> None:
        """Sorts events in. Either this or `take`, once."""
        self._sort_in(enumerate(events))
        self._sum_up()

    def take(self, payloads: Sequence[bytes], decode: Callable[[bytes], Any]) -> None:
        """Sorts events in as they came, with what `add` would make of them decoded. Runs of a boot that follow its mark, as nearly all do, are taken by
        the span."""
        spans = self.spans = Spans(payloads, self._now_ns)
        done = 0
        for first, count, node, number, seq, late in spans.found:
            boot = self._boot((node, number))
            if done < first:
                self._sort_in((place, decode(payloads[place])) for place in range(done, first))
            done = first + count
            if seq != boot.seq + 1:
                self._sort_in((place, decode(payloads[place])) for place in range(first, done))
                continue
            boot.seq += count
            boot.late += late
            boot.last_row = payloads[done - 1]
            spans.keep(first, count)
        self._sort_in((place, decode(payloads[place])) for place in range(done, len(payloads)))
        self._sum_up()

    def _sort_in(self, events: Iterable[tuple[int, Any]]) -> None:
        rows_of = {name: (kind.row, self._rows[name].append, *kind.time_places) for name, kind in KINDS.items()}
        latest_ns, late_ns = self._now_ns + AHEAD_NS, self._now_ns - LATE_NS
        # Neighbours mostly come from one boot, each with the number after the last: all that takes is in local variables.
        node = number = None
        boot, last, last_row = _Boot(NOTHING), 0, None
        decoded = self.events
        for place, event in events:
            decoded[place] = event
            try:
                row_of, keep, start_at, end_at = rows_of[event["kind"]]
                row = row_of(event)
            except (RecordError, KeyError, TypeError, RecursionError):
                if last != boot.seq:
                    boot.seq, boot.last_row = last, last_row
                self._place = place
                self._bad(event)
                last = boot.seq
                continue
            if row[1] != number or row[0] != node:
                if last != boot.seq:
                    boot.seq, boot.last_row = last, last_row
                node, number = row[:2]
                boot = self._boot((node, number))
                last = boot.seq
            start_ns, end_ns = row[start_at], row[end_at]
            is_usual = start_ns >= EARLIEST_NS and end_ns <= latest_ns and 0 <= end_ns - start_ns <= LONGEST_NS
            if is_usual and row[2] == last + 1:
                last, last_row = row[2], row
                keep(row)
                if end_ns < late_ns:
                    boot.late += 1
                continue
            if last != boot.seq:
                boot.seq, boot.last_row = last, last_row
            self._place = place
            reason = None if is_usual else implausible(start_ns, end_ns, self._now_ns)
            if self._comes(boot, event, row[:3], row):
                if self._refused(boot, event, row[:3], reason):
                    if end_ns > latest_ns:
                        self.ahead_ns = end_ns if self.ahead_ns is None else min(self.ahead_ns, end_ns)
                else:
                    keep(row)
                    boot.late += end_ns < late_ns
                    if boot.seq == row[2]:
                        boot.last_row = row
            last, last_row = boot.seq, boot.last_row
        if last != boot.seq:
            boot.seq, boot.last_row = last, last_row

    def table(self, kind: Kind) -> pa.Table:
        """The new rows of a kind; texts may be dictionaries."""
        rows = as_table(self._rows[kind.name], kind.arrow)
        if kind.name != "run" or not len(self.spans):
            return rows
        return _together(self.spans.table(kind.arrow.names), rows)

    def runs(self, names: Sequence[str], without: Collection[Who] = ()) -> pa.Table:
        """Some columns of the new runs, but for those of `without`; texts may be dictionaries."""
        schema = pa.schema([KINDS["run"].arrow.field(name) for name in names])
        places = [KINDS["run"].arrow.names.index(name) for name in names]
        rows = [tuple(row[place] for place in places) for row in self._rows["run"] if row[:3] not in without]
        return _together(self.spans.table(names, without), as_table(rows, schema))

    def rows_by_job(self) -> dict[str, int]:
        """Number of new runs of each claimed job."""
        at = KINDS["run"].arrow.names.index("job")
        out = self.spans.rows_by_job()
        for row in self._rows["run"]:
            job = row[at]
            if job is not None:
                out[job] = out.get(job, 0) + 1
        return out

    def nodes_with_runs(self) -> set[str]:
        """Nodes of new runs that no process did and no job claims."""
        names = KINDS["run"].arrow.names
        job, process = names.index("job"), names.index("process")
        return self.spans.nodes_with_runs() | {row[0] for row in self._rows["run"] if row[job] is None and row[process] == "node"}

    def _boot(self, key: Key) -> _Boot:
        boot = self._boots.get(key)
        if boot is None:
            boot = self._boots[key] = _Boot(self._known.get(key) or NOTHING)
        return boot

    def _comes(self, boot: _Boot, event: object, who: Who, row: tuple | None) -> bool:
        """Whether a record that is not simply the next has not come before; its number has come now. Otherwise it is done with."""
        seq = who[2]
        if seq - boot.seq > SEQ_JUMP_MAX:
            self._letter(event, who, f"seq: {seq} is more than {SEQ_JUMP_MAX} beyond {boot.seq}, the last that came")
            return False
        if seq > boot.seq:
            if seq > boot.seq + 1:
                since_ns = boot.known.last_ns or self._heard_ns(who[0])
                missing = seq - boot.seq - 1
                boot.gaps = opened(boot.gaps, Gap(boot.seq + 1, seq - 1, missing, since_ns, self._now_ns))
                self._jumped += missing
            boot.seq, boot.last_row = seq, None
            return True
        place = find(boot.gaps, seq)
        if place is None:
            self._again(boot, event, who, row)
            return False
        gap = boot.gaps[place]
        if gap.is_merged and gap.is_old:
            self._again_places.append(self._place)
            self._duplicates += 1
            boot.duplicates += 1
            return False
        if gap.is_merged:
            self._letter(event, who, f"seq: {seq} comes late: of {gap.first} to {gap.last} {gap.missing} are missing, and no longer is it known which")
            return False
        boot.gaps = filled(boot.gaps, place, seq)
        self._filled += 1
        return True

    def _again(self, boot: _Boot, event: object, who: Who, row: tuple | None) -> None:
        """A number that came before: the same record, as is usual after a broken connection, or another's."""
        self._again_places.append(self._place)
        self._duplicates += 1
        boot.duplicates += 1
        if row is None or who[2] != boot.seq:
            return
        last_row = boot.row()
        if last_row is not None:
            differs = row != last_row
        else:
            known, found = boot.known.fingerprint, _fingerprint(row)
            # What another version of the schema made of the record is not to be compared.
            differs = boot.seq == boot.known.seq and known >> 32 == found >> 32 and known != found
        if differs:
            self._duplicates -= 1
            boot.duplicates -= 1
            boot.conflicts += 1
            self._letter(event, who, f"{CONFLICT}: another record came with this number: two agents number their records alike, as after a machine was cloned")

    def _bad(self, event: object) -> None:
        who = identity(event)
        if who is None:
            self._letter(event, None, _reason(event))
            return
        boot = self._boot(who[:2])
        if self._comes(boot, event, who, None):
            self._refused(boot, event, who, _reason(event))

    def _refused(self, boot: _Boot, event: object, who: Who, reason: str | None) -> bool:
        """Whether there is a reason why a record whose number has come is none."""
        if reason is None:
            return False
        boot.letters += 1
        self._letter(event, who, reason)
        return True

    def _letter(self, event: object, who: Who | None, reason: str) -> None:
        node, boot, seq = who or (None, None, None)
        letter = {"received_ns": self._now_ns, "node": node, "boot": boot, "seq": seq, "reason": reason, "raw": _raw(event)}
        self.letters.append(letter)
        self._refused_places.append(self._place)

    def _sum_up(self) -> None:
        for row in self._rows["job"]:
            self._boots[row[0], row[1]].jobs += 1
        for row in self._rows["sample"]:
            boot = self._boots[row[0], row[1]]
            # One that fills a gap is not the newest.
            if row[_SAMPLE_COMPONENT] == AGENT and row[2] > (boot.known.seq if boot.sample is None else boot.sample[2]):
                boot.sample = row
        # A boot of which nothing has come has no mark.
        self.marks = {key: boot.mark(self._now_ns) for key, boot in self._boots.items() if boot.seq > 0}


def _together(taken: pa.Table, rows: pa.Table) -> pa.Table:
    if not taken.num_rows:
        return rows
    return pa.concat_tables([taken.cast(rows.schema), rows]) if rows.num_rows else taken


def check_clock(now_ns: int, ahead_ns: int | None, marks: Marks, otherwise: str) -> None:
    """Raises StoreError where a record seems ahead (its end: `ahead_ns`) only since the server's own clock went back, as after a start with a
    dead clock before NTP has set it: what is refused now would be lost. Smaller steps refuse nothing that came in time. otherwise: what to do
    where the clock is right now."""
    newest_ns = marks.newest_ns() if ahead_ns is not None else 0
    if ahead_ns is not None and newest_ns - now_ns > CLOCK_BACK_NS_MAX and ahead_ns <= newest_ns + AHEAD_NS:
        raise StoreError(
            f"the server's clock went back: it shows {_utc(now_ns)}, and records came at {_utc(newest_ns)} before; nothing is taken, and agents "
            f"keep what they have, until it is set: `timedatectl`. If the earlier time was the wrong one, {otherwise}"
        )


def _utc(ns: int) -> str:
    return datetime.datetime.fromtimestamp(ns // 10**9, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _fingerprint(row: tuple) -> int:
    """A number that another record would hardly have, the same in each process; above its lower 32 bits it bears the schema's. Never 0."""
    return _SCHEMA << 32 | zlib.crc32(repr(row).encode("utf-8", "surrogatepass"))


def _reason(event: object) -> str:
    if type(event) is Undecodable:
        return f"no JSON: {event.error}"[:REASON_CHARACTERS_MAX]
    try:
        kind_of(event).row(event)
    except RecordError as error:
        return _clean(str(error)[:REASON_CHARACTERS_MAX])
    except RecursionError:
        return "nests too deeply"
    raise AssertionError("a good record was sorted out")


def _raw(event: object) -> str:
    if type(event) is Undecodable:
        return event.text[:RAW_CHARACTERS_MAX]
    try:
        return orjson.dumps(event).decode()[:RAW_CHARACTERS_MAX]
    except (TypeError, RecursionError):  # a lone surrogate, or it nests too deeply to be written as JSON
        pass
    fields = [f"{describe(name)}: {describe(value)}" for name, value in event.items()] if type(event) is dict else [describe(event)]
    return _clean(f"{{{', '.join(fields)}}}"[:RAW_CHARACTERS_MAX])


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
