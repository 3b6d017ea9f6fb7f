"""How a batch system's own commands are asked, with small ones of ours in their place."""

import os
import sys
import time

import orjson
import pytest

from jobdb.queue import QueueTrouble, ask
from jobdb.queue.slurm import FIELDS
from tests.unit.jobdb.queue.test_others import lsf_job, pbs_job
from tests.unit.jobdb.queue.test_slurm import DELIMITER, T, row, squeue_new


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Puts a command on the PATH: a script in Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
        (folder / name).chmod(0o755)

    return make


def says(text: bytes) -> str:
    return f"sys.stdout.buffer.write({text!r})"


def sacct(*rows: str) -> bytes:
    return "\n".join([DELIMITER.join(FIELDS), *rows]).encode()


def test_accounting_and_controller_are_put_together(commands):
    commands("squeue", says(orjson.dumps({"jobs": [squeue_new(), squeue_new(job_id=18)]})))
    commands("sacct", says(sacct(row(State="COMPLETED"), row(JobID="16", JobIDRaw="16"))))
    commands("scontrol", 'print("Configuration data\\nClusterName             = c1")')
    jobs, problems = ask.from_slurm(T)
    assert {job.job_id: job.state for job in jobs} == {"16": "completed", "17": "completed", "18": "running"} and problems == []
    commands("sacct", 'sys.exit("Slurm accounting storage is disabled")')
    jobs, problems = ask.from_slurm(T)
    assert {job.job_id for job in jobs} == {"17", "18"} and "accounting storage is disabled" in str(problems[0])


def test_accounting_that_is_behind_keeps_no_job_running(commands):
    ended = squeue_new(job_state=["COMPLETED"], tasks=2)
    commands("squeue", says(orjson.dumps({"jobs": [ended]})))
    commands("sacct", says(sacct(row(State="RUNNING", End="Unknown"))))
    (job,), problems = ask.from_slurm(T, "c1")
    assert (job.state, job.end_ns is None, job.tasks, problems) == ("completed", False, 2, [])
    commands("sacct", says(sacct(row(State="FAILED", ExitCode="3:0"))))
    (job,), _ = ask.from_slurm(T, "c1")
    assert (job.state, job.exit_code, job.tasks) == ("failed", 3, 2)


def test_what_is_asked_bears_the_time(commands, tmp_path):
    commands("sacct", f"import os; open({str(tmp_path / 'asked')!r}, 'w').write(' '.join(sys.argv) + os.environ['SLURM_TIME_FORMAT']); {says(sacct())}")
    assert ask.from_slurm(T) == ([], [])
    asked = (tmp_path / "asked").read_text()
    assert f"--starttime={time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(T))}" in asked and "--duplicates" in asked and asked.endswith("%s")


def test_neither_answers(commands):
    commands("squeue", 'sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")')
    with pytest.raises(QueueTrouble, match="Unable to contact slurm controller.*`sacct` is not on this machine's PATH"):
        ask.from_slurm(T)


def test_pbs_and_lsf_leave_out_what_ended_before(commands):
    commands("qstat", says(orjson.dumps({"Jobs": {"1.s": pbs_job(), "2.s": pbs_job(job_state="F", Exit_status=0, mtime="Sun Nov 22 12:30:00 2026")}})))
    commands("bjobs", says(orjson.dumps({"RECORDS": [lsf_job(), lsf_job(JOBID="102", STAT="DONE", FINISH_TIME="Nov 22 12:30")]})))
    assert [job.job_id for job in ask.from_pbs(4e9)[0]] == ["1.s"]
    assert [job.job_id for job in ask.from_lsf(4e9, "c1")[0]] == ["101"]


def test_a_command_that_hangs_is_ended_with_all_that_it_started(commands, tmp_path):
    told = tmp_path / "pid"
    commands("sleeps", f"import subprocess, time; child = subprocess.Popen(['/bin/sleep', '1000']); open({str(told)!r}, 'w').write(str(child.pid)); time.sleep(1000)")
    with pytest.raises(QueueTrouble, match="has not answered"):
        ask.run(("sleeps",), timeout_s=2)
    until = time.monotonic() + 10
    while _is_alive(int(told.read_text())):
        assert time.monotonic() < until
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_answers_have_a_bound(commands, monkeypatch):
    monkeypatch.setattr(ask, "ANSWER_BYTES_MAX", 1000)
    commands("talks", says(b"x" * 1001))
    with pytest.raises(QueueTrouble, match="wrote more than"):
        ask.run(("talks",))
    commands("talks", says(b"x" * 1000))
    assert len(ask.run(("talks",))) == 1000


def test_what_fails_is_told_in_a_line(commands):
    commands("fails", 'print("a\\nb", file=sys.stderr); print("\\x1b[31mlast\\u202e" + "x" * 1000, file=sys.stderr); sys.exit(3)')
    with pytest.raises(QueueTrouble) as trouble:
        ask.run(("fails",))
    assert "ended with 3" in str(trouble.value) and len(str(trouble.value)) < 400 and str(trouble.value).isprintable()


@pytest.mark.parametrize(("kind", "data"), [("slurm", orjson.dumps({"jobs": [squeue_new()]})), ("slurm", sacct(row())), ("pbs", orjson.dumps({"Jobs": {"1.s": pbs_job()}})), ("lsf", orjson.dumps({"RECORDS": [lsf_job()]})), ("csv", b"JOBID,USER,STARTTIME,NODELIST\n1,ann,1700000000,3\n")])  # fmt: skip
def test_files_are_read(tmp_path, kind, data):
    path = tmp_path / "answer"
    path.write_bytes(data)
    jobs, problems = ask.from_file(kind, path, "c1")
    assert len(jobs) == 1 and problems == []
    path.write_bytes(data[: len(data) // 2])
    try:
        ask.from_file(kind, path, "c1")
    except QueueTrouble as trouble:
        assert str(path) in str(trouble)


def test_the_time_of_a_file_is_that_of_its_answer(tmp_path):
    path = tmp_path / "answer"
    path.write_bytes(orjson.dumps({"RECORDS": [lsf_job()]}))
    os.utime(path, (1_650_000_000, 1_650_000_000))
    (job,), _ = ask.from_file("lsf", path)
    assert time.gmtime(job.start_ns / 1e9).tm_year == 2021
    with pytest.raises(QueueTrouble, match="cannot be read"):
        ask.from_file("lsf", tmp_path / "none")
