import threading
import time

import pytest

from jobdb.profile import HEADLINE
from pipeline.store import Letters, StoreError, TooManyRuns
from pipeline.store.mark import Mark
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import Site, event
from webapp.api import THREADS_MIN

S = 10**9


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.close()


def test_job_and_profile(site):
    site.finished_job()
    answer = site.get("/api/v1/jobs/7")
    job, profile = answer["job"], answer["profile"]
    assert (job["job_id"], job["state"], job["settled"], job["runtime_s"], job["node_names"]) == ("7", "completed", True, 4.0, ["n1"])
    assert (profile["write_bytes"], profile["read_bytes"], profile["errors"], profile["files"], profile["nodes"]) == (12288, 10, 1, 2, 2)
    assert profile["runtime_s"] == 4.0 and set(HEADLINE) <= set(profile)


def test_list_shows_the_headline(site):
    site.finished_job()
    (listed,) = site.get("/api/v1/jobs")["jobs"]
    profile = site.get("/api/v1/jobs/7")["profile"]
    assert {name: listed[name] for name in HEADLINE} == {name: profile[name] for name in HEADLINE}
    assert listed["node_names"] == ["n1"] and listed["nodes"] == 2


@pytest.fixture
def recent(monkeypatch):
    """However long ago a job ended, it is looked whether records came since."""
    monkeypatch.setattr("webapp.api.analysis.FINAL_AFTER_NS", 10**20)


def test_a_page_of_known_jobs_asks_the_store_once_and_of_final_ones_nothing(site, monkeypatch):
    for job in range(20):
        site.finished_job(job=str(job))
        site.get(f"/api/v1/jobs/{job}")
    before = site.store.versions_asked
    listed = site.get("/api/v1/jobs")["jobs"]
    assert len(listed) == 20 and all(job["write_bytes"] == 12288 for job in listed)
    assert site.get("/api/v1/jobs/3")["profile"]["write_bytes"] == 12288
    assert site.store.versions_asked == before
    monkeypatch.setattr("webapp.api.analysis.FINAL_AFTER_NS", 10**20)
    # Another page: this one is kept.
    assert site.get("/api/v1/jobs?limit=51")["jobs"] == listed
    assert site.store.versions_asked == before + 1


def test_settled_jobs_are_computed_once_even_over_a_restart(site, tmp_path):
    site.finished_job()
    for _ in range(3):
        site.get("/api/v1/jobs")
        site.get("/api/v1/jobs/7")
    assert site.store.asked == 1
    again = Site(tmp_path)
    again.store.rows = site.store.rows
    again.get("/api/v1/jobs")
    assert again.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 12288 and again.store.asked == 0
    again.close()


def test_late_records_of_a_settled_job_count(site, recent):
    site.finished_job()
    assert site.get("/api/v1/jobs")["jobs"][0]["write_bytes"] == 12288
    site.store.add("7", row("write", T0, bytes=1, node="n3"))
    assert site.get("/api/v1/jobs")["jobs"][0]["write_bytes"] == 12289
    assert site.get("/api/v1/jobs/7")["profile"]["nodes"] == 3


def test_late_records_of_a_job_that_ended_long_ago_count_once_they_were_looked_for(site):
    site.finished_job()
    analyses, job = site.app.extensions["bellrock"].analyses, site.jobdb.job("7")
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 12288
    site.store.add("7", row("write", T0, bytes=1, node="n3"))
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 12288
    assert analyses.outdated(site.jobdb.ended_since(0, 10)) == [job] and analyses.settle(job)
    assert site.get("/api/v1/jobs/7")["profile"]["nodes"] == 3 and site.get("/api/v1/jobs")["jobs"][0]["write_bytes"] == 12289


def test_figures_grow_while_the_job_runs_and_are_exact_once_settled(site, monkeypatch):
    site.jobdb.apply_event(event())
    site.store.add("7", row("write", T0, bytes=5))
    now_s = [0.0]
    monkeypatch.setattr(site.app.extensions["bellrock"].analyses, "_clock", lambda: now_s[0])

    def shown():
        return site.get("/api/v1/jobs/7")["profile"]["write_bytes"]

    real_runs = site.store.runs

    def slow_runs(*args, **more):
        now_s[0] += 1.0
        return real_runs(*args, **more)

    site.store.runs = slow_runs
    assert shown() == 5
    site.store.add("7", row("write", T0, bytes=5))
    assert shown() == 5  # it took a second: not again for ten
    now_s[0] += 10.1
    assert shown() == 10
    site.store.add("7", row("write", T0, bytes=5))
    site.jobdb.apply_event(event("end", time=T0 + S))
    assert shown() == 15


def test_many_pollers_make_one_computation(site):
    site.finished_job()
    barrier, answers = threading.Barrier(6), []

    def poll():
        client = site.app.test_client()
        barrier.wait()
        answers.append(client.get("/api/v1/jobs/7/series").status_code)

    threads = [threading.Thread(target=poll) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 6 and site.store.asked == 1


class Held:
    """Answers asked for in threads of their own while the store takes its time to read runs."""

    def __init__(self, site):
        self.site, self.inside, self.go_on, self.threads, self.answers = site, threading.Semaphore(0), threading.Event(), [], []
        self._runs, site.store.runs = site.store.runs, self._slow

    def _slow(self, *args, **more):
        self.inside.release()
        assert self.go_on.wait(30)
        return self._runs(*args, **more)

    def ask(self, path, computes=False):
        thread = threading.Thread(target=lambda: self.answers.append(self.site.app.test_client().get(path).status_code))
        thread.start()
        self.threads.append(thread)
        assert not computes or self.inside.acquire(timeout=30)

    def end(self):
        self.go_on.set()
        for thread in self.threads:
            thread.join()
        return sorted(self.answers)


def test_threads_stay_free_while_others_compute(tmp_path):
    site = Site(tmp_path, THREADS=5)
    for number in range(4):
        site.finished_job(f"j{number}")
    held = Held(site)
    for number in range(2):
        held.ask(f"/api/v1/jobs/j{number}", computes=True)
    response = site.client.get("/api/v1/jobs/j2")
    assert response.status_code == 503 and response.headers["Retry-After"] == "2" and response.get_json()["error"]["code"] == "busy"
    assert [job["write_bytes"] for job in site.get("/api/v1/jobs")["jobs"]] == [None] * 4
    site.get("/healthz")
    assert held.end() == [200, 200]
    site.get("/api/v1/jobs/j2")
    site.close()


def test_audits_leave_threads_free_too(tmp_path):
    """With the fewest: one for jobs' figures, one for audits, two for all else."""
    site = Site(tmp_path, THREADS=THREADS_MIN)
    site.finished_job()
    held = Held(site)
    held.ask("/api/v1/jobs/7", computes=True)
    deep = site.client.get("/api/v1/audit?deep=1", buffered=False)
    for path in ("/api/v1/audit", "/api/v1/audit?fresh=1", "/api/v1/audit?deep=1"):
        assert site.get(path, status=503)["error"]["code"] == "busy"
    deep.close()
    site.get("/api/v1/audit")
    assert held.end() == [200]
    site.close()
    with pytest.raises(ValueError, match="at least 4"):
        Site(tmp_path, THREADS=THREADS_MIN - 1)


def test_a_running_jobs_earlier_figures_are_shown_while_newer_ones_are_computed(site, monkeypatch):
    monkeypatch.setattr("webapp.api.analysis.PAUSE_FACTOR", 0)
    site.jobdb.apply_event(event())
    site.store.add("7", row("write", T0, bytes=5))
    site.get("/api/v1/jobs/7")
    site.store.add("7", row("write", T0, bytes=5))
    held = Held(site)
    held.ask("/api/v1/jobs/7", computes=True)
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 5
    assert held.end() == [200]
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 10


def test_an_ended_job_is_waited_for_but_not_for_ever(site, recent, monkeypatch):
    """Earlier figures would be taken for its last."""
    site.finished_job()
    site.get("/api/v1/jobs/7")
    site.store.add("7", row("write", T0, bytes=5))
    held = Held(site)
    held.ask("/api/v1/jobs/7", computes=True)
    monkeypatch.setattr("webapp.api.analysis.WAIT_S", 0.01)
    assert site.get("/api/v1/jobs/7", status=503)["error"]["code"] == "busy"
    monkeypatch.setattr("webapp.api.analysis.WAIT_S", 30)
    held.ask("/api/v1/jobs/7")
    assert held.end() == [200, 200]
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 12293


def test_a_job_of_too_many_runs_says_so_and_spoils_no_list(site):
    def too_many(job, columns, window, **more):
        if job == "7":
            raise TooManyRuns("job '7' has 9 runs")
        return real(job, columns, **more)

    site.finished_job("7")
    site.finished_job("8")
    real, site.store.runs = site.store.runs, too_many
    for path in ("", "/series", "/files"):
        error = site.get("/api/v1/jobs/7" + path, status=422)["error"]
        assert error["code"] == "too_many_runs" and "9 runs" in error["message"]
    assert {job["job_id"]: job["write_bytes"] for job in site.get("/api/v1/jobs")["jobs"]} == {"7": None, "8": 12288}


def test_memory_of_analyses_is_bounded(site, monkeypatch):
    monkeypatch.setattr("webapp.api.analysis.ENTRIES_MAX", 3)
    for number in range(6):
        site.finished_job(f"j{number}")
        site.get(f"/api/v1/jobs/j{number}/nodes")
    analyses = site.app.extensions["bellrock"].analyses
    assert list(analyses._kept) == ["j3", "j4", "j5"]
    monkeypatch.setattr("webapp.api.analysis.BYTES_MAX", 1)
    site.get("/api/v1/jobs/j0/nodes")
    assert list(analyses._kept) == ["j0"]


def test_list_gives_null_where_time_does_not_allow_it(site, monkeypatch):
    monkeypatch.setattr("webapp.api.analysis.LIST_BUDGET_S", -1)
    site.finished_job()
    assert site.get("/api/v1/jobs")["jobs"][0]["write_bytes"] is None
    site.get("/api/v1/jobs/7")
    assert site.get("/api/v1/jobs")["jobs"][0]["write_bytes"] == 12288


def test_what_only_nodes_saw_is_a_job_s_while_it_ran(site, recent):
    def of_node(start, bytes):
        return row("write", start, start + S, bytes=bytes, node="n1", process="node", uid=None, flags=64)

    site.jobdb.apply_event(event())
    site.store.add("7", row("unseen", program="solver", flags=128))
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] is None
    listed = site.get("/api/v1/jobs")["jobs"][0]
    assert (listed["write_bytes"], listed["unseen_programs"]) == (None, 1)
    shown = [site.get(f"/api/v1/jobs/7/{kind}") for kind in ("processes", "nodes", "files")]
    assert [answer["total"] for answer in shown] == [0, 0, 0]
    assert set(site.get("/api/v1/jobs/7/series")["write_bytes_per_s"]) == {None}
    site.store.add(None, of_node(T0 - 9 * S, 1), of_node(T0 + S, 20), of_node(T0 + 9 * S, 300))
    site.jobdb.apply_event(event("end", time=T0 + 4 * S))
    profile = site.get("/api/v1/jobs/7")["profile"]
    assert (profile["write_bytes"], profile["granularity"], profile["unseen"][0]["reason"]) == (20, "node", "static")
    site.store.add(None, of_node(T0 + 2 * S, 4000))
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 4020


def test_another_users_job_of_the_same_id_has_its_own_records(site):
    site.finished_job("7", uid=1000)
    site.finished_job("7", uid=1001)
    site.store.add("7", row("write", T0, bytes=1000, uid=1001))
    assert site.get("/api/v1/jobs/7")["profile"]["write_bytes"] == 12288
    assert site.get("/api/v1/jobs/7~1001")["profile"]["write_bytes"] == 13288
    assert {job["job_id"] for job in site.get("/api/v1/jobs")["jobs"]} == {"7", "7~1001"}


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
    monkeypatch.setattr("webapp.api.cache.ProcessCache.is_own", False)
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


def sample(node="n1", start=0, end=1, **values):
    return {"node": node, "component": "agent", "start": start, "end": end, "values": values}


def mark(node="n1", boot=255, seq=5, missing=0, at_ns=7):
    return {"node": node, "boot": f"{boot:016x}", "seq": seq, "missing": missing, "last_append_ns": at_ns}


def test_status_adds_up_the_agents_samples(site):
    site.store.high_water = [mark(), mark("n2"), mark(boot=1, seq=90, missing=3, at_ns=2)]
    site.store.sample_rows = [sample(seen=4, rss_bytes=8, lost=1), sample(seen=3, rss_bytes=9)]
    for _ in range(2):
        agents = site.get("/api/v1/status")["agents"]
        assert agents[0] == {"node": "n1", "seq": 5, "missing": 3, "last_seen_ns": 7, "values": {"seen": 7, "lost": 1, "rss_bytes": 9}}
        assert agents[1]["values"] == {} and len(agents) == 2
    site.store.sample_rows += [sample(seen=1), sample("n3", seen=70)]
    assert site.get("/api/v1/status")["agents"][0]["values"]["seen"] == 8
    site.store.high_water.insert(0, mark("n3"))
    site.store.sample_rows.append(sample(seen=1))
    assert {agent["node"]: agent["values"].get("seen") for agent in site.get("/api/v1/status")["agents"]} == {"n1": 9, "n2": None, "n3": 70}


def test_status_reads_each_sample_once(site):
    site.store.high_water = [mark()]
    site.store.sample_rows = [sample(seen=1) for _ in range(1000)]
    for _ in range(5):
        site.get("/api/v1/status")
        site.store.sample_rows.append(sample(seen=1))
    assert site.store.totals_read == 1004


def test_status_keeps_no_boot_and_a_bounded_number_of_nodes(site, monkeypatch):
    monkeypatch.setattr("webapp.api.agents.NODES_MAX", 10)
    for number in range(50):
        site.store.high_water = [mark(f"n{number}", boot=number)]
        site.store.sample_rows.append(sample(f"n{number}", seen=1))
        assert "boot" not in site.client.get("/api/v1/status").text
    assert "n49" in (known := site.app.extensions["bellrock"].agents._values) and len(known) <= 11


def test_nodes_that_come_and_go_are_not_added_up_anew(site):
    """Of a large site the status shows those that were heard of last: others each time."""
    site.store.sample_rows = [sample(f"n{number % 3}", seen=1) for number in range(300)]
    for shown in (("n0", "n1"), ("n1", "n2"), ("n0", "n2"), ("n0", "n1", "n2")):
        site.store.high_water = [mark(node) for node in shown]
        agents = site.get("/api/v1/status")["agents"]
        assert {agent["node"]: agent["values"]["seen"] for agent in agents} == dict.fromkeys(shown, 100)
    assert site.store.totals_read == 600


def test_a_store_that_fails_amid_the_totals_doubles_nothing(site, monkeypatch):
    site.store.sample_rows = [sample("n0", seen=1)]
    site.store.high_water = [mark("n0")]
    assert site.get("/api/v1/status")["agents"][0]["values"]["seen"] == 1
    site.store.sample_rows += [sample("n0", seen=1), sample("n1", seen=5)]
    site.store.high_water = [mark("n0"), mark("n1")]
    asked = site.store.sample_totals

    def failing(component, nodes, after=""):
        if nodes == ["n1"]:
            raise StoreError("away")
        return asked(component, nodes, after)

    monkeypatch.setattr(site.store, "sample_totals", failing)
    site.get("/api/v1/status", status=503)
    monkeypatch.setattr(site.store, "sample_totals", asked)
    assert {agent["node"]: agent["values"]["seen"] for agent in site.get("/api/v1/status")["agents"]} == {"n0": 2, "n1": 5}


def loss(node="n1", **counts):
    return {"node": node} | dict.fromkeys(("lost", "lost_names", "lost_log_bytes", "spool_full_s", "folded"), 0) | counts


def test_losses_are_those_of_the_jobs_time_and_nodes(site):
    """Sums since the spool's birth would mark every later job of the node."""
    site.finished_job()  # on n1, from T0 to T0 + 4 s
    before, after = T0 - 600 * S, T0 + 600 * S
    site.store.sample_rows = [sample(start=before, end=before + S, lost=5), sample(start=after, end=after + S, lost=5), sample("n9", T0, T0 + S, lost=5)]
    site.store.gaps = [("n1", before, before + S, 4), ("n1", after, after + S, 4), ("n9", T0, T0 + S, 4)]
    assert site.get("/api/v1/jobs/7")["losses"] == []
    site.store.sample_rows += [sample(start=T0 - S, end=T0 + S, lost=2, lost_runs=3, seen=9), sample(start=T0 + 4 * S, end=T0 + 14 * S, lost=1)]
    assert site.get("/api/v1/jobs/7")["losses"] == [loss("n1", lost=6)]
    site.store.gaps.append(("n1", before, T0, 7))
    assert site.get("/api/v1/jobs/7")["losses"] == [loss("n1", lost=13)]
    site.jobdb.apply_event(event(job="8", time=after + 3600 * S))
    assert site.get("/api/v1/jobs/8")["losses"] == []
    site.store.sample_rows.append(sample(start=after + 7200 * S, end=after + 7201 * S, lost_runs=1))
    assert site.get("/api/v1/jobs/8")["losses"] == [loss("n1", lost=1)]


def test_an_audit_is_worked_out_once_for_all_who_ask_and_anew_for_whom_it_must_be(site):
    site.store.marks = [(("n1", 255), Mark(5, last_ns=time.time_ns()))]
    site.store.dead_letters = [Letters("n1", 255, "op", 3, 5, 7, 4, "op: bad", "how it came")]
    first = site.get("/api/v1/audit?since_ns=6&limit=9")
    assert first["dead_letters"][0]["raw"] is None
    assert site.get("/api/v1/audit?since_ns=6&limit=9") == first and site.store.audits == 1
    assert site.get("/api/v1/audit?raw=1")["dead_letters"][0]["raw"] == "how it came"
    assert site.get("/api/v1/audit?since_ns=6&limit=9&fresh=1")["now_ns"] > first["now_ns"] and site.store.audits == 3
    site.store.boots_beyond = 2
    assert site.get("/api/v1/audit?fresh=1")["flaws"][0]["kind"] == "incomplete"


def test_a_full_spool_is_told_of_a_job_and_is_no_loss(site):
    site.finished_job()
    site.store.high_water = [mark()]
    site.store.sample_rows = [sample(start=T0, end=T0 + S, folded=7)]
    assert site.get("/api/v1/jobs/7")["losses"] == [], "which of its operations were folded the job's own runs say"
    site.store.sample_rows.append(sample(start=T0, end=T0 + S, spool_full_seconds=12))
    assert site.get("/api/v1/jobs/7")["losses"] == [loss(spool_full_s=12, folded=7)]
    site.store.sample_rows = [sample(start=T0, end=T0 + S, spool_full_seconds=0.3)]
    assert site.get("/api/v1/jobs/7")["losses"] == [loss(spool_full_s=1)], "never 0 where there was something"
    now_ns = time.time_ns()
    site.store.sample_rows = [sample(start=now_ns - S, end=now_ns, spool_full_seconds=12, lost_log_bytes=0)]
    assert site.get("/api/v1/status")["losses"] == []
    site.store.sample_rows.append(sample(start=now_ns - S, end=now_ns, lost_names=2, lost_log_bytes=9))
    assert site.get("/api/v1/status")["losses"] == [loss(spool_full_s=12, lost_names=2, lost_log_bytes=9)]


def test_losses_are_also_those_of_nodes_that_the_job_was_not_launched_from(site):
    site.finished_job()
    site.store.add("7", row(node="n2"), row(node="n3", uid=1001))
    site.store.sample_rows = [sample(node, T0, T0 + S, lost=1) for node in ("n1", "n2", "n3")]
    assert site.get("/api/v1/jobs/7")["losses"] == [loss("n1", lost=1), loss("n2", lost=1)], "another user's claim adds no node"


def test_status_tells_of_losses_for_a_day(site):
    now_ns = time.time_ns()
    site.store.high_water = [mark(), mark("n2")]
    site.store.sample_rows = [sample(start=now_ns - 90_000 * S, end=now_ns - 89_990 * S, lost=5), sample("n2", now_ns - 3600 * S, now_ns - 3590 * S, lost=1)]
    status = site.get("/api/v1/status")
    assert status["losses"] == [loss("n2", lost=1)] and status["agents"][0]["values"]["lost"] == 5


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
