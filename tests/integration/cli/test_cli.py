"""The command, as a user types it, against an API that is a few lines long. No collector, store or page is needed."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from bellrock.state import StateLock, Where

ROOT = Path(__file__).resolve().parents[3]
START_NS = 1_800_000_000_000_000_000
HEADLINE = {
    "nodes": 1, "processes": 2, "io_processes": 2, "runtime_s": 1.5, "read_bytes": 0, "write_bytes": 8192, "read_ops": 0, "write_ops": 2,
    "metadata_ops": 4, "mdops_avg": 1.0, "bandwidth_avg_read": 0.0, "bandwidth_avg_write": 8192.0, "bandwidth_peak_read": 0.0,
    "bandwidth_peak_write": 8192.0, "iops_avg": 2.0, "io_mode_read": None, "io_mode_write": "N-N", "files": 2, "phases": 1,
}  # fmt: skip


def job(job_id: str, end_ns: int | None = START_NS + 10**9, settled: bool = True) -> dict:
    return {
        "job_id": job_id, "cluster": "", "user": "ann", "program": "sim", "command": "sim", "state": "completed", "settled": settled,
        "start_ns": START_NS, "end_ns": end_ns, "exit_code": 0, "runtime_s": 1.5, "node_names": ["n1"],
    }  # fmt: skip


MESSAGE = {
    "start_ns": START_NS, "end_ns": START_NS, "count": 1, "severity": 4, "facility": "kern", "origin": "kernel", "log": "journal", "program": "kernel",
    "event": "lustre_failover", "text": "Lustre: Failing over OST4",
}  # fmt: skip
COMPONENT = {"node": "fwd1", "component": "block_device", "instance": "sda/1", "first_ns": START_NS, "last_ns": START_NS + 10**9}


FIGURES = {"members": 1, "read_bytes": 4096, "write_bytes": 0, "read_ops": 2, "write_ops": None, "metadata_ops": None}
LOAD = {"from_ns": START_NS, "to_ns": START_NS + 10**9, "resolution_s": None, "by_class": None, "by_group": None, "by_client": {"rows": [{"name": "n1", **FIGURES}], "total": 1}, "by_user": None, "by_job": None}


class FakeApi:
    """Knows job "4711", and any job whose start event lies in `rings`, which is settled once its end event does."""

    def __init__(self, rings: Path) -> None:
        self.rings = rings
        self.settles = True
        self.asked: list[str] = []

    def answer(self, target: str) -> tuple[int, dict]:
        self.asked.append(target)
        url = urlsplit(target)
        parts = url.path.strip("/").split("/")
        if url.path == "/healthz":
            return 200, {"status": "ok"}
        if url.path == "/api/v1/jobs":
            limit = int(parse_qs(url.query)["limit"][0])
            return 200, {"jobs": [{**HEADLINE, **job(f"job-{i}")} for i in range(limit)], "total": limit, "next_cursor": None}
        if url.path == "/api/v1/components":
            asked = parse_qs(url.query)
            known = [{**COMPONENT, "instance": f"leaf1/{n}"} for n in range(2880)] if "search" in asked else [COMPONENT]
            start, limit = int(asked.get("cursor", ["0"])[0]), int(asked["limit"][0])
            following = str(start + limit) if start + limit < len(known) else None
            kinds = {"block_device": len(known)}
            return 200, {"components": known[start : start + limit], "total": len(known), "nodes": 1, "of_node": {"fwd1": len(known)}, "kinds": kinds, "next_cursor": following}
        if url.path == "/api/v1/messages":
            return 200, {"node": "fwd1", "from_ns": START_NS, "to_ns": START_NS + 10**9, "messages": [MESSAGE], "total": 1, "is_whole": True, "next_cursor": None}
        if url.path == "/api/v1/components/series":
            read = {"name": "read_bytes", "kind": "counter", "unit": "bytes", "what": "Bytes.", "total": 8192.0, "per_s": [4096.0, None], "min_per_s": [4096.0, None], "max_per_s": [4096.0, None]}
            named = {"node": "fwd1", "component": "block_device", "instance": "sda", "instance_what": None, "last_ns": START_NS, "resolution_s": None, "values_left_out": 0}
            return 200, {**named, "from_ns": START_NS, "to_ns": START_NS + 2 * 10**9, "step_s": 1.0, "t_ns": [START_NS, START_NS + 10**9], "values": [read]}
        if url.path == "/api/v1/components/load":
            return 200, LOAD
        found = self.find(parts[3])
        if found is None:
            return 404, {"error": {"code": "no_such_job", "message": f"there is no job {parts[3]}", "hint": "see /jobs"}}
        name = parts[3]
        if len(parts) == 4:
            more = {"errors": 0, "mapped_bytes": 0, "folded_ops": 0, "slowest_op": None, "latency": None, "operations": [], "request_sizes": []}
            return 200, {"job": found, "profile": {**HEADLINE, "job_id": name, "program": "sim", **more}, "losses": []}
        if parts[4] == "series":
            rates = {"read_bytes_per_s": [0, 0], "write_bytes_per_s": [8192, 0]}
            return 200, {"from_ns": START_NS, "to_ns": START_NS + 2 * 10**9, "step_s": 1.0, "t_ns": [START_NS, START_NS + 10**9], **rates}
        return 200, {parts[4]: [], "total": 0, "next_cursor": None}

    def find(self, name: str) -> dict | None:
        if name == "4711":
            return job(name)
        events = [json.loads(path.read_text()) for path in sorted(self.rings.glob("*/*.job"))]
        ours = [event for event in events if event["job"] == name]
        if not ours:
            return None
        ends = [event["time"] for event in ours if event["event"] == "end"]
        return job(name, max(ends) if ends else None, settled=self.settles and bool(ends))


@pytest.fixture
def api(state) -> Iterator[FakeApi]:
    """A server that server.json points at."""
    fake = FakeApi(state.rings_dir)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = fake.answer(self.path)
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lock = StateLock(state.state_dir)
    lock.acquire()
    told = Where(f"http://127.0.0.1:{server.server_port}", os.getpid(), "server", 1, lock.host, lock.instance)
    (state.state_dir / "server.json").write_text(json.dumps(told.__dict__))
    yield fake
    lock.release()
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was built: neither agent nor library."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("BELLROCK_BUILD", str(tmp_path / "empty"))


def bellrock(*words: str, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "bellrock", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, **more
    )


def events(state) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((state.rings_dir / str(os.getuid())).glob("*.job"))]


@pytest.mark.parametrize("verb", [[], ["run"], ["server"], ["jobs"], ["show"], ["components"], ["component"], ["messages"], ["trace"], ["demo"]])
def test_every_verb_has_help_with_examples_and_exit_codes(verb: list[str]) -> None:
    done = bellrock(*verb, "--help")
    assert done.returncode == 0 and "Examples:" in done.stdout and "Exit code" in done.stdout and done.stderr == ""


def test_the_version() -> None:
    assert bellrock("--version").stdout.startswith("bellrock 0.")


@pytest.mark.parametrize(
    "words", [["nothing"], ["run"], ["show"], ["jobs", "--state", "odd"], ["jobs", "--limit", "0"], ["run", "--name", "a b", "--", "true"], ["component", "fwd1"],
    ["component", "fwd1", "node", "fwd1", "--to", "noon"], ["messages"], ["messages", "fwd1", "--severity", "odd"], ["messages", "fwd1", "--event", "a", "--events"]]
)
def test_a_wrong_command_line_is_2(api: FakeApi, words: list[str]) -> None:
    done = bellrock(*words)
    assert done.returncode == 2 and done.stderr and "Traceback" not in done.stderr and done.stdout == ""


def test_jobs_as_table_and_as_json(api: FakeApi) -> None:
    table = bellrock("jobs", "--limit", "2")
    assert table.returncode == 0 and "job-1" in table.stdout and "8.0 KiB" in table.stdout and "\x1b" not in table.stdout
    found = json.loads(bellrock("jobs", "--limit", "3", "--json", "--search", "s&m", "--state", "failed").stdout)
    assert [row["job_id"] for row in found] == ["job-0", "job-1", "job-2"] and found[0]["write_bytes"] == 8192
    assert "search=s%26m&state=failed" in api.asked[-1]


def test_a_reader_that_goes_away_is_no_error(api: FakeApi) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m bellrock jobs --limit 5000 --json | head -1"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert done.stdout == "[\n" and done.stderr == "" and done.returncode == 0


def test_nor_is_one_of_a_table(api: FakeApi) -> None:
    command = f"set -o pipefail; COLUMNS=odd {sys.executable} -m bellrock jobs --limit 5000 | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("JOB ") and done.stderr == "" and done.returncode == 0


def test_show_as_report_and_as_json(api: FakeApi) -> None:
    report = bellrock("show", "4711")
    assert report.returncode == 0 and "each process has files of its own" in report.stdout and "/jobs/4711" in report.stdout
    whole = json.loads(bellrock("show", "4711", "--json").stdout)
    assert set(whole) == {"job", "profile", "losses", "series", "files", "processes"} and whole["profile"]["write_bytes"] == 8192


def test_components_as_table_and_as_json(api: FakeApi) -> None:
    table = bellrock("components", "--node", "fwd1", "--since", "2023-11-14")
    assert table.returncode == 0 and "fwd1  block_device  sda/1" in table.stdout and "just now" in table.stdout and "\x1b" not in table.stdout
    assert "node=fwd1&from_ns=1699920000000000000&limit=1000" in api.asked[-1]
    assert json.loads(bellrock("components", "--json").stdout) == [COMPONENT] and table.stderr == ""


def test_components_beyond_the_limit_are_told_of(api: FakeApi) -> None:
    some = bellrock("components", "--search", "leaf1/", "--limit", "1500", "--json")
    assert len(json.loads(some.stdout)) == 1500 and [target.split("limit=")[1] for target in api.asked if "limit=" in target] == ["1000", "500&cursor=1000"]
    assert "1,500 of 2,880 components are listed: `--limit 2880` lists all" in some.stderr
    every = bellrock("components", "--search", "leaf1/", "--limit", "2880", "--json")
    assert len({one["instance"] for one in json.loads(every.stdout)}) == 2880 and every.stderr == ""


def test_messages_as_table_and_as_json(api: FakeApi) -> None:
    table = bellrock("messages", "fwd1", "--since", "2023-11-14", "--severity", "warning", "--events")
    assert table.returncode == 0 and "lustre_failover" in table.stdout and "Lustre: Failing over OST4" in table.stdout
    asked = api.asked[-1]
    assert all(part in asked for part in ("node=fwd1", "severity=4", "event=%2A", "limit=200")), asked
    assert json.loads(bellrock("messages", "fwd1", "--json").stdout) == [MESSAGE]


def test_one_component_as_report_and_as_json(api: FakeApi) -> None:
    report = bellrock("component", "fwd1", "block_device", "a/b c", "--from", "2023-11-14", "--to", "2023-11-15", "--step", "60")
    assert report.returncode == 0 and "read_bytes  8.0 KiB  4.0 KiB/s" in report.stdout, report
    assert api.asked[-1].endswith("instance=a%2Fb+c&from_ns=1699920000000000000&to_ns=1700006400000000000&points=60&step_s=60")
    assert json.loads(bellrock("component", "fwd1", "block_device", "sda", "--json").stdout)["values"][0]["total"] == 8192
    assert bellrock("component", "fwd1", "block_device", "sda", "--from", "noon").stderr.count("--from noon") == 1


def test_for_whom_a_component_worked_as_table_and_as_json(api: FakeApi) -> None:
    words = ("component", "oss1", "lustre_ost", "work-OST0003", "--by", "client", "--from", "2023-11-14")
    table = bellrock(*words)
    assert table.returncode == 0 and "n1      4.0 KiB      0 B      2" in table.stdout, table
    assert api.asked[-1] == "/api/v1/components/load?node=oss1&component=lustre_ost&instance=work-OST0003&from_ns=1699920000000000000"
    assert json.loads(bellrock(*words, "--json").stdout) == LOAD
    refused = bellrock(*words, "--step", "60")
    assert refused.returncode == 2 and "leave one of them out" in refused.stderr


def test_an_unknown_job_is_1_and_says_where_to_look(api: FakeApi) -> None:
    done = bellrock("show", "4712")
    assert done.returncode == 1 and "4712" in done.stderr and "bellrock jobs" in done.stderr and done.stdout == ""


def test_no_server_and_none_to_start_is_3(state, no_build) -> None:
    done = bellrock("jobs")
    assert done.returncode == 3 and "make build" in done.stderr and "Traceback" not in done.stderr


def test_a_host_that_is_not_loopback_is_refused(state) -> None:
    done = bellrock("server", "--host", "0.0.0.0")
    assert done.returncode == 2 and "loopback" in done.stderr


def test_the_sample_configuration_is_printed() -> None:
    assert "# port = 8425" in bellrock("server", "--sample-config").stdout


@pytest.mark.parametrize("wished", [False, True])
def test_a_server_tells_where_it_is_and_opens_no_port_that_was_not_wished_for(state, free_port, wished: bool) -> None:
    (state.state_dir / "server.toml").write_text("[agent]\nrun = false\n")
    port = free_port()
    words = ["--ingest-port", str(port)] if wished else []
    running = subprocess.Popen([sys.executable, "-m", "bellrock", "server", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        line = running.stdout.readline()
        assert line.startswith("pages at http://127.0.0.1:") and line.endswith(f" · state in {state.state_dir}\n")
        assert (f" · records at 127.0.0.1:{port} · " in line) == wished == ("records" in line)
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
    assert running.returncode == 0


@pytest.mark.parametrize(
    ("redirection", "code", "told"),
    [("> /dev/full", 1, "standard output cannot be written: No space left on device"), (">&-", 0, ""), ("| cat", 0, "")],
)
def test_an_output_that_takes_nothing_is_no_fault_of_ours(api: FakeApi, state, redirection: str, code: int, told: str) -> None:
    script = f"set -o pipefail; '{sys.executable}' -m bellrock jobs {redirection}"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == code and told in done.stderr and "fault of Bellrock" not in done.stderr, done.stderr


def test_run_leaves_the_program_alone_and_tells_start_and_end(api: FakeApi, state) -> None:
    done = bellrock("run", "--name", "j-1", "--", "sh", "-c", "cat; echo err >&2; exit 3", input="in")
    assert (done.returncode, done.stdout) == (3, "in")
    assert done.stderr.startswith("err\n") and "job j-1" in done.stderr and "/jobs/j-1" in done.stderr
    start, end = events(state)
    assert (start["event"], end["event"], end["exit_code"]) == ("start", "end", 3)
    assert start["launch"] == end["launch"] and start["time"] <= end["time"] and start["program"] == "sh"


def test_run_takes_the_batch_systems_id_and_tells_the_program(api: FakeApi, state) -> None:
    done = bellrock(
        "run", "--quiet", "--watch", "/a", "--ignore", "/a/b", "--", "env", env={**os.environ, "PBS_JOBID": "99.head", "LD_PRELOAD": ""}
    )
    told = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert {event["job"] for event in events(state)} == {"99.head"} and done.stderr == ""
    if (Path(os.environ.get("BELLROCK_BUILD", ROOT / "build")) / "libbellrock.so").exists():
        assert told["LD_PRELOAD"].endswith("/libbellrock.so") and told["BELLROCK_JOB"] == "99.head"
        assert (told["BELLROCK_WATCH"], told["BELLROCK_IGNORE"], told["BELLROCK_RINGS"]) == ("/a", "/a/b", str(state.rings_dir))


def test_run_as_json_keeps_standard_output_the_programs(api: FakeApi) -> None:
    done = bellrock("run", "--json", "--", "echo", "out")
    assert done.stdout == "out\n" and len(json.loads(done.stderr)) == 21


@pytest.mark.parametrize(("command", "code"), [(["no-such-program"], 127), (["/etc/passwd"], 126), (["sh", "-c", "kill -KILL $$"], 137)])
def test_run_ends_as_a_shell_would(api: FakeApi, state, command: list[str], code: int) -> None:
    assert bellrock("run", "--", *command).returncode == code
    assert events(state)[-1]["exit_code"] == code


def test_run_works_where_nothing_else_does(state, no_build) -> None:
    done = bellrock("run", "--", "sh", "-c", "echo fine; exit 4")
    assert (done.returncode, done.stdout) == (4, "fine\n")
    assert "unwatched" in done.stderr and "make build" in done.stderr and "Traceback" not in done.stderr


def test_run_works_without_a_place_for_rings(api: FakeApi, state, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLROCK_RINGS", "/proc/nowhere")
    done = bellrock("run", "--", "echo", "fine")
    assert (done.returncode, done.stdout) == (0, "fine\n") and "unwatched" in done.stderr


@pytest.fixture
def no_agent(state) -> None:
    """A server needs no agent, so nothing has to be built."""
    (state.state_dir / "server.toml").write_text("[agent]\nrun = false\n")


@pytest.mark.parametrize("name", ["records.duckdb", "jobs.db"])
def test_a_damaged_state_costs_no_exit_code_and_says_what_to_do(state, no_agent, name: str) -> None:
    damaged = state.state_dir / name
    damaged.write_bytes(b"garbage" * 1000)
    done = bellrock("run", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7 and str(damaged) in done.stderr and "fault of Bellrock" not in done.stderr
    done = bellrock("jobs")
    assert done.returncode == 3 and f"mv {damaged} " in done.stderr and "fault of Bellrock" not in done.stderr
    damaged.unlink()
    assert bellrock("jobs").returncode == 0


# In a process of its own, with something changed before the command begins.
def bellrock_after(change: str, *words: str, **more) -> subprocess.CompletedProcess:
    script = f"import sys\nfrom bellrock import cli\n{change}\nsys.argv = ['bellrock', *sys.argv[1:]]\ncli.main()"
    return subprocess.run([sys.executable, "-c", script, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, **more)


def test_run_works_for_a_user_without_a_home(state) -> None:
    homeless = "import pathlib\ndef home(): raise RuntimeError('no home')\npathlib.Path.home = home"
    env = {name: value for name, value in state.env.items() if name not in ("BELLROCK_STATE", "XDG_DATA_HOME")}
    began = time.monotonic()
    done = bellrock_after(homeless, "run", "--", "sh", "-c", "exit 6", env=env)
    assert time.monotonic() - began < 15, "it was waited for what cannot come"
    assert done.returncode == 6 and "fault of Bellrock" not in done.stderr
    done = bellrock_after(homeless, "jobs", env=env)
    assert done.returncode == 2 and "BELLROCK_STATE" in done.stderr


def test_a_fault_of_ours_costs_no_exit_code(api: FakeApi, state) -> None:
    broken = "from bellrock import report\ndef summary(_): raise ZeroDivisionError('odd')\nreport.summary = summary"
    done = bellrock_after(broken, "run", "--", "sh", "-c", "exit 5")
    assert done.returncode == 5 and "odd" in done.stderr and "Traceback" not in done.stderr
    done = bellrock_after(broken, "run", "--", "sh", "-c", "exit 5", env={**os.environ, "BELLROCK_DEBUG": "1"})
    assert done.returncode == 5 and "Traceback" in done.stderr


def test_signals_that_come_too_late_for_the_program_cost_no_exit_code(api: FakeApi, state) -> None:
    late = """
import os, signal
from bellrock import run
real = run.run_program
def run_program(*words, **more):
    finished = real(*words, **more)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
        os.kill(os.getpid(), getattr(signal, name))
    return finished
run.run_program = run_program"""
    done = bellrock_after(late, "run", "--name", "j", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7 and "bellrock show j" in done.stderr and "Traceback" not in done.stderr
    assert "race" not in done.stderr


def test_quiet_waits_for_no_server(state, no_agent) -> None:
    lock = StateLock(state.state_dir)
    lock.acquire()
    try:
        began = time.monotonic()
        # Another command holds the state and does not answer; one that waits for it does so for 15 s.
        assert bellrock("run", "--quiet", "--", "sh", "-c", "exit 3").returncode == 3
        assert time.monotonic() - began < 10
    finally:
        lock.release()


def test_run_passes_signals_on(api: FakeApi, state, tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    script = f"trap 'echo got; exit 6' TERM; echo > {fifo}; while :; do sleep 0.05; done"
    running = subprocess.Popen(
        [sys.executable, "-m", "bellrock", "run", "--", "bash", "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    fifo.read_text()
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 6 and out == "got\n"


def test_the_wait_for_records_can_be_broken_off(api: FakeApi, state) -> None:
    api.settles = False
    running = subprocess.Popen(
        [sys.executable, "-m", "bellrock", "run", "--name", "slow", "--", "false"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    line = running.stderr.readline()
    assert "waiting for the last records of job slow" in line
    running.send_signal(signal.SIGINT)
    _, rest = running.communicate(timeout=60)
    assert running.returncode == 1 and "bellrock show slow" in rest and "Traceback" not in rest


def test_ctrl_c_reaches_the_program_once(api: FakeApi, state) -> None:
    # Not in shell: bash runs no trap where the command that it waits for outlived the signal.
    script = (
        "import signal, sys, time\ncount = [0]\nsignal.signal(signal.SIGINT, lambda *_: count.append(1))\nprint('ready', flush=True)\n"
        "until = time.monotonic() + 1.2\nwhile time.monotonic() < until:\n    time.sleep(0.05)\nprint('count', sum(count))\nsys.exit(9)"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "bellrock", "run", "--", sys.executable, "-c", script])
    seen, pressed = b"", False
    while True:
        try:
            read = os.read(terminal, 4096)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not read:
            break
        seen += read
        if b"ready" in seen and not pressed:
            os.write(terminal, b"\x03")
            pressed = True
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert b"count 1" in seen
