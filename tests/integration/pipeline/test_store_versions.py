"""Versions of many jobs at once: each as if it were asked for alone, and at the price of one."""

import random

from pipeline.store import Window
from tests.unit.pipeline.events import T0, run_event

NODES = [f"cn{number}" for number in range(6)]


def claims(rng, seq):
    return run_event(seq, node=rng.choice(NODES[:4]), job=f"j{rng.randrange(8)}", uid=rng.choice((7, 8)))


def of_node(rng, seq):
    start = T0 + rng.randrange(100)
    return run_event(seq, node=rng.choice(NODES[1:]), job=None, process="node", uid=None, start=start, end=start + rng.randrange(20))


def counted(events, job, window):
    """What the version must be, event by event."""
    nodes = {*window.nodes, *(e["node"] for e in events if e["job"] == job and e["uid"] == window.uid)} if window else set()
    here = [e for e in events if e["process"] == "node" and e["node"] in nodes and e["start"] <= window.to_ns and e["end"] >= window.from_ns]
    return sum(e["job"] == job for e in events) + len(here)


def test_each_is_what_it_is_alone(store):
    rng = random.Random(3)
    asked = []
    for job in [f"j{number}" for number in range(10)] * 3:
        start = T0 + rng.randrange(-20, 120)
        window = Window(tuple(rng.sample(NODES, rng.randrange(3))), rng.choice((7, 8)), start, start + rng.randrange(60))
        asked.append((job, rng.choice((window, window, None))))
    assert store.versions(asked) == [0] * len(asked) and store.versions([]) == []
    # Each event has a boot of its own, so that they may come in any order and from any node.
    events = [(claims if rng.random() < 0.5 else of_node)(rng, 1) | {"boot": f"{number:016x}"} for number in range(1, 301)]
    for come in (200, 300):
        store.append(events[:200] if come == 200 else events[200:])
        expected = [counted(events[:come], job, window) for job, window in asked]
        assert store.versions(asked) == expected == [store.version(job, window) for job, window in asked]
        assert len(set(expected)) > 10
