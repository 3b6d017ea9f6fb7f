"""Where and when a job did its I/O, as the API answers it; what is told of jobs that have ended is kept in the cache.

Each answer rests on the job's runs as its profile does (`Analyses.runs`), which are read once for all of them. Of a job with over a million runs those that
are alike within a tenth of a second come as one."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from tracepack.archive import DamagedError
from tracepack.archive import Heat as Sums
from tracepack.archive import heat as stored_sums

from jobdb.heat import HeatMap, heat, heat_of_sums
from jobdb.job import Job
from jobdb.offsets import COLUMNS as OFFSET_COLUMNS
from jobdb.offsets import OPS as OFFSET_OPS
from jobdb.offsets import OffsetMap, largest_file, of_file, offsets
from jobdb.repository import JobDB
from jobdb.timeline import KINDS, Timeline, timeline

from pipeline.archive import ArchiveError
from pipeline.archive.read import Zone
from pipeline.schema import KINDS as KINDS_OF

from .analysis import PAUSE_FACTOR, Analyses, is_final
from .cache import Cache
from .charts import life, shown_span, too_fine, within
from .errors import ApiError
from .shape import FLAG, MAYBE_TEXT, NUMBER, TEXT, is_like
from .trace import Traces

# Of the answers; in the keys of the cache, so that another version's answers are none.
FORMAT = 2
# Characters of a path where it only labels something.
LABEL_LENGTH_MAX = 256
_PROFILED = ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops")
_HEAT = {
    "by": TEXT, "measure": TEXT, "from_ns": NUMBER, "to_ns": NUMBER, "step_s": NUMBER, "t_ns": [NUMBER], "members": NUMBER, "total": NUMBER, "is_stored": FLAG,
    "rows": [{"first": TEXT, "last": TEXT, "members": NUMBER, "total": NUMBER, "cells": [NUMBER]}],
}  # fmt: skip
_TIMELINE = {
    "by": TEXT, "from_ns": NUMBER, "to_ns": NUMBER, "first": NUMBER, "lanes_total": NUMBER, "joined_s": NUMBER, "runs": NUMBER, "lanes": [{"name": TEXT, "runs": NUMBER}],
    "ops": [TEXT], "kinds": [TEXT], "files": [TEXT],
    "marks": {name: [NUMBER] for name in ("lane", "kind", "op", "file", "start_ns", "end_ns", "count", "bytes", "runs")},
}  # fmt: skip
_SEGMENTS = ("who", "op", "start_ns", "end_ns", "first", "last", "size", "count", "bytes")
_CELLS = ("op", "bin", "row", "who", "count")
_OFFSETS = {
    "file": MAYBE_TEXT, "from_ns": NUMBER, "to_ns": NUMBER, "low": NUMBER, "high": NUMBER, "runs": NUMBER, "count": NUMBER, "bytes": NUMBER, "unsure": NUMBER, "left_out": NUMBER, "ops": [TEXT],
    "who": [TEXT], "is_grid": FLAG, "segments": {name: [NUMBER] for name in _SEGMENTS}, "bin_s": NUMBER, "row_bytes": NUMBER, "cells": {name: [NUMBER] for name in _CELLS},
}  # fmt: skip
# So many runs a job has whose heat map is one of stored sums: those of fewer are coarse (a cell for eight runs), and to read them takes a moment.
SUMS_FROM = 20_000
# Answers about jobs that run, each for PAUSE_FACTOR times what it took where that was so long: pages ask every other second.
RUNNING_MAX, RUNNING_FROM_S = 32, 0.1
# Records that are looked at for what was done to one file, those of it that are held, and how many are read at first.
READ_MAX, HELD_MAX, FIRST_ROWS = 4_000_000, 1_000_000, 100_000
# Of an archive so many, about, in blocks that may hold the file; of a larger one some blocks, and it is told.
ARCHIVED_READ_MAX = 4_000_000
_NO_RECORDS = pa.schema([KINDS_OF["run"].arrow.field(name) for name in OFFSET_COLUMNS]).empty_table()


@dataclass(frozen=True)
class HeatQuestion:
    """from_ns, to_ns: None for the job's life. measure: one of `jobdb.heat.MEASURES`; by: of `jobdb.heat.BY`."""

    from_ns: int | None
    to_ns: int | None
    by: str
    measure: str
    rows: int
    bins: int


@dataclass(frozen=True)
class TimelineQuestion:
    """from_ns, to_ns: None for the job's life. by: of `jobdb.timeline.BY`; lanes from `first` on; rank, file: only of these, "" for all."""

    from_ns: int | None
    to_ns: int | None
    by: str
    first: int
    lanes: int
    rank: str
    file: str


@dataclass(frozen=True)
class OffsetsQuestion:
    """from_ns, to_ns: None for the job's life. file: a path; "": the one with most bytes."""

    from_ns: int | None
    to_ns: int | None
    file: str


class DeepAnswers:
    """Answers as JSON. Whoever is given one may see the job. Any thread may ask. traces: jobs' records. All raise ApiError, Busy and StoreError."""

    def __init__(self, analyses: Analyses, jobdb: JobDB, cache: Cache, traces: Traces, clock: Callable[[], float] = time.monotonic) -> None:
        self._analyses, self._jobdb, self._cache, self._traces, self._clock = analyses, jobdb, cache, traces, clock
        self._running: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # until when each is good enough, and the answer
        self._running_lock = threading.Lock()  # owner of _running

    def heat(self, job: Job, question: HeatQuestion) -> bytes:
        """Sums by node or rank and time: stored ones, where the job is archived and so large that its runs would have to be read first."""
        return self._answer(job, "heat", question, _HEAT, lambda: self._heat(job, question))

    def timeline(self, job: Job, question: TimelineQuestion, *, names_files: bool) -> bytes:
        """Marks of runs on lanes. names_files: also of those that whole nodes used."""
        return self._answer(job, "timeline", question, _TIMELINE, lambda: self._timeline(job, question, names_files), (names_files,))

    def offsets(self, job: Job, question: OffsetsQuestion, *, names_files: bool) -> bytes:
        """Where in one file was read and written. names_files: also in one that whole nodes used; else there is none."""
        return self._answer(job, "offsets", question, _OFFSETS, lambda: self._offsets(job, question, names_files), (names_files,))

    def _timeline(self, job: Job, question: TimelineQuestion, names_files: bool) -> dict[str, Any]:
        runs, _ = self._analyses.runs(job)
        if runs.granularity == "node" and not names_files:
            runs = replace(runs, file=np.full_like(runs.file, -1), paths=runs.paths.slice(0, 0))
        from_ns, to_ns = within(shown_span(job, runs, time.time_ns()), question.from_ns, question.to_ns)
        with self._analyses.thread():
            chosen = {"first": question.first, "lanes": question.lanes, "rank": question.rank, "file": question.file}
            found = timeline(runs, question.by, from_ns, to_ns, **chosen)
        return _timeline_json(found, question, from_ns, to_ns)

    def _offsets(self, job: Job, question: OffsetsQuestion, names_files: bool) -> dict[str, Any]:
        if self._analyses.has_few_runs(job):
            runs, _ = self._analyses.runs(job)
            of_nodes, span = runs.granularity == "node", shown_span(job, runs, time.time_ns())
            file = question.file or largest_file(runs)
        else:
            # The file alone is looked for: all runs would take long.
            of_nodes, span = self._traces.is_of_nodes(job), life(job, time.time_ns())
            file = question.file or self._analyses.largest_file(job)
        from_ns, to_ns = within(span, question.from_ns, question.to_ns)
        if of_nodes and not names_files:
            file = None
        with self._analyses.thread():
            records, left_out = self._of_file(job, file, from_ns, to_ns, of_nodes)
            found = offsets(records, from_ns, to_ns)
        return _offsets_json(found, file, left_out)

    def _of_file(self, job: Job, file: str | None, from_ns: int, to_ns: int, of_nodes: bool) -> tuple[pa.Table, int]:
        """What was done to a file, and how many records of the archive were not looked at for it."""
        if file is None:
            return _NO_RECORDS, 0
        parts, read, held, left_out = [], 0, 0, 0
        zone = Zone(from_ns=from_ns, to_ns=to_ns - 1, ops=frozenset(OFFSET_OPS), file=file)
        for part in self._traces.matching(job, OFFSET_COLUMNS, zone, lambda records: of_file(records, file), FIRST_ROWS, ARCHIVED_READ_MAX, of_nodes=of_nodes):
            parts.append(part.records)
            read, held = read + part.read, held + part.records.num_rows
            if part.left is not None:
                left_out = part.left
                if held > HELD_MAX:
                    break
            elif read > READ_MAX or held > HELD_MAX:
                what = f"more than {READ_MAX} records would have to be looked at" if read > READ_MAX else f"the file has more than {HELD_MAX} runs in this time"
                raise ApiError(422, "too_many_runs", f"{what}, and no more are", "ask for a shorter time")
        return pa.concat_tables(parts) if parts else _NO_RECORDS, left_out

    def _heat(self, job: Job, question: HeatQuestion) -> dict[str, Any]:
        stored = self._stored_heat(job, question)
        if stored is not None:
            return stored
        runs, _ = self._analyses.runs(job)
        span = within(shown_span(job, runs, time.time_ns()), question.from_ns, question.to_ns)
        with too_fine(), self._analyses.thread():
            return _heat_json(heat(runs, question.measure, question.by, *span, question.bins, question.rows), question, is_stored=False)

    def _stored_heat(self, job: Job, question: HeatQuestion) -> dict[str, Any] | None:
        """Of the job's archive, where it has one, and so many runs that these would have to be read first."""
        has_many = is_final(job) and not self._analyses.has_few_runs(job) and self._analyses.version(job) >= SUMS_FROM
        stored = self._jobdb.get_profile(job.key) if has_many else None
        try:
            heads = None if stored is None else self._analyses.heads(job)
            if heads is None or stored is None:
                return None
            span = within(life(job, time.time_ns()), question.from_ns, question.to_ns)
            with self._analyses.thread():
                return heat_of_heads(heads, stored[1], question, span, self._analyses.clocks_off_ns(job))
        except (DamagedError, ArchiveError):
            return None  # the records tell as much

    def _answer(self, job: Job, what: str, question: Any, shape: Any, work_out: Callable[[], dict[str, Any]], more: tuple = ()) -> bytes:
        """Of the cache where the job's stored profile is of the same records; while it runs, one of a little earlier where they take long. more: what else the answer depends on."""
        version = self._jobdb.profile_version(job.key) if is_final(job) else None
        key = f"{what} {FORMAT} {orjson.dumps([job.key, job.uid, job.start_ns, job.end_ns, version, *astuple(question), *more]).decode()}"
        if not job.settled:
            return self._of_running(key, work_out)
        if version is None:
            return orjson.dumps(work_out())
        kept = self._cache.get(key, lambda kept: is_like(kept, shape))
        if kept is not None:
            return kept
        before = self._analyses.partial()
        answer = orjson.dumps(work_out())
        if self._analyses.partial() == before:
            self._cache.put(key, answer)
        return answer

    def _of_running(self, key: str, work_out: Callable[[], dict[str, Any]]) -> bytes:
        with self._running_lock:
            until_s, kept = self._running.get(key, (float("-inf"), b""))
        began_s = self._clock()
        if began_s < until_s:
            return kept
        answer = orjson.dumps(work_out())
        took_s = self._clock() - began_s
        if took_s >= RUNNING_FROM_S:
            with self._running_lock:
                self._running[key] = began_s + (1 + PAUSE_FACTOR) * took_s, answer
                self._running.move_to_end(key)
                while len(self._running) > RUNNING_MAX:
                    self._running.popitem(last=False)
        return answer


def heat_of_heads(heads: Sequence[bytes], figures: Mapping[str, Any], question: HeatQuestion, span: tuple[int, int], clocks_off_ns: int = 0) -> dict[str, Any] | None:
    """The answer of the sums that the heads of an archive's blocks have. None where these do not tell of the job as its runs do: where its profile's figures are not of the
    same records (an archive holds what others did on its nodes, too), or a node's clock was off by more than a bin, which sums are not corrected for. Raises DamagedError."""
    sums = stored_sums(heads)
    if clocks_off_ns > sums.width_ns or not _are_of(sums, figures):
        return None
    with too_fine():
        found = heat_of_sums(sums, question.measure, question.by, *span, question.bins, question.rows)
    return _heat_json(found, question, is_stored=True)


def _are_of(sums: Sums, figures: Mapping[str, Any]) -> bool:
    read_bytes, write_bytes, read_ops, write_ops, metadata_ops = (figures.get(name) or 0 for name in _PROFILED)
    return sums.cells.sum(axis=0).tolist() == [read_bytes, write_bytes, read_ops + write_ops, metadata_ops]


def _heat_json(found: HeatMap, question: HeatQuestion, is_stored: bool) -> dict[str, Any]:
    rows = [vars(row) | {"cells": cells} for row, cells in zip(found.rows, found.cells.tolist(), strict=True)]
    return {
        "by": question.by, "measure": question.measure, "from_ns": int(found.t_ns[0]), "to_ns": int(found.t_ns[-1]) + found.step_ns, "step_s": found.step_ns / 1e9,
        "t_ns": found.t_ns.tolist(), "members": found.members, "total": sum(row.total for row in found.rows), "is_stored": is_stored, "rows": rows,
    }  # fmt: skip


def _timeline_json(found: Timeline, question: TimelineQuestion, from_ns: int, to_ns: int) -> dict[str, Any]:
    return {
        "by": question.by, "from_ns": from_ns, "to_ns": to_ns, "first": question.first, "lanes_total": found.lanes_total, "joined_s": found.joined_ns / 1e9,
        "runs": int(found.runs.sum()), "lanes": [vars(lane) | {"name": _label(lane.name)} for lane in found.lanes], "ops": found.ops, "kinds": list(KINDS),
        "files": list(map(_label, found.files)),
        "marks": {name: getattr(found, name).tolist() for name in _TIMELINE["marks"]},
    }  # fmt: skip


def _label(name: str) -> str:
    """A name as marks and lanes bear it: of a long one its beginning and its end, which is what tells files of a folder apart."""
    return name if len(name) <= LABEL_LENGTH_MAX else f"{name[: LABEL_LENGTH_MAX // 4]}…{name[-(LABEL_LENGTH_MAX * 3 // 4 - 1) :]}"


def _offsets_json(found: OffsetMap, file: str | None, left_out: int) -> dict[str, Any]:
    def lists(of: Any, names: Sequence[str]) -> dict[str, list]:
        return {name: [] if of is None else getattr(of, name).tolist() for name in names}

    grid = found.grid
    return {
        "file": file, "from_ns": found.from_ns, "to_ns": found.to_ns, "low": found.low, "high": found.high, "runs": found.runs, "count": found.count, "bytes": found.bytes,
        "unsure": found.unsure, "left_out": left_out, "ops": list(OFFSET_OPS), "who": found.who_names, "is_grid": grid is not None, "segments": lists(found.segments, _SEGMENTS),
        "bin_s": 0 if grid is None else grid.width_ns / 1e9, "row_bytes": 0 if grid is None else grid.height, "cells": lists(grid, _CELLS),
    }  # fmt: skip
