"""Tables, parameters, errors and unchanged answers of all routes."""

import pytest

from pipeline.store import StoreError
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import event

S = 10**9


def test_tables(site):
    site.finished_job()
    files = site.get("/api/v1/jobs/7/files")
    assert [(f["file"], f["write_bytes"], f["errors"], f["processes"]) for f in files["files"][:2]] == [("/a", 8192, 0, 1), ("/b", 4096, 0, 1)]
    assert files["total"] == 4 and {f["file"] for f in files["files"]} == {"/a", "/b", "/missing", None}
    assert [f["file"] for f in site.get("/api/v1/jobs/7/files?search=MISS")["files"]] == ["/missing"]
    assert [f["file"] for f in site.get("/api/v1/jobs/7/files?sort=-file")["files"]] == ["/missing", "/b", "/a", None]
    processes = site.get("/api/v1/jobs/7/processes")["processes"]
    assert [(p["node"], p["process"], p["rank"], p["write_bytes"], p["files"]) for p in processes] == [("n1", "1.1", 0, 8192, 1), ("n2", "2.1", None, 4096, 1)]
    nodes = site.get("/api/v1/jobs/7/nodes?sort=node")["nodes"]
    assert [(n["node"], n["processes"], n["errors"]) for n in nodes] == [("n1", 1, 1), ("n2", 1, 0)]


def test_pages_of_a_table_hold_each_row_once(site):
    site.jobdb.apply_event(event())
    site.store.add("7", *(row("write", T0, bytes=number % 5, file=f"/f{number:02}") for number in range(23)))
    seen, cursor = [], ""
    while cursor is not None:
        answer = site.get(f"/api/v1/jobs/7/files?limit=4&cursor={cursor}")
        assert answer["total"] == 23
        seen += [f["file"] for f in answer["files"]]
        cursor = answer["next_cursor"]
    assert len(seen) == 23 == len(set(seen))


@pytest.mark.parametrize(
    "query",
    [
        "/jobs?limit=0", "/jobs?limit=501", "/jobs?limit=x", "/jobs?limit=1e3", "/jobs?limit=١", "/jobs?state=dead", "/jobs?sort=uid;drop", "/jobs?sort=--start",
        "/jobs?cursor=zzz", "/jobs?nope=1", "/jobs?limit=1&limit=2", "/jobs?search=" + "x" * 201, "/jobs?search=%00", "/jobs/7?x=1",
        "/jobs/7/series?points=0", "/jobs/7/series?points=5001", "/jobs/7/series?from_ns=-1", "/jobs/7/series?from_ns=5&to_ns=5",
        "/jobs/7/series?from_ns=99999999999999999999", "/jobs/7/series?node=zz", "/jobs/7/series?process=zz", "/jobs/7/series?process=n1:1",
        "/jobs/7/series?node=n1&process=n1:1.1", "/jobs/7/series?from_ns=0&to_ns=9200000000000000000&points=1",
        "/jobs/7/files?sort=path", "/jobs/7/files?limit=1001", "/jobs/7/files?cursor=!", "/jobs/7/files?cursor=ü", "/jobs/7/processes?search=x",
        "/jobs/7/nodes?sort=mapped_bytes", "/status?x=1", "/openapi.json?x=1",
    ],
)  # fmt: skip
def test_bad_parameters_say_what_is_wrong(site, query):
    site.finished_job()
    error = site.get("/api/v1" + query, status=400)["error"]
    assert set(error) == {"code", "message", "hint"} and error["message"] and error["hint"]


def test_one_sided_window_outside_the_job_is_no_crash(site):
    site.finished_job()
    assert site.get("/api/v1/jobs/7/series?to_ns=0")["t_ns"] == [0]
    assert len(site.get(f"/api/v1/jobs/7/series?from_ns={T0 + 3600 * S}")["t_ns"]) >= 1


@pytest.mark.parametrize("path", ["/jobs/x", "/jobs/x/series", "/jobs/x/files", "/jobs/x/processes", "/jobs/x/nodes", "/jobs/" + "y" * 900])
def test_unknown_job(site, path):
    error = site.get("/api/v1" + path, status=404)["error"]
    assert error["code"] == "no_job" and "bellrock jobs" in error["hint"]


def test_unknown_address_and_method(site):
    assert site.get("/api/v1/nothing", status=404)["error"]["code"] == "no_such_address"
    response = site.client.post("/api/v1/jobs")
    assert response.status_code == 405 and response.get_json()["error"]["code"] == "method_not_allowed"


def test_unchanged_answers_are_304(site, recent):
    site.finished_job()
    for path in ("/api/v1/jobs/7", "/api/v1/jobs", "/api/v1/jobs/7/series"):
        first = site.client.get(path)
        again = site.client.get(path, headers={"If-None-Match": first.headers["ETag"]})
        assert (first.status_code, again.status_code, again.data) == (200, 304, b"")
    tag = site.client.get("/api/v1/jobs/7").headers["ETag"]
    site.store.add("7", row("write", T0, bytes=1))
    assert site.client.get("/api/v1/jobs/7", headers={"If-None-Match": tag}).status_code == 200


def test_bug_in_a_route_keeps_the_shape_and_hides_the_text(site):
    def broken():
        raise RuntimeError("secret")

    site.store.status = broken
    error = site.get("/api/v1/status", status=500)["error"]
    assert error["code"] == "internal_error" and "secret" not in str(error)


def test_store_that_cannot_answer_is_503(site):
    def broken(*args, **more):
        raise StoreError("disk is gone")

    site.jobdb.apply_event(event())
    site.store.runs = broken
    assert "disk is gone" in site.get("/api/v1/jobs/7", status=503)["error"]["message"]
