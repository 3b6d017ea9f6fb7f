"""Pages of a job's records: what is on them, in which order, and who sees what."""

import os
import random
from dataclasses import replace
from urllib.parse import quote

import pytest

from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.archived import Archived
from tests.unit.webapp.fakes import S, event
from tests.unit.webapp.people import People
from webapp.api import readings, trace


def rows_of(answer):
    """The rows of a page as dicts."""
    texts, columns = answer["texts"], answer["columns"]
    told = {name: [None if at is None else texts[name][at] for at in values] if name in texts else values for name, values in columns.items()}
    return [dict(zip(told, values, strict=True)) for values in zip(*told.values(), strict=True)]


def every_row(site, query="", limit=7, job="7", **options):
    """The rows of all pages, and how many pages there were."""
    rows, cursor, pages = [], "", 0
    while cursor is not None:
        answer = site.get(f"/api/v1/jobs/{job}/trace?limit={limit}{query}{f'&cursor={quote(cursor)}' if cursor else ''}", **options)
        assert answer["rows"] <= limit
        rows += rows_of(answer)
        cursor, pages = answer["next_cursor"], pages + 1
        assert pages < 1000
    return rows, pages


@pytest.fixture
def busy(site):
    """A job of 200 runs at few instants, in no order."""
    made = random.Random(3)
    site.jobdb.apply_event(event())
    rows = [
        row(made.choice(["read", "write", "open"]), T0 + made.randrange(4) * S, bytes=n, count=1 + n % 3, node=f"cn{made.randrange(12)}", process=f"{n % 5}.1",
            rank=made.choice([None, 2, 10]), file=made.choice(["/a/x.nc", "/a/y.nc", "/b/[x]", None]), seq=n, offset=n * 4096)
        for n in range(200)
    ]  # fmt: skip
    site.store.add("7", row("start", T0, seq=900), *rows)
    site.jobdb.apply_event(event("end", time=T0 + 5 * S))
    return rows


@pytest.mark.parametrize("limit", [1, 7, 50, 199, 200, 201])
def test_pages_hold_each_record_once_in_the_order_of_time(site, busy, limit):
    rows, pages = every_row(site, limit=limit)
    assert sorted(one["bytes"] for one in rows) == list(range(200)) and pages >= -(-200 // limit)
    assert [one["start"] for one in rows] == sorted(one["start"] for one in rows)
    first = next(one for one in rows if one["bytes"] == 17)
    assert {name: first[name] for name in ("count", "offset", "size", "file", "errno")} == {name: busy[17][name] for name in ("count", "offset", "size", "file", "errno")}


def test_small_pieces_give_the_same(site, busy, monkeypatch):
    whole, _ = every_row(site, limit=1000)
    monkeypatch.setattr(trace, "PIECE_RUNS", 70)  # one instant has about 50
    monkeypatch.setattr(trace, "PAGE_READ_MAX", 10)
    assert every_row(site, limit=30)[0] == whole
    some, pages = every_row(site, "&file=/b/*", limit=1000)
    assert pages > 2 and len(some) == sum(one["file"] == "/b/[x]" for one in busy), "a page ends when enough was looked at"


@pytest.mark.parametrize(("order", "key"), [
    ("node", lambda one: (int(one["node"][2:]), one["process"], one["start"])),
    ("rank", lambda one: (one["rank"] is None, one["rank"] or 0, int(one["node"][2:]), one["process"], one["start"])),
])  # fmt: skip
def test_by_node_or_rank(site, busy, order, key):
    rows, _ = every_row(site, f"&order={order}", limit=33)
    assert len({one["bytes"] for one in rows}) == 200 and [key(one) for one in rows] == sorted(key(one) for one in rows)


@pytest.mark.parametrize(("query", "fits"), [
    ("&node=cn1", lambda one: one["node"] == "cn1"),
    ("&rank=10", lambda one: one["rank"] == 10),
    ("&op=write", lambda one: one["op"] == "write"),
    ("&layer=compute", lambda one: True),
    ("&op=mmap", lambda one: False),
    ("&file=*.nc", lambda one: (one["file"] or "").endswith(".nc")),
    ("&file=/a/?.nc", lambda one: (one["file"] or "").startswith("/a/")),
    ("&file=/b/[x]", lambda one: one["file"] == "/b/[x]"),
    ("&file=/a", lambda one: False),
    (f"&from_ns={T0 + S}&to_ns={T0 + 3 * S}", lambda one: T0 + S <= one["start"] < T0 + 3 * S),
    ("&op=read&node=cn3", lambda one: one["op"] == "read" and one["node"] == "cn3"),
])  # fmt: skip
def test_filters(site, busy, query, fits):
    for order in ("time", "node"):
        rows, _ = every_row(site, f"{query}&order={order}")
        assert sorted(one["bytes"] for one in rows) == [one["bytes"] for one in busy if fits(one)]


def test_notices_and_other_users_records(site, busy):
    site.store.add("7", row("write", T0, bytes=777, uid=1001), row("read", T0, bytes=778, process="node", uid=None))
    assert {one["bytes"] for one in every_row(site, limit=1000)[0]} == set(range(200))
    assert [one["op"] for one in every_row(site, "&op=start")[0]] == ["start"]


def test_too_many_to_sort_are_refused(site, busy, monkeypatch):
    monkeypatch.setattr(trace, "SORTED_MAX", 150)
    assert site.get("/api/v1/jobs/7/trace?order=rank", status=422)["error"]["code"] == "too_many_to_sort"
    assert every_row(site, "&order=rank&op=open")[0]


def test_long_names_make_short_pages(site, monkeypatch):
    monkeypatch.setattr(trace, "TEXT_BYTES_MAX", 1000)
    site.jobdb.apply_event(event())
    site.store.add("7", *(row("open", T0 + n, file="/" + "x" * length, seq=n) for n, length in enumerate((400, 400, 400, 5000, 10))))
    rows, pages = every_row(site, limit=100)
    assert [len(one["file"]) for one in rows] == [401, 401, 401, 5001, 11] and pages == 3, "each path is told once"


@pytest.mark.parametrize("query", ["order=size", "cursor=x", "cursor=1.-2", f"from_ns={T0}&to_ns={T0}", "op=fly", "limit=20001", "rank=x", "files=x", "file=" + "a" * 1001])
def test_what_cannot_be_asked_is_refused(site, busy, query):
    site.get(f"/api/v1/jobs/7/trace?{query}", status=400)


def test_files_that_whole_nodes_used_have_names_for_administrators_alone(tmp_path):
    people = People(tmp_path)
    people.jobdb.apply_event(event(uid=1000))
    people.store.add("7", row("unseen", program="solver", flags=128), row("read", T0, T0 + S, bytes=5, process="node", uid=None, file="/secret/of/eve"))
    for who, name in (("ada", None), ("boss", "/secret/of/eve")):
        rows, _ = every_row(people, headers=people.bearer(who))
        assert [(one["bytes"], one["file"]) for one in rows] == [(5, name)]
        assert len(every_row(people, "&file=/secret*", headers=people.bearer(who))[0]) == (who == "boss")
    people.close()


@pytest.fixture
def archived(site, busy, monkeypatch):
    """The same job once its records are archived. Of some the store has a copy, and it has one that came late."""
    made = Archived(site, monkeypatch, busy[:])
    site.store.rows["7"] = [one for one in site.store.rows["7"] if one["seq"] % 10 == 0 or one["op"] == "start"]
    late = row("write", T0 + 2 * S + 5, node="cn3", seq=1000, bytes=200, rank=2, file="/a/late.nc")
    site.store.add("7", late)
    busy.append(late)
    return made


def in_order(rows):
    return sorted(rows, key=lambda one: (one["start"], one["node"], one["seq"]))


@pytest.mark.parametrize("limit", [1, 7, 201])
def test_of_an_archived_job_each_block_is_decoded_once_however_many_pages(site, busy, archived, limit):
    rows, pages = every_row(site, limit=limit)
    assert [one["bytes"] for one in rows] == [one["bytes"] for one in in_order(busy)] and pages >= 201 // limit
    assert sorted(archived.decoded) == sorted(set(archived.decoded)) and len(archived.decoded) == archived.blocks > 5


@pytest.mark.parametrize(("name", "value"), [("ROWS_MAX", 30), ("BYTES_MAX", 3000), ("READ_MAX", 1), ("KEPT_BYTES_MAX", 0)])
def test_whatever_is_held_at_once_the_archive_is_told_whole(site, busy, archived, monkeypatch, name, value):
    monkeypatch.setattr(readings, name, value)
    rows, _ = every_row(site, limit=13)
    assert [one["bytes"] for one in rows] == [one["bytes"] for one in in_order(busy)]


def test_records_of_one_instant_that_are_more_than_is_held_are_told_whole(site, monkeypatch):
    monkeypatch.setattr(readings, "ROWS_MAX", 10)
    site.jobdb.apply_event(event())
    rows = [row("write", T0 + S, bytes=n, node=f"n{n % 4}", seq=n) for n in range(60)]
    site.store.add("7", *rows)
    site.jobdb.apply_event(event("end", time=T0 + 5 * S))
    Archived(site, monkeypatch, rows)
    site.store.rows.clear()
    assert [one["bytes"] for one in every_row(site, limit=7)[0]] == [one["bytes"] for one in in_order(rows)]


@pytest.mark.parametrize("order", ["time", "rank", "stored"])
def test_a_page_ends_after_some_blocks_also_where_nothing_fits(site, archived, monkeypatch, order):
    for name in ("webapp.api.readings.READ_MAX", "webapp.api.trace.READ_MAX"):
        monkeypatch.setattr(name, 50)
    told, cursor, pages = [], "", 0
    while cursor is not None:
        answer = site.get(f"/api/v1/jobs/7/trace?file=*x*y*z&order={order}{f'&cursor={cursor}' if cursor else ''}")
        assert answer["rows"] == 0 and answer["read"] < 100
        told.append(answer["sought"] and answer["sought"]["read"])
        cursor, pages = answer["next_cursor"], pages + 1
    assert pages >= archived.blocks // 4 and len(archived.decoded) == archived.blocks
    if order != "stored":
        assert told[-1] is None and told[:-1] == sorted(set(told[:-1])), "it can be seen to go on"


@pytest.mark.parametrize(("query", "most"), [
    ("&file=/nowhere", 0), ("&file=/nowhere/*", 0), ("&file=/zzz*", 0), ("&op=mmap", 0), ("&rank=11", 0), ("&node=cn99", 0), ("&node=cn7", 2), (f"&from_ns={T0 + 4 * S}", 0),
])  # fmt: skip
def test_blocks_that_cannot_hold_what_is_asked_for_are_left_alone(site, archived, query, most):
    for order in ("time", "node", "stored"):
        archived.decoded.clear()
        rows, pages = every_row(site, f"{query}&order={order}", limit=100)
        assert len(archived.decoded) <= most < archived.blocks and pages < 5 and bool(rows) == ("cn7" in query)


def test_how_others_files_are_called_cannot_be_guessed_by_how_many_records_are_looked_at(tmp_path, monkeypatch):
    people = People(tmp_path, uid=os.geteuid())
    people.jobdb.apply_event(event(uid=1000))
    rows = [row("write", T0 + n, bytes=n, seq=n) for n in range(50)]
    rows += [row("read", T0 + n, bytes=5, process="node", uid=None, seq=100 + n, file="/secret/of/eve") for n in range(50)]
    people.store.add("7", *rows)
    people.jobdb.apply_event(event("end", uid=1000, time=T0 + S))
    Archived(people, monkeypatch, rows)
    people.store.rows.clear()

    def read(who, file):
        return people.get(f"/api/v1/jobs/7/trace?file={file}", headers=people.bearer(who))["read"]

    assert read("ada", "/secret/of") == read("ada", "/secret/og") == read("ada", "/zzz") == 100
    assert read("boss", "/secret/of") < 100
    people.close()


@pytest.mark.parametrize("query", ["&node=cn1", "&rank=10", "&op=write", "&file=*.nc", "&file=/a/?.nc", "&file=/b/[x]", f"&from_ns={T0 + S}&to_ns={T0 + 3 * S}", "&op=read&node=cn3", "&op=start"])
def test_filters_fit_the_same_in_the_archive(site, busy, monkeypatch, query):
    wanted = {order: every_row(site, f"{query}&order={order}")[0] for order in ("time", "node", "rank")}
    rows, site.store.rows["7"] = site.store.rows["7"], []
    Archived(site, monkeypatch, rows)
    for order, was in wanted.items():
        assert every_row(site, f"{query}&order={order}")[0] == was
    by_bytes = lambda rows: sorted(rows, key=lambda one: one["bytes"])  # noqa: E731
    assert by_bytes(every_row(site, f"{query}&order=stored")[0]) == by_bytes(wanted["time"])


def test_as_stored_each_block_is_decoded_once_and_each_record_told_once(site, busy, archived):
    rows, pages = every_row(site, "&order=stored", limit=7)
    assert sorted(one["bytes"] for one in rows) == list(range(201)) and pages > 20 and len(archived.decoded) == archived.blocks
    cursor = site.get("/api/v1/jobs/7/trace?order=stored&limit=7")["next_cursor"]
    archived.pack(busy, generation=2)
    assert site.get(f"/api/v1/jobs/7/trace?order=stored&limit=7&cursor={cursor}", status=409)["error"]["code"] == "packed_anew"


def test_what_goes_amid_a_reading_as_stored_is_told_once_or_the_reading_begins_anew(site, busy, monkeypatch):
    """Blocks leave out what the store has, which comes last: not where that has gone by then."""
    archived = Archived(site, monkeypatch, busy)
    site.store.rows["7"], gone = busy[:60], site.store.gone
    cursors, answer = [], {"next_cursor": ""}
    while (cursor := answer["next_cursor"]) is not None:
        cursors.append(cursor)
        answer = site.get(f"/api/v1/jobs/7/trace?order=stored&limit=7{f'&cursor={quote(cursor)}' if cursor else ''}")
    site.store.rows["7"] = []
    site.store.gone = [replace(gone[0], dropped_ns=gone[0].dropped_ns + S), *gone]
    for cursor in cursors[1:]:
        assert site.get(f"/api/v1/jobs/7/trace?order=stored&limit=7&cursor={quote(cursor)}", status=409)["error"]["code"] == "packed_anew"
    assert sorted(one["bytes"] for one in every_row(site, "&order=stored")[0]) == list(range(200)) and archived.decoded


def test_a_reading_as_stored_goes_on_once_the_records_are_in_the_archive_alone(site, busy, monkeypatch):
    first = site.get("/api/v1/jobs/7/trace?order=stored&limit=50")
    site.store.rows["7"] = []
    Archived(site, monkeypatch, busy)
    rest, cursor = [], first["next_cursor"]
    while cursor:
        answer = site.get(f"/api/v1/jobs/7/trace?order=stored&limit=50&cursor={quote(cursor)}")
        rest, cursor = rest + rows_of(answer), answer["next_cursor"]
    assert sorted(one["bytes"] for one in rows_of(first) + rest) == list(range(200))


def test_in_the_order_of_time_it_goes_on_in_a_new_generation(site, busy, archived):
    first = site.get("/api/v1/jobs/7/trace?limit=50")
    archived.pack(busy[:200], generation=2)
    rest, cursor = [], first["next_cursor"]
    while cursor:
        answer = site.get(f"/api/v1/jobs/7/trace?limit=50&cursor={cursor}")
        rest, cursor = rest + rows_of(answer), answer["next_cursor"]
    assert [one["bytes"] for one in rows_of(first) + rest] == [one["bytes"] for one in in_order(busy)]


def test_a_server_that_is_amid_many_archives_is_busy_with_them_until_nobody_asks(site, archived, monkeypatch):
    for name in ("webapp.api.readings.READ_MAX", "webapp.api.trace.READ_MAX"):
        monkeypatch.setattr(name, 1)
    monkeypatch.setattr(readings, "UNFINISHED_MAX", 2)
    for rank in (2, 10):
        assert site.get(f"/api/v1/jobs/7/trace?rank={rank}")["sought"]
    site.get("/api/v1/jobs/7/trace", status=503)
    assert site.get("/api/v1/jobs/7/trace?rank=2")["sought"], "who has begun goes on"
    monkeypatch.setattr(readings, "IDLE_S", -1.0)
    assert site.get("/api/v1/jobs/7/trace")["sought"]


def test_more_records_at_an_instant_than_are_read_say_how_to_go_on(site, busy, monkeypatch):
    monkeypatch.setattr(trace, "PIECE_RUNS", 20)
    monkeypatch.setattr(trace, "INSTANT_RUNS", 20)
    error = site.get("/api/v1/jobs/7/trace", status=422)["error"]
    assert error["code"] == "too_many_at_once" and f"from_ns={T0 + 1}" in error["hint"]
    site.get(f"/api/v1/jobs/7/trace?from_ns={T0 + 1}&to_ns={T0 + S}")


@pytest.mark.parametrize("place", [trace.Place(), trace.Place(7), trace.Place(7, (7, "n.1\n/%", 2**64 - 1, 3)), trace.Place(skip=9), trace.Place(block=2, skip=3, packed=(1, 5)), trace.Place(7, packed=(1, 5))])
def test_a_cursor_is_read_as_it_was_written(place):
    assert trace.Place.of(place.text()) == place
