"""Jobs of PBS, LSF and tables."""

import datetime

import orjson
import pytest

from jobdb.queue import CANCELLED, COMPLETED, FAILED, QueueTrouble, RUNNING, csv, lsf, pbs

UTC = datetime.UTC
NOON_NS = int(datetime.datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()) * 10**9


def test_a_table_with_beacons_columns():
    table = (
        "JOBID,JOB_NAME,PROGRAM_NAME,USER,STATE,QUEUE,STARTTIME,ENDTIME,RUNTIME,CNC,CORE,COREHOUR,NODELIST\n"
        '101,run1,wrf.exe,ann,DONE,q_big,2026-11-22 12:00:00,2026-11-22 13:00:00,3600,3,12,12.0,"0-1,600"\n'
        "102,run2,,bob,RUN,q_big,1795348800,,,1,4,,7\n"
        "103,run3,x,bob,PEND,q_big,,,,,,,\n"
        "104,run4,x,bob,EXIT,q_big,2026-11-22 12:00:00+01:00,2026-11-22 11:30:00,,,4,,cn[1-2]\n"
        "105,run5,x,bob,DONE,q_big,2026-11-22 12:00:00,2026-11-22 11:00:00,,,4,,1\n"
        "106,run6,x,bob,DONE,q_big,yesterday,,,,4,,1\n"
        "107,run7,x,bob,DONE,q_big,2026-11-22 12:00:00,2026-11-22 13:00:00,,,4,,1,2,3\n"
    )
    jobs, problems = csv.read(table, "tl", "vn")
    assert [(job.job_id, job.state, job.nodes) for job in jobs] == [("101", COMPLETED, ("vn0", "vn1", "vn600")), ("102", RUNNING, ("vn7",)), ("104", FAILED, ("cn1", "cn2"))]
    first, second, third = jobs
    assert (first.key, first.start_ns, first.end_ns, first.name, first.cores) == (("tl", "101", NOON_NS), NOON_NS, NOON_NS + 3600 * 10**9, "wrf.exe", 12)
    assert (second.end_ns, second.name, third.start_ns) == (None, "run2", NOON_NS - 3600 * 10**9)
    assert [problem.entry for problem in problems] == ["'line 6'", "'line 7'", "'line 8'"]
    again, _ = csv.read("\ufeffjobid,user,starttime,nodelist,endtime,submittime,uid\n9,ann,2026/11/22 12:00:00,3,2026-11-22 12:00:01,2026-11-22 11:00:00,77\n")
    assert (again[0].state, again[0].submit_ns, again[0].uid) == (COMPLETED, NOON_NS - 3600 * 10**9, 77)
    with pytest.raises(QueueTrouble, match="NODELIST"):
        csv.read("JOBID,USER,STARTTIME\n1,a,5\n")
    with pytest.raises(QueueTrouble):
        csv.read("")


def pbs_job(**more) -> dict:
    return {
        "Job_Name": "wrf", "Job_Owner": "ann@login1", "job_state": "R", "queue": "workq", "server": "srv", "ctime": "Sun Nov 22 11:00:00 2026", "stime": "Sun Nov 22 12:00:00 2026",
        "exec_host": "n1/0*4+n2/0*4", "Resource_List": {"ncpus": 8}, "project": "_pbs_project_default", "run_count": 1,
    } | more  # fmt: skip


def test_pbs():
    told = {
        "123.srv": pbs_job(),
        "124[].srv": pbs_job(job_state="B", exec_host=None, array=True),
        "124[3].srv": pbs_job(job_state="F", array_id="124[].srv", Exit_status=0, resources_used={"walltime": "00:01:00"}, run_count=2),
        "125.srv": pbs_job(job_state="F", Exit_status=271, mtime="Sun Nov 22 12:30:00 2026", Account_Name="phys"),
        "126.srv": pbs_job(job_state="Q", stime=None, exec_host=None),
        "127.srv": pbs_job(stime="noon"),
        "128.srv": 7,
    }
    jobs, problems = pbs.read(orjson.dumps({"pbs_server": "srv", "Jobs": told}), zone=UTC)
    assert [(job.key, job.state) for job in jobs] == [
        (("srv", "123.srv", NOON_NS - 3600 * 10**9), RUNNING), (("srv", "124[3].srv", NOON_NS - 3600 * 10**9), COMPLETED), (("srv", "125.srv", NOON_NS - 3600 * 10**9), CANCELLED),
    ]  # fmt: skip
    running, task, killed = jobs
    assert (running.nodes, running.user, running.project, running.cores, running.start_ns, running.end_ns) == (("n1", "n2"), "ann", "", 8, NOON_NS, None)
    assert (task.array, task.end_ns, task.restarts) == ("124", NOON_NS + 60 * 10**9, 1)
    assert (killed.end_ns, killed.exit_code, killed.project) == (NOON_NS + 1800 * 10**9, 271, "phys")
    assert [problem.entry for problem in problems] == ["'127.srv'", "'128.srv'"]
    for text in (b"", b"[]", b'{"Jobs": []}', b"qstat: cannot connect to server"):
        with pytest.raises(QueueTrouble):
            pbs.read(text)


def lsf_job(**more) -> dict:
    return {
        "JOBID": "101", "JOBINDEX": "0", "USER": "ann", "STAT": "RUN", "QUEUE": "normal", "PROJECT": "phys", "EXEC_HOST": "4*n1:2*n2", "NALLOC_SLOT": "6",
        "SUBMIT_TIME": "Nov 22 11:00", "START_TIME": "Nov 22 12:00", "FINISH_TIME": "Nov 23 12:00 L", "EXIT_CODE": "", "JOB_NAME": "wrf",
    } | more  # fmt: skip


def test_lsf():
    told = [
        lsf_job(), lsf_job(JOBID="102", JOBINDEX="3", STAT="DONE", FINISH_TIME="Nov 22 12:30"), lsf_job(JOBID="103", STAT="EXIT", EXIT_CODE="130", FINISH_TIME="Nov 22 12:30:05 2026"),
        lsf_job(JOBID="104", STAT="PEND", EXEC_HOST="-", START_TIME="-"), lsf_job(JOBID="105", SUBMIT_TIME="Dec 31 23:00", START_TIME="Dec 31 23:59"),
        lsf_job(JOBID="106", START_TIME="Feb 29 10:00", SUBMIT_TIME="Feb 29 09:00"), lsf_job(JOBID="x"), {"ERROR": "Job <7> is not found", "JOBID": "7"},
        lsf_job(JOBID="108", START_TIME="Nov 31 10:00"),
    ]  # fmt: skip
    jobs, problems = lsf.read(orjson.dumps({"COMMAND": "bjobs", "RECORDS": told}), (NOON_NS + 3600 * 10**9) / 1e9, "c1", UTC)
    assert [(job.job_id, job.claims, job.state, job.exit_code) for job in jobs[:3]] == [
        ("101", ("101",), RUNNING, None), ("102[3]", ("102[3]",), COMPLETED, 0), ("103", ("103",), CANCELLED, 130),
    ]  # fmt: skip
    assert (jobs[0].start_ns, jobs[0].end_ns, jobs[1].end_ns, jobs[2].end_ns) == (NOON_NS, None, NOON_NS + 1800 * 10**9, NOON_NS + 1805 * 10**9)
    years = [datetime.datetime.fromtimestamp(job.start_ns / 1e9, UTC).year for job in jobs[3:]]
    assert years == [2025, 2024], "the last ones before now"
    assert [problem.entry for problem in problems] == ["'x'", "'7'", "'108'"]
    for text in (b"", b"{}", b"No unfinished job found"):
        with pytest.raises(QueueTrouble):
            lsf.read(text, 0)


def test_rows_of_a_table_that_are_wrong_cost_no_other():
    head = "JOBID,USER,STARTTIME,PROGRAM_NAME,NODELIST,STATE,ENDTIME,CORE,EXITCODE\r\n"
    rows = [
        '1,ann,1700000000,"wrf,3,RUN,,,', "2,bob,1700000000,x,4,RUN,,12.0,0:0", "3,eve,1700000000,x", "4,eve,1700000000,x,,RUN,,,", "", "5,eve,1700000000,a\rb,5,RUN,,,",
        "6,a,1700000000,x,6,TIMEOUT,1700000009,,-9", "7,a,1700000000,x,7,CANCELED,1700000009,,", "8,a,1700000000,x,8,SSUSP,NULL,,", "9,a,1700000000,x,9,BIZARRE,1700000009,,",
        "10,a,1700000000,x,10,CANCELLED by 7,1700000009,,", "11,a,1700000000,x,11,,0000-00-00 00:00:00,,", f"12,a,1700000000,x,\"{','.join(map(str, range(30_000)))}\",RUN,,,",
    ]  # fmt: skip
    jobs, problems = csv.read(head + "\r\n".join(rows))
    assert [(job.job_id, job.state, job.end_ns is None) for job in jobs] == [
        ("2", "running", True), ("6", "timeout", False), ("7", "cancelled", False), ("8", "suspended", True), ("9", "unknown", False), ("10", "cancelled", False),
        ("11", "running", True), ("12", "running", True),
    ]  # fmt: skip
    assert (jobs[0].cores, jobs[0].exit_code, jobs[1].exit_code, len(jobs[-1].nodes)) == (12, 0, -9, 30_000)
    assert [problem.entry for problem in problems] == [f"'line {n}'" for n in (2, 4, 5, 7)]


def test_what_pbs_writes_that_is_no_json_is_put_right():
    lines = [
        "{", '    "pbs_server":"srv",', '    "Jobs":{', '        "1.srv":{', '            "Job_Name":nan,', '            "Account_Name":4711,', '            "queue":007,',
        '            "job_state":"R",', '            "ctime":"Sun Nov 22 11:00:00 2026",', '            "stime":"Sun Nov 22 12:00:00 2026",', '            "exec_host":"n1/0",',
        '            "Variable_List":{', '                "PS1":"\\u@\\h\\$ a\\,b",', '                "X":0x1f,', '                "T":"a\tb"', "            },",
        '            "euser":1e5', "        }", "    }", "}",
    ]  # fmt: skip
    (job,), problems = pbs.read("\n".join(lines).encode(), zone=UTC)
    assert (job.name, job.project, job.queue, job.user, job.nodes, problems) == ("nan", "4711", "007", "1e5", ("n1",), [])
    jobs, _ = pbs.read(orjson.dumps({"Jobs": {"1.s": pbs_job(Job_Name=1234)}}).replace(b"login1", b"\xe4"), zone=UTC)
    assert [job.name for job in jobs] == ["1234"]


@pytest.mark.parametrize(("code", "state"), [(0, COMPLETED), (1, FAILED), (271, CANCELLED), (-29, "timeout"), (-28, "timeout"), (-27, "out_of_memory"), (-1, FAILED)])
def test_how_a_job_of_pbs_ended(code, state):
    ((job,), _) = pbs.read(orjson.dumps({"Jobs": {"1.s": pbs_job(job_state="F", Exit_status=code, mtime="Sun Nov 22 12:30:00 2026")}}), zone=UTC)
    assert (job.state, job.exit_code) == (state, code)


@pytest.mark.parametrize(("reason", "code", "state"), [("TERM_RUNLIMIT: job killed", "140", "timeout"), ("TERM_MEMLIMIT", "137", "out_of_memory"), ("TERM_OWNER: x", "1", CANCELLED), ("", "130", CANCELLED), ("-", "3", FAILED)])
def test_how_a_job_of_lsf_ended(reason, code, state):
    told = lsf_job(STAT="EXIT", EXIT_CODE=code, EXIT_REASON=reason, FINISH_TIME="Nov 22 12:30:05 2026", PROJ_NAME="p2")
    ((job,), _) = lsf.read(orjson.dumps({"RECORDS": [told]}), NOON_NS / 1e9 + 3600, "c1", UTC)
    assert (job.state, job.project) == (state, "p2")


@pytest.mark.parametrize("never", ["Feb 30 10:00", "Feb 1 24:00", "Nov 31 10:00", "Feb 29 10:00 2025", "Xyz 1 10:00"])
def test_a_time_that_never_is_ends_the_search_for_its_year(never):
    jobs, problems = lsf.read(orjson.dumps({"RECORDS": [lsf_job(START_TIME=never), lsf_job(JOBID="1_0"), lsf_job(JOBID="102")]}), NOON_NS / 1e9, "c1", UTC)
    assert [job.job_id for job in jobs] == ["102"] and len(problems) == 2
