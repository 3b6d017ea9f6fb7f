"""What a chart needs of a job's runs: what processes did when, as flat arrays."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .grouping import compact

COLUMNS = ("node", "process", "uid", "op", "file", "file_id", "count", "bytes", "start", "end", "errno")
NODE_PROCESS = "node"
LARGEST = 2**62
LATEST_NS = 9_200_000_000 * 10**9  # in 2261; whole seconds after it still fit 64 bits
UNKNOWN_FILE = -1


@dataclass(frozen=True)
class Drawn:
    """Runs of one job, the notices (`start`, `unseen`) of processes left out; every array below has one element a run.

    op: number in `op_names`. process: number in `process_keys`.
    start_ns ≤ end_ns, ns since the epoch. shown_end_ns: see `shown_ends`. count, bytes: ≥ 0.
    failed: the calls did not succeed; they count as errors and nowhere else.

    granularity: "process", or "node" where no process is known, or what they ran could not be watched, and the runs of a source that knows none
    stand in: then the node is the process. op_names: list of names. process_keys: list of (node, process). nodes: every node that a run or notice came from.
    """

    op: np.ndarray
    process: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    shown_end_ns: np.ndarray
    count: np.ndarray
    bytes: np.ndarray
    failed: np.ndarray
    op_names: list[str]
    process_keys: list[tuple[str, str]]
    nodes: list[str]
    granularity: str

    def __len__(self) -> int:
        return len(self.op)

    def mask(self, *names: str) -> np.ndarray:
        """True for each run that succeeded and whose operation is one of `names`."""
        wanted = np.array([name in names for name in self.op_names] or [False])
        return wanted[self.op] & ~self.failed


@dataclass(frozen=True)
class Told:
    """A job's records of one granularity, notices too, in a table; arrays with one element a record. is_run: it is no notice."""

    table: pa.Table
    op: np.ndarray
    process: np.ndarray
    start_ns: np.ndarray
    is_run: np.ndarray
    op_names: list[str]
    process_keys: list[tuple[str, str]]
    nodes: list[str]
    granularity: str

    def runs(self) -> "Told":
        """Without the notices."""
        if self.is_run.all():
            return self
        which = self.is_run
        table = self.table.filter(pa.array(which))
        return replace(self, table=table, op=self.op[which], process=self.process[which], start_ns=self.start_ns[which], is_run=which[which])


def read_drawn(table: pa.Table, uid: int | None = None) -> Drawn:
    """As `jobdb.runs.read_runs`, of a table with the columns `COLUMNS`, which a chart needs; in less than half of the time. Raises KeyError where one is missing."""
    runs = told(table.select(list(COLUMNS)), uid).runs()
    file, paths, _, _ = files(runs.table)
    return drawn(runs, file, len(paths))


def told(table: pa.Table, uid: int | None) -> Told:
    """The records that count of a table, see `jobdb.runs.read_runs`."""
    if uid is not None:
        own = pc.fill_null(pc.equal(table["uid"], uid), True)
        table = table if pc.all(own).as_py() else table.filter(own)
    table, granularity = _of_one_granularity(table)
    process, process_keys, nodes = _processes(table)
    op, op_names = encode(table["op"])
    start_ns = np.minimum(integers(table["start"]), LATEST_NS)
    return Told(table, op, process, start_ns, _no_notice(op, op_names), op_names, process_keys, nodes, granularity)


def drawn(runs: Told, file: np.ndarray, n_files: int) -> Drawn:
    """Runs without notices; file: number of each one's, -1 where unknown, less than n_files."""
    end_ns, count = np.clip(integers(runs.table["end"]), runs.start_ns, LATEST_NS), summable(integers(runs.table["count"]))
    failed = integers(runs.table["errno"], least=None) != 0
    stream = ((runs.process.astype(np.int64) * max(len(runs.op_names), 1) + runs.op) * (n_files + 1) + file) * 2 + failed
    return Drawn(
        op=runs.op.astype(np.int16),
        process=runs.process.astype(np.int32),
        start_ns=runs.start_ns,
        end_ns=end_ns,
        shown_end_ns=shown_ends(stream, runs.start_ns, end_ns, count),
        count=count,
        bytes=summable(integers(runs.table["bytes"])),
        failed=failed,
        op_names=runs.op_names,
        process_keys=runs.process_keys,
        nodes=runs.nodes,
        granularity=runs.granularity,
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


def summable(values: np.ndarray) -> np.ndarray:
    """Caps values whose sum would pass 2**62; no real job comes near."""
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


def files(table: pa.Table) -> tuple[np.ndarray, pa.Array, pa.Array, np.ndarray]:
    """One number a path; where a run has no path, its id finds the path that another run bears with it, or stands for the file. Returns each run's number (-1:
    unknown), the paths, null where only the id is known, the ids, and by number the place of the file's among these (-1: none)."""
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
    return file, paths, ids, np.concatenate((id_of_path, only_ids))
