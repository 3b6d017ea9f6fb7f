"""Sums of what agents tell, against a plain sum over all samples."""

import random

from tests.unit.webapp.fakes import FakeStore
from webapp.api import told as module
from webapp.api.losses import TOLD
from webapp.api.told import GRAIN_NS, Told

HOUR = 3600 * 10**9
S = 10**9


def sample(node: str, start: int, end: int, **values: float) -> dict:
    return {"node": node, "component": "agent", "start": start, "end": end, "values": {"seen": 5, **values}}


def plain(store: FakeStore, since_ns: int) -> dict:
    """Of each boot what is not 0."""
    found = {}
    for row in store.sample_rows:
        for name in TOLD:
            if row["end"] >= since_ns and row["values"].get(name):
                sums = found.setdefault((row["node"], 255), {})
                sums[name] = sums.get(name, 0) + row["values"][name]
    return found


def known(told: Told, since_ns: int) -> dict:
    found = {key: {name: value for name, value in values.items() if value} for key, values in told.since(since_ns).items()}
    return {key: values for key, values in found.items() if values}


def test_the_sums_are_those_of_all_samples_at_whatever_time(monkeypatch):
    monkeypatch.setattr(module, "SUMS_MAX", 40)  # so that the grain grows
    rng = random.Random(5)
    store = FakeStore()
    told = Told(store)
    for _ in range(30):
        for _ in range(rng.randrange(8)):
            start = rng.randrange(200 * HOUR)
            store.sample_rows.append(sample(f"n{rng.randrange(3)}", start, start + rng.randrange(3 * HOUR), **{rng.choice(TOLD): rng.randrange(3)}))
        for since_ns in (0, 1, HOUR, HOUR - 1, rng.randrange(203 * HOUR), 300 * HOUR, 2**63 - 1):
            assert known(told, since_ns) == plain(store, since_ns), since_ns
    assert told._grain_ns > GRAIN_NS and len(told._sums) <= 40


def test_samples_are_read_once_and_those_without_a_loss_cost_nothing():
    store = FakeStore()
    store.sample_rows = [sample("n1", n * 10 * S, (n + 1) * 10 * S, lost=0) for n in range(50)]
    asked = []
    read = store.sample_sums_by_time
    store.sample_sums_by_time = lambda *question: asked.append(question[2]) or read(*question)
    told = Told(store)
    store.sample_sums = None  # not to be asked where nobody lost anything
    assert told.since(0) == {} == told.since(5 * S)
    store.sample_rows.append(sample("n1", 500 * HOUR, 500 * HOUR + S, lost=3))
    assert told.since(HOUR) == {("n1", 255): {"lost": 3}} == told.since(0)
    assert asked == ["", "50", "50", "51"]
