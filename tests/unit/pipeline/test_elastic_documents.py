"""Records as lines of a bulk request, against the slow way to say the same."""

import random

import orjson
import pytest

from pipeline.store import decoded
from pipeline.store.batch import Batch
from pipeline.store.elastic import names
from pipeline.store.elastic.documents import bodies, lines, plain
from pipeline.store.elastic.templates import layer_of
from tests.unit.pipeline.events import T0, job_event, run_event, sample_event

DAY = 24 * 3600 * 10**9


def one_by_one(events, places, dated):
    out = []
    for place in places:
        event = events[place]
        start = event["time" if event["kind"] == "job" else "start"]
        index = names.index(event["kind"], layer_of(event["kind"], event), "g1", dated.of(start))
        fence = {} if event["kind"] == "run" else {"version": 9, "version_type": "external_gte"}
        action = {"_index": index, "_id": names.record_id(event["node"], int(event["boot"], 16), event["seq"])} | fence
        out.append(({"index": action}, orjson.loads(plain(event, 9))))
    return out


def test_neighbours_are_told_apart_as_one_by_one():
    rng = random.Random(5)
    makes = (run_event, sample_event, job_event)
    for period in names.PERIODS:
        dated = names.Dated(T0 + 5 * DAY + 777, [(0, period), (T0 + 17 * DAY, "day")])
        events = []
        for seq in range(1, 400):
            start = rng.choice((dated.floor_ns - 1, dated.floor_ns, T0 + rng.randrange(60 * DAY)))
            event = rng.choice(makes)(seq, node=rng.choice(("cn1", "cn1", "x" * 300 + "é" * 90)), boot=rng.choice(("00000000deadbeef", "DEADBEEF", "00000000deadbee0")))
            event |= {"time": start} if event["kind"] == "job" else {"start": start, "end": start}
            if event["kind"] == "sample":
                event["component"] = rng.choice(("agent", "ost"))
            events.append(event | ({"more": 1} if rng.random() < 0.1 else {}))
        raw = [orjson.dumps(event) if rng.random() < 0.8 else None for event in events]
        places = sorted(rng.sample(range(len(events)), 300))
        found, indices = lines(events, raw, places, "g1", dated, 9)
        expected = one_by_one(events, places, dated)
        assert [tuple(map(orjson.loads, line.splitlines())) for line in found] == expected
        assert {names.index(kind, layer, "g1", part) for kind, layer, part in indices} == {action["index"]["_index"] for action, _ in expected}


@pytest.mark.parametrize("period", names.PERIODS)
def test_bodies_of_what_was_taken_by_the_span_say_the_same(period):
    """Also on the day that the floor lies amid, of which a part belongs to each side."""
    rng = random.Random(7)
    dated = names.Dated(T0 + 5 * DAY + 777, [(0, period)])
    events = []
    for seq in range(1, 400):
        start = rng.choice((dated.floor_ns - 1, dated.floor_ns, T0 + rng.randrange(40 * DAY)))
        event = run_event(seq, start=start, end=start)
        events.append(event | ({"more": 1} if rng.random() < 0.1 else {}))
    payloads = [orjson.dumps(event) for event in events]
    batch = Batch({}, T0 + 50 * DAY)
    batch.take(payloads, decoded)
    assert 0 < len(batch.spans) < len(events)
    found, indices = bodies(batch, payloads, "g1", dated, 9)
    said = {}
    for body in found:
        for place, pair in zip(body.places, body.lines(), strict=True):
            action, document = map(orjson.loads, pair.splitlines())
            said[place] = ({"index": {"_index": body.path[1:] or action["index"]["_index"], "_id": action["index"]["_id"]}}, document)
    expected = one_by_one(events, range(len(events)), dated)
    assert [said[place] for place in range(len(events))] == expected
    assert {names.index(kind, layer, "g1", part) for kind, layer, part in indices} == {action["index"]["_index"] for action, _ in expected}
