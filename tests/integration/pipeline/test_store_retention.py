"""Dropping what was kept long enough, on each store: what goes, what stays, and that an audit afterwards is clean."""

import time

import pytest

from pipeline.retention import Keeper, limits
from pipeline.store import BEGIN, Appended, PlaceLost, StoreError
from pipeline.store.elastic import retention
from pipeline.store.elastic.store import ElasticsearchStore
from pipeline.store.sought import DAY_NS
from pipeline.summarise import Summariser
from tests.unit.pipeline.events import job_event, run_event, sample_event

TODAY = time.time_ns() // DAY_NS * DAY_NS
KEY = ("cn1", 0xDEADBEEF)


# Indices of a day each, so that some have ended.
PERIOD = "day"


def at(day: int) -> dict:
    """Times on a day before today."""
    start = TODAY - day * DAY_NS + 3600 * 10**9
    return {"start": start, "end": start + 10**9}


def some(days=(40, 20, 3)) -> list[dict]:
    """Per day two runs and a sample, and a job event of the first; numbers go on."""
    events = []
    for day in days:
        seq = len(events) + 1
        events += [run_event(seq, **at(day)), run_event(seq + 1, **at(day)), sample_event(seq + 2, values={"lost": 1}, **at(day))]
    return [*events, job_event(len(events) + 1, time=at(days[0])["start"])]


def proven(store):
    *_, proof = store.proof()
    return proof


def keep(store, **days) -> tuple:
    Summariser(store).look()
    return Keeper(store, days).apply()


def test_a_dry_run_tells_what_would_go_and_drops_nothing(store):
    assert store.append(some()) == Appended(runs=6, samples=3, jobs=1)
    store.version("local-1")
    Summariser(store).look()
    parts = Keeper(store, {"runs": 10, "samples": 30, "letters": 1}).plan()
    told = {}
    for part in parts:
        told.setdefault(part.data, []).append((part.records, part.first_ns // DAY_NS, part.last_ns // DAY_NS))
    day = TODAY // DAY_NS
    runs = told.pop("runs")
    assert sum(records for records, _, _ in runs) == 4 and min(first for _, first, _ in runs) == day - 40 and max(last for _, _, last in runs) == day - 20
    assert told == {"samples": [(1, day - 40, day - 40)]}
    assert store.version("local-1") == 6 and store.dropped() == []


def test_an_audit_after_it_is_clean_and_what_went_is_told(open_store):
    store = open_store()
    store.append(some())
    went, left = keep(store, runs=10, samples=30)
    assert left == [] and sum(part.records for part in went if part.data == "runs") == 4 and sum(part.records for part in went) == 5
    assert all(part.dropped_ns is not None for part in went)
    assert proven(store).boots == {KEY: (4, 4, 4)} and store.version("local-1") == 2
    assert sum(proven(store).days.values()) == 4
    assert store.status()["records"] == {"run": 6, "sample": 3, "job": 1, "message": 0} and store.status()["records_dropped"] == {"run": 4, "sample": 1, "job": 0, "message": 0}
    assert keep(store, runs=10, samples=30) == ([], [])
    store.close()
    again = open_store()
    assert proven(again).boots == {KEY: (4, 4, 4)} and sorted(again.dropped(), key=repr) == sorted(went, key=repr)
    assert again.append(some()) == Appended(duplicates=10) and again.append([run_event(11, **at(20))]) == Appended(runs=1)
    assert proven(again).boots == {KEY: (5, 5, 5)}
    keep(again, runs=10)
    assert proven(again).boots == {KEY: (4, 4, 4)} and again.boots()[0][1].missing == 0


def test_it_is_known_of_any_time_when_records_of_it_went(open_store):
    store = open_store()
    store.append(some())
    spans = [(TODAY - day * DAY_NS, TODAY - (day - 1) * DAY_NS - 1) for day in (40, 30, 20, 3)]
    assert store.dropped_ns("runs", spans) == [0, 0, 0, 0]
    since_ns = time.time_ns()
    keep(store, runs=30)
    keep(store, runs=10)
    oldest, none, newer, recent = store.dropped_ns("runs", spans)
    assert since_ns < oldest < newer < time.time_ns() and (none, recent) == (0, 0) and len(store.dropped(1)) == 1
    assert store.dropped_ns("samples", spans) == [0, 0, 0, 0] and store.dropped_ns("runs", spans, store.dropped(1)[0].group) == [oldest, 0, newer, 0]
    store.close()
    assert open_store().dropped_ns("runs", spans) == [oldest, 0, newer, 0]


def test_what_came_since_it_was_looked_at_does_not_go(store):
    store.append(some())
    store.version("local-1")
    parts = store.expired({"runs": TODAY - 10 * DAY_NS})
    store.append([run_event(11, **at(40)), run_event(12, **at(20))])
    assert [store.drop(part) for part in parts] == [None] * len(parts) and store.version("local-1") == 8 and store.dropped() == []
    assert sum(part.records for part in keep(store, runs=10)[0]) == 6


def test_killed_before_its_time_is_noted_an_index_went_when_that_was_seen(open_store, monkeypatch):
    store = open_store()
    if not isinstance(store, ElasticsearchStore):
        pytest.skip("elsewhere rows go in one transaction")
    store.append(some())
    store.version("local-1")
    (part,) = store.expired({"runs": TODAY - 30 * DAY_NS})
    note, span = retention._note, (part.first_ns, part.last_ns)

    def killed(reader, bulk, went, *boots):
        if went.dropped_ns is not None:
            raise StoreError("killed")
        note(reader, bulk, went, *boots)
        assert store.dropped_ns("runs", [span]) == [0], "it is noted, and there"

    monkeypatch.setattr(retention, "_note", killed)
    with pytest.raises(StoreError, match="killed"):
        store.drop(part)
    went_ns = time.time_ns()
    (seen_ns,) = store.dropped_ns("runs", [span])
    assert went_ns < seen_ns and [one.dropped_ns for one in store.dropped()] == [seen_ns]
    store.close()
    again = open_store()
    assert again.dropped_ns("runs", [span])[0] > seen_ns and proven(again).boots == {KEY: (7, 7, 7)}


def test_samples_of_all_components_go_alike(store):
    days = (40, 40, 20, 3)
    store.append([sample_event(n, component="agent" if n % 2 else "block_device", **at(day)) for n, day in enumerate(days, 1)])
    Summariser(store).look()
    (first,) = {part.first_ns for part in Keeper(store, {"samples": 30}).plan()}
    assert first == at(40)["start"]
    went, left = keep(store, samples=30)
    assert left == [] and sum(part.records for part in went) == 2 and proven(store).boots == {KEY: (2, 2, 2)}
    since_ns = at(30)["start"]
    assert [(one.component, one.first_ns) for one in store.components(since_ns, TODAY + DAY_NS)] == [("agent", at(20)["start"]), ("block_device", at(3)["start"])]
    keep(store, samples=10)
    assert [one.component for one in store.components(at(15)["start"], TODAY + DAY_NS)] == ["block_device"]
    heard = store.components(0, TODAY + DAY_NS)
    assert [(one.component, one.first_ns) for one in heard] == [("agent", at(40)["start"]), ("block_device", at(40)["start"])], "summaries tell, to the hour"
    assert store.status()["records_dropped"]["sample"] == 3


def test_gaps_stay_known_and_what_comes_into_them_late_counts(store):
    events = some()
    store.append([event for event in events if event["seq"] not in (2, 5)])
    keep(store, runs=10, samples=10, job_events=10)
    assert store.boots()[0][1].missing == 2 and proven(store).boots == {KEY: (3, 3, 3)}
    assert store.append([events[1], events[4]]) == Appended(runs=2, filled=2)
    assert store.boots()[0][1].missing == 0 and proven(store).boots == {KEY: (5, 5, 5)}


def test_sums_go_on_or_begin_anew_and_never_count_twice(store):
    store.append(some())
    rows, place = store.sample_totals("agent", ["cn1"], BEGIN)
    assert rows == [("cn1", "lost", 3, 1)]
    keep(store, samples=10)
    store.append([sample_event(11, values={"lost": 1}, **at(3))])
    try:
        assert store.sample_totals("agent", ["cn1"], place)[0] == [("cn1", "lost", 1, 1)]
    except PlaceLost:
        assert store.sample_totals("agent", ["cn1"], BEGIN)[0] == [("cn1", "lost", 2, 1)]


def test_letters_that_went_are_known_by_boot(store, monkeypatch):
    store.append([run_event(1), run_event(2, bytes=-1), run_event(3)])
    store.append([run_event(3, bytes=8192)])  # a conflict
    assert sum(line.count for line in store.letters()) == 2
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + 70 * DAY_NS)
    went, _ = keep(store, letters=2)
    assert [(part.data, part.records) for part in went] == [("letters", 2)]
    assert store.letters() == [] and store.dropped_letters() == {KEY: (1, 1)}
    status = store.status()
    assert status["dead_letters"] == 2 == status["dead_letters_dropped"]


def test_whole_days_go_and_none_of_0_days():
    now_ns = 1_790_000_000 * 10**9
    assert limits({"runs": 2, "samples": 0}, now_ns) == {"runs": (now_ns // DAY_NS - 2) * DAY_NS}
