"""`bellrock run --quiet` with the real parts: it leaves without waiting, and the next command has all of it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BELLROCK_BUILD", ROOT / "build"))
MISSING = [name for name in ("bellrock-agent", "libbellrock.so", "patterns") if not (BUILD / name).is_file()]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not in {BUILD}. Run: make build")


def bellrock(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "bellrock", *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def agents(state_dir: Path) -> list[int]:
    """Every living agent of this state, also one that no file tells of."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if str(state_dir / "agent.toml").encode() in (place / "cmdline").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:
            pass
    return found


def test_what_a_quiet_run_leaves_is_complete_at_the_next_command(state, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLROCK_BUILD", str(BUILD))
    truth = {}
    # Some end before a server has come up, some while it does, one after.
    for number, pause in enumerate(("0", "0.02", "0.05", "0.3", "0.8", "2")):
        folder = tmp_path / str(number)
        folder.mkdir()
        argv = [str(BUILD / "patterns"), "--dir", str(folder), "--op", "both", "--processes", "2", "--bytes-per-process", "1048576"]
        done = bellrock("run", "--quiet", "--name", f"j{number}", "--", "sh", "-c", f'"$@"; sleep {pause}; exit 4', "sh", *argv)
        assert (done.returncode, done.stderr) == (4, "")
        truth[f"j{number}"] = json.loads(done.stdout)
    try:
        end = time.monotonic() + 60
        while True:
            jobs = {job["job_id"]: job for job in json.loads(bellrock("jobs", "--json").stdout)}
            # Figures come with the profile, a moment after a job has settled.
            if set(jobs) == set(truth) and all(job["settled"] and job["read_bytes"] is not None for job in jobs.values()):
                break
            assert time.monotonic() < end, jobs
        for name, expected in truth.items():
            for figure in ("read_bytes", "write_bytes", "read_ops", "write_ops", "files"):
                assert jobs[name][figure] == expected[figure], (name, figure)
            assert jobs[name]["exit_code"] == 4
        # What a quiet run asked to end has ended, and nobody was forgotten.
        while agents(state.state_dir):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        for pid in agents(state.state_dir):
            os.kill(pid, signal.SIGKILL)
