"""Summaries on each store: which hours are due, what comes of samples in any order, and whenever the summariser is killed."""

import dataclasses
import random
import time

import pyarrow as pa
import pytest

from pipeline.retention import Keeper
from pipeline.store.sought import DAY_NS
from pipeline.store import SAMPLES, Heard
from pipeline.store.elastic import names
from pipeline.store.elastic.reader import HEADS_KEPT_S
from pipeline.store.elastic.store import ElasticsearchStore
from pipeline.store.summaries import HOURS, LATEST_NS, MINUTES, SUMMARIES
from pipeline.summarise import SETTLED_NS, Summariser
from pipeline.summary import HOUR_NS, minutes_of, rows_of
from tests.unit.pipeline.events import run_event, sample_event

S = 10**9
# The hour that samples begin in, 20 days ago, and a time when some hours are over.
H0 = (time.time_ns() // DAY_NS - 20) * DAY_NS + 20 * HOUR_NS
LATER_NS = H0 + 5 * HOUR_NS + SETTLED_NS
NODES = ("cn1", "cn2")
OF = [(node, component, instance) for node in NODES for component, instance in (("block_device", "sda"), ("block_device", "sdb/part 1"), ("agent", node))]


def samples(hours: float = 2.5, period_s: int = 100) -> list[dict]:
    """Of two nodes, some components each, with pauses, over hours' ends."""
    events, chance = [], random.Random(7)
    seqs = dict.fromkeys(NODES, 0)
    for node, component, instance in OF:
        at_s = 60
        while at_s < hours * 3600:
            length_s = chance.choice((10, 60, period_s))
            seqs[node] += 1
            values = {"read_bytes": chance.randrange(9999), "in_flight": chance.randrange(9)} if component != "agent" else {"records": chance.randrange(99), "rings": 3}
            start = H0 + at_s * S
            events.append(sample_event(seqs[node], node=node, component=component, instance=instance, start=start, end=start + length_s * S, values=values))
            at_s += length_s + chance.choice((0, 0, 0, 30, 400))
    return events


def kept(store, of=OF):
    """All rows, as they are."""
    return {(data, one): of_one(store, data, one, H0 - HOUR_NS, LATER_NS).to_pylist() for data in (MINUTES, HOURS) for one in of}


def of_one(store, data, of=("cn1", "agent", "cn1"), from_ns=0, to_ns=LATEST_NS):
    return store.summaries(data, of[1], [(of[0], of[2])], from_ns, to_ns)


# Indices of a day each, so that some have ended.
PERIOD = "day"


def look(store, now_ns=LATER_NS):
    summariser = Summariser(store, lambda: now_ns)
    summariser.look()
    return summariser.status()["hours"]


def test_an_hour_is_due_once_it_is_settled_and_all_that_came_is_counted(open_store):
    store, events = open_store(), samples()
    assert look(store) == 0 and store.summarised_ns() == LATEST_NS
    store.append(events)
    look(store, H0 + HOUR_NS + SETTLED_NS - 1)
    assert not any(kept(store).values())
    look(store, H0 + HOUR_NS + SETTLED_NS)
    assert {row["time"] for rows in kept(store).values() for row in rows} == {H0} and store.summarised_ns() == H0 + HOUR_NS
    look(store)
    found = kept(store)
    for one in OF:
        mine = [event for event in events if (event["node"], event["component"], event["instance"]) == one]
        assert sum(sum(row["count"]) for row in found[HOURS, one]) == len(mine)
        name = "records" if one[1] == "agent" else "read_bytes"
        moved = sum(dict(row["values"])[name]["sum"][0] for row in found[HOURS, one])
        assert moved == pytest.approx(sum(event["values"][name] for event in mine))
        assert [row["time"] for row in found[MINUTES, one]] == [row["time"] for row in found[HOURS, one]] == [H0, H0 + HOUR_NS, H0 + 2 * HOUR_NS]
    assert look(store) == 0, "nothing is due again"
    store.close()
    again = open_store()
    assert kept(again) == found and look(again) == 0


@pytest.mark.parametrize("seed", (1, 2))
def test_whatever_the_order_of_arrival_summaries_are_the_same(open_store, seed, request):
    store, events = open_store(), samples()
    chance = random.Random(seed)
    late = [event for event in events if chance.random() < 0.2]
    # What comes late fills gaps of numbers; the last of each node is not among them.
    last = {node: max(event["seq"] for event in events if event["node"] == node) for node in NODES}
    late = [event for event in late if event["seq"] != last[event["node"]]]
    store.append([event for event in events if event not in late])
    look(store)
    for at in range(0, len(late), 7):
        store.append(late[at : at + 7])
        assert store.summarised_ns() < H0 + 3 * HOUR_NS
        assert look(store) > 0 and store.summarised_ns() == LATEST_NS
    assert kept(store) == _at_once(events)


def _at_once(events):
    """What is kept of samples that all came in time, in order: from the arithmetic alone."""
    found = {}
    for one in OF:
        mine = [event | {"boot": int(event["boot"], 16), "values": list(event["values"].items())} for event in events if (event["node"], event["component"], event["instance"]) == one]
        table = pa.Table.from_pylist([{name: event[name] for name in SAMPLES.names} for event in mine], schema=SAMPLES)
        hours = [(minutes_of(table, one[1], at), at) for at in range(H0 - HOUR_NS, LATER_NS, HOUR_NS)]
        rows = [rows_of(minutes, one, at) for minutes, at in hours if not minutes.is_empty]
        for place, data in enumerate((MINUTES, HOURS)):
            found[data, one] = pa.Table.from_pylist([row[place] for row in rows], schema=SUMMARIES).to_pylist()
    return found


class Killed(BaseException):
    """As if the process had ended there."""


class Mortal:
    """A store whose user is killed at its nth step, before it or after it."""

    def __init__(self, store, steps, after):
        self._store, self._left, self._after = store, steps, after

    def __getattr__(self, name):
        real = getattr(self._store, name)
        if name not in ("due", "told", "samples", "put_summaries", "done"):
            return real

        def step(*given, **named):
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed(name)
            found = real(*given, **named)
            if self._left == 0:
                raise Killed(name)
            return found

        return step


@pytest.mark.parametrize("after", (False, True))
def test_killed_at_any_step_it_goes_on_where_it_was(open_store, after, monkeypatch):
    monkeypatch.setattr("pipeline.summarise.INSTANCES_AT_ONCE", 1)
    events = samples(1.2)
    late = [event for event in events if event["seq"] % 9 == 4]
    store = open_store()
    store.append([event for event in events if event not in late])
    look(store, H0 + HOUR_NS + SETTLED_NS)
    store.append(late)
    steps = 0
    while True:
        steps += 1
        try:
            # Each one gets a step further than the one before, as far as that left something to do.
            Summariser(Mortal(store, steps, after), lambda: LATER_NS).look()
            break
        except Killed:
            if steps % 3 == 0:
                store.close()
                store = open_store()
    assert steps > 3 and kept(store) == _at_once(events)
    assert look(store) == 0


def test_samples_that_come_while_their_hour_is_summarised_make_it_due_again(open_store):
    store, events = open_store(), samples(0.9)
    store.append(events[:-1])

    class Meanwhile(Mortal):
        def __getattr__(self, name):
            if name == "done" and self._left:
                self._left = 0
                self._store.append(events[-1:])
            return getattr(self._store, name)

    # The hour before may have something, and is done first.
    Summariser(Meanwhile(store, 1, False), lambda: LATER_NS).look()
    look(store)
    assert kept(store) == _at_once(events)


def test_hours_with_more_samples_than_are_read_at_once_come_out_the_same(open_store, monkeypatch):
    events = samples(0.95, 10)
    store = open_store()
    store.append(events)
    monkeypatch.setattr("pipeline.summarise.SAMPLES_AT_ONCE", 40)
    monkeypatch.setattr("pipeline.summarise.TOLD_AT_ONCE", 2)
    real = store.samples

    def bounded(component, of, from_ns, to_ns, most=30, names=None):
        return real(component, of, from_ns, to_ns, most, names)

    monkeypatch.setattr(store, "samples", bounded)
    summariser = Summariser(store, lambda: LATER_NS)
    summariser.look()
    assert summariser.status()["left_out"] == 0
    whole = _at_once(events)
    for key, rows in kept(store).items():
        for row, same in zip(rows, whole[key], strict=True):
            assert (row["time"], row["count"], row["known_s"]) == (same["time"], same["count"], same["known_s"])
            for (name, lists), (other, others) in zip(row["values"], same["values"], strict=True):
                assert name == other and lists["sum"] == pytest.approx(others["sum"]) and lists["max"] == pytest.approx(others["max"])


def test_a_minute_that_alone_has_too_many_is_left_out_and_told(open_store, monkeypatch):
    store = open_store()
    store.append([sample_event(n, component="block_device", instance="sda", start=H0 + 60 * S + n, end=H0 + 60 * S + n, values={"reads": 1}) for n in range(1, 21)])
    real = store.samples
    monkeypatch.setattr(store, "samples", lambda component, of, from_ns, to_ns: real(component, of, from_ns, to_ns, 10))
    summariser = Summariser(store, lambda: LATER_NS)
    summariser.look()
    assert summariser.status()["left_out"] > 0 and store.summarised_ns() >= H0 + HOUR_NS


def test_samples_stay_until_they_are_summarised(open_store):
    store = open_store()
    store.append([run_event(1, start=H0, end=H0 + 1), *(sample_event(n + 2, start=H0 + n * HOUR_NS, end=H0 + n * HOUR_NS + 60 * S) for n in range(72))])
    keeper = Keeper(store, {"samples": 1, "runs": 1})
    report = keeper.report()
    assert {part["data"] for part in report["expired"]} == {"runs"} and report["held_ns"] == H0 // DAY_NS * DAY_NS < report["before_ns"]["samples"]
    look(store, H0 + 60 * HOUR_NS + SETTLED_NS)
    report = keeper.report()
    day_ns = (H0 + 60 * HOUR_NS) // DAY_NS * DAY_NS
    assert report["held_ns"] == day_ns and max(part["last_ns"] for part in report["expired"] if part["data"] == "samples") < day_ns
    went, left = keeper.apply()
    assert left == [] and {part.data for part in went} == {"runs", "samples"}
    assert store.samples("agent", [("cn1", "cn1")], 0, LATEST_NS)["start"][0].as_py() >= day_ns
    look(store, H0 + 90 * HOUR_NS)
    assert keeper.report()["held_ns"] is None
    keeper.apply()
    heard = [Heard("cn1", "agent", "cn1", H0, H0 + 72 * HOUR_NS)]
    assert store.components(0, LATEST_NS) == heard == store.components(0, LATEST_NS, "cn1", ["agent"]) and store.components(H0 + 73 * HOUR_NS, LATEST_NS) == []
    assert store.telling("agent", ["cn1", "cn2"], 0, LATEST_NS) == {"cn1"} and store.called("agent", ["cn1"], ["cn1", "x"], ["y"], 0, LATEST_NS) == heard
    assert store.telling("agent", ["cn1"], 0, H0 - 1) == set()
    assert store.components(0, LATEST_NS, None, None, ["agent"]) == [] == store.components(0, H0 - 1)
    assert store.samples("agent", [("cn1", "cn1")], 0, LATEST_NS).num_rows == 0 and sum(sum(row["count"]) for row in of_one(store, HOURS).to_pylist()) == 72


def test_what_comes_for_hours_whose_samples_are_gone_changes_no_summary(open_store, caplog):
    store = open_store()
    store.append([sample_event(n, start=H0 + n * 600 * S, end=H0 + n * 600 * S + 60 * S) for n in range(1, 300) if n != 50])
    look(store, H0 + 90 * HOUR_NS)
    Keeper(store, {"samples": 1}).apply()
    before = of_one(store, MINUTES)
    store.append([sample_event(50, start=H0 + 50 * 600 * S, end=H0 + 50 * 600 * S + 60 * S)])
    look(store, H0 + 90 * HOUR_NS)
    assert of_one(store, MINUTES) == before and "in no summary" in caplog.text
    assert store.summarised_ns() == LATEST_NS


def test_what_clients_had_is_told_of_whole_hours_where_samples_are_gone(open_store):
    store = open_store()
    told = [("ost1 a", hour, {"reads": hour + 1, "read_ns": 5}) for hour in range(30)] + [("ost1 b", 3, {"writes": 9}), ("ost10 a", 3, {"reads": 99})]
    events = [
        sample_event(n, component="lustre_export", instance=name, start=H0 + hour * HOUR_NS + 1800 * S, end=H0 + hour * HOUR_NS + 1810 * S, values=values)
        for n, (name, hour, values) in enumerate(told, 1)
    ]
    store.append(events)
    look(store, H0 + 90 * HOUR_NS)
    asked = ("lustre_export", "cn1", "ost1 ", ["reads", "writes"], H0 + HOUR_NS, H0 + 30 * HOUR_NS)
    before = store.sums_of(*asked)
    assert before == {"ost1 a": {"reads": sum(range(2, 31))}, "ost1 b": {"writes": 9}}
    # What goes are the days before H0's next but one: 28 hours or so; the others stay.
    went, _ = Keeper(store, {"samples": time.time_ns() // DAY_NS - (H0 // DAY_NS + 2)}).apply()
    assert went and 0 < store.samples("lustre_export", [("cn1", "ost1 a")], 0, LATEST_NS).num_rows < 30
    assert store.sums_of(*asked) == before
    part = store.sums_of(*asked[:4], H0 + 2 * HOUR_NS + 60 * S, H0 + 4 * HOUR_NS + 60 * S)
    assert part["ost1 a"] == {"reads": 3 + 4 + 5}, "hours count whole"


def test_summaries_go_by_classes_of_their_own(open_store, monkeypatch):
    store = open_store()
    store.append([sample_event(n, start=H0 + n * HOUR_NS, end=H0 + n * HOUR_NS + 60 * S) for n in range(1, 14)])
    look(store, H0 + 90 * HOUR_NS)
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + 200 * DAY_NS)
    went, left = Keeper(store, {"minutes": 100, "hours": 0, "samples": 0}).apply()
    assert left == [] and {part.data for part in went} == {"minutes"} and sum(part.records for part in went) == 13
    assert of_one(store, MINUTES).num_rows == 0 and of_one(store, HOURS).num_rows == 13
    *_, proof = store.proof()
    assert proof.boots["cn1", 0xDEADBEEF] == (13, 13, 13), "no audit misses them"


@pytest.mark.parametrize("open_store", ["elasticsearch"], indirect=True)
def test_a_central_server_summarises_all_groups_and_another_one_beside_it_does_no_harm(open_store, request):
    store, events = open_store(), samples(1.6)
    store.append(events[: len(events) // 2])
    settings = dataclasses.replace(request.getfixturevalue("elastic"), period="day")
    centrals = [ElasticsearchStore(settings) for _ in range(2)]
    try:
        assert [central.summary_groups() for central in centrals] == [["g1"]] * 2
        look(centrals[0])
        store.append(events[len(events) // 2 :])
        time.sleep(HEADS_KEPT_S)  # so old may be what a server knows of others' commits
        # Each is about to summarise the same hours when the other does.
        due = [central.due("g1", LATER_NS) for central in centrals]
        assert due[0] == due[1] and due[0] is not None
        for central in centrals:
            look(central)
        assert kept(store) == _at_once(events) == kept(centrals[1]) and [central.summarised_ns() for central in centrals] == [LATEST_NS] * 2
    finally:
        for central in centrals:
            central.close()


@pytest.mark.parametrize("open_store", ["elasticsearch"], indirect=True)
def test_samples_that_somebody_wrote_without_commits_are_in_the_summary_of_their_hour(open_store):
    store, events = open_store(), samples(0.9)
    store.append(events[:-1])
    event = events[-1]
    index = f"bellrock-sample-{'agent' if event['component'] == 'agent' else 'other'}-g1-{names.period_of(event['start'], 'day')}"
    store.client.ask("PUT", f"/{index}/_doc/others?refresh=true", event)
    look(store)
    assert kept(store) == _at_once(events)
