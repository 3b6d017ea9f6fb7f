"""The real parts together, through the command: server, agent, library, store and API, killed and restarted."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bellrock.agent import spool_holder
from bellrock.state import where
from tests.wait import until

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BELLROCK_BUILD", ROOT / "build"))
MISSING = [name for name in ("bellrock-agent", "libbellrock.so", "patterns") if not (BUILD / name).is_file()]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not in {BUILD}. Run: make build")

MIB = 1 << 20


def bellrock(*words: str, timeout_s: float = 120) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "bellrock", *words], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)


def agent_pid(state_dir: Path) -> int:
    return spool_holder(state_dir / "spool")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def start_server(state, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], subprocess.Popen]]:
    """Starts `bellrock server` and returns once it answers; whatever runs is ended afterwards, the agent too."""
    monkeypatch.setenv("BELLROCK_BUILD", str(BUILD))
    started: list[subprocess.Popen] = []

    def start() -> subprocess.Popen:
        server = subprocess.Popen([sys.executable, "-m", "bellrock", "server"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.append(server)
        assert server.stdout.readline().startswith("pages at http://127.0.0.1:")
        return server

    yield start
    for server in started:
        server.kill()
        server.wait()
    pid = agent_pid(state.state_dir)
    if pid and alive(pid):
        os.kill(pid, signal.SIGKILL)


def patterns(folder: Path, *words: str) -> list[str]:
    return [str(BUILD / "patterns"), "--dir", str(folder), "--op", "both", *words]


def figures(job: str) -> dict:
    done = bellrock("show", job, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["profile"]


def assert_exact(profile: dict, truth: dict) -> None:
    for ours, theirs in (
        ("processes", "processes"),
        ("io_processes", "io_processes"),
        ("files", "files"),
        ("metadata_ops", "metadata_ops"),
    ):
        assert profile[ours] == truth[theirs], ours
    for name in ("read_bytes", "write_bytes", "read_ops", "write_ops"):
        assert profile[name] == truth[name], name
    for direction in ("read", "write"):
        assert profile[f"bandwidth_avg_{direction}"] == pytest.approx(truth[f"bandwidth_{direction}"], rel=0.005)


@pytest.mark.parametrize(("mode", "name"), [("nn", "N-N"), ("n1", "N-1"), ("nm", "N-M"), ("11", "1-1")])
def test_the_truth_of_each_pattern_without_a_server(start_server, tmp_path: Path, mode: str, name: str) -> None:
    done = bellrock("run", "--name", mode, "--", *patterns(tmp_path, "--mode", mode, "--processes", "6", "--files", "2", "--rate", str(8 * MIB)))
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)
    profile = figures(mode)
    assert_exact(profile, truth)
    assert profile["io_mode_read"] == profile["io_mode_write"] == name


def test_a_server_begins_and_ends_in_order(start_server, state) -> None:
    server = start_server()
    told = where(state.state_dir)
    assert told.pid == server.pid and (state.state_dir / "server.json").stat().st_mode & 0o777 == 0o600
    agent = agent_pid(state.state_dir)
    second = bellrock("server")
    assert second.returncode == 3 and str(server.pid) in second.stderr and told.url in second.stderr
    assert bellrock("run", "--name", "j", "--", "true").returncode == 0
    assert [job["job_id"] for job in json.loads(bellrock("jobs", "--json").stdout)] == ["j"]
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
    assert where(state.state_dir) is None and not alive(agent) and agent_pid(state.state_dir) == 0
    assert not list(state.rings_dir.glob("*/*.job"))


def test_a_killed_server_loses_nothing_and_comes_back_to_its_port(start_server, state, tmp_path: Path) -> None:
    server = start_server()
    before, orphan = where(state.state_dir), agent_pid(state.state_dir)
    argv = patterns(tmp_path, "--mode", "nn", "--bytes-per-process", str(4 * MIB), "--request", "4096", "--rate", str(MIB))
    running = subprocess.Popen(
        [sys.executable, "-m", "bellrock", "run", "--name", "j", "--", *argv],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    written = tmp_path / "nn.0000"
    until(lambda: written.exists() and written.stat().st_size > MIB, "a second's records to be on their way")
    server.kill()
    server.wait()
    until(lambda: (tmp_path / "nn.0000").stat().st_size > 3 * MIB, "the program to write on")
    assert alive(orphan)
    start_server()
    after = where(state.state_dir)
    assert after.url == before.url
    assert not alive(orphan) and alive(agent_pid(state.state_dir))
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0 and "job j" in err
    assert_exact(figures("j"), json.loads(out))


def test_what_a_killed_server_was_to_get_is_no_other_servers(start_server, state, tmp_path: Path, monkeypatch) -> None:
    server, orphan = start_server(), agent_pid(state.state_dir)
    server.kill()
    server.wait()
    with monkeypatch.context() as other:
        other.setenv("BELLROCK_STATE", str(tmp_path / "other"))
        other.setenv("BELLROCK_RINGS", str(tmp_path / "other-rings"))
        stranger = start_server()
        time.sleep(12)  # longer than the orphan's sample period: it has something to ship
        assert alive(orphan)
        status = json.loads(urllib.request.urlopen(where(tmp_path / "other").url + "/api/v1/status", timeout=10).read())
        assert len(status["agents"]) == 1, "only its own agent delivered"
        stranger.send_signal(signal.SIGTERM)
        assert stranger.wait(60) == 0


def test_a_killed_agent_is_started_again_and_loses_nothing(start_server, state, tmp_path: Path) -> None:
    start_server()
    first = agent_pid(state.state_dir)
    argv = patterns(tmp_path, "--mode", "n1", "--bytes-per-process", str(2 * MIB), "--request", "4096", "--rate", str(MIB))
    running = subprocess.Popen(
        [sys.executable, "-m", "bellrock", "run", "--name", "j", "--", *argv],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: list(tmp_path.glob("n1.*")), "the program's file")
    os.kill(first, signal.SIGKILL)
    until(lambda: agent_pid(state.state_dir) not in (0, first), "the next agent")
    out, _ = running.communicate(timeout=120)
    assert_exact(figures("j"), json.loads(out))


def test_the_next_command_delivers_what_a_killed_run_left(start_server, state, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "bellrock", "run", "--name", "j", "--", *patterns(tmp_path, "--rate", str(8 * MIB))]
    running = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    until(lambda: where(state.state_dir), "the server of the command")
    running.kill()
    # The program goes on; its output tells when it has ended.
    truth = json.loads(running.stdout.read())
    running.wait()
    until(lambda: figures("j")["write_bytes"] == truth["write_bytes"] and figures("j")["read_bytes"] == truth["read_bytes"], "all bytes")


def test_a_killed_run_does_not_run_for_ever(start_server, state, tmp_path: Path) -> None:
    start_server()
    argv = [sys.executable, "-m", "bellrock", "run", "--name", "j", "--", *patterns(tmp_path, "--rate", str(8 * MIB))]
    running = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    kept = state.rings_dir / str(os.getuid())
    until(lambda: list(kept.glob("*.running.job")), "the agent to have the job's start")
    first = agent_pid(state.state_dir)
    os.kill(first, signal.SIGKILL)
    running.kill()
    truth = json.loads(running.stdout.read())  # the program goes on
    running.wait()

    def told() -> dict:
        return json.loads(bellrock("show", "j", "--json").stdout)

    until(lambda: told()["job"]["settled"] and told()["profile"]["write_bytes"] == truth["write_bytes"], "the job's end")
    job = told()["job"]
    assert (job["state"], job["exit_code"]) == ("failed", None)
    assert not list(kept.glob("*.job"))


def test_the_demo_prints_an_object_a_job(start_server, state) -> None:
    done = bellrock("demo", "--once", "--json", "--seconds", "8", timeout_s=280)
    assert done.returncode == 0, done.stderr
    jobs = {job["job_id"].rsplit("-", 1)[0]: job for job in json.loads(done.stdout)}
    assert {"nn", "n1", "nm", "11", "simulation", "dd", "cp"} <= set(jobs)
    assert all(len(job) == 21 for job in jobs.values())
    assert jobs["dd"]["write_bytes"] == 256 * MIB and jobs["dd"]["io_mode_write"] == "1-1"
    assert jobs["cp"]["write_bytes"] == jobs["cp"]["read_bytes"] == sum(64 * n for n in range(400))
    assert (jobs["n1"]["processes"], jobs["n1"]["io_mode_write"]) == (8, "N-1")
    if "mpi" in jobs:
        assert jobs["mpi"]["processes"] == 4 and jobs["mpi"]["io_mode_write"] == "N-1"
    assert where(state.state_dir) is None


def test_the_demo_stays_until_it_is_asked_to_end(start_server, state) -> None:
    argv = [sys.executable, "-m", "bellrock", "demo", "--seconds", "4"]
    demo = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in demo.stderr:
        lines.append(line)
        if "until Ctrl-C" in line:
            break
    assert any(line.startswith("bellrock: pages: http://127.0.0.1:") for line in lines[:2])
    assert where(state.state_dir).pid == demo.pid
    demo.send_signal(signal.SIGINT)
    demo.stderr.read()
    assert demo.wait(60) == 0 and where(state.state_dir) is None
