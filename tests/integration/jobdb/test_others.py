"""Which other jobs ran while one did, on each database."""

import pytest
from sqlalchemy import event as listen, insert, text

from jobdb.layers import LONG_NS, others
from jobdb.models import JobRow
from jobdb.repository import JobDB
from jobdb.topology.site import load
from tests.integration.jobdb.test_queue_jobs import T, ended, told
from tests.integration.jobdb.test_repository import S, event


@pytest.fixture
def db(url):
    database = JobDB(url, user_name={1000: "ada", 1001: "bob"}.get)
    yield database
    database.close()


def queued(db, name, from_s, lasted_s, *nodes):
    job = told(job_id=name, start_ns=T + from_s * S, nodes=nodes, claims=(name,))
    db.take_queue([job if lasted_s is None else ended(job, after_s=lasted_s)])


EVER = ((T - 10**17, T + 10**17),)


@pytest.fixture
def around(db):
    """Job 7 on cn1 and cn2 for 100 s, and others."""
    queued(db, "7", 0, 100, "cn1", "cn2")
    for name, from_s, lasted_s, node in (
        ("before", -50, 50, "cn1"),
        ("into", -50, 51, "cn1"),
        ("within", 10, 5, "cn3"),
        ("runs", 99, None, "cn2"),
        ("after", 100, 5, "cn1"),
    ):
        queued(db, name, from_s, lasted_s, node)
    queued(db, "nowhere", 10, 5)
    queued(db, "long", -LONG_NS // S, LONG_NS // S + 1, "cn4")
    queued(db, "longer", -LONG_NS // S - 1, LONG_NS // S + 50, "cn4")
    for kind, at_s in (("start", 20), ("end", 30)):
        db.apply_event(event(kind, job="launched", time=T + at_s * S, node="cn1"))
    return db.job("7")


@pytest.mark.parametrize("at_once", [1, 1000])
def test_jobs_of_the_queue_and_of_launches_are_told_by_node(db, around, monkeypatch, at_once):
    monkeypatch.setattr(others, "AT_ONCE", at_once)
    found = db.others_on(around, ["cn1", "cn2", "cn4", "cn9"], around.start_ns, around.end_ns)
    assert found.is_whole
    assert {node: {key for key, _ in on} for node, on in found.on.items()} == {"cn1": {"into", "launched"}, "cn2": {"runs"}, "cn4": {"long", "longer"}}
    late = ((T + 40 * S, T + 100 * S),)
    every = dict.fromkeys(("cn1", "cn2", "cn4", "cn9"), EVER)
    assert found.served(every, EVER) == {"into", "launched", "long", "longer", "runs"} and found.served(every, late) == {"longer", "runs"}
    assert found.served({"cn1": late, "cn2": EVER}, EVER) == {"runs"}, "cn1 was served later"
    assert found.were_on("cn1") and not found.were_on("cn9")


def test_jobs_on_any_node_are_told_by_when_they_ran(db, around):
    found = db.others_anywhere(around, None, around.start_ns, around.end_ns)
    assert found.is_whole and found.served(EVER) == {"into", "launched", "long", "runs", "within"}, "those that had a node"
    assert found.served(((T + 40 * S, T + 100 * S),)) == {"runs"}


def test_jobs_on_nodes_that_reached_a_file_system_by_the_map_meanwhile(db, around, tmp_path):
    def apply(nodes, count, at_s):
        text = '[[class]]\nname = "c"\nnodes = "cn[1-9]"\n[[file_system]]\nname = "work"\nkind = "nfs"\nmounts = "/work"\n'
        text += f'[[forwarding]]\nfile_system = "work"\nnodes = "{nodes}"\nforwarders = "fwd1"\neach = {count}\n'
        (tmp_path / "site.toml").write_text(text)
        db.topology.apply(load(tmp_path), T + at_s * S, "root")

    def reached_work():
        return db.others_anywhere(around, "work", around.start_ns, around.end_ns).served(EVER)

    assert reached_work() == set()
    apply("cn[1-2]", 2, -200)
    assert reached_work() == {"into", "launched", "runs"}
    apply("cn[1,3]", 2, 12)
    assert reached_work() == {"into", "launched", "within"}, "cn3 since 12 s after the start, cn2 no more since, and what runs there began later"


@pytest.mark.parametrize("bound", ["JOBS_MAX", "JOB_NODES_MAX", "NODES_MAX"])
def test_of_too_many_it_is_not_known_who_else_there_was(db, monkeypatch, bound):
    monkeypatch.setattr(others, bound, 3)
    queued(db, "7", 0, 100, "cn1")
    job = db.job("7")
    for number in range(4):
        queued(db, f"o{number}", number, 50, f"cn{2 + number}")
        on = db.others_on(job, [f"cn{2 + other}" for other in range(number + 1)], job.start_ns, job.end_ns)
        anywhere = db.others_anywhere(job, None, job.start_ns, job.end_ns)
        known = [sum(map(len, on.on.values())), len(anywhere.jobs)]
        if number < 3 or bound != "JOBS_MAX":
            assert anywhere.is_whole and known[1] == number + 1
        else:
            assert not anywhere.is_whole and {key for key, _ in anywhere.jobs} == {"o1", "o2", "o3"}, "those that began last"
        assert (on.is_whole, known[0]) == ((True, number + 1) if number < 3 or bound == "JOBS_MAX" else (False, 3))


def plans(db, ask):
    """Of each look at the table of jobs while `ask` asks: by which index, and whether that alone was enough."""
    asked = []
    hear = ("before_cursor_execute", lambda connection, cursor, statement, parameters, *_: asked.append((statement, parameters)))
    listen.listen(db._engine, *hear)
    try:
        ask()
    finally:
        listen.remove(db._engine, *hear)
    found = []
    with db._engine.connect() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        for statement, parameters in asked:
            if statement.startswith("SELECT"):
                for row in connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN ' * is_sqlite}{statement}", parameters).mappings():
                    if is_sqlite and row["detail"].split()[1] == "jobs":
                        found.append((row["detail"].partition(" INDEX ")[2].split(" ")[0], "COVERING" in row["detail"]))
                    elif not is_sqlite and row["table"] == "jobs":
                        found.append((row["key"], "Using index" in (row["Extra"] or "").split("; ")))
    return found


def test_an_index_alone_tells_which_jobs_ran_and_the_list_keeps_its_own(db):
    """Rows are wide, and those of 30 days are looked through."""
    queued(db, "7", 0, 100, "cn1")
    with db._engine.begin() as connection:
        texts = dict.fromkeys(("cluster", "user", "program", "search"), "x") | {"command": "x" * 500, "uid": 1000, "origin": 0, "state": "completed"}
        times = [{"start_ns": T - number * 60 * S, "end_ns": T - number * 60 * S + 3600 * S} for number in range(3000)]
        connection.execute(insert(JobRow), [texts | {"id": 10 + n, "key": f"j{n}", "job_id": f"j{n}"} | time for n, time in enumerate(times)])
        if connection.dialect.name != "sqlite":
            connection.execute(text("ANALYZE TABLE jobs")).all()
    job, alone = db.job("7"), ("ix_jobs_start_ns_end_ns", True)
    for file_system in (None, "work"):
        assert alone in plans(db, lambda file_system=file_system: db.others_anywhere(job, file_system, job.start_ns, job.end_ns))
    assert alone in plans(db, lambda: db.others_on(job, ["cn1", "cn2"], job.start_ns, job.end_ns))
    assert ("ix_jobs_start_ns", True) in plans(db, lambda: db.jobs(sort="-start"))


def test_what_stands_for_many_jobs_is_short_and_tells_them_apart():
    one, same, other = others.Jobs.of(["b", "a"]), others.Jobs.of({"a", "b"}), others.Jobs.of(["a"])
    assert one.keys == ("a", "b") and repr(one) == repr(same) != repr(other) and "'a'" not in repr(one)
