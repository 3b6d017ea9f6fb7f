"""`bellrock sql` and `bellrock jobdb setup` on each database: the same numbers, and nothing but reading."""

import csv
import json
import os
import stat
import subprocess
import sys

import pytest
from click.testing import CliRunner
from pyarrow import parquet

from bellrock.cli import cli
from jobdb.address import Access
from jobdb.queue import QueueJob, Step
from jobdb.repository import JobDB
from jobdb.topology import FOREVER_NS
from jobdb.topology.facts import Failover, FileSystem, Forwarder, Forwarding, Member, Port, Server, Site, Target
from jobdb.topology.layouts import Layout, Part
from jobdb.views import READABLE, VIEWS
from tests.integration.jobdb.test_repository import S, event
from tests.servers import ACCOUNT

DAY = 86_400 * S
T0 = 1_700_000_000 * S
FORBIDDEN = [
    "DROP TABLE jobs", "DELETE FROM jobs", "INSERT INTO jobs (id) VALUES (9)", "UPDATE jobs SET uid = 0", "CREATE TABLE mine (a INT)", "SELECT * FROM places",
    "SELECT * FROM alembic_version", "SELECT name FROM (SELECT * FROM places) AS p", "SELECT count(*) FROM places", "WITH t AS (SELECT * FROM places) SELECT name FROM t",
    "COMMIT", "SELECT 1; SELECT 2",
]  # fmt: skip
FORBIDDEN_SQLITE = [
    "ATTACH 'x.db' AS x", "PRAGMA writable_schema = 1", "PRAGMA user_version", "SELECT load_extension('x')", "SELECT * FROM pragma_table_info('jobs')", "VACUUM",
    "SELECT * FROM sqlite_master",
]  # fmt: skip
FORBIDDEN_MYSQL = [
    "SELECT 1 INTO OUTFILE '/tmp/x'", "SELECT * FROM mysql.user", "GRANT SELECT ON *.* TO analyst@localhost", "SET GLOBAL max_connections = 1",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE jobs", "CREATE TEMPORARY TABLE t (a INT)",
]  # fmt: skip


def profile(number):
    """Figures of job `number`, all exact in binary."""
    return {
        "granularity": "process", "nodes": number % 3 + 1, "io_nodes": 1, "processes": 4, "io_processes": 1 if number == 5 else 4, "files": number, "phases": 1,
        "read_bytes": number * 1000, "write_bytes": 2**40 + number, "mapped_bytes": 0, "read_ops": number, "write_ops": 3, "metadata_ops": number * 10,
        "folded_ops": 0, "errors": number % 2, "unseen_programs": 0, "bandwidth_avg_read": 0.5 * number, "bandwidth_avg_write": 1e9, "bandwidth_peak_read": 0.0,
        "bandwidth_peak_write": 2e9, "iops_avg": 0.25, "mdops_avg": 2.0 * number, "io_mode_read": None, "io_mode_write": ("N-N", "N-1")[number % 2],
        "slowest_op": {"seconds": 0.125 * number},
    }  # fmt: skip


QUEUED = {
    "cluster": "", "job_id": "j2", "claims": ("j2",), "uid": 2, "state": "completed", "exit_code": 0, "nodes": ("n1",), "project": "climate", "queue": "batch",
    "name": "run.sh", "cores": 64, "steps": (Step("0", nodes=("n1",)),),
}  # fmt: skip


def fill(access, users=("u0", "u1", "u2"), programs=("p0", "p1")):
    """Twelve jobs of three users and two programs in two months; one runs, one has no figures, one could not be watched."""
    db = JobDB(access, user_name=lambda uid: None)
    for number in range(12):
        start, fields = T0 + number * 4 * DAY, {"job": f"j{number}", "uid": number % 3, "user": users[number % 3], "program": programs[number % 2], "cluster": ""}
        db.apply_event(event(time=start, **fields))
        if number != 11:
            end = start + (number + 1) * 1500 * 10**6
            db.apply_event(event("end", time=end, exit_code=int(number == 4), **fields))
            if number == 2:
                db.take_queue([QueueJob(**QUEUED, **{"submit_ns": start - S, "start_ns": start, "end_ns": end, "user": users[2]})])
            if number == 10:
                db.put_profile("j10", 1, {"job_id": "j10", "granularity": "process", "nodes": 1})
            elif number != 9:
                db.put_profile(f"j{number}", 1, profile(number))
    fill_topology(db)
    db.close()


def fill_topology(db):
    """One node through a forwarding node to a file system of two targets, of which one is at its other server for a day; and one file."""
    facts = {
        FileSystem: [FileSystem("work", "lustre", "/scratch")], Forwarder: [Forwarder("f1", "work")], Forwarding: [Forwarding("n1", "work", "f1")],
        Target: [Target("work", f"OST000{n}", "ost", n, "ost", f"work-OST000{n}") for n in (0, 1)],
        Server: [Server("work", f"OST000{n}", place, f"o{(n + place) % 2}") for n in (0, 1) for place in (0, 1)],
        Port: [Port("n1", "s1", "7", False)], Member: [Member("n1", "class", "compute")],
    }  # fmt: skip
    failovers = [Failover("work", "OST0001", T0 + 12 * DAY, T0 + 13 * DAY, "o0")]
    db.topology.apply(Site({kind: frozenset(found) for kind, found in facts.items()}, frozenset(failovers), digest="d" * 64), T0 - DAY, "ada@centre", "/etc/site", "first")
    db.topology.layouts.put([Layout("/scratch/out", (Part(0, FOREVER_NS, 1 << 20, (1, 0)),))], T0)


@pytest.fixture
def state(server, tmp_path, ask, monkeypatch):
    """The environment of a state whose job database was set up by `bellrock jobdb setup` and filled."""
    folder = tmp_path / "state"
    folder.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("BELLROCK_")} | {"BELLROCK_STATE": str(folder)}
    if server is None:
        fill(Access(f"sqlite:///{folder / 'jobs.db'}"))
        yield env
        return
    admin = tmp_path / "admin.password"
    admin.touch(0o600)
    admin.write_text(ACCOUNT.password)
    name = f"setup_{os.getpid()}"
    settings = {
        "url": server.url("writer", name), "ca": str(server.ca), "password_file": str(folder / "writer.password"), "analyst_password_file": str(folder / "analyst.password"),
    }  # fmt: skip
    (folder / "server.toml").write_text("[jobdb]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    for _ in range(2):
        done = bellrock(env, "jobdb", "setup", "--admin", ACCOUNT.name, "--admin-password-file", str(admin))
        assert done.returncode == 0, done.stderr
    for path in ("writer.password", "analyst.password"):
        assert stat.S_IMODE((folder / path).stat().st_mode) == 0o600 and (folder / path).read_text() not in done.stderr
    fill(Access(settings["url"], settings["password_file"], settings["ca"]))
    yield env
    ask(server, f"DROP DATABASE {name}", *(f"DROP USER IF EXISTS {user}@'{host}'" for user in ("writer", "analyst") for host in ("localhost", "127.0.0.1", "::1")))


def bellrock(env, *arguments, text=None):
    command = [sys.executable, "-m", "bellrock", *arguments]
    return subprocess.run(command, env=env, input=text, capture_output=True, text=True, timeout=120)


def rows(env, sql, *more):
    """In this process: a command takes a second to begin."""
    others = {name: None for name in os.environ if name.startswith("BELLROCK_")}
    done = CliRunner().invoke(cli, ["sql", sql, "--format", "json", *more], env=others | env)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_views_have_the_same_numbers_on_all(state):
    one, pending, unseen, runs = (rows(state, f"SELECT * FROM job_summary WHERE job = 'j{number}'")[0] for number in (3, 9, 10, 11))
    assert list(one) == [column.name for column in VIEWS[0].columns]
    assert (one["user"], one["program"], one["start_utc"], one["end_utc"], one["runtime_s"]) == ("u0", "p1", "2023-11-26 22:13:20", "2023-11-26 22:13:26", 6.0)
    assert (one["figures"], one["nodes"], one["write_bytes"], one["io_mode_write"], one["slowest_op_s"]) == ("known", 1, 2**40 + 3, "N-1", 0.375)
    assert (pending["figures"], pending["nodes"], pending["read_ops"]) == ("pending", 1, None)
    assert (unseen["figures"], unseen["nodes"], unseen["read_ops"]) == ("unseen", 1, None)
    assert (runs["state"], runs["end_utc"], runs["runtime_s"], runs["figures"]) == ("running", None, None, "pending")
    assert rows(state, "SELECT * FROM usage_by_user_month WHERE month = '2023-11' ORDER BY user") == [
        {
            "month": "2023-11", "user": f"u{user}", "jobs": len(of), "jobs_known": len(of), "jobs_failed": int(4 in of),
            "runtime_s": sum(1.5 * (n + 1) for n in of), "node_s": sum(1.5 * (n + 1) * (n % 3 + 1) for n in of),
            "read_bytes": sum(1000 * n for n in of), "write_bytes": sum(2**40 + n for n in of), "read_ops": sum(of), "write_ops": 3 * len(of),
            "metadata_ops": sum(10 * n for n in of), "errors": sum(n % 2 for n in of),
        }
        for user, of in enumerate(([0, 3], [1, 4], [2]))
    ]  # fmt: skip
    programs = rows(state, "SELECT month, program, jobs, jobs_known, read_bytes FROM usage_by_program_month ORDER BY month, program")
    assert [tuple(row.values()) for row in programs] == [
        ("2023-11", "p0", 3, 3, 6000), ("2023-11", "p1", 2, 2, 4000), ("2023-12", "p0", 3, 2, 14000), ("2023-12", "p1", 4, 2, 12000),
    ]  # fmt: skip
    assert rows(state, "SELECT day, jobs, users, programs FROM usage_by_day ORDER BY day LIMIT 1") == [{"day": "2023-11-14", "jobs": 1, "users": 1, "programs": 1}]
    modes = rows(state, "SELECT io_mode_write, jobs FROM usage_by_io_mode_month WHERE month = '2023-12' ORDER BY io_mode_write")
    assert sorted((row["io_mode_write"] or "", row["jobs"]) for row in modes) == [("", 3), ("N-1", 2), ("N-N", 2)]
    assert rows(state, "SELECT node, launches FROM job_nodes WHERE job = 'j1'") == [{"node": "n1", "launches": 1}]
    assert rows(state, "SELECT * FROM queue_job") == [
        {
            "job": "j2", "queue_id": "j2", "submit_ns": T0 + 8 * DAY - S, "project": "climate", "queue": "batch", "job_name": "run.sh", "array": "", "het": "",
            "cores": 64, "tasks": None, "suspended_s": 0.0, "restarts": 0,
        }
    ]  # fmt: skip
    assert rows(state, "SELECT project, jobs, read_bytes FROM usage_by_project_month") == [{"project": "climate", "jobs": 1, "read_bytes": 2000}]
    assert rows(state, "SELECT job, node FROM queue_job_nodes") == [{"job": "j2", "node": "n1"}]
    lasts = {"from_utc": "2023-11-13 22:13:20", "to_utc": None, "from_ns": T0 - DAY, "to_ns": None}
    assert rows(state, "SELECT * FROM node_forwarding") == [{"node": "n1", "file_system": "work", "forwarding_node": "f1", **lasts}]
    assert rows(state, "SELECT * FROM targets WHERE number = 1") == [
        {"file_system": "work", "target": "OST0001", "kind": "ost", "number": 1, "component": "ost", "instance": "work-OST0001", **lasts}
    ]
    assert rows(state, "SELECT * FROM node_members") == [{"node": "n1", "kind": "class", "name": "compute", **lasts}]
    assert rows(state, "SELECT * FROM switch_ports") == [{"switch": "s1", "port": "7", "peer": "n1", "peer_kind": "node", **lasts}]
    servers = rows(state, "SELECT server, served_as, from_utc, to_utc, to_ns FROM target_servers WHERE target = 'OST0001' ORDER BY from_ns")
    assert [tuple(row.values()) for row in servers] == [
        ("o1", "rule", "2023-11-13 22:13:20", "2023-11-26 22:13:20", T0 + 12 * DAY), ("o0", "failover", "2023-11-26 22:13:20", "2023-11-27 22:13:20", T0 + 13 * DAY),
        ("o1", "rule", "2023-11-27 22:13:20", None, None),
    ]  # fmt: skip
    files = rows(state, "SELECT path, file_system, place, target, first_byte, end_byte, stripe_bytes, from_ns FROM file_targets ORDER BY place")
    assert [tuple(row.values()) for row in files] == [("/scratch/out", "work", n, f"OST000{1 - n}", 0, None, 1 << 20, T0) for n in (0, 1)]
    log = rows(state, "SELECT from_utc, from_ns, applied_by, source, note, digest, added, removed FROM topology_log")
    assert [tuple(row.values()) for row in log] == [("2023-11-13 22:13:20", T0 - DAY, "ada@centre", "/etc/site", "first", "d" * 64, 12, 0)]
    assert rows(state, "SELECT * FROM job_forwarding WHERE job = 'j3'") == [
        {"job": "j3", "user": "u0", "program": "p1", "start_utc": "2023-11-26 22:13:20", "end_utc": "2023-11-26 22:13:26", "file_system": "work", "forwarding_node": "f1", "nodes_served": 1}
    ]
    for view in VIEWS:
        found = rows(state, f"SELECT * FROM {view.name} LIMIT 1")
        assert list(found[0]) == [column.name for column in view.columns]


def test_formats_hold_the_same(state, tmp_path):
    sql = "SELECT job, write_bytes, runtime_s, io_mode_read FROM job_summary ORDER BY start_ns"
    expected = rows(state, sql)
    table = parquet.read_table(_written(state, sql, "parquet", tmp_path))
    assert table.to_pylist() == expected and [str(kind) for kind in table.schema.types] == ["string", "int64", "double", "null"]
    read = list(csv.DictReader(_written(state, sql, "csv", tmp_path).open()))
    assert read == [{name: "" if value is None else str(value) for name, value in row.items()} for row in expected]
    shown = bellrock(state, "sql", "--file", "-", "--limit", "3", text=f"{sql};\n")
    assert shown.returncode == 0 and shown.stdout.split() == ["job", "write_bytes", "runtime_s", "io_mode_read"] + [
        word for row in expected[:3] for word in (row["job"], str(row["write_bytes"]), str(row["runtime_s"]))
    ]
    assert "only the first 3 rows" in shown.stderr
    nothing = bellrock(state, "sql", "SELECT job FROM job_summary WHERE job = 'none'", "--format", "json")
    assert nothing.stdout == "[]\n"


def _written(env, sql, how, folder):
    path = folder / f"out.{how}"
    done = bellrock(env, "sql", sql, "--format", how, "-o", str(path))
    assert done.returncode == 0 and done.stdout == "", done.stderr
    return path


def test_nothing_but_reading_what_is_allowed(state, kind):
    from bellrock import config
    from bellrock.sql import access
    from jobdb.analyst import QueryError, asking

    folder = type(config.SAMPLE)(state["BELLROCK_STATE"])
    way = access(config.load(None, folder), folder)
    for sql in FORBIDDEN + (FORBIDDEN_SQLITE if kind == "sqlite" else FORBIDDEN_MYSQL):
        with pytest.raises(QueryError) as error, asking(way, sql, 30) as found:
            list(found.batches)
        assert str(error.value)
    for name in READABLE:
        with asking(way, f"SELECT count(*) FROM {name}", 30) as found:
            assert [count for batch in found.batches for (count,) in batch][0] > 0
    with asking(way, "WITH t AS (SELECT job FROM job_summary) SELECT count(*) FROM t", 30) as found:
        assert list(found.batches) == [[(12,)]]


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("SELECT job\nFRM job_summary\nWHERE FRM = 1", "line 2, column "),
        ("SELECT job FROM job_summary\nWHERE user = = 'a = b'", "line 2, column 14"),
        ("SELECT jobs,\n  nope FROM usage_by_day", "line 2, column 3"),
        ("SELECT job FROM\n nothing_there", "line 2, column 2"),
    ],
)
def test_errors_say_where(state, kind, sql, place):
    done = bellrock(state, "sql", sql)
    # MySQL tells of a table that is not there only that the account may not read it.
    assert done.returncode == 1 and done.stdout == "" and (place in done.stderr or ("nothing_there" in sql and kind != "sqlite" and "denied" in done.stderr))
    assert "Traceback" not in done.stderr


def test_a_query_that_takes_too_long_is_ended(state):
    many = ", ".join(f"launches AS l{number}" for number in range(12))
    done = bellrock(state, "sql", f"SELECT count(*) FROM {many} WHERE l0.node > l1.node OR l2.id + l3.id < l4.id + l5.id", "--timeout", "1")
    assert done.returncode == 1 and "longer than 1 s" in done.stderr


def test_rows_are_passed_on_as_they_come(state):
    """Six million rows would take more memory than the process may have."""
    many = ", ".join(f"jobs AS j{number}" for number in range(6))
    limit = 600 << 20
    command = f"ulimit -v {limit >> 10} && exec {sys.executable} -m bellrock sql \"SELECT j0.command FROM {many}\" --format csv --limit 300000 | tail -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], env=state, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0 and done.stdout == "prog -x\n", done.stderr


def test_without_a_database_or_a_query(tmp_path):
    env = {"PATH": os.environ["PATH"], "BELLROCK_STATE": str(tmp_path)}
    assert bellrock(env, "sql", "SELECT 1").returncode == 3
    assert bellrock(env, "sql").returncode == 2 and bellrock(env, "sql", "SELECT 1", "--file", "-").returncode == 2
    assert bellrock(env, "jobdb", "setup").returncode == 2
    shown = bellrock(env, "sql", "--schema").stdout
    assert all(f"{view.name}: " in shown for view in VIEWS) and "bytes/s" in shown
