"""Jobs, their list, and profiles worked out once."""

from jobdb.profile import HEADLINE
from pipeline.store import TooManyRuns
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import Site, event

S = 10**9


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
