"""The demo's programs: what runs, with which arguments, and why one of them cannot."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bellrock import paths

MIB = 1 << 20
# What the programs take in all at `scale` 1, s.
SECONDS_AT_1 = 40.0


@dataclass(frozen=True)
class DemoProgram:
    """One job. `label` begins its id; `prepare` makes what it reads; `skipped` says why it cannot run (then `argv` is empty)."""

    label: str
    about: str
    argv: tuple[str, ...] = ()
    prepare: Callable[[], None] = lambda: None
    skipped: str = ""


def programs(work: Path, output: Path, scale: float = 1.0) -> list[DemoProgram]:
    """All programs, for an existing `work` directory, which is watched, and `output`, which is not.

    `scale` stretches what takes time. Raises BellrockError when our own program has not been built."""
    return [*_patterns(work, scale), _simulation(work, scale), *_fio(work, output, scale), _dd(work), _copy(work), _mpi(work, scale)]


def _folder(work: Path, label: str) -> Path:
    folder = work / label
    folder.mkdir()
    return folder


def _patterns(work: Path, scale: float) -> list[DemoProgram]:
    binary = str(paths.artefact("patterns"))

    def make(label: str, about: str, *words: str, size: int, request: int, seconds: float = 0.0) -> DemoProgram:
        argv = [binary, "--mode", label, "--dir", str(_folder(work, label)), "--op", "both", *words]
        argv += ["--bytes-per-process", str(size), "--request", str(request)]
        if seconds:
            argv += ["--rate", str(int(size / (seconds * scale)))]
        return DemoProgram(label, about, tuple(argv))

    return [
        make("nn", "N-N: 8 processes write and read a file each", "--processes", "8", size=16 * MIB, request=128 << 10, seconds=4),
        make("n1", "N-1: 8 processes share one file, strided", "--processes", "8", size=8 * MIB, request=64 << 10, seconds=2),
        make("nm", "N-M: 8 processes share two files", "--processes", "8", "--files", "2", size=16 * MIB, request=256 << 10),
        make("11", "1-1: one of 4 processes does the I/O, through stdio", "--processes", "4", "--stdio", size=64 * MIB, request=32 << 10),
    ]


def _simulation(work: Path, scale: float) -> DemoProgram:
    folder = _folder(work, "simulation")
    script = Path(__file__).with_name("simulation.py")

    def prepare() -> None:
        (folder / "input.dat").write_bytes(os.urandom(4 * MIB))

    # 27 steps of 0.2 s from one checkpoint to the next: longer than the gap that ends a phase.
    argv = (sys.executable, str(script), str(folder), "54", "27", str(24 * MIB), f"{0.2 * scale:.4f}")
    return DemoProgram("simulation", "Python: computes, and writes a checkpoint every few seconds", argv, prepare)


def _fio(work: Path, output: Path, scale: float) -> list[DemoProgram]:
    if shutil.which("fio") is None:
        return [DemoProgram("fio", "fio", skipped="fio is not installed (Debian: apt install fio)")]
    seconds = max(round(3 * scale), 1)

    def make(label: str, about: str, *words: str) -> DemoProgram:
        common = (
            "--ioengine=psync",
            "--fallocate=none",
            "--output-format=json",
            f"--output={output / label}.fio.json",
            f"--directory={_folder(work, label)}",
        )
        return DemoProgram(label, about, ("fio", f"--name={label}", *common, *words))

    return [
        make(
            "fio-write",
            "fio: 2 processes write sequentially",
            "--rw=write",
            "--bs=256k",
            "--size=64m",
            "--numjobs=2",
            "--rate=48m",
            "--group_reporting",
        ),
        make(
            "fio-random",
            "fio: 2 processes read and write at random, 4 KiB",
            *("--rw=randrw", "--bs=4k", "--size=16m", "--numjobs=2", "--rate_iops=1000", "--group_reporting"),
            *("--time_based", f"--runtime={seconds}"),
        ),
    ]


def _dd(work: Path) -> DemoProgram:
    target = _folder(work, "dd") / "image"
    return DemoProgram(
        "dd", "dd: one stream of 1 MiB blocks", ("dd", "if=/dev/zero", f"of={target}", "bs=1M", "count=256", "conv=fsync", "status=none")
    )


def _copy(work: Path) -> DemoProgram:
    folder = _folder(work, "cp")

    def prepare() -> None:
        for number in range(400):
            inside = folder / "tree" / f"{number // 20:02d}"
            inside.mkdir(parents=True, exist_ok=True)
            (inside / f"{number:03d}").write_bytes(bytes(64 * number))

    return DemoProgram("cp", "cp -r: 400 small files", ("cp", "-r", str(folder / "tree"), str(folder / "copy")), prepare)


def _mpi(work: Path, scale: float) -> DemoProgram:
    def no(why: str) -> DemoProgram:
        return DemoProgram("mpi", "MPI", skipped=why)

    mpirun = shutil.which("mpirun")
    if mpirun is None:
        return no("Open MPI is not installed (Debian: apt install openmpi-bin libopenmpi-dev)")
    binary = paths.build_dir().absolute() / "mpi_checkpoint"
    if not binary.is_file():
        return no(f"{binary} was not built (Debian: apt install libopenmpi-dev; then `make build`)")
    try:
        version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return no(f"{mpirun} --version: {error}")
    if "Open MPI" not in version:
        return no(f"{mpirun} is not Open MPI's")
    checkpoints = max(round(4 * scale), 2)
    argv = (
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "4",
        str(binary),
        str(_folder(work, "mpi")),
        str(checkpoints),
        "32",
        str(256 << 10),
    )
    return DemoProgram("mpi", "MPI-IO: 4 ranks write checkpoints into one file each time", argv)
