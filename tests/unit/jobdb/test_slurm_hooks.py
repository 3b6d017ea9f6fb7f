"""Slurm's prolog and epilog, run by hand: whatever is put before them they end with 0, soon, and write nothing but an event into its user's own folder."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

HOOKS = Path(__file__).resolve().parents[3] / "collectors/slurm"
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
# Users of any Debian.
ADA, BOB = 5, 7
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a job's user, as Slurm's prolog does: run the tests as root")


@pytest.fixture
def rings(tmp_path):
    """As an agent makes it, where its users can come."""
    folder = tmp_path / "rings"
    folder.mkdir()
    folder.chmod(0o1777)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return folder


def run(rings, shell="dash", **more):
    environ = {
        "PATH": os.environ["PATH"], "BELLROCK_RINGS": str(rings), "SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURM_JOB_ID": "42", "SLURM_JOB_UID": str(ADA),
        "SLURM_JOB_GID": str(ADA), "SLURM_JOB_USER": "ada", "SLURM_JOB_NAME": "a job", "SLURM_CLUSTER_NAME": "tiny", "SLURMD_NODENAME": "cn1",
    }  # fmt: skip
    began_s = time.monotonic()
    command = [shell, *(["--posix"] if shell == "bash" else []), str(HOOKS / "job_event")]
    done = subprocess.run(command, env={name: value for name, value in (environ | more).items() if value is not None}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "" and time.monotonic() - began_s < 30, done.stderr
    return [json.loads(path.read_text()) for path in sorted(rings.glob("*/*.job"))]


def test_a_job_begins_and_ends(rings):
    before_ns = time.time_ns()
    (event,) = run(rings)
    assert event | {"time": 0} == {
        "event": "start", "job": "42", "launch": "slurm-42-0", "cluster": "tiny", "program": "ajob", "command": None, "user": "ada", "time": 0, "exit_code": None,
    }  # fmt: skip
    assert before_ns <= event["time"] <= time.time_ns()
    (folder,) = rings.iterdir()
    assert folder.name == str(ADA) and folder.stat().st_uid == ADA and folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_uid == ADA for path in folder.iterdir())
    events = run(rings, SLURM_SCRIPT_CONTEXT="epilog_slurmd", SLURM_JOB_EXIT_CODE="768")
    assert [(one["event"], one["exit_code"], one["launch"]) for one in events] == [("start", None, "slurm-42-0"), ("end", 3, "slurm-42-0")]


@pytest.mark.parametrize("shell", SHELLS)
def test_whatever_the_environment_holds(rings, shell):
    run(rings, shell, SLURM_JOB_NAME='"; $(touch /x) `id` %s %n\n\\', SLURM_JOB_USER="ü" * 5000, SLURM_CLUSTER_NAME="x" * 100_000)
    run(rings, shell, SLURM_RESTART_COUNT='0","x":"y', SLURM_JOB_START_TIME="\n1", SLURM_JOB_GID="-1")
    run(rings, shell, SLURM_RESTART_COUNT="3", SLURM_JOB_START_TIME="1763800000", SLURM_JOB_GID=None)
    for code in ("08", "9" * 23, "-1", "0x10", "", "9"):
        run(rings, shell, SLURM_SCRIPT_CONTEXT="epilog_slurmd", SLURM_JOB_EXIT_CODE=code)
    events = run(rings, shell, SLURMD_NODENAME="../../../etc/x")
    assert len(events) == 10 and {one["exit_code"] for one in events} == {None, 137}
    assert {one["launch"] for one in events} == {"slurm-42-0", "slurm-42-3-1763800000"}


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_no_job_or_no_user_writes_nothing(rings, shell, tmp_path):
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    for uid in ("4294967295", "4294967296", "0"):
        (rings / uid).symlink_to(target)
    for more in ({"SLURM_JOB_UID": uid} for uid in ("4294967295", "4294967296", "0", "-1", "", "5;id", "9" * 30)):
        assert run(rings, shell, **more) == []
    assert run(rings, shell, SLURM_JOB_ID="42/../x") == [] and run(rings, shell, SLURM_SCRIPT_CONTEXT="x") == []
    assert list(target.iterdir()) == []


def test_a_folder_that_is_not_the_users_own_is_left_alone(rings, tmp_path):
    his, place = rings / str(BOB), rings / str(ADA)
    his.mkdir()
    his.chmod(0o777)
    os.chown(his, BOB, BOB)
    for make in (lambda: place.symlink_to(his), lambda: place.write_text(""), lambda: os.mkfifo(place), lambda: (place.mkdir(), place.chmod(0o777), os.chown(place, BOB, BOB))):
        make()
        assert run(rings) == [] and list(his.iterdir()) == []
        shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()


def test_where_there_is_no_place_for_rings(tmp_path):
    assert run(tmp_path / "none") == []


def test_each_task_is_watched(tmp_path):
    library = tmp_path / "libbellrock.so"
    library.touch()

    def lines(**environ):
        done = subprocess.run(["dash", str(HOOKS / "task_prolog")], env={"PATH": os.environ["PATH"], "BELLROCK_LIBRARY": str(library)} | environ, capture_output=True, text=True)
        assert done.returncode == 0
        return done.stdout.splitlines()

    assert lines() == [f"export LD_PRELOAD={library}"]
    assert lines(LD_PRELOAD="/a.so", BELLROCK_RINGS="/r") == [f"export LD_PRELOAD={library}:/a.so", "export BELLROCK_RINGS=/r"]
    assert lines(LD_PRELOAD=f"/a.so:{library}") == [] and lines(BELLROCK_LIBRARY=str(tmp_path)) == [] and lines(BELLROCK_LIBRARY="/none") == []
