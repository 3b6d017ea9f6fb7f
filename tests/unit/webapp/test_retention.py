"""What went on purpose is no flaw, and administrators see what would go before it does."""

from dataclasses import replace

from pipeline.store.mark import Mark
from pipeline.store.parts import Part
from tests.unit.jobdb.tables import T0

OLD = Part("runs", "bellrock-run-compute-g1-2026.01", "g1", 7, 4096, T0, T0 + 5, "uuid")


def test_a_dry_run_comes_first_and_post_drops(site):
    site.store.old = [OLD]
    told = site.get("/api/v1/retention")
    assert told["days"] == {"runs": 180, "samples": 0} and list(told["before_ns"]) == ["runs"] and told["expired"] == [OLD.json()] and told["dropped"] == []
    assert site.client.post("/api/v1/retention").status_code == 403  # from another site's page
    done = site.client.post("/api/v1/retention", headers={"X-Bellrock": "1"}).get_json()
    assert done == {"dropped": [OLD.json() | {"dropped_ns": T0}], "left": []}
    assert site.get("/api/v1/retention")["expired"] == [] and site.get("/api/v1/audit")["dropped"] == done["dropped"]


def test_where_the_central_server_archives_another_drops_nothing(site):
    site.store.old = [OLD]
    site.app.extensions["bellrock"].keeper._is_elsewhere = True
    answer = site.client.post("/api/v1/retention", headers={"X-Bellrock": "1"})
    assert answer.status_code == 409 and "central server" in answer.get_json()["error"]["hint"] and site.store.old == [OLD]


def test_letters_that_retention_dropped_are_a_note_and_others_a_flaw(site):
    site.store.marks = [(("n1", 255), Mark(9, letters=3, conflicts=1, ended=True, last_ns=5))]
    assert {flaw["kind"] for flaw in site.get("/api/v1/audit")["flaws"]} == {"dead_letters", "conflict"}
    site.store.gone_letters = {("n1", 255): (3, 1)}
    answer = site.get("/api/v1/audit?fresh=1")
    assert answer["clean"] and [(flaw["kind"], flaw["severity"]) for flaw in answer["flaws"]] == [("letters_dropped", "note")]
    site.store.gone_letters = {("n1", 255): (2, 1)}
    assert not site.get("/api/v1/audit?fresh=1")["clean"]


def test_a_job_whose_records_went_says_so(site):
    site.finished_job()
    assert site.get("/api/v1/jobs/7")["records_dropped"] is False
    for part, is_told in ((replace(OLD, first_ns=0, last_ns=T0 - 1), False), (replace(OLD, data="samples"), False), (OLD, True)):
        site.store.gone = [replace(part, dropped_ns=1)]
        assert site.get("/api/v1/jobs/7")["records_dropped"] is is_told


def test_figures_that_were_worked_out_before_records_went_stay(site):
    site.finished_job()
    before = site.get("/api/v1/jobs/7")["profile"]
    assert before["write_bytes"] == 12288
    site.store.rows["7"] = []
    assert site.get("/api/v1/jobs/7/files")["total"] == 0
    assert site.get("/api/v1/jobs/7")["profile"] == before == site.get("/api/v1/jobs/7")["profile"]
    assert site.get("/api/v1/jobs")["jobs"][0]["write_bytes"] == 12288
