import io

from rich.console import Console

from bellrock import report_components

S = 10**9
ANSWER = {
    "node": "fwd1", "component": "block_device", "instance": "sd\x1ba", "instance_what": "Device name.", "from_ns": 0, "to_ns": 2 * S, "step_s": 1.0, "t_ns": [0, S],
    "last_ns": S, "resolution_s": None, "values_left_out": 3,
    "values": [
        {"name": "read_bytes", "kind": "counter", "unit": "bytes", "what": "", "total": 4096.0, "per_s": [4096.0, None], "min_per_s": [0.0, None], "max_per_s": [8192.0, None]},
        {"name": "busy_s", "kind": "counter", "unit": "s", "what": "", "total": 0.5, "per_s": [0.25, 0.5], "min_per_s": [0.25, 0.5], "max_per_s": [0.25, 0.5]},
        {"name": "queue_length", "kind": "gauge", "unit": "requests", "what": "", "last": [2.0, None], "min": [1.0, None], "max": [9.0, None], "mean": [3.0, None]},
        {"name": "age", "kind": "gauge", "unit": "us", "what": "", "last": [None, None], "min": [None, None], "max": [None, None], "mean": [None, None]},
        {"name": "wait", "kind": "histogram", "unit": "us", "what": "", "bounds": [100.0, 2000.0, None], "totals": [7.0, 0.0, 1.0], "per_s": [[7.0, None], [0.0, None], [1.0, None]]},
        {"name": "link", "kind": "gauge", "unit": "bytes/s", "what": "", "last": [2048.0, None], "min": [None, None], "max": [4096.0, None], "mean": [3.0, None]},
        {"name": "new", "kind": "unknown", "unit": None, "what": "", "last": [5.0, 6.0], "min": [5.0, 6.0], "max": [5.0, 6.0], "mean": [5.0, 6.0]},
    ],
}  # fmt: skip


def printed(shown):
    console = Console(file=io.StringIO(), width=160)
    console.print(shown)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_rates_and_levels_have_units():
    lines = printed(report_components.one(ANSWER))
    assert lines[0] == "fwd1 block_device sd?a" and "in steps of 1.0 s" in lines[1]
    assert [line for line in lines if line.startswith(("read_bytes", "busy_s", "queue_length", "age", "wait", "link", "new"))] == [
        "read_bytes 4.0 KiB 4.0 KiB/s 8.0 KiB/s █",
        "busy_s 500.0 ms 37.5% 50.0% ▄█",
        "wait to 100.0 µs 7 7/s 7/s █",
        "wait to 2.0 ms 0 0/s 0/s ·",
        "wait above 2.0 ms 1 1/s 1/s █",
        "queue_length 2 1 9 █",
        "age - - -",
        "link 2.0 KiB/s - 4.0 KiB/s █",
        "new 6 5 6 ▇█",
    ]
    assert lines[-1] == "3 values more are too many to show"


def test_of_summaries_it_says_so():
    assert "summaries" not in printed(report_components.one(ANSWER))[1]
    for resolution_s, word in ((60, "minute"), (3600, "hour")):
        assert printed(report_components.one(ANSWER | {"resolution_s": resolution_s}))[1].endswith(f", of summaries by the {word}")


def test_nothing_is_said_so():
    assert printed(report_components.one(ANSWER | {"values": [], "values_left_out": 0}))[-1].startswith("nothing was heard of it in this time")


def counted(name, members=1, **changes):
    return {"name": name, "members": members, "read_bytes": 4096, "write_bytes": 0, "read_ops": 2, "write_ops": None, "metadata_ops": None} | changes


LOAD = {"from_ns": 0, "to_ns": S, "resolution_s": None, "by_class": {"rows": [counted("login", 3), counted("x\x1b", read_bytes=1)], "total": 2}, "by_group": None, "by_client": None, "by_user": None} | {
    "by_job": {"rows": [counted("7", 2)], "total": 1002}
}  # fmt: skip


def test_for_whom_it_worked_of_summaries_says_so():
    assert printed(report_components.load("oss1 lustre_ost a", LOAD | {"resolution_s": 3600}, "class"))[1].endswith("of summaries by the hour, which count whole")


def test_for_whom_it_worked():
    lines = printed(report_components.load("oss1 lustre_ost a", LOAD, "class"))
    assert lines[0] == "oss1 lustre_ost a" and lines[2:] == ["CLASS CLIENTS READ WRITTEN READS WRITES METADATA", "login 3 4.0 KiB 0 B 2 - -", "x? 1 1 B 0 B 2 - -"]
    jobs = printed(report_components.load("oss1 lustre_ost a", LOAD, "job"))
    assert jobs[2].startswith("JOB NAMES READ") and jobs[-2:] == ["1,001 more did less", report_components.BY_NAME]
    assert printed(report_components.load("a", LOAD, "client"))[-1] == "nothing was counted by client in this time; it is by class, job"
    assert printed(report_components.load("a", dict.fromkeys(LOAD) | {"from_ns": 0, "to_ns": S}, "user"))[-1] == "nothing was counted by user in this time"


def test_the_list_tells_how_long_ago_something_was_heard():
    rows = [{"node": "n1", "component": "node", "instance": instance, "first_ns": 0, "last_ns": 90 * S} for instance in ("n1", "")]
    assert printed(report_components.listed(rows, 95 * S)) == ["NODE COMPONENT INSTANCE HEARD", "n1 node n1 5.0 s ago", 'n1 node "" 5.0 s ago']
