"""Where and when: heat maps of jobs, of runs and of stored sums, and what is kept of them."""

import json

import pyarrow as pa
import pytest
from tracepack.archive import Archiver, Head

from tests.unit.jobdb.tables import T0, row, table
from tests.unit.webapp.archived import Archived
from tests.unit.webapp.fakes import S, event
from tests.unit.webapp.people import People
from webapp.api import deep_answers
from webapp.api.cache import ProcessCache
from webapp.api.shape import FLAG, MAYBE_NUMBER, NUMBER, TEXT, is_like


def heat(site, query="", job="7", **options):
    return site.get(f"/api/v1/jobs/{job}/heat?measure=write_bytes{query}", **options)


def test_a_heat_map_has_the_totals_of_the_profile(site):
    site.finished_job()
    figures = site.get("/api/v1/jobs/7")["profile"]
    for measure, total in (
        ("read_bytes", figures["read_bytes"]), ("write_bytes", figures["write_bytes"]), ("ops", figures["read_ops"] + figures["write_ops"]), ("metadata_ops", figures["metadata_ops"]),
    ):  # fmt: skip
        for by in ("node", "rank"):
            answer = site.get(f"/api/v1/jobs/7/heat?measure={measure}&by={by}")
            assert answer["total"] == total == sum(sum(one["cells"]) for one in answer["rows"]), (measure, by)
            assert all(len(one["cells"]) == len(answer["t_ns"]) for one in answer["rows"])
            assert [one["first"] for one in answer["rows"]] == (["n1", "n2"] if by == "node" else ["0", "n2:2.1"])
    assert answer["from_ns"] <= T0 and answer["to_ns"] >= T0 + 4 * S and answer["is_stored"] is False


def test_a_span_and_few_rows_are_what_was_asked_for(site):
    site.finished_job()
    answer = heat(site, f"&from_ns={T0}&to_ns={T0 + S}&bins=10&rows=1")
    assert (answer["from_ns"], answer["to_ns"], answer["total"]) == (T0, T0 + S, 6144)
    assert [(one["first"], one["last"], one["members"]) for one in answer["rows"]] == [("n1", "n2", 2)]


@pytest.mark.parametrize("query", ["&by=file", "&rows=0", "&rows=513", "&bins=1025", f"&from_ns={T0}&to_ns={T0}", "&depth=1"])
def test_what_cannot_be_asked_is_refused(site, query):
    site.finished_job()
    assert heat(site, query, status=400)["error"]["code"] in ("bad_parameter", "unknown_parameter")


def test_what_is_kept_is_not_worked_out_again_and_not_believed_if_it_is_odd(site, monkeypatch):
    site.finished_job()
    kept = {}
    monkeypatch.setattr(ProcessCache, "get", lambda self, key, is_answer: kept[key] if key in kept and is_answer(kept[key]) else None)
    monkeypatch.setattr(ProcessCache, "put", lambda self, key, value: kept.update({key: value}))
    site.get("/api/v1/jobs/7")  # stores the profile
    first, asked = heat(site), site.store.asked
    (key,) = [key for key in kept if key.startswith("heat")]
    assert heat(site) == first and site.store.asked == asked
    kept[key] = json.dumps(first | {"rows": [{"first": "<script>"}]}).encode()
    assert heat(site) == first


def test_pages_do_not_have_what_takes_long_of_a_running_job_worked_out_again_and_again(site, monkeypatch):
    site.jobdb.apply_event(event())
    site.store.add("7", row("write", T0, T0 + S, bytes=5))
    deep, now, took = site.app.extensions["bellrock"].deep, [100.0], [2.0]
    monkeypatch.setattr(deep, "_clock", lambda: now[0])
    worked_out = []

    def slow(*given):
        worked_out.append(given)
        now[0] += took[0]
        return drawn(*given)

    drawn = deep_answers.heat
    monkeypatch.setattr(deep_answers, "heat", slow)
    first = heat(site)
    now[0] += 19
    assert heat(site) == first and len(worked_out) == 1
    # Another question is another one, and after a while the same is, too.
    heat(site, "&by=rank")
    now[0] += 20
    heat(site)
    assert len(worked_out) == 3
    # What takes no time is always of now.
    took[0] = 0.01
    now[0] += 1000
    heat(site)
    heat(site)
    assert len(worked_out) == 5
    monkeypatch.setattr(deep_answers, "RUNNING_MAX", 1)
    took[0] = 2.0
    for by in ("node", "rank", "node"):
        heat(site, f"&rows=9&by={by}")
    assert len(worked_out) == 8 and len(deep._running) == 1
    # Once it has settled it is asked for anew.
    site.jobdb.apply_event(event("end", time=T0 + 4 * S))
    heat(site, "&rows=9&by=node")
    assert len(worked_out) == 9


def archived(rows):
    """The heads of an archive of some runs."""
    runs = table(rows)
    archiver = Archiver(T0, T0 + 100 * S)
    boot = pa.array([1] * len(rows), pa.uint64())
    blocks = archiver.push(runs.set_column(runs.column_names.index("boot"), "boot", boot)) + archiver.finish()
    return [block[: Head.read(block).head_bytes] for block in blocks]


def test_a_large_archived_job_is_shown_without_its_runs(site, monkeypatch):
    rows = [row("write", T0 + n % 15 * S, T0 + n % 15 * S + S // 2, bytes=1000 + n, node=f"n{n % 3}", process=f"{n % 3}.1", rank=n % 3) for n in range(100)]
    site.jobdb.apply_event(event())
    site.store.add("7", *rows)
    site.jobdb.apply_event(event("end", time=T0 + 100 * S))
    site.get("/api/v1/jobs/7")
    monkeypatch.setattr(site.store, "few_runs", 10)
    monkeypatch.setattr(deep_answers, "SUMS_FROM", 100)
    heads, was = archived(sorted(rows, key=lambda one: one["node"])), heat(site)
    monkeypatch.setattr(site.app.extensions["bellrock"].analyses, "heads", lambda job: heads)
    asked = site.store.asked
    answer = heat(site, "&rows=127")
    assert answer["is_stored"] and site.store.asked == asked
    assert answer["total"] == was["total"] and [one["total"] for one in answer["rows"]] == [one["total"] for one in was["rows"]]
    assert answer["rows"][0]["cells"] == was["rows"][0]["cells"]
    # Of few runs sums are coarse: they are read.
    monkeypatch.setattr(deep_answers, "SUMS_FROM", 101)
    assert not heat(site, "&rows=126")["is_stored"]
    monkeypatch.setattr(deep_answers, "SUMS_FROM", 100)
    # An archive that holds others' runs, or is damaged, is left alone.
    heads = archived([*rows, row("write", T0, bytes=1, node="n9", process="node", uid=None)])
    assert not heat(site, "&rows=3")["is_stored"]
    heads = [b"garbage"]
    assert not heat(site, "&rows=4")["is_stored"]


def test_shapes():
    shape = {"a": [NUMBER], "b": [{"c": TEXT, "d": MAYBE_NUMBER}], "e": FLAG}
    assert is_like(b'{"a":[1,2.5],"b":[{"c":"x","d":null}],"e":true}', shape)
    for odd in (
        b"", b"[]", b'{"a":[1,"2"],"b":[],"e":true}', b'{"a":[true],"b":[],"e":true}', b'{"a":[],"b":[{"c":1,"d":1}],"e":true}', b'{"a":[],"b":[]}',
        b'{"a":[],"b":[],"e":1}', b'{"a":null,"b":[],"e":true}', b'{"a":[],"b":[],"e":true,"f":1}',
    ):  # fmt: skip
        assert not is_like(odd, shape), odd


def test_a_timeline_has_a_lane_a_rank_or_file(site):
    site.finished_job()
    answer = site.get("/api/v1/jobs/7/timeline")
    assert [lane["name"] for lane in answer["lanes"]] == ["0", "n2:2.1"] and answer["runs"] == 5 and answer["joined_s"] == 0
    answer = site.get("/api/v1/jobs/7/timeline?by=file&first=1&lanes=2")
    assert answer["lanes_total"] == 4 and [lane["name"] for lane in answer["lanes"]] == ["/b", "unknown"]
    assert [lane["name"] for lane in site.get("/api/v1/jobs/7/timeline?file=/missing")["lanes"]] == ["0"]
    for wrong in ("by=op", "lanes=129", "first=-1", "file=" + "x" * 4097):
        site.get(f"/api/v1/jobs/7/timeline?{wrong}", status=400)


def test_long_paths_are_labels_with_their_beginning_and_end(site):
    site.jobdb.apply_event(event())
    long = "/scratch/" + "é" * 4000
    site.store.add("7", *(row("write", T0 + n, bytes=9 - n, file=f"{long}/{n}.nc", seq=n) for n in range(3)))
    for by in ("file", "rank"):
        answer = site.get(f"/api/v1/jobs/7/timeline?by={by}")
        told = [lane["name"] for lane in answer["lanes"]] if by == "file" else answer["files"]
        assert len(told) == 3 and all(len(name) == 256 and name.startswith("/scratch/é") and name.endswith(f"é/{n}.nc") for n, name in enumerate(told))
    assert site.get("/api/v1/jobs/7/offsets")["file"] == f"{long}/0.nc", "what can be asked for stays whole"


def test_offsets_are_those_of_the_largest_file_unless_another_is_asked_for(site, monkeypatch):
    site.finished_job()
    answer = site.get("/api/v1/jobs/7/offsets")
    assert (answer["file"], answer["runs"], answer["bytes"], answer["who"], answer["is_grid"]) == ("/a", 1, 8192, ["0"], False)
    answer = site.get("/api/v1/jobs/7/offsets?file=/b")
    assert (answer["file"], answer["segments"]["bytes"], answer["who"]) == ("/b", [4096], ["n2:2.1"])
    # What began before a span and goes on is in it.
    assert site.get(f"/api/v1/jobs/7/offsets?file=/b&from_ns={T0 + S}&to_ns={T0 + S + 5}")["runs"] == 1
    assert site.get("/api/v1/jobs/7/offsets?file=/none")["runs"] == 0
    monkeypatch.setattr(deep_answers, "HELD_MAX", 0)
    assert site.get("/api/v1/jobs/7/offsets?file=/b&to_ns=2000000000000000000", status=422)["error"]["code"] == "too_many_runs"


@pytest.fixture
def large(site, monkeypatch):
    """A job with a file a node, one that all share, and a profile; then its records are archived, but for some that the store still has."""
    site.jobdb.apply_event(event())
    rows = [
        row("write", T0 + n % 10 * S, T0 + n % 10 * S + S, bytes=100 + n, node=f"n{n % 10}", process=f"{n % 10}.1", rank=n % 10, seq=n, offset=n * 50, file="/shared" if n % 4 == 0 else f"/own/{n % 10}")
        for n in range(300)
    ]  # fmt: skip
    site.store.add("7", *rows)
    site.jobdb.apply_event(event("end", time=T0 + 12 * S))
    site.get("/api/v1/jobs/7")
    monkeypatch.setattr(site.store, "few_runs", 10)

    def archive():
        site.store.rows["7"] = rows[::7]
        return Archived(site, monkeypatch, rows)

    return archive


@pytest.mark.parametrize("query", ["file=/own/3", "file=/shared", f"file=/own/3&from_ns={T0 + 3 * S + 5}&to_ns={T0 + 4 * S}", "file=/none"])
def test_offsets_of_an_archived_job_are_the_same_and_of_few_blocks(site, large, monkeypatch, query):
    was = site.get(f"/api/v1/jobs/7/offsets?{query}")
    archived = large()
    monkeypatch.setattr(deep_answers, "FORMAT", "another")  # so that what was kept is none
    now = site.get(f"/api/v1/jobs/7/offsets?{query}")
    assert now == was and now["left_out"] == 0
    assert len(archived.decoded) <= (0 if query == "file=/none" else archived.blocks) and archived.blocks > 8


def test_blocks_without_the_file_are_not_decoded_as_their_heads_tell(site, large):
    archived = large()
    # The names of others lie on either side.
    assert site.get("/api/v1/jobs/7/offsets?file=/own/3")["runs"] == 30
    assert 0 < len(archived.decoded) <= 3 and archived.blocks > 8
    assert site.get("/api/v1/jobs/7/offsets?file=/shared")["runs"] == 75


def test_the_largest_file_of_an_archived_job_is_known_without_its_runs(site, large, monkeypatch):
    was = site.get("/api/v1/jobs/7/offsets")
    archived = large()
    monkeypatch.setattr(deep_answers, "FORMAT", "another")  # so that what was kept is none
    assert site.get("/api/v1/jobs/7/offsets?file=/shared") | {"who": was["who"]} == was and was["file"] == "/shared"
    decoded = len(archived.decoded)
    assert site.get("/api/v1/jobs/7/offsets") == was and len(archived.decoded) == 2 * decoded
    assert "largest_file" not in site.get("/api/v1/jobs/7")["profile"], "users must not see it where whole nodes used it"


def test_a_profile_that_does_not_tell_the_largest_file_is_no_harm(site, large, monkeypatch):
    large()
    site.store.rows.clear()
    version, profile = site.jobdb.get_profile("7")
    assert profile.pop("largest_file") == "/shared"
    site.jobdb.put_profile("7", version, profile)
    assert site.get("/api/v1/jobs/7/offsets")["file"] == "/shared"


def test_of_a_file_in_many_blocks_some_are_drawn_and_it_is_told(site, large, monkeypatch):
    archived = large()
    monkeypatch.setattr(deep_answers, "ARCHIVED_READ_MAX", 100)
    answer = site.get("/api/v1/jobs/7/offsets?file=/shared")
    assert 100 < answer["left_out"] < 300 and 0 < answer["runs"] < 75 and len(archived.decoded) <= 5
    assert len(answer["who"]) > 2, "evenly over the nodes"


def test_files_that_whole_nodes_used_are_administrators_to_see(tmp_path):
    people = People(tmp_path)
    people.jobdb.apply_event(event(uid=1000))
    people.store.add("7", row("unseen", program="solver", flags=128), row("read", T0, T0 + S, bytes=5, process="node", uid=None, file="/secret"))
    for who, sees in (("ada", False), ("boss", True)):
        headers = people.bearer(who)
        for query in ("", "by=file", "file=/secret"):
            assert ("/secret" in json.dumps(people.get(f"/api/v1/jobs/7/timeline?{query}", headers=headers))) == sees, (who, query)
        assert people.get("/api/v1/jobs/7/offsets?file=/secret", headers=headers)["runs"] == sees
        assert people.get("/api/v1/jobs/7/offsets", headers=headers)["file"] == ("/secret" if sees else None)
    people.close()
