"""The follower of messages, on a store that gives out a list: nothing twice, nothing lost."""

import pyarrow as pa
import pytest

from anomaly.log_rules import load
from jobdb.engine import JobDBAway
from jobdb.repository import JobDB
from pipeline.store import MESSAGES, PlaceLost, StoreError
from tests.unit.pipeline.events import message_event
from webapp.api.log_events import MESSAGES_AT_ONCE, PLACE, LogEvents

S = 10**9
NOW = 1_700_000_000 * S


def message(at_s, event="lustre_recovery_start", seq=1, **more):
    return message_event(seq, start=NOW + at_s * S, end=NOW + at_s * S, event=event, **more)


class Listed:
    """A store of messages whose places are their numbers, after a letter that is another one when rows are dropped."""

    def __init__(self, rows):
        self.rows, self.drops, self.fails = rows, "a", False

    def messages_since(self, events, from_ns, after="", limit=1000):
        if self.fails:
            raise StoreError("away")
        if after and after[0] != self.drops:
            raise PlaceLost("dropped")
        first = int(after[1:] or 0)
        found = [row | {"boot": 1} for row in self.rows[first : first + limit] if row["event"] in events and row["end"] >= from_ns]
        return pa.Table.from_pylist([{name: row[name] for name in MESSAGES.names} for row in found], schema=MESSAGES), f"{self.drops}{min(first + limit, len(self.rows))}"


@pytest.fixture
def jobdb(tmp_path):
    database = JobDB(f"sqlite:///{tmp_path / 'jobs.db'}")
    yield database
    database.close()


def follower(jobdb, store):
    return LogEvents(jobdb, store, load(), lambda: NOW)


def spans(jobdb):
    return [((one.begin_ns - NOW) // S, (one.end_ns - NOW) // S) for one in jobdb.findings.annotations(0, 2 * NOW)]


def test_a_restart_repeats_nothing_and_an_end_finds_its_begin(jobdb):
    store = Listed([message(-900), message(-800, "out_of_memory")])
    follower(jobdb, store).look()
    assert spans(jobdb) == [(-900, 900)]
    first = jobdb.findings.annotations(0, 2 * NOW)
    store.rows.append(message(-300, "lustre_recovery_end"))
    again = follower(jobdb, store)
    again.look()
    assert spans(jobdb) == [(-900, -300)] and jobdb.findings.annotations(0, 2 * NOW)[0].id == first[0].id
    assert again.status() == {"messages": 1, "events": 1, "left_out": 0, "error": None}
    store.drops = "b"  # places are lost: the last day is read anew, and changes nothing
    before = jobdb.findings.annotations(0, 2 * NOW)
    follower(jobdb, store).look()
    assert jobdb.findings.annotations(0, 2 * NOW) == before and jobdb.place(PLACE)["place"] == "b3"


def test_what_could_not_be_written_is_read_again(jobdb, monkeypatch):
    store = Listed([message(-900)])
    one = follower(jobdb, store)

    def away(*_, **__):
        raise JobDBAway("away")

    with monkeypatch.context() as patched:
        patched.setattr(jobdb.findings._transactions, "write", away)
        with pytest.raises(JobDBAway):
            one.look()
    assert spans(jobdb) == [] and jobdb.place(PLACE) is None
    one.look()
    assert spans(jobdb) == [(-900, 900)]
    store.fails = True
    with pytest.raises(StoreError):
        one.look()


def test_a_flood_comes_in_steps_and_nothing_new_writes_nothing(jobdb, monkeypatch):
    store = Listed([message(-n % 80_000, seq=n, node=f"n{n % 7}") for n in range(1, MESSAGES_AT_ONCE + 10)])
    one = follower(jobdb, store)
    assert one.step() and not one.step()
    assert len(spans(jobdb)) <= 7 * 100
    monkeypatch.setattr(jobdb.findings, "annotate", lambda *_: pytest.fail("there is nothing to write"))
    assert not one.step()


def test_a_kept_place_that_is_none_begins_anew(jobdb):
    jobdb.put_place(PLACE, [1, 2])
    follower(jobdb, Listed([message(-900)])).look()
    assert spans(jobdb) == [(-900, 900)]
