"""What goes when, of a store and an archive in memory."""

import contextlib
import time
from dataclasses import replace

import pytest

from pipeline.retention import Keeper, NotHere
from pipeline.store.parts import Part
from pipeline.store.sought import DAY_NS

TODAY = time.time_ns() // DAY_NS * DAY_NS


class FakeStore:
    """Records as (class, when): a part is all of a class before a day."""

    def __init__(self, *records):
        self.records = list(records)

    def expired(self, before_ns):
        found = {data: [when for of, when in self.records if of == data and when < limit_ns] for data, limit_ns in before_ns.items()}
        return [Part(data, data, "", len(of), None, min(of), max(of), str(before_ns[data])) for data, of in found.items() if of]

    def drop(self, part):
        of = [record for record in self.records if record[0] == part.data and record[1] < int(part.id)]
        if not 0 < len(of) <= part.records:
            return None
        self.records = [record for record in self.records if record not in of]
        return replace(part, dropped_ns=1)


class FakeArchive:
    """Has what began before `archived_ns`. meanwhile: happens at each look."""

    def __init__(self, archived_ns, meanwhile=lambda: None):
        self.archived_ns, self.meanwhile, self.looks, self.is_still = archived_ns, meanwhile, 0, False

    def until_ns(self, limit_ns, *, packs):
        self.looks += 1
        self.meanwhile()
        return min(limit_ns, self.archived_ns)

    @contextlib.contextmanager
    def still(self):
        self.is_still = True
        yield
        self.is_still = False


def days_ago(days):
    return TODAY - days * DAY_NS


def test_what_is_not_archived_stays_and_all_else_goes():
    store = FakeStore(*((data, days_ago(day)) for data in ("runs", "rollups", "messages") for day in (40, 30, 3)))
    keeper = Keeper(store, {"runs": 20, "rollups": 20, "messages": 20}, FakeArchive(days_ago(35)))
    assert {part.data: part.records for part in keeper.plan()} == {"runs": 1, "rollups": 1, "messages": 2}
    went, left = keeper.apply()
    assert {part.data: part.records for part in went} == {"runs": 1, "rollups": 1, "messages": 2} and left == []
    keeper = Keeper(store, {"runs": 20, "messages": 20}, FakeArchive(0))
    assert keeper.plan() == [] and keeper.apply() == ([], [])


@pytest.mark.parametrize("archived_ns", [TODAY, days_ago(35)])
def test_what_comes_while_it_is_looked_at_is_left_with_all_of_its_part(archived_ns):
    store = FakeStore(("runs", days_ago(40)), ("runs", days_ago(30)))
    archive = FakeArchive(archived_ns, lambda: store.records.append(("runs", days_ago(41))))
    keeper = Keeper(store, {"runs": 20}, archive)
    went, (left,) = keeper.apply()
    assert went == [] and len(store.records) == 2 + archive.looks and left.records < len(store.records)
    archive.meanwhile = lambda: None
    keeper.apply()
    assert [when for _, when in store.records if when < archived_ns] == []


def test_packing_stands_still_while_runs_go():
    store, seen = FakeStore(("runs", days_ago(40)), ("messages", days_ago(40))), {}
    archive = FakeArchive(TODAY)
    drop = store.drop
    store.drop = lambda part: seen.update({part.data: archive.is_still}) or drop(part)
    Keeper(store, {"runs": 20, "messages": 20}, archive).apply()
    assert seen == {"runs": True, "messages": False} and store.records == []


def test_where_another_process_archives_nothing_is_dropped():
    store = FakeStore(("runs", days_ago(40)), ("messages", days_ago(40)))
    with pytest.raises(NotHere, match="central server"):
        Keeper(store, {"runs": 20, "messages": 20}, is_elsewhere=True).apply()
    assert len(store.records) == 2
