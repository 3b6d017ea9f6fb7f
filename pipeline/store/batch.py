"""Sorts a batch of events into rows, duplicates and dead letters. Knows no database."""

from dataclasses import dataclass
from typing import Protocol

import orjson
import pyarrow as pa

from pipeline.schema import KINDS, Kind, RecordError, describe, identity, kind_of
from pipeline.store import UNDECODABLE, Appended

# Of a dead letter's text, so much is kept.
RAW_CHARACTERS_MAX = 4096
REASON_CHARACTERS_MAX = 512
# Sequence numbers rise by one. None jumps so far in earnest; taken at its word, it would make duplicates of all that come after it.
SEQ_JUMP_MAX = 1 << 32


@dataclass(frozen=True)
class Mark:
    """High-water mark of one (node, boot): the last sequence number that came, and how many were jumped over so far."""

    seq: int
    missing: int


class Known(Protocol):
    """Marks by (node, boot); a dict is one."""

    def get(self, key: tuple[str, int], /) -> Mark | None: ...


class Batch:
    """What one transaction is to write. `known` holds the marks before it, and is not changed.

    After `add`: `marks` (new marks of the boots that it saw), `missing` (how many numbers were jumped over, by node), `letters` (rows of
    dead_letters), `result`, and `table(kind)`.
    """

    def __init__(self, known: Known, now_ns: int) -> None:
        self._known = known
        self._now_ns = now_ns
        self._rows: dict[str, list[tuple]] = {name: [] for name in KINDS}
        self._duplicates = 0
        self.missing: dict[str, int] = {}
        self.marks: dict[tuple[str, int], Mark] = {}
        self.letters: list[dict] = []

    @property
    def result(self) -> Appended:
        rows = self._rows
        return Appended(len(rows["run"]), len(rows["sample"]), len(rows["job"]), self._duplicates, len(self.letters), sum(self.missing.values()))

    def add(self, events: list[dict]) -> None:
        """Sorts the events in."""
        key: tuple[str, int] | None = None
        last = 0
        rows_of = {name: (kind.row, self._rows[name].append) for name, kind in KINDS.items()}
        for event in events:
            try:
                row_of, keep = rows_of[event["kind"]]
                row = row_of(event)
            except (RecordError, KeyError, TypeError, RecursionError):
                key = self._close(key, last)
                self._bad(event)
                continue
            # Neighbours mostly come from one boot: its mark stays in a local variable.
            if key is None or row[1] != key[1] or row[0] != key[0]:
                self._close(key, last)
                key = (row[0], row[1])
                last = self._seq(key)
            seq = row[2]
            if seq == last + 1:
                last = seq
                keep(row)
            elif seq <= last:
                self._duplicates += 1
            elif seq - last > SEQ_JUMP_MAX:
                self._letter(event, row[:3], _too_far(seq, last))
            else:
                self._jump(key, seq, last)
                last = seq
                keep(row)
        self._close(key, last)

    def table(self, kind: Kind) -> pa.Table:
        """The new rows of a kind."""
        rows = self._rows[kind.name]
        if not rows:
            return kind.arrow.empty_table()
        columns = zip(*rows, strict=True)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, kind.arrow, strict=True)], schema=kind.arrow)

    def rows_by_job(self) -> dict[str, int]:
        """Number of new runs of each claimed job."""
        at = KINDS["run"].arrow.names.index("job")
        out: dict[str, int] = {}
        for row in self._rows["run"]:
            job = row[at]
            if job is not None:
                out[job] = out.get(job, 0) + 1
        return out

    def nodes_with_runs(self) -> set[str]:
        """Nodes of new runs that no process did and no job claims."""
        names = KINDS["run"].arrow.names
        job, process = names.index("job"), names.index("process")
        return {row[0] for row in self._rows["run"] if row[job] is None and row[process] == "node"}

    def _seq(self, key: tuple[str, int]) -> int:
        mark = self.marks.get(key) or self._known.get(key)
        return mark.seq if mark else 0

    def _close(self, key: tuple[str, int] | None, last: int) -> None:
        """Writes the mark in hand back; one of a boot of which nothing has come is none."""
        if key is not None and last > 0:
            mark = self.marks.get(key) or self._known.get(key) or Mark(0, 0)
            self.marks[key] = Mark(last, mark.missing)

    def _jump(self, key: tuple[str, int], seq: int, last: int) -> None:
        mark = self.marks.get(key) or self._known.get(key) or Mark(0, 0)
        skipped = seq - last - 1
        self.marks[key] = Mark(last, mark.missing + skipped)
        self.missing[key[0]] = self.missing.get(key[0], 0) + skipped

    def _bad(self, event: object) -> None:
        who = identity(event)
        if who is not None:
            key, seq = who[:2], who[2]
            last = self._seq(key)
            if seq <= last:
                self._duplicates += 1
                return
            if seq - last > SEQ_JUMP_MAX:
                self._letter(event, who, _too_far(seq, last))
                return
            if seq > last + 1:
                self._jump(key, seq, last)
            self._close(key, seq)
        self._letter(event, who, _reason(event))

    def _letter(self, event: object, who: tuple[str, int, int] | None, reason: str) -> None:
        node, boot, seq = who or (None, None, None)
        letter = {"received_ns": self._now_ns, "node": node, "boot": boot, "seq": seq, "reason": reason, "raw": _raw(event)}
        self.letters.append(letter)


def _too_far(seq: int, last: int) -> str:
    return f"seq: {seq} is more than {SEQ_JUMP_MAX} beyond {last}, the last that came"


def _reason(event: object) -> str:
    if type(event) is dict and UNDECODABLE in event:
        return f"no JSON: {event.get('error', '')}"[:REASON_CHARACTERS_MAX]
    try:
        kind_of(event).row(event)
    except RecordError as error:
        return _clean(str(error)[:REASON_CHARACTERS_MAX])
    except RecursionError:
        return "nests too deeply"
    raise AssertionError("a good record was sorted out")


def _raw(event: object) -> str:
    if type(event) is dict and UNDECODABLE in event:
        return str(event[UNDECODABLE])[:RAW_CHARACTERS_MAX]
    try:
        return orjson.dumps(event).decode()[:RAW_CHARACTERS_MAX]
    except TypeError:  # a lone surrogate, or it nests too deeply to be written as JSON
        pass
    fields = [f"{describe(name)}: {describe(value)}" for name, value in event.items()] if type(event) is dict else [describe(event)]
    return _clean(f"{{{', '.join(fields)}}}"[:RAW_CHARACTERS_MAX])


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
