"""Series of jobs and nodes, drawn from seconds or runs, and kept."""

import pytest

from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import event, sample
from webapp.api.cache import ProcessCache

S = 10**9


def test_series_covers_the_job_and_keeps_its_bytes(site):
    site.finished_job()
    answer = site.get("/api/v1/jobs/7/series?points=100")
    assert answer["from_ns"] <= T0 and answer["to_ns"] >= T0 + 4 * S and len(answer["t_ns"]) <= 100
    assert sum(v or 0 for v in answer["write_bytes_per_s"]) * answer["step_s"] == pytest.approx(12288)
    only = site.get("/api/v1/jobs/7/series?process=n2:2.1")
    assert sum(v or 0 for v in only["write_bytes_per_s"]) * only["step_s"] == pytest.approx(4096)
    assert sum(v or 0 for v in site.get("/api/v1/jobs/7/series?node=n1")["read_ops_per_s"]) > 0


def test_series_is_null_where_the_job_did_not_run(site):
    site.finished_job()
    answer = site.get(f"/api/v1/jobs/7/series?from_ns={T0 - 60 * S}&to_ns={T0 + 60 * S}&points=200")
    assert answer["step_s"] == 1.0
    known = {(t - T0) // S for t, value in zip(answer["t_ns"], answer["read_bytes_per_s"], strict=True) if value is not None}
    assert known == {0, 1, 2, 3, 4}


def test_series_of_a_second_or_more_read_no_runs_and_finer_ones_those_of_their_span(site):
    """A long job: 200 s, a write each second."""
    site.jobdb.apply_event(event())
    site.store.add("7", *(row("write", T0 + n * S, T0 + n * S + S // 2, bytes=1000 + n, node=f"n{n % 2}") for n in range(200)))
    for ended in (False, True):
        if ended:
            site.jobdb.apply_event(event("end", time=T0 + 200 * S))
        given = "" if ended else f"&from_ns={T0}&to_ns={T0 + 200 * S}"
        whole = site.get(f"/api/v1/jobs/7/series?points=100{given}")
        assert whole["step_s"] == 2.0 and sum(v or 0 for v in whole["write_bytes_per_s"]) * 2 == sum(range(1000, 1200))
        node = site.get(f"/api/v1/jobs/7/series?node=n1&points=300{given}")
        assert sum(v or 0 for v in node["write_bytes_per_s"]) == sum(range(1001, 1200, 2))
        assert site.store.asked == 0
    fine = site.get(f"/api/v1/jobs/7/series?from_ns={T0 + 50 * S}&to_ns={T0 + 52 * S}&points=100")
    assert fine["step_s"] < 0.1 and sum(v or 0 for v in fine["write_bytes_per_s"]) * fine["step_s"] == pytest.approx(1050 + 1051)
    assert site.store.asked == 1


@pytest.mark.parametrize(("is_grouped", "asked"), [(False, 0), (True, 2)])
def test_a_chart_asks_for_the_stored_profile_only_where_the_store_is_spared_something(site, monkeypatch, is_grouped, asked):
    monkeypatch.setattr(site.store, "is_grouped", is_grouped)
    site.finished_job()
    analyses, job = site.app.extensions["bellrock"].analyses, site.jobdb.job("7")
    assert analyses.settle(job)
    texts, own = [], site.jobdb.get_profile
    monkeypatch.setattr(site.jobdb, "get_profile", lambda key: texts.append(key) or own(key))
    for points in (1, 100):  # out of sums by second, and out of runs
        answer = site.get(f"/api/v1/jobs/7/series?points={points}")
        assert sum(v or 0 for v in answer["write_bytes_per_s"]) * answer["step_s"] == pytest.approx(12288)
    assert len(texts) == asked


def test_a_short_job_of_many_runs_is_drawn_by_the_second(site):
    site.finished_job()
    fine = site.get("/api/v1/jobs/7/series")
    site.store.few_runs, asked = 1, site.store.asked
    coarse = site.get("/api/v1/jobs/7/series")
    assert fine["step_s"] < coarse["step_s"] == 1.0 and site.store.asked == asked
    assert sum(v or 0 for v in coarse["write_bytes_per_s"]) == pytest.approx(12288)
    span = f"from_ns={T0}&to_ns={T0 + 2 * S}"
    assert site.get(f"/api/v1/jobs/7/series?{span}")["step_s"] < 0.1


def test_charts_of_jobs_that_ended_are_kept_until_their_records_become_more(site):
    site.jobdb.apply_event(event())
    site.store.add("7", *(row("write", T0 + n * S, bytes=1000) for n in range(100)))
    site.get("/api/v1/jobs/7/series?points=50")
    assert site.get("/api/v1/status")["cache"] == {"kind": "process", "hits": 0, "misses": 0, "error": None}, "it runs"
    site.jobdb.apply_event(event("end", time=T0 + 100 * S))
    parts, job = site.app.extensions["bellrock"], site.jobdb.job("7")
    assert parts.analyses.settle(job)
    parts.charts.warm(job)
    asked = site.store.seconds_asked
    first = site.get("/api/v1/jobs/7/series")
    assert sum(v or 0 for v in first["write_bytes_per_s"]) == 100_000 and site.store.seconds_asked == asked
    assert site.get("/api/v1/status")["cache"]["hits"] == 1
    site.store.add("7", row("write", T0 + 5 * S, bytes=1))
    assert parts.analyses.settle(job)
    assert sum(v or 0 for v in site.get("/api/v1/jobs/7/series")["write_bytes_per_s"]) == 100_001


@pytest.mark.parametrize("value", [b"", b"no JSON", b"[]", b"{}", b'{"t_ns": []}'])
def test_nothing_is_believed_of_a_cache_in_which_others_write(site, value, monkeypatch):
    own = ProcessCache.get
    monkeypatch.setattr(ProcessCache, "get", lambda self, key, is_answer: kept if (kept := own(self, key, is_answer)) is not None and is_answer(kept) else None)
    site.finished_job()
    site.store.sample_rows = [sample(start=T0, end=T0 + S, lost=7)]
    pages = ["/api/v1/jobs/7", "/api/v1/jobs", "/api/v1/jobs/7/series", f"/api/v1/nodes/n1/series?from_ns={T0}&to_ns={T0 + 2 * S}"]
    right = [site.get(page) for page in [pages[0], *pages]][1:]
    cache = site.app.extensions["bellrock"].cache
    found = {key: kept for key, (_, kept) in cache._values.items()}
    assert sorted(key.split()[0] for key in found) == ["jobs", "losses", "node", "series"]
    for key in found:
        cache.put(key, value)
    assert [site.get(page) for page in pages] == right
    for key, kept in found.items():
        cache.put(key, kept.replace(b'"step_s":', b'"step_s":"<script>","x":').replace(b'"lost":', b'"lost":"<script>","x":'))
    assert [site.get(page) for page in pages] == right


def test_what_changes_is_not_answered_as_it_was(site):
    node = f"/api/v1/nodes/n1/series?from_ns={T0}&to_ns={T0 + 2 * S}"
    site.finished_job()
    site.get("/api/v1/jobs/7")
    hits = lambda: site.get("/api/v1/status")["cache"]["hits"]  # noqa: E731
    first = site.get("/api/v1/jobs"), site.get(node), site.get("/api/v1/jobs/7")
    before = hits()
    assert (site.get("/api/v1/jobs"), site.get(node), site.get("/api/v1/jobs/7")) == first and hits() == before + 3
    site.jobdb.apply_event(event(job="8"))
    assert [job["job_id"] for job in site.get("/api/v1/jobs")["jobs"]] == ["8", "7"]
    assert [job["runtime_s"] > 1e6 for job in site.get("/api/v1/jobs")["jobs"]] == [True, False], "what runs is not kept"
    site.store.add("7", row("write", T0 + S, bytes=1))
    assert site.get(node) != first[1]
    site.store.sample_rows.append(sample(start=T0, end=T0 + S, lost=3))
    assert site.get("/api/v1/jobs/7")["losses"][0]["lost"] == 3
    site.jobdb.apply_event(event("end", job="7", time=T0 + 9 * S, launch="l2"))
    assert site.get("/api/v1/jobs/7")["job"]["end_ns"] == T0 + 9 * S


def test_a_nodes_series_is_of_all_jobs(site):
    site.store.add("7", row("write", T0, bytes=5), row("write", T0, bytes=7, node="n2"))
    site.store.add("8", row("write", T0 + S, bytes=11), row("write", T0, bytes=100, process="node"))
    site.store.add(None, row("read", T0, bytes=13, node="n3", process="node", job=None, uid=None))

    def asked(node):
        answer = site.get(f"/api/v1/nodes/{node}/series?from_ns={T0}&to_ns={T0 + 2 * S}")
        assert answer["step_s"] == 1.0
        return answer["read_bytes_per_s"], answer["write_bytes_per_s"], answer["granularity"]

    assert asked("n1") == ([0, 0], [5, 11], "process") and asked("n2") == ([0, 0], [7, 0], "process") and asked("n3") == ([13, 0], [0, 0], "node")
    assert site.get("/api/v1/nodes/n9/series", status=404)["error"]["code"] == "no_node"
    assert site.get(f"/api/v1/nodes/n1/series?from_ns={T0}&to_ns={T0}", status=400)["error"]["code"] == "bad_parameter"


def test_series_of_a_job_without_records(site):
    site.jobdb.apply_event(event())
    site.jobdb.apply_event(event("end"))
    assert site.get("/api/v1/jobs/7/series")["to_ns"] > T0
    assert site.get("/api/v1/jobs/7/files")["files"] == []
    assert site.get("/api/v1/jobs/7")["profile"]["slowest_op"] is None


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1])
def test_misdated_job_is_shown(site, time):
    site.jobdb.apply_event(event(time=time))
    site.store.add("7", row("read", T0, bytes=1), row("write", 2**63 - 1, bytes=1))
    for path in ("", "/series", "/files"):
        site.get("/api/v1/jobs/7" + path)
    assert site.get("/api/v1/jobs")["jobs"][0]["read_bytes"] == 1
