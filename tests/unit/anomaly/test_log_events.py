"""Events out of messages of logs: in any order, twice, late, forged, by the ten thousand."""

import json
import random

import pytest

from anomaly import log_events
from anomaly.log_events import AHEAD_NS, LATE_NS, MARKS_MAX, NODE_DAY_MAX, State, step
from anomaly.log_rules import Rule, group, load
from jobdb.findings import TEXT_LENGTH_MAX

S = 10**9
NOW = 1_700_000_000 * S
BEGIN, END = "lustre_recovery_start", "lustre_recovery_end"
SHIPPED = load()


def message(at_s, event=BEGIN, text="Lustre: scratch-OST0004: Will be in recovery", node="oss1", origin="kernel", **more):
    """at_s: seconds before NOW, negative."""
    return {"node": node, "start": NOW + int(at_s * S), "end": NOW + int(at_s * S), "origin": origin, "program": "kernel", "event": event, "text": text} | more


class Kept:
    """What is in the job database after some steps."""

    def __init__(self, rules=SHIPPED):
        self.rules, self.state, self.events = rules, State(), {}

    def take(self, *messages, now_ns=NOW):
        told = step(self.rules, State.from_json(json.loads(json.dumps(self.state.to_json()))), messages, now_ns)
        for key in told.gone:
            del self.events[key]
        self.events |= {one.key: one for one in told.events}
        self.state = told.state
        return told

    @property
    def spans(self):
        return sorted(((one.begin_ns - NOW) / S, (one.end_ns - NOW) / S) for one in self.events.values())


def test_a_begin_and_an_end_make_an_event_and_a_begin_alone_ends_after_its_time():
    kept = Kept()
    kept.take(message(-5000))
    assert kept.spans == [(-5000, -3200)]
    (one,) = kept.events.values()
    assert (one.kind, one.node, one.source, one.author) == ("failover", "oss1", "log", "")
    assert one.text.startswith("a Lustre target leaves or comes, and its clients reconnect: scratch-OST0004; no end was told")
    kept.take(message(-4900, END))
    assert kept.spans == [(-5000, -4900)] and next(iter(kept.events.values())).text.endswith(": scratch-OST0004")
    kept.take(message(-4800, END), message(-4000))
    assert kept.spans == [(-5000, -4900), (-4000, -2200)]
    kept.take(message(-100, END))
    assert kept.spans == [(-5000, -4900), (-4000, -100)], "an end that comes after the stated time says how long it was"


def test_targets_and_nodes_end_each_by_itself():
    kept = Kept()
    other = "Lustre: scratch-OST0005: Will be in recovery"
    kept.take(message(-900), message(-900, text=other), message(-900, node="oss2"), message(-800, END))
    assert kept.spans == [(-900, -800), (-900, 900), (-900, 900)]


def test_in_one_second_what_goes_on_ends_before_it_begins_again():
    for order in (1, -1):
        kept = Kept()
        kept.take(*[message(-900), message(-500), message(-500, END), message(-400, END)][::order])
        assert kept.spans == [(-900, -400)], "the same by its subject: it flapped"
        kept = Kept()
        kept.take(*[message(-900), message(-900, END)][::order])
        assert kept.spans == [(-900, -900)]


def test_whatever_the_order_and_however_often_the_events_are_the_same():
    chance = random.Random(11)
    for _ in range(300):
        messages = [message(-chance.randrange(0, 20_000), chance.choice([BEGIN, BEGIN, END]), node=chance.choice(["a", "b"])) for _ in range(chance.randrange(1, MARKS_MAX))]
        whole = Kept()
        whole.take(*messages)
        pieces, shuffled = Kept(), chance.sample(messages, len(messages)) + chance.sample(messages, len(messages) // 2)
        while shuffled:
            size = chance.randrange(1, 5)
            pieces.take(*shuffled[:size])
            shuffled = shuffled[size:]
        assert pieces.events == whole.events and pieces.state.groups == whole.state.groups


def test_a_late_message_counts_within_a_day_and_not_after_it():
    kept = Kept()
    assert kept.take(message(-LATE_NS / S - 1), message(AHEAD_NS / S + 1)).events == () and kept.state.left_out == 2
    kept.take(message(-3600, END))
    kept.take(message(-LATE_NS / S + 1, end=NOW - 4000 * S), now_ns=NOW)
    assert kept.spans == [(-LATE_NS / S + 1, -3600)], "the end came first"


def test_marks_go_after_a_day_and_their_events_stay():
    kept = Kept()
    kept.take(message(-100, "raid_rebuild_start", "md: recovery of RAID array md0"))
    kept.take(message(86_400 * 1.5, "raid_rebuild_end", "md: md0: recovery done."), now_ns=NOW + 86_400 * 2 * S)
    assert kept.spans == [(-100, 86_400 * 1.5)] and kept.events[next(iter(kept.events))].kind == "raid-rebuild"
    kept.take(now_ns=NOW + 5 * 86_400 * S)
    assert kept.state.groups == {} and len(kept.events) == 1


def test_a_flood_is_bounded_in_events_state_and_words(monkeypatch):
    monkeypatch.setattr(log_events, "DAY_MAX", 600)
    monkeypatch.setattr(log_events, "GROUPS_MAX", 150)
    kept = Kept()
    chance = random.Random(5)
    flood = [message(-chance.randrange(86_000), chance.choice([BEGIN, END]), f"<script>\x1b[2J scratch-OST{chance.randrange(9999):04} {'x' * 3000}") for _ in range(10_000)]
    for begin in range(0, len(flood), 5000):
        kept.take(*flood[begin : begin + 5000])
    assert len(kept.events) <= NODE_DAY_MAX and kept.state.left_out > 5000
    assert all(len(one.text) < 300 and one.text.isprintable() and "<" not in one.text for one in kept.events.values())
    kept.take(*(message(-n - 10, node=f"n{n}", text=f"fs-OST{n:04x}") for n in range(1000)))
    assert len(kept.events) == 600 and len(kept.state.groups) == 150 and len(json.dumps(kept.state.to_json())) < 150_000
    kept.take(message(86_400, node="later"), now_ns=NOW + 86_400 * S)
    assert any(one.node == "later" for one in kept.events.values()), "tomorrow there may be some again"


def test_who_fills_one_node_keeps_no_other_out():
    kept = Kept()
    kept.take(*(message(-n * 100, "lustre_eviction", node="evil") for n in range(800)), *(message(-n * 5000, text=f"fs-OST{n:04x}", node="evil") for n in range(150)), message(-50, node="good"))
    assert sum(one.node == "good" for one in kept.events.values()) == 1


def test_another_users_words_tell_of_nothing_and_unvouched_ones_of_no_maintenance():
    kept = Kept(group([Rule("ours", "patched", "maintenance", ("patching",), 600), *SHIPPED.by_name.values()]))
    kept.take(message(-50, origin="user"), message(-50, "patching", origin="claimed"), message(-50, "patching", origin="user"))
    assert kept.events == {}
    kept.take(message(-50, "patching", origin="root"), message(-50, origin="claimed"))
    told = sorted((one.kind, one.text) for one in kept.events.values())
    assert [kind for kind, _ in told] == ["failover", "maintenance"] and told[0][1].endswith("the log does not vouch for who wrote this") and told[1][1] == "patched"


def test_texts_of_programs_are_read_by_a_sites_own_rule():
    rule = Rule("megaraid", "controller rebuilds", "raid-rebuild", ("*Rebuild started*VD",), 3600, ("*Rebuild complete",), ("MR_MONITOR",))
    kept = Kept(group([rule]))
    kept.take(message(-500, None, "<MRMON102> Controller ID: 0 Rebuild started on VD 3", program="MR_MONITOR"), message(-400, None, "Rebuild complete", program="MR_MONITOR"))
    kept.take(message(-300, None, "Rebuild started on VD 3", program="sshd"), message(-300, None, "Rebuild started", program=None))
    assert kept.spans == [(-500, -400)]


@pytest.mark.parametrize("kept", [None, 7, {}, {"groups": [[1]]}, {"groups": [["r", "n", "s", None, 0, [[1, 2]]]], "day": 0, "made": {}, "left_out": 0}])
def test_a_state_that_is_none_begins_anew(kept):
    assert State.from_json(kept) == State()


def test_a_rule_that_is_gone_takes_its_state_along():
    kept = Kept()
    kept.take(message(-50))
    assert step(group([]), kept.state, [], NOW).state.groups == {}


def test_nodes_and_texts_of_any_kind_do_no_harm():
    kept = Kept()
    kept.take(message(-50, node="\ud800\x00'\"; DROP", text="\x00" * 5000 + "fs-OST0001"), message(-40, text="OST" * 4000), message(-30, text=""))
    assert len(kept.events) == 2 and all(len(one.key) == 64 and len(one.text) <= TEXT_LENGTH_MAX for one in kept.events.values())
