"""A job's runs as flat arrays, process and file told by number: what profile and tables work on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .drawn import LATEST_NS, Drawn, drawn, encode, files, integers, summable, told
from .latency import Latency, read_latency

__all__ = ["COLUMNS", "LATEST_NS", "Runs", "read_runs"]

COLUMNS = (
    "node", "process", "parent", "rank", "program", "uid", "op", "file", "file_id", "size", "count", "bytes",
    "start", "end", "busy_ns", "slow_ns", "errno", "flags", "latency",
)  # fmt: skip
FLAG_FOLDED = 1
FLAG_DIRECTORY = 32
FLAG_COARSE = 64
# Why a program's calls cannot be seen, by flag of its `unseen` record.
UNSEEN_REASONS = {128: "static", 256: "io_uring", 512: "privileged", 1024: "foreign"}
UNSEEN_MAX = 100


@dataclass(frozen=True)
class Runs(Drawn):
    """Runs of one job as `Drawn`; every array below has one element a run.

    file: number in `paths`, or -1 where unknown. size (bytes of one operation), busy_ns, slow_ns (slowest operation): ≥ 0.
    latency: how long the operations took. folded: sums are exact, `size` is the largest.
    directory: the operation was on a directory. coarse: its times are known to the second, its durations not at all.

    unseen: {program, file, reason, processes} of what the job ran and could not be watched, at most UNSEEN_MAX of unseen_programs.
    programs, parents, ranks: one a process; the program is
    the one it ran last; parent: the parent's pid, None where not known; rank the one it told last, None where it claims none. inferred: ranks by
    number of process, of some of those, see `jobdb.inferred`; no figure goes by them. paths: Arrow strings, null where only the id is known; file_ids: hex strings, null likewise.
    hidden: one element a process: all that is known of it is that it ran what cannot be watched.
    """

    file: np.ndarray
    size: np.ndarray
    busy_ns: np.ndarray
    slow_ns: np.ndarray
    latency: Latency
    folded: np.ndarray
    directory: np.ndarray
    coarse: np.ndarray
    programs: list[str]
    parents: list[int | None]
    ranks: list[int | None]
    paths: pa.Array
    file_ids: pa.Array
    unseen: list[dict]
    hidden: np.ndarray
    unseen_programs: int
    inferred: Mapping[int, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the arrays take."""
        return sum(value.nbytes for value in vars(self).values() if hasattr(value, "nbytes"))

    def rank(self, process: int) -> int | None:
        """The rank that a process claims, else the inferred one, if any."""
        claimed = self.ranks[process]
        return self.inferred.get(process) if claimed is None else claimed

    def path(self, file: int) -> str | None:
        """Path of a file by number; None where it is not known."""
        return self.paths[int(file)].as_py() if file >= 0 else None


def read_runs(table: pa.Table, uid: int | None = None) -> Runs:
    """Turn a table of runs (columns `COLUMNS`, any order) into arrays.

    uid: leave out runs of any other user: a claimed job id is a hint, the owner is not. Those of nobody's (a file system's client) stay.
    Those of nodes (process "node") stand in where no process of the job has a record, or some could not be watched and none has a run. Else they
    are left out: they are the same operations, seen further down, or others'.
    Impossible values (negative, end before start, sums beyond 2**62) are brought within bounds, so that later sums cannot wrap.
    Raises KeyError where a column is missing.
    """
    records = told(table.select(list(COLUMNS)), uid)
    table, process, size = records.table, records.process, len(records.process_keys)
    unseen, unseen_programs = _unseen(table.filter(pc.equal(table["op"], "unseen")))
    ran_unseen = np.array([name == "unseen" for name in records.op_names] or [False])[records.op]
    hidden = (np.bincount(process[ran_unseen], minlength=size) > 0) & (np.bincount(process[records.is_run], minlength=size) == 0)
    runs = records.runs()
    file, paths, ids, place_of_id = files(runs.table)
    shown = drawn(runs, file, len(paths))
    flags, slow_ns = integers(runs.table["flags"]), integers(runs.table["slow_ns"])
    return Runs(
        **vars(shown),
        file=file.astype(np.int32),
        size=integers(runs.table["size"]),
        busy_ns=summable(integers(runs.table["busy_ns"])),
        slow_ns=slow_ns,
        latency=read_latency(runs.table["latency"], shown.count, slow_ns),
        folded=(flags & FLAG_FOLDED) != 0,
        directory=(flags & FLAG_DIRECTORY) != 0,
        coarse=(flags & FLAG_COARSE) != 0,
        programs=_programs(table, process, size, records.start_ns),
        parents=_parents(table["parent"], process, size),
        ranks=_ranks(table["rank"], process, size, records.start_ns),
        paths=paths,
        file_ids=_hexed(ids, place_of_id),
        unseen=unseen,
        hidden=hidden,
        unseen_programs=unseen_programs,
    )


def _unseen(table: pa.Table) -> tuple[list[dict], int]:
    """What ran unwatched, most processes first, UNSEEN_MAX at most; and how many there are. There may be a row for each of very many processes."""
    flags = integers(table["flags"])
    reason = np.select([(flags & flag) != 0 for flag in UNSEEN_REASONS], list(UNSEEN_REASONS.values()), "unknown")
    texts = {name: pa.chunked_array([column.cast(pa.string()) for column in table[name].chunks], pa.string()) for name in ("node", "process", "program", "file")}
    texts["program"] = pc.fill_null(texts["program"], "")
    what = ["program", "file", "reason"]
    processes = pa.table({**texts, "reason": pa.array(reason.tolist(), pa.string())}).group_by([*what, "node", "process"]).aggregate([])
    found = processes.group_by(what).aggregate([([], "count_all")]).rename_columns([*what, "processes"])
    found = found.append_column("path", pc.fill_null(found["file"], ""))
    order = [("processes", "descending"), ("program", "ascending"), ("path", "ascending"), ("reason", "ascending")]
    return found.sort_by(order).drop_columns("path").slice(0, UNSEEN_MAX).to_pylist(), found.num_rows


def _parents(column: pa.ChunkedArray, process: np.ndarray, n_processes: int) -> list[int | None]:
    """What each process's runs say, None where they are silent. Where they differ, one lies: the lowest is as good as any."""
    said = ~column.is_null().to_numpy()
    return _lowest(process[said], integers(column, least=None)[said], n_processes)


def _ranks(column: pa.ChunkedArray, process: np.ndarray, n_processes: int, start_ns: np.ndarray) -> list[int | None]:
    """The rank that each process told last, the lowest of those told at once; None where it told none. What `mpirun` starts bears the rank of its
    launcher until it executes the program."""
    said = ~column.is_null().to_numpy()
    process, start_ns = process[said], start_ns[said]
    latest = np.full(n_processes, -1)
    np.maximum.at(latest, process, start_ns)
    at_latest = start_ns == latest[process]
    return _lowest(process[at_latest], integers(column, least=None)[said][at_latest], n_processes)


def _lowest(process: np.ndarray, values: np.ndarray, n_processes: int) -> list[int | None]:
    """The lowest value of each process, None where it has none."""
    found = np.full(n_processes, np.iinfo(np.int64).max)
    np.minimum.at(found, process, values)
    has = np.bincount(process, minlength=n_processes) > 0
    return [value if known else None for value, known in zip(found.tolist(), has.tolist(), strict=True)]


def _programs(table: pa.Table, process: np.ndarray, n_processes: int, start_ns: np.ndarray) -> list[str]:
    program, names = encode(table["program"])
    # Of the latest instant's programs the first by name, so that the order of rows does not matter.
    by_name = np.argsort(np.argsort(np.array(names, dtype=object)))
    latest = np.full(n_processes, -1)
    np.maximum.at(latest, process, start_ns)
    at_latest = start_ns == latest[process]
    chosen = np.full(n_processes, len(names))
    np.minimum.at(chosen, process[at_latest], by_name[program[at_latest]])
    ordered = sorted(names)
    return [ordered[number] for number in chosen.tolist()]


def _hexed(ids: pa.Array, places: np.ndarray) -> pa.Array:
    hex_ids = [None if value is None else f"{value:016x}" for value in ids.to_pylist()]
    return pa.array([hex_ids[number] if number >= 0 else None for number in places.tolist()], type=pa.string())
