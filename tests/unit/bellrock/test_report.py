import io

import pytest
from rich.console import Console

from bellrock import report, report_tables

PROFILE = {
    **dict.fromkeys(report.HEADLINE, 0),
    "job_id": "j1",
    "program": "sim",
    "nodes": 1,
    "processes": 4,
    "io_processes": 4,
    "runtime_s": 12.5,
    "write_bytes": 64 << 20,
    "write_ops": 1024,
    "bandwidth_avg_write": float(32 << 20),
    "bandwidth_peak_write": float(48 << 20),
    "io_mode_write": "N-1",
    "io_mode_read": None,
    "metadata_ops": 8,
    "mdops_avg": 4.0,
    "iops_avg": 512.0,
    "files": 1,
    "phases": 1,
    "errors": 2,
    "mapped_bytes": 0,
    "folded_ops": 0,
    "slowest_op": {"op": "write", "seconds": 0.5, "file": "/scratch/\x1b[31mout"},
    "latency": None,
    "operations": [{"op": "write", "count": 1024, "bytes": 64 << 20, "errors": 2, "busy_s": 1.5, "slowest_s": 0.5}],
    "request_sizes": [
        {"from_bytes": 0, "to_bytes": 0, "read_ops": 0, "write_ops": 0, "read_bytes": 0, "write_bytes": 0},
        {"from_bytes": 65536, "to_bytes": 131072, "read_ops": 0, "write_ops": 1024, "read_bytes": 0, "write_bytes": 64 << 20},
    ],
}
JOB = {
    "job_id": "j1",
    "cluster": "",
    "user": "ann",
    "program": "sim",
    "command": "sim -x",
    "state": "completed",
    "settled": True,
    "start_ns": 1_800_000_000_000_000_000,
    "end_ns": 1_800_000_012_500_000_000,
    "exit_code": 0,
    "runtime_s": 12.5,
    "node_names": ["n1"],
}
ROW = {"read_bytes": 0, "write_bytes": 64 << 20, "read_ops": 0, "write_ops": 1024, "metadata_ops": 8, "errors": 0}
FILES = {"files": [{**ROW, "file": "/scratch/out", "file_id": "ab", "processes": 4}], "total": 7, "next_cursor": "x"}
PROCESSES = {
    "processes": [{**ROW, "node": "n1", "process": "17.99", "rank": 3, "program": "sim", "files": 1}],
    "total": 1,
    "next_cursor": None,
}
SERIES = {"from_ns": 0, "to_ns": 4 * 10**9, "step_s": 1.0, "read_bytes_per_s": [0, 0, 0, None], "write_bytes_per_s": [0, 1e6, 2e6, None]}


def rendered(thing: object, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(thing)
    return out.getvalue()


def test_the_headline_is_the_21_figures_in_their_order() -> None:
    line = report.headline({**PROFILE, "more": 1})
    assert len(line) == 21 and list(line) == list(report.HEADLINE) and "more" not in line
    with pytest.raises(KeyError):
        report.headline({"job_id": "x"})


def test_the_headline_is_what_jobdb_calls_so() -> None:
    from jobdb.profile import HEADLINE

    assert HEADLINE == report.HEADLINE


def test_a_summary_tells_each_direction_that_was_used() -> None:
    lines = report.summary({"job": JOB, "profile": PROFILE, "losses": []})
    text = "\n".join(lines)
    assert lines[0] == "job j1 · sim · completed in 12.5 s · 4 processes on 1 node"
    assert "64.0 MiB in 1,024 calls" in text and "32.0 MiB/s" in text and "48.0 MiB in the peak second" in text and "N-1" in text
    assert "read" not in text.replace("already", "") and "2 calls failed" in text and "1 file " in text


def loss(**counts: int) -> dict:
    return {"node": "n1\x1b[2J"} | dict.fromkeys(("lost", "lost_names", "lost_log_bytes", "spool_full_s", "folded"), 0) | counts


def test_losses_are_told_first() -> None:
    answer = {"job": JOB, "profile": PROFILE, "losses": [loss(lost=1234)]}
    told = "1,234 operations or records were lost on n1?[2J meanwhile: the figures are perhaps too low"
    assert report.summary(answer)[1].strip() == told and "operations or" not in report.summary(answer)[2]
    shown = rendered(report_tables.show(answer, SERIES, FILES, PROCESSES, "http://x", 120))
    assert shown.index("1,234 operations or records were lost") < shown.index("Traffic")


def test_a_spool_that_was_full_is_told_in_plain_words_and_is_no_loss() -> None:
    answer = {"job": JOB, "profile": PROFILE, "losses": [loss(spool_full_s=75, folded=3), loss(lost_names=1, lost_log_bytes=2048)]}
    assert [line.strip() for line in report.summary(answer)[1:4]] == [
        "2.0 KiB of a trace log on n1?[2J were gone before they were read: the figures are perhaps too low",
        "1 file name found no room on n1?[2J meanwhile: some files are listed by their id",
        "the agent's spool on n1?[2J was full, or could not be written, for 1 min 15 s meanwhile, and 3 operations of programs there were folded: "
        "counts and bytes are exact, single times and offsets are not",
    ]
    assert "or could not be written, for 1 min 15 s" in rendered(report_tables.show(answer, SERIES, FILES, PROCESSES, "http://x", 120))


def test_a_job_of_which_nothing_was_seen_says_why_that_may_be() -> None:
    blank = {**PROFILE, "processes": 0, "write_ops": 0, "metadata_ops": 0, "errors": 0}
    said = report.summary({"job": JOB, "profile": blank, "losses": []})[1]
    assert "an empty environment" in said and "statically" not in said, "what cannot be preloaded would be named"
    shown = rendered(report_tables.show({"job": JOB, "profile": blank, "losses": []}, SERIES, FILES, PROCESSES, "http://x", 120))
    assert "bare system calls" in shown and "MODE" not in shown


def test_what_could_not_be_watched_is_said_and_not_shown_as_nothing() -> None:
    rows = [{"program": "sol\x1bver", "file": "/opt/solver", "reason": "static", "processes": 2}] * 7
    partly = report.summary({"job": JOB, "profile": {**PROFILE, "unseen": rows}, "losses": []})
    assert partly[1].strip() == "sol?ver could not be watched (statically linked; 2 processes): its I/O is not in the figures"
    assert partly[6].strip() == "nor could 2 further programs" and "1,024 calls" in partly[7]
    keep = ("job_id", "program", "nodes", "runtime_s")
    wholly = {name: value if name in keep else None for name, value in PROFILE.items()} | {"operations": [], "request_sizes": [], "unseen": rows[:1]}
    lines = report.summary({"job": JOB, "profile": wholly, "losses": []})
    assert "processes unseen on 1 node" in lines[0] and "could not be watched" in lines[1] and len(lines) == 2
    shown = rendered(report_tables.show({"job": JOB, "profile": wholly, "losses": []}, SERIES, FILES, PROCESSES, "http://x", 120))
    assert "could not be watched" in shown and "no I/O" not in shown and "MODE" not in shown


def test_nodes_that_stand_for_processes_are_said() -> None:
    assert "each node for one process" in report.summary({"job": JOB, "profile": {**PROFILE, "granularity": "node"}, "losses": []})[1]


def test_a_failed_job_tells_its_exit_code_and_a_running_one_its_time() -> None:
    assert "failed with exit code 3 in 12.5 s" in report.first_line({**JOB, "state": "failed", "exit_code": 3}, PROFILE)
    assert "running for 12.5 s" in report.first_line({**JOB, "state": "running", "end_ns": None}, PROFILE)


def test_the_report_shows_every_part() -> None:
    shown = rendered(report_tables.show({"job": JOB, "profile": PROFILE, "losses": []}, SERIES, FILES, PROCESSES, "http://127.0.0.1:8425/jobs/j1", 120))
    for part in (
        "all processes share one file",
        "Bandwidth over time",
        "Request sizes",
        "64.0 KiB",
        "/scratch/out",
        "rank 3",
        "n1 17",
        "(the first 1 of 7",
    ):
        assert part in shown
    assert "http://127.0.0.1:8425/jobs/j1" in shown and "\x1b" not in shown and "slowest call" in shown
    assert "mapped" not in shown and "folded" not in shown


def test_the_report_fits_a_narrow_terminal() -> None:
    shown = rendered(report_tables.show({"job": JOB, "profile": PROFILE, "losses": []}, SERIES, FILES, PROCESSES, "http://x", 80), 80)
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_the_table_of_jobs_takes_what_is_not_known_yet() -> None:
    early = {
        **JOB,
        "job_id": "j2",
        "state": "running",
        "end_ns": None,
        **dict.fromkeys(("processes", "read_bytes", "write_bytes", "io_mode_read")),
    }
    shown = rendered(report_tables.jobs_table([{**JOB, **PROFILE}, early]), 160)
    first, second = shown.splitlines()[1:]
    assert "j1" in first and "64.0 MiB" in first and "- / N-1" in first
    assert "j2" in second and "running" in second and "- / -" in second


def test_a_job_has_the_nodes_of_its_records_not_those_that_it_was_launched_from() -> None:
    ran, early = {**JOB, **PROFILE, "nodes": 64}, {**JOB, "nodes": None}
    rows = rendered(report_tables.jobs_table([ran, early]), 160).splitlines()
    at = rows[0].index("NODES") + len("NODES")
    assert [row[:at].split()[-1] for row in rows[1:]] == ["64", "1"]
    shown = [rendered(report_tables.show({"job": JOB, "profile": profile, "losses": []}, SERIES, FILES, PROCESSES, "", 120)) for profile in (ran, PROFILE)]
    assert "n1 …" in shown[0] and "n1 …" not in shown[1]
