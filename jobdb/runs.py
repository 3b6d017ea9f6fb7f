"""A job's runs as flat arrays, process and file told by number: what profile, series and tables work on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .grouping import compact
from .latency import Latency, read_latency

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
NODE_PROCESS = "node"
LARGEST = 2**62
LATEST_NS = 9_200_000_000 * 10**9  # in 2261; whole seconds after it still fit 64 bits
UNKNOWN_FILE = -1


@dataclass(frozen=True)
class Runs:
    """Runs of one job, the notices (`start`, `unseen`) of processes left out; every array below has one element a run.

    op: number in `op_names`. process: number in `process_keys`. file: number in `paths`, or -1 where unknown.
    start_ns ≤ end_ns, ns since the epoch. shown_end_ns: see `shown_ends`. count, bytes, size (bytes of one operation), busy_ns, slow_ns (slowest operation): ≥ 0.
    latency: how long the operations took.
    failed: the calls did not succeed; they count as errors and nowhere else. folded: sums are exact, `size` is the largest.
    directory: the operation was on a directory. coarse: its times are known to the second, its durations not at all.

    granularity: "process", or "node" where no process is known, or what they ran could not be watched, and the runs of a source that knows none
    stand in: then the node is the process. unseen: {program, file, reason, processes} of what the job ran and could not be watched, at most UNSEEN_MAX of
    unseen_programs.
    op_names: list of names. process_keys: list of (node, process). programs, parents, ranks: one a process; the program is
    the one it ran last; parent: the parent's pid, None where not known; rank the one it told last, None where it claims none. inferred: ranks by
    number of process, of some of those, see `jobdb.inferred`; no figure goes by them. paths: Arrow strings, null where only the id is known; file_ids: hex strings, null likewise.
    nodes: every node that a run or notice came from. hidden: one element a process: all that is known of it is that it ran what cannot be watched.
    """

    op: np.ndarray
    process: np.ndarray
    file: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    shown_end_ns: np.ndarray
    count: np.ndarray
    bytes: np.ndarray
    size: np.ndarray
    busy_ns: np.ndarray
    slow_ns: np.ndarray
    latency: Latency
    failed: np.ndarray
    folded: np.ndarray
    directory: np.ndarray
    coarse: np.ndarray
    op_names: list[str]
    process_keys: list[tuple[str, str]]
    programs: list[str]
    parents: list[int | None]
    ranks: list[int | None]
    paths: pa.Array
    file_ids: pa.Array
    nodes: list[str]
    granularity: str
    unseen: list[dict]
    hidden: np.ndarray
    unseen_programs: int
    inferred: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.op)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the arrays take."""
        return sum(value.nbytes for value in vars(self).values() if hasattr(value, "nbytes"))

    def mask(self, *names: str) -> np.ndarray:
        """True for each run that succeeded and whose operation is one of `names`."""
        wanted = np.array([name in names for name in self.op_names] or [False])
        return wanted[self.op] & ~self.failed

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and end, ns, of the runs that succeeded: what phases are found in."""
        return self.start_ns[~self.failed], self.end_ns[~self.failed]

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
    table = table.select(list(COLUMNS))
    if uid is not None:
        own = pc.fill_null(pc.equal(table["uid"], uid), True)
        table = table if pc.all(own).as_py() else table.filter(own)
    table, granularity = _of_one_granularity(table)
    process, process_keys, nodes = _processes(table)
    op, op_names = encode(table["op"])
    is_run = _no_notice(op, op_names)
    unseen, unseen_programs = _unseen(table.filter(pc.equal(table["op"], "unseen")))
    start_all_ns = np.minimum(integers(table["start"]), LATEST_NS)
    programs = _programs(table, process, len(process_keys), start_all_ns)
    parents = _parents(table["parent"], process, len(process_keys))
    ranks = _ranks(table["rank"], process, len(process_keys), start_all_ns)
    size = len(process_keys)
    ran_unseen = np.array([name == "unseen" for name in op_names] or [False])[op]
    hidden = (np.bincount(process[ran_unseen], minlength=size) > 0) & (np.bincount(process[is_run], minlength=size) == 0)
    if not is_run.all():
        table, op, process, start_all_ns = table.filter(pa.array(is_run)), op[is_run], process[is_run], start_all_ns[is_run]
    file, paths, file_ids = _files(table)
    flags = integers(table["flags"])
    end_ns, count = np.clip(integers(table["end"]), start_all_ns, LATEST_NS), _summable(integers(table["count"]))
    slow_ns = integers(table["slow_ns"])
    failed = integers(table["errno"], least=None) != 0
    stream = ((process.astype(np.int64) * max(len(op_names), 1) + op) * (len(paths) + 1) + file) * 2 + failed
    return Runs(
        op=op.astype(np.int16),
        process=process.astype(np.int32),
        file=file.astype(np.int32),
        start_ns=start_all_ns,
        end_ns=end_ns,
        shown_end_ns=shown_ends(stream, start_all_ns, end_ns, count),
        count=count,
        bytes=_summable(integers(table["bytes"])),
        size=integers(table["size"]),
        busy_ns=_summable(integers(table["busy_ns"])),
        slow_ns=slow_ns,
        latency=read_latency(table["latency"], count, slow_ns),
        failed=failed,
        folded=(flags & FLAG_FOLDED) != 0,
        directory=(flags & FLAG_DIRECTORY) != 0,
        coarse=(flags & FLAG_COARSE) != 0,
        op_names=op_names,
        process_keys=process_keys,
        programs=programs,
        parents=parents,
        ranks=ranks,
        paths=paths,
        file_ids=file_ids,
        nodes=nodes,
        granularity=granularity,
        unseen=unseen,
        hidden=hidden,
        unseen_programs=unseen_programs,
    )


def _no_notice(op: np.ndarray, op_names: list[str]) -> np.ndarray:
    return np.array([name not in ("start", "unseen") for name in op_names] or [False])[op]


def _of_one_granularity(table: pa.Table) -> tuple[pa.Table, str]:
    """The runs of processes, or where nothing of what ran was seen those of nodes; and which.

    A process that was watched and did nothing leaves a `start`: then what its node did was another's."""
    of_node = pc.equal(table["process"], NODE_PROCESS)
    if not pc.any(of_node).as_py():
        return table, "process"
    op, op_names = encode(table["op"])
    is_ours = ~of_node.to_numpy()
    is_unseen = np.array([name == "unseen" for name in op_names])[op]
    if not (_no_notice(op, op_names) & is_ours).any() and ((is_unseen & is_ours).any() or not is_ours.any()):
        return table, "node"
    return table.filter(pa.array(is_ours)), "process"


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


def shown_ends(stream: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Until when each run is drawn: to the start of the next one of its stream (same process, operation, file and outcome) where that goes on in
    this one's rhythm, else to its own end.

    The first pass closes a run when its window is over. The pause between its last call and the next run's first is then no other than
    those between its calls, and a chart with a dip there would show the window, not the program.
    """
    order = np.lexsort((start_ns, stream))
    this, following = order[:-1], order[1:]
    gap_ns = start_ns[following] - end_ns[this]
    rhythm_ns = (end_ns[this] - start_ns[this]) / np.maximum(count[this] - 1, 1)
    goes_on = (stream[this] == stream[following]) & (count[this] > 1) & (gap_ns > 0) & (gap_ns <= 1.5 * rhythm_ns)
    shown = end_ns.copy()
    shown[this[goes_on]] = start_ns[following[goes_on]]
    return shown


def integers(column: pa.ChunkedArray, least: int | None = 0) -> np.ndarray:
    """A column as int64: null is 0, what is beyond int64 its largest value, what is below `least` is `least`."""
    if column.null_count:
        column = pc.fill_null(column, 0)
    values = column.to_numpy()
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(2**63 - 1))
    values = values.astype(np.int64, copy=False)
    return values if least is None or not len(values) or values.min() >= least else np.maximum(values, least)


def encode(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Number of each value, null being an empty text, and the values by number."""
    codes, values = encode_arrow(pc.fill_null(column, "") if column.null_count else column)
    return codes, values.to_pylist()


def encode_arrow(column: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """As `encode`, the values left in Arrow."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return np.empty(0, dtype=np.int64), pa.array([], type=column.type.value_type)
    chunks = [pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(chunks).astype(np.int64), column.chunk(0).dictionary


def _summable(values: np.ndarray) -> np.ndarray:
    """Cap values whose sum would pass 2**62; no real job comes near."""
    if len(values) and values.sum(dtype=np.float64) > LARGEST:
        return np.minimum(values, LARGEST // len(values))
    return values


def _processes(table: pa.Table) -> tuple[np.ndarray, list[tuple[str, str]], list[str]]:
    node, node_names = encode(table["node"])
    process, names = encode(table["process"])
    size = max(len(names), 1)
    distinct, numbers = compact(node * size + process, max(len(node_names) * size, 1))
    keys = [(node_names[code // size], names[code % size]) for code in distinct.tolist()]
    return numbers, keys, sorted(node_names)


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


def _files(table: pa.Table) -> tuple[np.ndarray, pa.Array, pa.Array]:
    """One number a path; where a run has no path, its id finds the path that another run bears with it, or stands for the file."""
    file, paths = encode_arrow(table["file"])
    file_id, ids = encode_arrow(table["file_id"])
    n_paths = len(paths)
    path_of_id = np.full(len(ids) + 1, UNKNOWN_FILE)
    both = (file >= 0) & (file_id >= 0)
    path_of_id[file_id[both]] = file[both]
    id_of_path = np.full(n_paths, -1)
    id_of_path[file[both]] = file_id[both]
    nameless = (file < 0) & (file_id >= 0)
    only_ids = np.empty(0, dtype=np.int64)
    if nameless.any():
        only_ids = np.unique(file_id[nameless])
        only_ids = only_ids[path_of_id[only_ids] < 0]
        path_of_id[only_ids] = n_paths + np.arange(len(only_ids))
        file = np.where(nameless, path_of_id[file_id], file)
    paths = pa.concat_arrays([paths.cast(pa.large_string()), pa.nulls(len(only_ids), pa.large_string())])
    id_numbers = np.concatenate((id_of_path, only_ids))
    hex_ids = [None if value is None else f"{value:016x}" for value in ids.to_pylist()]
    file_ids = pa.array([hex_ids[number] if number >= 0 else None for number in id_numbers.tolist()], type=pa.string())
    return file, paths, file_ids
