"""Several processes at once, and a server that goes away amid a transaction."""

import json
import multiprocessing
import threading
from dataclasses import replace

import pytest
from sqlalchemy import event as sqlalchemy_event

from bellrock.stack.mysql import MySql
from bellrock.stack.tls import certificate
from jobdb import engine
from jobdb.repository import Access, JobDB, JobDBAway, JobDBError
from tests.integration.jobdb.test_repository import S, event, figures
from tests.mariadb import MariaDb
from tests.servers import ACCOUNT, started

PROCESSES = 4
JOBS = 6


def test_place_is_kept_with_the_events(url):
    db = JobDB(url)
    assert db.place("follower") is None
    db.apply_events([event()], place=("follower", {"at": [2**62, "ü"]}))
    assert db.place("follower") == {"at": [2**62, "ü"]} and db.place("other") is None
    with pytest.raises(KeyError):
        db.apply_events([event(job="8"), {"job": "9"}], place=("follower", 2))
    assert db.place("follower") == {"at": [2**62, "ü"]} and db.job("8") is None
    db.apply_events([], place=("follower", None))
    assert db.place("follower") is None
    db.close()


def work(url, number, ready):
    db = JobDB(url, user_name=lambda uid: None)
    ready.wait()
    for count in range(JOBS * 3):
        job = str(count % JOBS)
        db.apply_events([event(job=job, node=f"n{number}", launch=str(count)), event("end", job=job, node=f"n{number}", launch=str(count), time=(20 + count) * S)])
        db.put_profile(job, number, figures())
        # Two users' claims to one id.
        db.apply_event(event(job=f"u{count}", uid=number))
    db.close()


def test_processes_write_at_once(url):
    """They open (and migrate) it at once, too. Nothing is lost, and each job is the sum of what all of them told."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(PROCESSES)
    processes = [context.Process(target=work, args=(url, number, ready)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    db = JobDB(url, user_name=lambda uid: None)
    for count in range(JOBS):
        job = db.job(str(count))
        assert (job.state, job.end_ns, job.node_names) == ("completed", (20 + count + JOBS * 2) * S, [f"n{number}" for number in range(PROCESSES)])
    assert db.jobs().total == JOBS + JOBS * 3 * PROCESSES
    db.close()


def test_deadlocks_are_tried_again(url):
    """Two threads take two jobs' rows in opposite order, each waiting until the other has its first."""
    one, other = JobDB(url), JobDB(url)
    for job in ("a", "b"):
        one.apply_event(event(job=job))
    met = threading.Barrier(2)
    broken, together = [], []

    def meet(instance, first):
        def hook(connection, cursor, statement, parameters, context, executemany):
            if "FOR UPDATE" in statement and f"'{first}'" in str(parameters) and instance not in together:
                together.append(instance)
                met.wait(60)

        sqlalchemy_event.listen(instance._engine, "after_cursor_execute", hook)
        sqlalchemy_event.listen(instance._engine, "handle_error", lambda context: broken.append(context))

    meet(one, "a")
    meet(other, "b")
    threads = [
        threading.Thread(target=db.apply_events, args=([event("end", job=job, time=30 * S) for job in order],)) for db, order in ((one, "ab"), (other, "ba"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert one.job("a").state == one.job("b").state == "completed"
    # SQLite makes the second wait before it has read anything.
    assert bool(broken) == (not url.url.startswith("sqlite"))
    one.close()
    other.close()


def test_events_of_one_job_do_not_wait_for_anothers(url):
    """While a transaction has one job's row in hand, another takes a second job of the same user."""
    if url.url.startswith("sqlite"):
        return  # SQLite has one writer at a time
    one, other = JobDB(url), JobDB(url)
    for number in range(20):
        one.apply_event(event(job=f"j{number}"))
    meanwhile = []

    def hook(connection, cursor, statement, parameters, context, executemany):
        if "FOR UPDATE" in statement and not meanwhile:
            meanwhile.append(True)
            other.apply_event(event("end", job="j7", time=30 * S))
            meanwhile.append(other.job("j7").state)

    sqlalchemy_event.listen(one._engine, "after_cursor_execute", hook)
    one.apply_event(event("end", job="j3", time=30 * S))
    assert meanwhile == [True, "completed"] and one.job("j3").state == "completed"
    one.close()
    other.close()


@pytest.mark.parametrize("make", [pytest.param(MariaDb, id="mariadb"), pytest.param(MySql, id="mysql", marks=pytest.mark.long)])
def test_a_server_that_goes_amid_a_transaction(make, server_folder, password_file):
    """Killed at each statement of a transaction in turn: while it is away there is a clear error, then nothing is there by half."""
    server = started(make(server_folder(), accounts=[ACCOUNT]))
    try:
        db = JobDB(Access(server.url(ACCOUNT.name), password_file), user_name=lambda uid: None)
        db.apply_events([event()], place=("p", 0))
        for number in range(1, 9, 2):
            left = [number]

            def kill(connection, cursor, statement, parameters, context, executemany, left=left):
                left[0] -= 1
                if left[0] == 0:
                    server.kill()

            sqlalchemy_event.listen(db._engine, "before_cursor_execute", kill)
            with pytest.raises(JobDBAway, match="does not answer") as told:
                db.apply_events([event("end", time=(20 + number) * S), event(job=f"new{number}")], place=("p", number))
            assert "Traceback" not in str(told.value) and len(str(told.value)) < 400
            sqlalchemy_event.remove(db._engine, "before_cursor_execute", kill)
            server.start()
            assert (db.place("p") == number) == (db.job(f"new{number}") is not None) == (db.job("7").end_ns == (20 + number) * S)
            db.apply_events([event("end", time=(20 + number) * S), event(job=f"new{number}")], place=("p", number))
            assert db.place("p") == number and db.job(f"new{number}") is not None and db.job("7").end_ns == (20 + number) * S
        db.close()
    finally:
        server.stop()


def test_a_connection_that_is_cut_is_made_anew(url, server, ask):
    if server is None:
        return  # SQLite has no connection to cut
    db = JobDB(url)
    cuts = [3, 5, 9]

    def cut(connection, cursor, statement, parameters, context, executemany):
        cuts[0] -= 1
        if cuts[0] == 0:
            ask(server, f"KILL {cursor.connection.thread_id()}")
            cuts.pop(0)
            cuts.append(10**9)

    sqlalchemy_event.listen(db._engine, "before_cursor_execute", cut)
    for count in range(4):
        db.apply_events([event(job=str(count)), event("end", job=str(count), time=20 * S)], place=("p", count))
    assert len([n for n in cuts if n > 10**8]) == 3
    assert db.jobs(state="completed").total == 4 and db.place("p") == 3
    db.close()


def test_tries_are_bounded(url, monkeypatch):
    db = JobDB(url)
    waits, calls = [], []
    monkeypatch.setattr(db._transactions, "_wait", waits.append)

    def work(session):
        calls.append(1)
        raise engine.IntegrityError("INSERT", {}, ValueError("twice"))

    with pytest.raises(engine.IntegrityError):
        db._transactions.write(work)
    assert len(calls) == engine.TRIES_MAX == len(waits) + 1 and sum(waits) < 2
    db.close()


def test_no_server_is_told(free_port):
    with pytest.raises(JobDBAway, match="127.0.0.1:.*does not answer: Can't connect"):
        JobDB(f"mysql+pymysql://bellrock@127.0.0.1:{free_port()}/bellrock")


def test_place_is_json(url):
    db = JobDB(url)
    db.apply_events([], place=("p", {"a": 1}))
    with db._engine.connect() as connection:
        assert json.loads(connection.exec_driver_sql("SELECT json FROM places WHERE name = 'p'").scalar()) == {"a": 1}
    db.close()


def test_a_server_with_a_foreign_certificate_is_refused(url, server, tmp_path):
    if server is None:
        return  # SQLite has no server
    other = certificate(tmp_path, "other").ca
    with pytest.raises(JobDBError, match="certificate verify failed"):
        JobDB(replace(url, ca=str(other)))


def test_a_wrong_password_is_told_without_it(url, server, tmp_path):
    if server is None:
        return  # SQLite has no accounts
    wrong = tmp_path / "wrong"
    wrong.touch(0o600)
    wrong.write_text("not-the-password")
    with pytest.raises(JobDBError, match="Access denied") as told:
        JobDB(replace(url, password_file=str(wrong)))
    assert "not-the-password" not in str(told.value)
