"""Slurm's answers, in the words of several versions. Those of 22.05 are real ones (tests/fixtures/slurm)."""

import json
import random
from pathlib import Path

import orjson
import pytest

from jobdb.queue import CANCELLED, COMPLETED, FAILED, QueueTrouble, RUNNING, SUSPENDED
from jobdb.queue.slurm import FIELDS, read_json, read_sacct, state_of

DELIMITER = "\x1f"
T = 1_700_000_000
FIXTURES = Path(__file__).resolve().parents[3] / "fixtures/slurm"
S0 = 1_795_353_366 * 10**9  # when its jobs were submitted


def set_to(number: int | None) -> dict:
    """A number as since 23.02."""
    return {"set": number is not None, "infinite": False, "number": number or 0}


def squeue_old(**more) -> dict:
    return {
        "job_id": 17, "array_job_id": None, "array_task_id": None, "het_job_id": None, "het_job_offset": None, "cluster": "c1", "user_name": "ann", "user_id": 1000,
        "account": "phys", "partition": "batch", "name": "wrf", "job_state": "RUNNING", "submit_time": T, "start_time": T + 5, "end_time": T + 3600, "nodes": "cn[1-2]",
        "cpus": 4, "tasks": 2, "restart_cnt": 0,
    } | more  # fmt: skip


def squeue_new(**more) -> dict:
    numbers = ("array_job_id", "array_task_id", "het_job_id", "het_job_offset", "submit_time", "start_time", "end_time", "cpus", "tasks")
    old = squeue_old()
    return old | {name: set_to(old[name]) for name in numbers} | {"job_state": ["RUNNING"], "nodes": "cn[1-2]"} | more


def sacct_new(**more) -> dict:
    return {
        "job_id": 17, "name": "wrf", "user": "ann", "account": "phys", "partition": "batch", "cluster": "c1", "nodes": "cn[1-2]", "array": {"job_id": 0, "task_id": set_to(None)},
        "het": {"job_id": 0, "job_offset": set_to(None)}, "association": {"user": "ann", "cluster": "c1"}, "required": {"CPUs": 4},
        "state": {"current": ["COMPLETED"], "reason": "None"}, "exit_code": {"status": ["SUCCESS"], "return_code": set_to(0), "signal": {"id": set_to(None), "name": ""}},
        "time": {"submission": T, "start": T + 5, "end": T + 65, "suspended": 3},
        "steps": [{"step": {"id": "17.batch", "name": "batch"}, "time": {"start": set_to(T + 5), "end": set_to(T + 65)}, "nodes": {"range": "cn1"}, "tasks": {"count": 1}}],
    } | more  # fmt: skip


def read(*jobs: dict) -> list:
    found, problems = read_json(orjson.dumps({"jobs": jobs}))
    assert problems == []
    return found


@pytest.mark.parametrize("make", [squeue_old, squeue_new])
def test_a_running_job(make):
    (job,) = read(make())
    assert (job.key, job.claims, job.user, job.uid, job.project) == (("c1", "17", T * 10**9), ("17",), "ann", 1000, "phys")
    assert (job.state, job.start_ns, job.end_ns, job.exit_code) == (RUNNING, (T + 5) * 10**9, None, None), "the end that is told is the one that is expected"
    assert (job.nodes, job.cores, job.tasks, job.array, job.het) == (("cn1", "cn2"), 4, 2, "", "")


@pytest.mark.parametrize("make", [squeue_old, squeue_new])
def test_what_has_not_begun_is_left_out(make):
    waiting = {"job_state": "PENDING" if make is squeue_old else ["PENDING"], "nodes": ""}
    assert read(make(**waiting)) == []
    assert read(sacct_new(state={"current": ["CANCELLED"]}, nodes="None assigned")) == []


def test_an_ended_job_with_its_steps():
    (job,) = read(sacct_new())
    assert (job.state, job.end_ns, job.exit_code, job.suspended_s) == (COMPLETED, (T + 65) * 10**9, 0, 3)
    (step,) = job.steps
    assert (step.id, step.name, step.nodes, step.tasks, step.start_ns) == ("batch", "batch", ("cn1",), 1, (T + 5) * 10**9)
    old = sacct_new(
        state={"current": "FAILED"}, exit_code={"status": "ERROR", "return_code": 3}, array={"job_id": 15, "task_id": 4},
        steps=[{"step": {"id": {"job_id": 17, "step_id": "0"}, "name": "a.out"}, "time": {"start": T + 5, "end": 0}, "nodes": {"range": "cn[1-2]"}, "tasks": {"count": 2}}],
    )  # fmt: skip
    (job,) = read(old)
    assert (job.job_id, job.claims, job.array, job.state, job.exit_code) == ("15_4", ("17",), "15", FAILED, 3)
    assert (job.steps[0].id, job.steps[0].end_ns) == ("0", None)


def test_arrays_and_heterogeneous_jobs_have_ids_of_their_own():
    jobs = read(
        squeue_new(job_id=21, array_job_id=set_to(20), array_task_id=set_to(0)),
        squeue_new(job_id=20, array_job_id=set_to(20), array_task_id=set_to(1)),
        squeue_new(job_id=30, het_job_id=set_to(30), het_job_offset=set_to(0)),
        squeue_old(job_id=31, het_job_id=30, het_job_offset=1),
    )
    assert [(job.job_id, job.claims, job.array, job.het) for job in jobs] == [
        ("20_0", ("21",), "20", ""), ("20_1", ("20",), "20", ""), ("30+0", ("30",), "", "30"), ("30+1", ("31", "30"), "", "30"),
    ]  # fmt: skip


def test_runs_of_a_requeued_job_are_told_apart_by_their_submission():
    first = sacct_new(state={"current": ["REQUEUED"]}, time={"submission": T, "start": T + 5, "end": T + 20, "suspended": 0})
    second = sacct_new(time={"submission": T + 20, "start": T + 30, "end": T + 65, "suspended": 0})
    jobs = read(first, second)
    assert len({job.key for job in jobs}) == 2 and [job.state for job in jobs] == ["requeued", "completed"]


@pytest.mark.parametrize(
    ("words", "state"),
    [("CANCELLED by 1000", CANCELLED), ("CANCELLED+", CANCELLED), (["RUNNING", "COMPLETING"], RUNNING), ("COMPLETING", RUNNING), ("SUSPENDED", SUSPENDED), ("NEW_ONE", "unknown"), (None, "unknown"), ([], "unknown"), ([3], "unknown")],
)
def test_states(words, state):
    assert state_of(words) == state


@pytest.mark.parametrize(
    "bad",
    [
        {"job_id": None}, {"job_id": "x"}, {"job_id": -4}, {"nodes": "cn[1-"}, {"nodes": 5}, {"submit_time": 0}, {"submit_time": 10**15}, {"user_name": ["ann"]},
        {"start_time": {"number": "soon"}}, {"cpus": 2.5}, {"user_id": True},
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_and_the_others_are_read(bad):
    jobs, problems = read_json(orjson.dumps({"jobs": [squeue_old(**bad), squeue_old(job_id=18), "no job"]}))
    assert [job.job_id for job in jobs] == ["18"] and len(problems) == 2


@pytest.mark.parametrize("text", [b"", b"[]", b'{"jobs": 3}', b"slurm_load_jobs error: Unable to contact slurm controller", b'{"jobs": [], "errors": [{"error": "gone", "description": "x"}]}', b'{"jobs": [], "errors": 5}', b'{"jobs": [], "errors": {"a": 1}}'])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(QueueTrouble):
        read_json(text)


def row(**more) -> str:
    values = dict.fromkeys(FIELDS, "") | {
        "JobID": "17", "JobIDRaw": "17", "Cluster": "c1", "User": "ann", "UID": "1000", "Account": "phys", "Partition": "batch", "State": "COMPLETED", "Submit": str(T),
        "Start": str(T + 5), "End": str(T + 65), "Suspended": "00:00:03", "ExitCode": "0:0", "NCPUS": "4", "NodeList": "cn[1-2]", "JobName": "wrf|x",
    } | more  # fmt: skip
    return DELIMITER.join(values[name] for name in FIELDS)


def test_lines_of_sacct():
    lines = [
        DELIMITER.join(FIELDS),
        row(), row(JobID="17.batch", JobIDRaw="17.batch", NTasks="1", NodeList="cn1", JobName="batch", User="", UID=""),
        row(JobID="17.0", JobIDRaw="17.0", NTasks="2", JobName="a.out", Start="Unknown", End="Unknown"),
        row(JobID="20_4", JobIDRaw="21", State="RUNNING", End="Unknown", Suspended="1-00:00:01"), row(JobID="30+1", JobIDRaw="31", State="CANCELLED by 0", ExitCode="0:15"),
        row(JobID="40", JobIDRaw="40", State="PENDING", Start="Unknown", End="Unknown", NodeList="None assigned"),
        "cut of" + DELIMITER, row(JobID="41", JobIDRaw="41", Start="2023-11-14T22:13:25"),
    ]  # fmt: skip
    jobs, problems = read_sacct("\n".join(lines))
    assert [(job.job_id, job.claims, job.state) for job in jobs] == [("17", ("17",), COMPLETED), ("20_4", ("21",), RUNNING), ("30+1", ("31", "30"), CANCELLED)]
    first, task, _ = jobs
    assert (first.name, first.suspended_s, first.exit_code, first.end_ns) == ("wrf|x", 3, 0, (T + 65) * 10**9)
    assert [(step.id, step.tasks, step.nodes, step.start_ns) for step in first.steps] == [("batch", 1, ("cn1",), (T + 5) * 10**9), ("0", 2, ("cn1", "cn2"), None)]
    assert (task.end_ns, task.exit_code, task.suspended_s) == (None, None, 86401)
    assert [problem.entry for problem in problems] == ["'cut of'", "'41'"] and "SLURM_TIME_FORMAT" in str(problems[1])
    for text in ("", "JobID|State\n17|RUNNING", "sacct: error: slurm_persist_conn_open"):
        with pytest.raises(QueueTrouble):
            read_sacct(text)


def test_hostile_depth_is_a_problem_and_no_crash():
    deep = json.dumps({"jobs": [{"job_id": {"number": {"number": {"number": 1}}}, "nodes": "cn1", "start_time": T, "submit_time": T, "job_state": "RUNNING"}]})
    jobs, problems = read_json(deep.encode())
    assert jobs == [] and len(problems) == 1


def told(name: str) -> dict:
    """By id and state, of what a real Slurm 22.05 wrote while its jobs ran: a job on two nodes, an array, one that failed, a heterogeneous one, one that was
    suspended for 3 s, requeued and cancelled, and one that was held."""
    data = (FIXTURES / name).read_bytes()
    jobs, problems = read_json(data) if name.endswith(".json") else read_sacct(data.decode())
    assert problems == [] and len({job.key for job in jobs}) == len(jobs)
    return {(job.job_id, job.state): job for job in jobs}


@pytest.mark.parametrize("name", ["sacct-22.05.json", "sacct-22.05.txt"])
def test_accounting_of_a_real_slurm(name):
    jobs = told(name)
    assert set(jobs) == {
        ("1", "completed"), ("2_3", "completed"), ("2_4", "completed"), ("3", "failed"), ("4+0", "completed"), ("4+1", "completed"), ("6", "requeued"), ("6", "cancelled"),
    }  # fmt: skip
    first = jobs["1", "completed"]
    assert (first.cluster, first.user, first.project, first.queue, first.name, first.nodes, first.cores) == ("tiny", "ann", "phys", "batch", "wrf", ("cn1", "cn2"), 2)
    assert (first.submit_ns, first.start_ns, first.end_ns, first.exit_code) == (S0, S0, S0 + 3 * 10**9, 0)
    assert [(step.id, step.name, step.nodes, step.tasks) for step in first.steps] == [("batch", "batch", ("cn1",), 1), ("0", "bash", ("cn1", "cn2"), 2)]
    assert [(jobs[key].claims, jobs[key].array, jobs[key].nodes, jobs[key].name) for key in (("2_3", "completed"), ("2_4", "completed"))] == [
        (("7",), "2", ("cn1",), "arr|ay"), (("2",), "2", ("cn2",), "arr|ay"),
    ]  # fmt: skip
    assert [(jobs[key].claims, jobs[key].het) for key in (("4+0", "completed"), ("4+1", "completed"))] == [(("4",), "4"), (("5", "4"), "4")]
    requeued, again = jobs["6", "requeued"], jobs["6", "cancelled"]
    assert (requeued.suspended_s, requeued.end_ns - requeued.start_ns, again.submit_ns) == (3, 15 * 10**9, requeued.end_ns)
    assert jobs["3", "failed"].exit_code == (3 if name.endswith("txt") else None), "22.05 tells 0 of a job that failed"
    assert again.exit_code is None


@pytest.mark.parametrize(("name", "state"), [("squeue-suspended-22.05.json", "suspended"), ("squeue-running-22.05.json", "running"), ("squeue-ended-22.05.json", "cancelled")])
def test_the_controller_of_a_real_slurm(name, state):
    jobs = told(name)
    assert {job_id: found for job_id, found in jobs} == {
        "1": "completed", "2_3": "completed", "2_4": "completed", "3": "failed", "4+0": "completed", "4+1": "completed", "6": state,
    }, "the one that is held has not begun"  # fmt: skip
    job = jobs["6", state]
    assert (job.uid, job.cluster, job.nodes, job.tasks, job.end_ns is None) == (1001, "tiny", ("cn1", "cn2"), 2, state != "cancelled")
    accounted = told("sacct-22.05.txt")
    assert all(accounted[key].key == job.key for key, job in jobs.items() if key in accounted)
    assert jobs["3", "failed"].exit_code == 3


@pytest.mark.parametrize("name", ["sacct-22.05.json", "sacct-22.05.txt", "squeue-running-22.05.json"])
def test_an_answer_that_is_cut_or_garbled_gives_jobs_or_a_word_and_never_crashes(name):
    data = (FIXTURES / name).read_bytes()
    rng = random.Random(name)
    for _ in range(300):
        at = rng.randrange(len(data))
        garbled = data[:at] if rng.random() < 0.3 else data[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 4))) + data[at + rng.randrange(3) :]
        try:
            jobs, problems = read_json(garbled) if name.endswith(".json") else read_sacct(garbled.decode("utf-8", "replace"))
        except QueueTrouble:
            continue
        assert all(job.start_ns and job.nodes for job in jobs) and all(str(problem).isprintable() for problem in problems)


def test_a_name_forges_no_job_and_hides_none():
    end = "f00dbeef"
    head = end.join(FIELDS) + end
    forged = row(JobID="99", JobIDRaw="99", User="root", NodeList="cn9").replace(DELIMITER, end[:-1])
    names = ["a\nb", "x\x0c" + row(JobID="98", JobIDRaw="98"), "y\n" + forged, "z\u2028", "a\x1fb", ""]
    rows = [row(JobID=str(n), JobIDRaw=str(n)).removesuffix("wrf|x").replace(DELIMITER, end) + name + end for n, name in enumerate(names, 1)]
    jobs, problems = read_sacct("\n".join([head, *rows, ""]))
    assert [(job.job_id, job.name) for job in jobs] == [(str(n), name) for n, name in enumerate(names, 1)] and problems == []
    jobs, problems = read_sacct("\n".join([DELIMITER.join(FIELDS), row(JobName="a\x1fb\x0cc")]))
    assert [job.name for job in jobs] == ["a\x1fb\x0cc"] and problems == []


def test_one_job_with_a_strange_name_costs_no_other():
    data = orjson.dumps({"jobs": [squeue_new(name="STRANGE"), squeue_new(job_id=18)]}).replace(b"STRANGE", b"\xe4\xff")
    jobs, problems = read_json(data)
    assert [job.job_id for job in jobs] == ["17", "18"] and problems == []


def test_accounting_of_newer_versions_tells_of_requeues_and_resizes():
    (job,) = read(sacct_new(state={"current": ["PENDING", "REQUEUED"]}))
    assert (job.state, job.end_ns) == ("requeued", (T + 65) * 10**9)
    assert read(squeue_new(job_state=["PENDING", "REQUEUED"])) == []
    before, after = row(State="RESIZING"), row(State="RUNNING", Submit=str(T + 65), Start=str(T + 65), End="Unknown")
    jobs, _ = read_sacct("\n".join([DELIMITER.join(FIELDS), before, after]))
    assert [(job.state, job.end_ns is None) for job in jobs] == [(COMPLETED, False), (RUNNING, True)]
    for suspended in ("inf", "nan", "1e999", "x"):
        jobs, problems = read_sacct("\n".join([DELIMITER.join(FIELDS), row(Suspended=suspended), row(JobID="18", JobIDRaw="18")]))
        assert [job.job_id for job in jobs] == ["18"] and len(problems) == 1
