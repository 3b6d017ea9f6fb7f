"""What is known of dropped indices, from what the books of groups tell."""

import pytest

from pipeline.store.elastic import retention
from pipeline.store.elastic.retention import Dropped
from pipeline.store.parts import Part
from pipeline.store.sought import DAY_NS

NOW_NS = 20_000 * DAY_NS


class FakeReader:
    """Notes by group, and the uuids of the indices that are there. away: groups whose books cannot be read."""

    def __init__(self):
        self.notes, self.there, self.away, self.asked = {}, set(), set(), []
        self.client = self

    def note(self, group, uuid, number, dropped_ns):
        self.notes[group, uuid] = {"number": number, "part": Part("runs", uuid, group, 1, None, 0, 9, uuid, dropped_ns).__dict__}

    def ask(self, method, path):
        return [{"uuid": uuid} for uuid in self.there]

    def books(self):
        return "books"

    def among(self, pattern):
        return ",".join((pattern, *(f"-{group}" for group in sorted(self.away))))

    def hits(self, pattern, query):
        since_ns = query["bool"]["filter"][1]["range"]["number"]["gte"]
        self.asked.append(since_ns)
        yield [{"_source": note} for (group, _), note in self.notes.items() if group not in self.away and note["number"] >= since_ns]


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(retention, "DROPPED_KEPT_S", -1.0)
    dropped = Dropped()
    return lambda reader: {part.id: part.dropped_ns for part in dropped.parts(reader)}


def test_what_came_since_is_read_and_all_is_told(told):
    reader = FakeReader()
    reader.note("g1", "old", 1, 1)
    reader.note("g1", "new", NOW_NS, NOW_NS)
    assert told(reader) == {"old": 1, "new": NOW_NS} and reader.asked == [0]
    reader.note("g2", "newest", NOW_NS - 5, NOW_NS - 5)  # by a clock that is behind
    assert told(reader) == {"old": 1, "new": NOW_NS, "newest": NOW_NS - 5} and reader.asked == [0, NOW_NS - DAY_NS]


def test_what_is_there_is_not_gone_and_without_a_time_it_went_when_that_was_seen(told):
    reader = FakeReader()
    reader.note("g1", "one", NOW_NS, None)
    reader.there = {"one"}
    assert told(reader) == {}
    reader.there = set()
    seen = told(reader)
    assert seen["one"] > 0 and told(reader) == seen, "and not ever later"
    reader.note("g1", "one", NOW_NS + 1, NOW_NS + 1)
    assert told(reader) == {"one": NOW_NS + 1}


def test_what_is_known_of_a_group_that_is_away_stays_and_is_read_again_once_it_is_back(told):
    reader = FakeReader()
    reader.note("g1", "one", NOW_NS, NOW_NS)
    reader.away = {"g1"}
    reader.note("g2", "two", NOW_NS + 9 * DAY_NS, NOW_NS + 9 * DAY_NS)
    assert list(told(reader)) == ["two"]
    reader.away = set()
    assert list(told(reader)) == ["two", "one"] and reader.asked == [0, 0]
    reader.away = {"g1"}
    assert list(told(reader)) == ["two", "one"]
    # A group that somebody removed is forgotten.
    reader.away, reader.notes = set(), {}
    assert told(reader) == {}
