"""Text that wants to break a key, a search or a table."""

import pytest

from jobdb.repository import JobDB
from tests.integration.jobdb.test_repository import S, event

# Pairs that some collation takes for the same.
ALIKE = ["Run", "run", "run ", "r\u00fcn", "ru\u0308n", "run\t", "run\0", "\uff52un", "\u00df", "ss", "\u1e9e", "\U0001f600", "\U0001f601", "", " "]


@pytest.fixture
def db(url):
    database = JobDB(url, user_name=lambda uid: None)
    yield database
    database.close()


def test_ids_that_look_alike_are_jobs_of_their_own(db):
    keys = [db.apply_event(event(job=job_id)) for job_id in ALIKE]
    assert len(set(keys)) == len(ALIKE) == db.jobs(limit=100).total
    for job_id, key in zip(ALIKE, keys, strict=True):
        assert db.apply_event(event("end", job=job_id, time=20 * S)) == key
        assert db.job(key).job_id == job_id and db.job(key).state == "completed"


def test_nodes_and_launches_that_look_alike_are_apart(db):
    for name in ALIKE:
        db.apply_event(event(node=name))
        db.apply_event(event(job="8", launch=name))
    assert db.job("7").node_names == sorted(ALIKE)
    db.apply_event(event("end", job="8", launch="run", time=20 * S))
    assert db.job("8").state == "running"


def test_sorted_by_code_points(db):
    for number, name in enumerate(["b", "B", "a", "ä", "Z", "_", "\U0001f600", "﷐", "a "]):
        db.apply_event(event(job=str(number), program=name))
    programs = [job.program for job, _ in db.jobs(sort="program").jobs]
    assert programs == sorted(programs)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "x\udc00y", "\U0010ffff", "\u202e", "'; DROP TABLE jobs; --", "%s %(a)s \\ \" `", "\r\n\x1b[2J", "x" * 20_000, "\U0001f600" * 20_000])
def test_any_text_is_kept_as_far_as_it_can_be(db, text):
    kept = text.encode("utf-8", "replace").decode().replace("?", "\ufffd") if any("\ud800" <= c <= "\udfff" for c in text) else text
    fields = dict.fromkeys(("job", "launch", "node", "cluster", "user", "program", "command"), text)
    key = db.apply_event(event(**fields))
    assert db.apply_event(event("end", time=20 * S, **fields)) == key
    job = db.job(key)
    assert (job.job_id, job.cluster, job.user, job.program, job.command) == (kept[:512], kept[:255], kept[:255], kept[:255], kept[:4096])
    assert (job.state, job.node_names) == ("completed", [kept[:255]])
    # What changes nothing makes nothing be worked out again.
    db.put_profile(key, 1, {"job_id": text, "program": text})
    db.apply_event(event(**fields))
    assert db.get_profile(key) is not None
    assert [job.key for job, _ in db.jobs(search=text[:100]).jobs] == [key]


def test_search_is_the_same_everywhere(db):
    db.apply_event(event(job="1", program="STRASSE", command="Füße \U0001f600 a\0B", user="Ünal"))
    db.apply_event(event(job="2", program="straße", command="100% C:\\temp_x", user="unal"))
    found = lambda text: sorted(job.key for job, _ in db.jobs(search=text).jobs)  # noqa: E731
    assert found("Straße") == ["1", "2"] == found("strasse")
    assert found("ünal") == ["1"] == found("ÜNAL") and found("unal") == ["2"]
    assert found("füSSe") == ["1"] and found("\U0001f600") == ["1"] and found("A\0b") == ["1"] and found("A\0c") == []
    assert found("0% c:\\TEMP_") == ["2"] and found("C_\\") == [] and found("/") == []
    assert found("x" * 5000) == []


def test_numbers_of_64_bits(db):
    for uid, time in ((0, -(2**70)), (2**32 - 1, 2**70)):
        db.apply_event(event(job=str(uid), uid=uid, time=time))
        db.apply_event(event("end", job=str(uid), uid=uid, time=time, exit_code=-(2**31)))
    assert (db.job("0").start_ns, db.job("0").end_ns) == (0, 0)
    assert db.job(str(2**32 - 1)).start_ns == 9_200_000_000 * 10**9 and db.job(str(2**32 - 1)).exit_code == -(2**31)
    db.put_profile("0", 2**63 - 1, {"read_bytes": 2**63 - 1, "iops_avg": 0.1 + 0.2, "bandwidth_peak_read": 1.7976931348623157e308, "io_mode_read": None})
    ((_, (version, headline)),) = [entry for entry in db.jobs().jobs if entry[1]]
    assert version == 2**63 - 1 and headline["read_bytes"] == 2**63 - 1 and headline["iops_avg"] == 0.1 + 0.2
    assert headline["bandwidth_peak_read"] == 1.7976931348623157e308
    assert db.get_profile("0")[1]["iops_avg"] == 0.1 + 0.2
    cursor = db.jobs(sort="-read_bytes", limit=1).next_cursor
    assert [job.key for job, _ in db.jobs(sort="-read_bytes", limit=1, cursor=cursor).jobs] == [str(2**32 - 1)]


def test_large_profiles(db):
    db.apply_event(event())
    db.put_profile("7", 1, {"phase_list": ["\U0001f600" * 1000] * 1000})
    assert len(db.get_profile("7")[1]["phase_list"]) == 1000
