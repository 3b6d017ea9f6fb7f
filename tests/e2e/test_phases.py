"""Phases of real programs against their own clocks. How far each is off is printed: pytest -s."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.site import PROGRAMS, Site

PAUSE_S = 11
TOLERANCE_NS = 2 * 10**9
MIB = 1 << 20
RANKS, FILES = 4, 3000


def phases_and_own(site: Site, command: list[str | Path], job: str, data: Path) -> tuple[dict, list[dict]]:
    """The profile of a program and its phases, which begin and end when the program says."""
    with open(site.folder / f"{job}.measured", "w") as out:
        site.run(command, job, watch=data, stdout=out)
    own, profile = json.loads((site.folder / f"{job}.measured").read_text()), site.profile(job)
    assert profile["phases"] == len(own), (profile["phase_list"], own)
    off_ns = [abs(phase[f"{edge}_ns"] - instant) for phase, span in zip(profile["phase_list"], own, strict=True) for edge, instant in zip(("start", "end"), span, strict=True)]
    print(f"\n{Path(str(command[-4])).name if command[0] == 'mpirun' else Path(str(command[1])).name}: {len(own)} phases, edges off by {max(off_ns) / 1e9:.3f} s at most")
    assert max(off_ns) <= TOLERANCE_NS
    return profile, profile["phase_list"]


def new_job(site: Site) -> tuple[str, Path]:
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    return job, data


def mpi(site: Site, compiler: str, name: str, data: Path, count: int) -> list[str | Path]:
    """The command of programs/NAME.c on RANKS ranks, which is compiled here."""
    for needed, package in (("mpirun", "openmpi-bin"), (compiler, "libhdf5-openmpi-dev" if compiler == "h5pcc" else "libopenmpi-dev")):
        if shutil.which(needed) is None:
            pytest.skip(f"there is no {needed}. Run: apt-get install {package}")
    subprocess.run([compiler, "-O2", "-o", name, str(PROGRAMS / f"{name}.c")], check=True, cwd=site.folder)
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), site.folder / name, data, str(count), str(PAUSE_S)]


def test_checkpoints_are_phases_and_the_log_between_them_is_none(site: Site) -> None:
    job, data = new_job(site)
    profile, phases = phases_and_own(site, [sys.executable, PROGRAMS / "checkpoints.py", data, 3, PAUSE_S], job, data)
    assert len(phases) == 3
    for phase in phases:
        assert phase["write_bytes"] >= 64 * MIB and phase["write_ops"] >= 64 and phase["nodes"] == 1
    in_phases = sum(phase["write_bytes"] for phase in phases)
    assert 0 < profile["write_bytes"] - in_phases < 10_000, "lines of log"


def test_mpi_ranks_that_write_into_one_file_over_a_log(site: Site) -> None:
    job, data = new_job(site)
    profile, phases = phases_and_own(site, mpi(site, "mpicc", "mpi_phases", data, 3), job, data)
    assert len(phases) == 3
    for phase in phases:
        assert 16 * RANKS * MIB <= phase["write_bytes"] < 16 * RANKS * MIB + 1000 and phase["io_mode_write"] == "N-1"
    assert 0 < profile["write_bytes"] - sum(phase["write_bytes"] for phase in phases) < 10_000, "lines of log"


def test_hdf5_files_that_ranks_write_together_and_read_back(site: Site) -> None:
    job, data = new_job(site)
    _, phases = phases_and_own(site, mpi(site, "h5pcc", "hdf5_phases", data, 3), job, data)
    written, read = phases[:3], phases[3]
    assert all(8 * RANKS * MIB <= phase["write_bytes"] < 9 * RANKS * MIB and phase["read_bytes"] < MIB for phase in written)
    assert 8 * RANKS * MIB <= read["read_bytes"] < 9 * RANKS * MIB and read["write_bytes"] == 0


def test_many_files_are_made_looked_up_and_removed(site: Site) -> None:
    job, data = new_job(site)
    _, phases = phases_and_own(site, [sys.executable, PROGRAMS / "many_files.py", data, FILES, PAUSE_S], job, data)
    # An open and a close of each, then a stat, then an unlink.
    assert [phase["metadata_ops"] for phase in phases] == [2 * FILES, FILES, FILES]
    assert all(phase["read_bytes"] == phase["write_bytes"] == 0 and phase["mdops"] > 0 for phase in phases)


def test_a_reader_then_forked_writers_with_threads_then_a_reader(site: Site) -> None:
    job, data = new_job(site)
    (data / "input").write_bytes(bytes(32 * MIB))
    profile, (first, written, last) = phases_and_own(site, [sys.executable, PROGRAMS / "stages.py", data / "input", data, PAUSE_S], job, data)
    assert (first["read_bytes"], first["write_bytes"], first["io_mode_read"]) == (32 * MIB, 0, "1-1")
    # A file each of three processes alone, of four: the one that reads writes nothing.
    assert (written["read_bytes"], written["write_bytes"], written["io_mode_write"]) == (0, 3 * 2 * 8 * MIB, "N-M")
    assert (last["read_bytes"], last["write_bytes"]) == (3 * 2 * 8 * MIB, 0)
    assert profile["read_bytes"] == sum(phase["read_bytes"] for phase in (first, last)), "nothing lies beside the phases"
