"""Messages of system logs: the same from both stores."""

import time

import pytest

from pipeline.store import ANY_EVENT, MESSAGES, MESSAGES_SOUGHT_MAX, Appended, PlaceLost
from tests.unit.pipeline.events import T0, message_event, run_event

S = 10**9
END = T0 + 10**6 * S


def seqs(store, *asked, **more) -> tuple[list[int], int]:
    table, total = store.messages(*asked, **more)
    assert table.schema == MESSAGES
    return table["seq"].to_pylist(), total


def test_a_message_comes_back_as_it_was_sent(store):
    sent = [message_event(1, text="Grüße \\x1b"), message_event(2, facility=None, program=None, event=None, severity=0, count=2**40, origin="user", end=T0 + 9 * S)]
    assert store.append(sent) == Appended(messages=2)
    assert store.append(sent) == Appended(duplicates=2)
    table, total = store.messages("cn1", 0, END)
    assert total == 2 and [row | {"boot": f"{row['boot']:016x}", "kind": "message"} for row in table.to_pylist()] == sent[::-1]
    assert store.status()["records"] == {"run": 0, "sample": 0, "job": 0, "message": 2}


def test_messages_are_found_by_node_time_severity_and_event(store):
    store.append(
        [
            *(message_event(n, severity=n) for n in range(1, 8)),
            message_event(8, end=T0 + 100 * S, event=None),
            message_event(9, event="site_own", severity=2),
            message_event(1, node="cn2"),
            message_event(1, boot="2", start=T0 + 5 * S, end=T0 + 5 * S),
        ]
    )
    assert seqs(store, "cn1", T0, END) == ([9, 8, 7, 6, 1, 5, 4, 3, 2, 1], 10)
    assert seqs(store, "cn2", T0, END) == ([1], 1) and seqs(store, "cn3", T0, END) == ([], 0)
    assert seqs(store, "cn1", T0 + 3 * S, T0 + 4 * S) == ([4, 3], 2)
    assert seqs(store, "cn1", T0 + 50 * S, T0 + 60 * S) == ([8], 1), "it was said again until then"
    assert seqs(store, "cn1", T0, END, severity=2) == ([9, 2, 1], 3)
    assert seqs(store, "cn1", T0, END, event="site_own") == ([9], 1)
    assert seqs(store, "cn1", T0, END, event=ANY_EVENT, severity=3) == ([9, 3, 2, 1], 4)
    assert seqs(store, "cn1", T0, END, skip=2, most=3) == ([7, 6, 1], 10)
    assert seqs(store, "cn1", T0, END, skip=MESSAGES_SOUGHT_MAX) == ([], 10) == seqs(store, "cn1", T0, END, skip=10**15)


def test_messages_are_rows_like_others(store):
    """Gaps, refused ones, and an audit that counts all rows."""
    bad = message_event(3, severity=8)
    assert store.append([run_event(1), message_event(2), bad, message_event(6)]) == Appended(runs=1, messages=2, dead_letters=1, missing=2)
    assert store.append([message_event(4), message_event(5)]) == Appended(messages=2, filled=2)
    (letters,) = store.letters()
    assert letters.reason == "severity: expected uint16 of 0 to 7, got 8"
    *_, proof = store.proof()
    assert list(proof.boots.values()) == [(5, 5, 5)]


def test_messages_go_with_their_retention(store):
    store.append([message_event(1), message_event(2)])
    (part,) = store.expired({"messages": time.time_ns(), "runs": 0})
    assert (part.data, part.records) == ("messages", 2)
    assert store.drop(part) is not None
    assert seqs(store, "cn1", 0, END) == ([], 0) and store.status()["records_dropped"]["message"] == 2
    *_, proof = store.proof()
    assert all(rows == (0, 0, 0) for rows in proof.boots.values())


@pytest.mark.parametrize("columns", [{"event": None}, {"start": T0, "end": T0 + 5 * S}])
def test_what_changes_with_messages_is_told(store, columns):
    before = store.changes(["cn1"], T0, T0 + 10 * S)
    store.append([message_event(1, **columns)])
    assert store.changes(["cn1"], T0, T0 + 10 * S) != before


def test_messages_of_events_are_followed_by_the_order_in_which_they_came(store):
    def since(after="", events=("lustre_failover", "site_own"), from_ns=0, limit=100):
        table, place = store.messages_since(events, from_ns, after, limit)
        assert table.schema == MESSAGES
        return sorted(zip(table["node"].to_pylist(), table["seq"].to_pylist(), strict=True)), place

    assert since()[0] == []
    store.append([message_event(5, node="cn2"), message_event(1, event=None), message_event(2, event="out_of_memory"), message_event(3, event="site_own"), run_event(4)])
    found, place = since()
    assert found == [("cn1", 3), ("cn2", 5)] and since(place) == ([], place)
    assert since(events=None)[0] == [("cn1", 1), ("cn1", 2), *found] and since(from_ns=T0 + 4 * S)[0] == [("cn2", 5)]
    # What was written earlier comes later.
    store.append([message_event(4, node="cn2")])
    for seq in (6, 7):
        store.append([message_event(seq)])
    assert since(place)[0] == [("cn1", 6), ("cn1", 7), ("cn2", 4)]
    seen = []
    while (told := since(place, limit=2)) and told[0]:
        seen, place = [*seen, *told[0]], told[1]
    assert sorted(seen) == [("cn1", 6), ("cn1", 7), ("cn2", 4)]


def test_dropped_messages_are_followed_anew(store):
    store.append([message_event(1)])
    place = store.messages_since(None, 0)[1]
    (part,) = store.expired({"messages": time.time_ns(), "runs": 0})
    assert store.drop(part) is not None
    store.append([message_event(2)])
    try:
        found, _ = store.messages_since(None, 0, place)
    except PlaceLost:
        found, _ = store.messages_since(None, 0)
    assert found["seq"].to_pylist() == [2]
