"""`bellrock simulate`: what it leaves is a state like any other, a set of files, or logs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bellrock.simulate import command
from bellrock.simulate.to_state import StateSink
from bellrock.simulate.volume import Plan, simulate
from bellrock.state import StateLock
from jobdb.queue.ask import from_file
from jobdb.repository import JobDB
from pipeline.schema import KINDS
from pipeline.store.duckdb import DuckDBStore
from webapp.api import create_app

COMMAND = [sys.executable, "-m", "bellrock", "simulate"]
SMALL = ["--jobs", "7", "--nodes", "6", "--records", "6000"]


def run(*flags):
    return subprocess.run([*COMMAND, *map(str, flags)], capture_output=True, text=True, timeout=120)


def truths(folder: Path) -> dict:
    return {known["job_id"]: known for known in map(json.loads, (folder / "truth.jsonl").read_text().splitlines())}


@pytest.fixture
def opened():
    """Opens store and job database of a folder."""
    closing = []

    def parts(folder):
        store, jobdb = DuckDBStore(folder / "records.duckdb"), JobDB(f"sqlite:///{folder / 'jobs.db'}", user_name=lambda uid: None)
        closing.extend([store, jobdb])
        return store, jobdb

    yield parts
    for part in closing:
        part.close()


def test_a_state_shows_what_the_truth_says(tmp_path, opened):
    done = run("--state", tmp_path / "s", *SMALL, "--seed", 5, "--start", "2026-03-01T12:00:00+01:00", "--json")
    assert done.returncode == 0, done.stderr
    told, known = json.loads(done.stdout), truths(tmp_path / "s")
    assert told["jobs"] == len(known) == 7 and told["records"] == sum(k["records"] for k in known.values())
    assert min(k["start_ns"] for k in known.values()) > 1_772_362_800 * 10**9
    store, jobdb = opened(tmp_path / "s")
    config = {"FRONTEND_DIR": tmp_path, "PEER_UID": lambda environ: os.geteuid()}
    status = lambda: {"version": "0", "started_ns": 1, "ingest": None}  # noqa: E731
    client = create_app(config, store=store, jobdb=jobdb, status=status).test_client()
    for job, figures in known.items():
        answer = client.get(f"/api/v1/jobs/{job}").get_json()
        assert answer["job"]["state"] == "completed" and answer["job"]["user"] == figures["user"]
        for name in ("read_bytes", "write_bytes", "read_ops", "metadata_ops", "errors", "nodes", "processes", "files", "phases", "io_mode_read", "io_mode_write"):
            assert answer["profile"][name] == figures[name], (job, name)
    audit = json.loads(client.get("/api/v1/audit?deep=1").text.splitlines()[-1])["report"]
    assert audit["clean"] and audit["flaws"] == []
    told = store.status()
    assert told["missing"] == told["dead_letters"] == 0 and told["records"]["run"] == sum(mark["seq"] for mark in told["high_water"])


def test_what_is_there_is_not_touched(tmp_path, opened):
    assert run("--state", tmp_path, *SMALL).returncode == 0
    before = (tmp_path / "records.duckdb").read_bytes()
    again = run("--state", tmp_path, *SMALL, "--seed", 2)
    assert again.returncode == 2 and "holds records already" in again.stderr and "--add" in again.stderr
    same = run("--state", tmp_path, *SMALL, "--add")
    assert same.returncode == 2 and "--seed" in same.stderr and "Traceback" not in same.stderr
    assert (tmp_path / "records.duckdb").read_bytes() == before and len(truths(tmp_path)) == 7
    assert run("--state", tmp_path, *SMALL, "--add", "--seed", 2).returncode == 0
    store, jobdb = opened(tmp_path)
    assert len(truths(tmp_path)) == jobdb.jobs(limit=50).total == 14
    assert all(store.version(job) == known["records"] for job, known in truths(tmp_path).items())


@pytest.mark.parametrize("given", ["--out", "--lwfs-logs", "--state"])
def test_beside_another_truth_nothing_is_written(tmp_path, given):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "truth.jsonl").write_text("{}\n")
    others = [part for flag in ("--state", "--out", "--lwfs-logs") if flag != given for part in (flag, tmp_path / flag)]
    refused = run(given, tmp_path / "old", *others, *SMALL)
    assert refused.returncode == 2 and "truth.jsonl" in refused.stderr and "already" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and (tmp_path / "old" / "truth.jsonl").read_text() == "{}\n"
    assert not list((tmp_path / "old").glob("*.*db"))


def test_a_portion_may_be_of_many_jobs(tmp_path):
    pool = pa.default_memory_pool().backend_name
    sink = StateSink(tmp_path, add=False)
    done = simulate(Plan(jobs=300, nodes=8, records=9000), [sink])
    assert done.jobs == 300 == len(truths(tmp_path)) and sink._jobdb.jobs(limit=1).total == 300
    assert all(sink._store.version(job) == known["records"] for job, known in truths(tmp_path).items())
    sink.close()
    assert pa.default_memory_pool().backend_name == pool


def test_users_of_simulated_jobs_are_not_those_of_this_machine(tmp_path):
    sink = StateSink(tmp_path, add=False)
    assert sink._jobdb._user_name(os.geteuid()) is None
    sink.close()


def test_a_server_keeps_its_state(tmp_path):
    lock = StateLock(tmp_path)
    lock.acquire()
    refused = run("--state", tmp_path, *SMALL)
    lock.release()
    assert refused.returncode == 3 and f"process {os.getpid()}" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock"]


def test_files_hold_the_records(tmp_path):
    assert run("--out", tmp_path / "out", *SMALL).returncode == 0
    found = pa.concat_tables(pq.read_table(path) for path in sorted((tmp_path / "out").glob("runs-*.parquet")))
    plain = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in found.schema]
    assert (found.column_names, plain) == (KINDS["run"].arrow.names, KINDS["run"].arrow.types)
    jobs = {entry["values"]: entry["counts"] for entry in found["job"].value_counts().to_pylist()}
    assert jobs == {job: known["records"] for job, known in truths(tmp_path / "out").items()}
    refused = run("--out", tmp_path / "out", *SMALL)
    assert refused.returncode == 2 and "holds runs-*.parquet already" in refused.stderr


def test_a_virtual_machine_leaves_trees_that_its_site_would_know(tmp_path):
    flags = ["--scale", 0.005, "--hours", 0.2, "--intensity", 6, "--seed", 3, "--faults", "slow-ost", "--json"]
    done = run("--trees", tmp_path / "a", *flags)
    assert done.returncode == 0, done.stderr
    told, known = json.loads(done.stdout), truths(tmp_path / "a")
    assert told["jobs"] == len(known) > 0 and told["machine"]["compute"]["nodes"] == 204
    logs = {path.relative_to(tmp_path / "a" / "nodes").parts[0] for path in (tmp_path / "a" / "nodes").rglob("client.log")}
    assert logs and logs <= {node for job in known.values() for node in job["node_names"]}
    assert json.loads((tmp_path / "a" / "machine.json").read_text())["faults"][0]["kind"] == "slow-ost"
    checked = subprocess.run([*COMMAND[:-1], "topology", "check", str(tmp_path / "a" / "site")], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0 and "no mistakes" in checked.stderr
    queued = [read_queue(tmp_path / "a" / "slurm" / name) for name in ("sacct.json", "sacct.txt")]
    for jobs in queued:
        assert {job.job_id: (list(job.nodes), job.user, job.state) for job in jobs} == {name: (job["node_names"], job["user"], "completed") for name, job in known.items()}
        for name, at_ns in (("start_ns", [job.start_ns for job in jobs]), ("end_ns", [job.end_ns for job in jobs])):
            assert at_ns == [known[job.job_id][name] // 10**9 * 10**9 for job in jobs], f"{name}: whole seconds, cut"
    assert {job.job_id: job.uid for job in queued[1]} == {name: job["uid"] for name, job in known.items()}
    assert run("--trees", tmp_path / "b", *flags).returncode == 0
    files = [sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()) for folder in (tmp_path / "a", tmp_path / "b")]
    assert files[0] == files[1] and all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files[0])
    again = run("--trees", tmp_path / "a", *flags)
    assert again.returncode == 2 and "is not empty" in again.stderr


def test_noise_is_told_beside_faults_in_number(tmp_path):
    flags = ["--out", tmp_path, "--scale", 0.005, "--hours", 0.5, "--seed", 3, "--faults", "slow-ost:2,slow-forwarding:1", "--noise", "--json"]
    done = run(*flags)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sorted(fault["kind"] for fault in told["faults"]) == ["slow-forwarding", "slow-ost", "slow-ost"] and all(fault["strength"] > 1.3 for fault in told["faults"])
    assert len(told["speeds"]["speed-ost"]) == 3 and told["known"]


def test_how_far_the_trees_are_is_told_and_they_can_be_broken_off(tmp_path, monkeypatch):
    said: list[str] = []

    def say(line):
        said.append(line)
        if line == "trees of 3 of 5 servers":
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(command, "TELL_S", 0)
    monkeypatch.setattr(command.console, "say", say)
    source = command.virtual_machine("taihulight", 0.005, 0.1, 6, [], 3, 1_767_225_600 * 10**9)
    with pytest.raises(KeyboardInterrupt):
        command.run_simulate(source, state=None, add=False, out=None, lwfs_logs=None, trees=tmp_path, garbage=0.0, look_every_s=60, job_names=True)
    assert [line for line in said if line.startswith("trees of")] == [f"trees of {done} of 5 servers" for done in (1, 2, 3)]
    assert "servers' trees are not all there" in said[-1] and not (tmp_path / "replay.json").exists()


def read_queue(path: Path):
    jobs, problems = from_file("slurm", path, "", "")
    assert not problems
    return jobs


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "--state DIR, --out DIR, --lwfs-logs DIR or --trees DIR"),
        (["--out", "o", "--kinds", "n-n,nonsense"], "no kind 'nonsense'"),
        (["--out", "o", "--start", "yesterday"], "'yesterday' is no time"),
        (["--out", "o", "--jobs", "0"], "--jobs"),
        (["--out", "o", "--jobs", "3", "--records", "10000000"], "take --jobs 10 or more"),
        (["--trees", "o", "--start", "2106-02-07T06:28:16"], "lies before 1970 or far ahead"),
        (["--lwfs-logs", "o", "--garbage", "2"], "--garbage"),
        (["--trees", "o", "--jobs", "3"], "leave one of them out"),
        (["--out", "o", "--look-every", "30"], "--look-every is for --trees"),
        (["--state", "o", "--scale", "0.025", "--no-job-names"], "--job-names is for --trees"),
        (["--trees", "o", "--machine", "nowhere"], "nowhere"),
        (["--trees", "o", "--faults", "rain"], "no kind 'rain'"),
        (["--trees", "o", "--faults", "slow-ost:many"], "'many' is no number"),
        (["--out", "o", "--noise", "--jobs", "3"], "leave one of them out"),
        (["--trees", "o", "--scale", "0.0001"], "too few"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, monkeypatch, flags, says):
    monkeypatch.chdir(tmp_path)
    refused = run(*flags)
    assert refused.returncode == 2 and says in refused.stderr and "Traceback" not in refused.stderr
    assert not (tmp_path / "o").exists()


def test_broken_off_it_leaves_whole_jobs(tmp_path, opened):
    going = subprocess.Popen([*COMMAND, "--state", str(tmp_path), "--records", "500000000", "--jobs", "20000"], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not (tmp_path / "truth.jsonl").exists():
        assert going.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    going.send_signal(signal.SIGINT)
    _, said = going.communicate(timeout=120)
    assert going.returncode == 130 and "broken off" in said and "Traceback" not in said
    store, jobdb = opened(tmp_path)
    known = truths(tmp_path)
    assert jobdb.jobs(limit=1).total == len(known) > 0
    assert store.status()["records"]["run"] == sum(k["records"] for k in known.values())
