"""Runs in the order of the archive, on each store: exactly those that `runs` gives, and of days."""

import random

import pyarrow as pa
import pytest

from pipeline.archive.pack import natural
from pipeline.schema import KINDS
from pipeline.store import Window
from pipeline.store.sought import DAY_NS, Begun, OfJob
from pipeline.store.window import CLAIMED_NS
from tests.integration.pipeline.test_store_given import ADA, BOB, NODES, S, random_run, some_window
from tests.unit.pipeline.events import T0, run_event

RUNS = KINDS["run"].arrow


def ids(table):
    return list(zip(*(table[name].to_pylist() for name in ("node", "boot", "seq")), strict=True))


def of_nodes(store, sought, nodes):
    return pa.concat_tables([RUNS.empty_table(), *store.ordered_runs(sought, nodes)])


@pytest.mark.parametrize("seed", [1, 2])
def test_they_are_those_of_the_job_whole_and_in_order(store, seed):
    rng = random.Random(seed)
    store.append([random_run(rng, number) for number in range(1, 301)])
    claimed = Window(("cn1", "cn3"), rng.choice((ADA, BOB)), T0 + 10 * S, T0 + 60 * S)
    for window in (None, claimed, *(some_window(rng) for _ in range(6))):
        sought = OfJob("42", window)
        expected = store.runs("42", window=window)
        counts = store.run_counts(sought)
        assert sum(counts.values()) == expected.num_rows
        nodes = sorted(counts, key=natural)
        found = of_nodes(store, sought, nodes)
        assert ids(found) == sorted(ids(expected), key=lambda one: (nodes.index(one[0]), *one[1:]))
        assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)
        assert ids(of_nodes(store, sought, nodes[::-1][:2])) == [one for node in nodes[::-1][:2] for one in ids(found) if one[0] == node]


def test_a_claim_counts_within_a_day_of_the_jobs_time(store):
    """As does what nodes did from which such a claim comes; whenever it was where no time is given."""
    window = Window((), ADA, T0, T0 + 60 * S)
    begins = {1: T0 - CLAIMED_NS - 1, 2: T0 - CLAIMED_NS, 3: T0 + 60 * S + CLAIMED_NS, 4: T0 + 60 * S + CLAIMED_NS + 1}
    claims = [run_event(1, node=f"cn{number}", boot=f"{number:016x}", job="42", uid=ADA, start=start, end=start + S) for number, start in begins.items()]
    beside = [run_event(2, node=f"cn{number}", boot=f"{number:016x}", job=None, uid=None, process="node", start=T0, end=T0 + S) for number in begins]
    store.append(claims + beside)
    counting = [("cn2", 1), ("cn2", 2), ("cn3", 1), ("cn3", 2)]
    found = store.runs("42", ["node", "seq"], window)
    assert sorted(zip(found["node"].to_pylist(), found["seq"].to_pylist(), strict=True)) == counting
    assert store.run_counts(OfJob("42", window)) == {"cn2": 2, "cn3": 2} and store.version("42", window) >= 4
    assert [(node, seq) for node, _, seq in ids(of_nodes(store, OfJob("42", window), ["cn2", "cn3"]))] == counting
    assert store.runs("42").num_rows == 4


def test_what_began_on_a_day_whoever_did_it(store):
    rng = random.Random(3)
    events = [random_run(rng, number) | {"start": T0 + number * DAY_NS // 7, "end": T0 + number * DAY_NS // 7 + 3 * DAY_NS} for number in range(1, 41)]
    store.append(events)
    days = {}
    for event in events:
        days.setdefault(event["start"] // DAY_NS * DAY_NS, set()).add((event["node"], int(event["boot"], 16), 1))
    found = store.run_days(T0 + 4 * DAY_NS)
    (group,) = {group for _, group in found}
    before = [event["start"] // DAY_NS * DAY_NS for event in events if event["start"] < T0 + 4 * DAY_NS]
    assert found == {(day, group): before.count(day) for day in before}
    for day, expected in days.items():
        counts = store.run_counts(Begun(day, day + DAY_NS, group))
        assert set(ids(of_nodes(store, Begun(day, day + DAY_NS, group), sorted(counts)))) == expected and sum(counts.values()) == len(expected)
    assert store.run_counts(Begun(0, T0, group)) == {} == store.run_days(T0) and not of_nodes(store, Begun(0, T0, group), NODES).num_rows


@pytest.mark.parametrize("names", [["cn2", "cn10", "cn1"], ["a", "", "7", "007", "cn" + "9" * 40, "cn1-2", "cn1-10", "ä٣"]])
def test_names_are_sorted_as_people_do(names):
    found = sorted(names, key=natural)
    assert sorted(found) == sorted(names)
    if "cn10" in names:
        assert found == ["cn1", "cn2", "cn10"]
