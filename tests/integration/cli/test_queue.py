"""`bellrock queue`, as a person types it."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TABLE = """JOBID,JOB_NAME,PROGRAM_NAME,USER,STATE,QUEUE,STARTTIME,ENDTIME,RUNTIME,CNC,CORE,COREHOUR,NODELIST
101,run1,wrf.exe,ann,DONE,q_big,2026-11-22 12:00:00,2026-11-22 13:00:00,3600,3,12,12.0,"0-511,600"
105,run5,x,bob,DONE,q_big,2026-11-22 12:00:00,2026-11-22 11:00:00,,,4,,1
106,\x1b[31mred,,eve,RUN,q_big,1795348800,,,,,,7
"""


def bellrock(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "bellrock", "queue", *map(str, words)], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def test_a_table(tmp_path):
    file = tmp_path / "JOB_log.csv"
    file.write_text(TABLE)
    done = bellrock("csv", "--file", file, "--prefix", "vn")
    assert done.returncode == 0 and "513: vn0, vn1, vn2 …" in done.stdout and "\x1b" not in done.stdout
    assert "not understood: 'line 3': ENDTIME is before STARTTIME" in done.stderr
    told = json.loads(bellrock("csv", "--file", file, "--json").stdout)
    assert [job["job_id"] for job in told["jobs"]] == ["101", "106"] and len(told["problems"]) == 1
    assert told["jobs"][0]["end_ns"] - told["jobs"][0]["start_ns"] == 3600 * 10**9


def test_what_is_wrong_is_told_with_what_to_do(tmp_path):
    file = tmp_path / "answer"
    file.write_text("slurm_load_jobs error")
    for words, code, text in (
        (("csv",), 2, "bellrock queue csv --file FILE"),
        (("slurm", "--file", file), 1, "sacct's first line is"),
        (("lsf", "--file", tmp_path / "none"), 1, "No such file"),
        (("pbs", "--prefix", "x", "--file", file), 2, "--prefix is for csv"),
        (("torque",), 2, "Invalid value"),
    ):
        done = bellrock(*words)
        assert (done.returncode, text in done.stderr, "Traceback" in done.stderr) == (code, True, False), done.stderr
    file.write_text("JOBID,USER,STARTTIME,NODELIST\n1,ann,soon,1\n")
    done = bellrock("csv", "--file", file)
    assert done.returncode == 1 and "no entry was understood" in done.stderr
