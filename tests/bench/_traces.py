"""Records of real programs under watch: what the agents of some nodes sent of one job each.

All nodes are this machine: each has rings and an agent of its own, and of an MPI program two ranks. A program that is not there is left out, and it is said what
to install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from pipeline.ingest import Ingest
from pipeline.schema import KINDS
from pipeline.sink import StoreSink
from pipeline.store import Appended, decoded
from pipeline.store.arrow import as_table
from pipeline.store.batch import ENDED
from tests.bench._watch import LIBRARY, PROGRAMS, ROOT, agent, watch_environment, workplace

NODES, PER_NODE = 4, 2
RANKS = NODES * PER_NODE
LIMIT_S = 300
# Of what `cp -r` copies.
TREE, FILES_MAX, FILE_BYTES_MAX = Path("/usr/include"), 2000, 1 << 20
# A rank's rings are its node's, and the library is the program's alone, not mpirun's.
ON_NODE = 'export BELLROCK_RINGS="$RINGS/$((OMPI_COMM_WORLD_RANK / PER_NODE))" LD_PRELOAD="$LIBRARY"; exec "$@"'


@dataclass(frozen=True)
class Trace:
    """Of one job of a program. lines: its runs as the agents sent them, JSON, by node and number. table: the same, with the schema's columns."""

    name: str
    lines: list[bytes]
    table: pa.Table


@dataclass(frozen=True)
class Program:
    """needs: commands that have to be there. package: what to install where one is not. command: from a folder for what is no data, and one that is watched,
    the command to run. ranks: how many of it run as one MPI program; 1: one alone."""

    name: str
    needs: tuple[str, ...]
    package: str
    command: Callable[[Path, Path], Sequence[str]]
    ranks: int = RANKS


class _Kept:
    """A store that keeps what comes as it came, of any kind."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def take(self, payloads: Sequence[bytes], decode: Callable[[bytes], Any] = decoded) -> Appended:
        self.lines += payloads
        return Appended(runs=len(payloads))


def traces() -> Iterator[Trace]:
    """One of each program that is there. Raises RuntimeError for one that fails, or whose records are missing."""
    for program in PROGRAMS_RUN:
        missing = [name for name in program.needs if shutil.which(name) is None]
        if missing:
            print(f"  {program.name} is left out, for there is no {missing[0]}. Run: apt-get install {program.package}", flush=True)
            continue
        yield trace(program)


def trace(program: Program) -> Trace:
    """Runs a program under watch. Raises RuntimeError where it fails or a record is missing."""
    with workplace() as place:
        data, rings, more = place / "data", place / "rings", place / "more"
        for folder in (data, rings, more):
            folder.mkdir()
        command = [str(word) for word in program.command(more, data)]
        kept = _Kept()
        ingest = Ingest(StoreSink(kept), host="127.0.0.1", port=0)
        ingest.start()
        try:
            with ExitStack() as agents:
                for node in range(NODES if program.ranks > 1 else 1):
                    own = place / f"node{node}"
                    own.mkdir()
                    agents.enter_context(agent(own, rings / str(node), ingest.port, settings=f'node = "cn{node + 1:04d}"\n'))
                _run(program, command, rings, data)
        finally:
            ingest.stop()
    return _trace(program.name, kept.lines)


def _run(program: Program, command: list[str], rings: Path, data: Path) -> None:
    env = watch_environment(rings / "0", data) | {"BELLROCK_JOB": program.name}
    if program.ranks > 1:
        del env["LD_PRELOAD"]
        env |= {"RINGS": str(rings), "PER_NODE": str(PER_NODE), "LIBRARY": str(LIBRARY), "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_NUM_THREADS": "1"}
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", *root, "-n", str(program.ranks), "sh", "-c", ON_NODE, "sh", *command]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, cwd=data)
    if done.returncode:
        raise RuntimeError(f"{program.name} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")


def _trace(name: str, lines: list[bytes]) -> Trace:
    """The runs among what came. Raises RuntimeError unless all came of each node, once, to the sample with which its agent ends."""
    events = sorted(((orjson.loads(line), line) for line in lines), key=lambda pair: (pair[0]["node"], pair[0]["seq"]))
    for node, own in groupby((event for event, _ in events), key=itemgetter("node")):
        *before, last = own
        if [event["seq"] for event in (*before, last)] != list(range(1, len(before) + 2)) or not last.get("values", {}).get(ENDED):
            raise RuntimeError(f"{name}: not all that the agent of {node} had came. To retry: make bench ONLY=second_pass")
    runs = [(event, line) for event, line in events if event["kind"] == "run"]
    if not runs:
        raise RuntimeError(f"{name}: its agents sent no runs")
    kind = KINDS["run"]
    return Trace(name, [line for _, line in runs], as_table([kind.row(event) for event, _ in runs], kind.arrow))


def _lammps(more: Path, data: Path) -> Sequence[str]:
    return ["lmp", "-in", str(PROGRAMS / "melt.lammps"), "-var", "out", str(data), "-log", "none"]


def _hdf5(more: Path, data: Path) -> Sequence[str]:
    _compile(["h5pcc", "-O2"], "hdf5_steps", more)
    return [str(more / "hdf5_steps"), str(data), "24"]


def _netcdf(more: Path, data: Path) -> Sequence[str]:
    _compile(["cc", "-O2"], "netcdf_steps", more, "-lnetcdf")
    return ["sh", "-c", 'exec "$0" "$1/history.$OMPI_COMM_WORLD_RANK.nc" 200', str(more / "netcdf_steps"), str(data)]


def _checkpoint(more: Path, data: Path) -> Sequence[str]:
    return [str(ROOT / "build" / "mpi_checkpoint"), str(data), "20", "256", "65536"]


def _copy(more: Path, data: Path) -> Sequence[str]:
    """The beginning of the tree is copied before, unwatched, so that what is read and written is watched."""
    source, files = data / "source", 0
    for folder, folders, names in os.walk(TREE):
        folders.sort()
        target = source / Path(folder).relative_to(TREE)
        target.mkdir(parents=True)
        for name in sorted(names):
            path = Path(folder, name)
            if files < FILES_MAX and path.is_file() and not path.is_symlink() and path.stat().st_size <= FILE_BYTES_MAX:
                shutil.copyfile(path, target / name)
                files += 1
        if files >= FILES_MAX:
            break
    return ["cp", "-r", str(source), str(data / "copy")]


def _compile(compiler: list[str], name: str, place: Path, *libraries: str) -> None:
    subprocess.run([*compiler, "-o", name, str(PROGRAMS / f"{name}.c"), *libraries], check=True, cwd=place)


PROGRAMS_RUN = (
    Program("lammps", ("mpirun", "lmp"), "lammps", _lammps),
    Program("hdf5", ("mpirun", "h5pcc"), "libhdf5-openmpi-dev", _hdf5),
    Program("netcdf", ("mpirun", "nc-config"), "libnetcdf-dev", _netcdf),
    Program("mpi_checkpoint", ("mpirun",), "openmpi-bin libopenmpi-dev", _checkpoint),
    Program("cp", ("cp",), "coreutils", _copy, ranks=1),
)
