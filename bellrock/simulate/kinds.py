"""The kinds of job. Each takes a random generator, a size of machine and about how many records it may make, and gives a model.

A kind is built to have an I/O mode, so that the mode is known without looking at what comes out: the figures below (how many processes share a file,
how many do I/O) lie well off the bounds of the definition in jobdb/io_mode.py, not on them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bellrock.simulate.model import Model
from bellrock.simulate.script import Script

KIB, MIB = 1 << 10, 1 << 20
# A run lasts no longer than the library's window.
WINDOW_S = 1.0
PER_NODE = (2, 4, 8, 16, 32)
TRANSFER_SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB)
RANDOM_SIZES = (4 * KIB, 8 * KIB, 64 * KIB)
# What one process moves in a second, how many random reads it does, and how many files of a storm it makes.
PACE_BYTES = (2e8, 1.5e9)
PACE_READS = (500.0, 20_000.0)
PACE_FILES = (20.0, 500.0)
TRANSFER_MIN_S = 0.2
# Of a storm's file one record each: stat, open, write, close, stat, unlink.
STORM_OPS = 6
# What a process leaves at least: its start, and of one transfer an open, a run and a close.
RECORDS_MIN = 4


@dataclass(frozen=True)
class Size:
    """How large a job may be: `nodes` at most, about `records` in all."""

    nodes: int
    records: int


def _script(rng: np.random.Generator, size: Size, least: int, processes_min: int) -> Script:
    """Nodes and processes for a job whose processes leave at least `least` records each; at least `processes_min` processes."""
    room = max(size.records // least, processes_min)
    per_node = int(rng.choice([number for number in PER_NODE if number <= room]))
    nodes_max = max(min(size.nodes, room // per_node), 1)
    nodes = round(float(np.exp(rng.uniform(0, np.log(nodes_max)))))
    nodes = max(nodes, -(-processes_min // per_node) if size.nodes * per_node >= processes_min else 1)
    if nodes * per_node < processes_min:
        per_node = -(-processes_min // nodes)
    return Script(rng, nodes, per_node)


def _runs(size: Size, script: Script, transfers: int, users: int) -> int:
    """Runs for each of `users` processes in each of `transfers` transfers, so that the records are about as many as may be."""
    left = size.records - script.processes - 2 * users * transfers
    return max(left // (users * transfers), 1)


def _seconds(rng: np.random.Generator, runs: int, run_bytes: int) -> float:
    """How long a process takes for a transfer."""
    return max(runs * min(run_bytes / rng.uniform(*PACE_BYTES), WINDOW_S), TRANSFER_MIN_S)


def _request(rng: np.random.Generator) -> tuple[int, int]:
    """Size of an operation, and operations a run."""
    return int(rng.choice(TRANSFER_SIZES)), int(rng.integers(1, 65))


def _own_files(script: Script, op: str, name: str, who: np.ndarray, runs: int, size: int, count: int) -> None:
    """Each of `who` has a file of its own, from its beginning on."""
    file = script.files(name, ".dat", len(who))
    script.transfer(op, who, file, _seconds(script.rng, runs, size * count), runs=runs, count=count, uneven=True, size=size, stride=size)


def _one_file(script: Script, op: str, name: str, who: np.ndarray, runs: int, size: int, count: int) -> None:
    """All of `who` use one file: each a segment of it, or each every so-manieth block."""
    file = np.repeat(script.files(name, ".dat", 1), len(who))
    seconds, place = _seconds(script.rng, runs, size * count), np.arange(len(who))
    if script.rng.random() < 0.5:
        layout = {"offset": place * (runs * count * size), "stride": size, "run_step": count * size}
    else:
        layout = {"offset": place * size, "stride": len(who) * size, "run_step": len(who) * count * size}
    script.transfer(op, who, file, seconds, runs=runs, count=count, size=size, **layout)


def _group_files(script: Script, op: str, name: str, who: np.ndarray, runs: int, size: int, count: int) -> None:
    """Groups of `who`, no more than half of them each, share a file; `who` are at least four."""
    groups = int(script.rng.integers(2, len(who) // 2 + 1))
    place = np.arange(len(who))
    file = script.files(name, ".dat", groups)[place % groups]
    script.transfer(
        op, who, file, _seconds(script.rng, runs, size * count), runs=runs, count=count, size=size, offset=place // groups * (runs * count * size),
        stride=size, run_step=count * size,
    )  # fmt: skip


def _some_aggregators(script: Script, op: str, name: str, who: np.ndarray, runs: int, size: int, count: int) -> None:
    """A quarter of `who`, at least two, write for the rest, each to its own file; `who` are at least four."""
    chosen = who[:: len(who) // max(len(who) // 4, 2)]
    _own_files(script, op, name, chosen, runs * len(who) // len(chosen), size, count)


_LAYOUTS = {"N-N": [_own_files], "N-1": [_one_file], "N-M": [_group_files, _some_aggregators]}


def _rounds(script: Script, op: str, name: str, layout: Callable, times: int, size: Size, *, breaks: bool, transfers: int) -> None:
    """A layout, `times` times over, each time with new files."""
    runs, request = _runs(size, script, transfers, script.processes), _request(script.rng)
    for number in range(times):
        script.pause(breaks=breaks)
        layout(script, op, f"{name}.{number:04d}.", script.everyone, runs, *request)


def _parallel(mode: str, program: str, processes_min: int) -> Callable[[np.random.Generator, Size], Model]:
    """A parallel program that reads its input, perhaps, and writes its result once or a few times, both in one mode."""

    def kind(rng: np.random.Generator, size: Size) -> Model:
        script = _script(rng, size, RECORDS_MIN, processes_min)
        reads, writes = int(rng.integers(0, 2)), int(rng.integers(1, 4))
        layout = _LAYOUTS[mode][int(rng.integers(len(_LAYOUTS[mode])))]
        if reads:
            _rounds(script, "read", "input", layout, reads, size, breaks=False, transfers=reads + writes)
        _rounds(script, "write", "output", layout, writes, size, breaks=bool(rng.random() < 0.5), transfers=reads + writes)
        return script.model(mode.lower(), program, mode_read=mode if reads else None, mode_write=mode)

    return kind


def _serial(rng: np.random.Generator, size: Size) -> Model:
    """A parallel program whose first process does all I/O."""
    script = _script(rng, size, 1 + RECORDS_MIN, 2)
    runs = _runs(size, script, 2, 1)
    request = _request(rng)
    first = script.everyone[:1]
    _own_files(script, "read", "input", first, runs, *request)
    script.pause(breaks=bool(rng.random() < 0.5))
    _own_files(script, "write", "result", first, runs, *request)
    return script.model("1-1", "serial_io", mode_read="1-1", mode_write="1-1")


def _checkpoint(rng: np.random.Generator, size: Size) -> Model:
    """A simulation that reads its last checkpoint, computes, and writes one every so often, to new files."""
    script = _script(rng, size, 4 * RECORDS_MIN, 4)
    mode = str(rng.choice(list(_LAYOUTS)))
    layout = _LAYOUTS[mode][int(rng.integers(len(_LAYOUTS[mode])))]
    times = int(rng.integers(2, 11))
    _rounds(script, "read", "restart", layout, 1, size, breaks=False, transfers=times + 1)
    _rounds(script, "write", "checkpoint", layout, times, size, breaks=True, transfers=times + 1)
    return script.model("checkpoint", "climate", mode_read=mode, mode_write=mode)


def _random_read(rng: np.random.Generator, size: Size) -> Model:
    """Loaders of training data, no MPI program: small reads here and there in one file or in a shard each."""
    script = _script(rng, size, RECORDS_MIN, 2)
    shared = bool(rng.random() < 0.5)
    who = script.everyone
    file = np.repeat(script.files("samples", ".bin", 1), len(who)) if shared else script.files("shard", ".bin", len(who))
    runs = _runs(size, script, 1, len(who))
    # The first pass takes any two for a run with a stride; the third breaks it.
    request = int(rng.choice(RANDOM_SIZES))
    seconds = runs * 2 / float(rng.uniform(*PACE_READS))
    script.transfer("read", who, file, seconds, runs=runs, count=2, size=request, scatter=1 << int(rng.integers(28, 38)))
    return script.model("random-read", "train.py", mode_read="N-1" if shared else "N-N", mode_write=None, ranked=False)


def _storm(rng: np.random.Generator, size: Size) -> Model:
    """A workflow that makes and removes heaps of small files."""
    script = _script(rng, size, 1 + STORM_OPS, 2)
    each = max((size.records - script.processes) // (STORM_OPS * script.processes), 1)
    file = script.files("part", ".tmp", each * script.processes)[::each]
    script.storm(file, each, int(rng.integers(1, 4 * KIB)), each / float(rng.uniform(*PACE_FILES)))
    return script.model("metadata-storm", "workflow", mode_read=None, mode_write="N-N", ranked=False)


KINDS: dict[str, Callable[[np.random.Generator, Size], Model]] = {
    "n-n": _parallel("N-N", "solver_nn", 2),
    "n-m": _parallel("N-M", "solver_nm", 4),
    "n-1": _parallel("N-1", "solver_n1", 2),
    "1-1": _serial,
    "checkpoint": _checkpoint,
    "random-read": _random_read,
    "metadata-storm": _storm,
}
