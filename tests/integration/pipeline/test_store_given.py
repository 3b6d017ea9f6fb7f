"""A job's runs by what the batch system says: on its nodes and in its time, whatever the records claim."""

import random

import pytest

from pipeline.store import Given, Store, Window
from tests.unit.pipeline.events import T0, run_event

S = 10**9
NODES = [f"cn{number}" for number in range(5)]
ADA, BOB = 7, 8


def random_run(rng, number):
    start = T0 + rng.randrange(100) * S
    is_of_node = rng.random() < 0.2
    return run_event(
        1, boot=f"{number:016x}", node=rng.choice(NODES), uid=None if is_of_node else rng.choice((ADA, ADA, BOB)), process="node" if is_of_node else f"{number}.1",
        job=None if is_of_node else rng.choice((None, "42", "43", "44")), start=start, end=start + rng.randrange(20) * S, op="write", bytes=number, count=1, errno=0,
    )  # fmt: skip


def is_given(run, window):
    """Whether a run is the job's, said once more."""
    if run["start"] > window.to_ns or run["end"] < window.from_ns:
        return False
    if run["process"] == "node":
        return run["job"] is None and run["node"] in window.nodes
    if run["uid"] != window.uid or run["node"] not in window.given.nodes:
        return False
    if run["job"] == "42":
        return True
    began_in_time = window.given.begin_ns <= run["start"] and (run["start"] < window.given.end_ns or run["node"] not in window.given.followed)
    return began_in_time and run["node"] in window.given.own and run["job"] not in window.given.others


def some_window(rng):
    nodes = tuple(rng.sample(NODES, rng.randrange(1, 5)))
    own = tuple(node for node in nodes if rng.random() < 0.6)
    alone = tuple(node for node in own if rng.random() < 0.6)
    from_ns = T0 + rng.randrange(80) * S
    to_ns = from_ns + rng.randrange(1, 60) * S
    followed = tuple(node for node in own if rng.random() < 0.5)
    seam = (from_ns + rng.randrange(3) * S, to_ns - rng.randrange(3) * S, followed) if rng.random() < 0.7 else ()
    return Window(alone, rng.choice((ADA, BOB)), from_ns, to_ns, Given(nodes, own, ("43",) if rng.random() < 0.5 else (), *seam))


@pytest.mark.parametrize("seed", [1, 2])
def test_runs_are_those_that_the_batch_system_says(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    events = [random_run(rng, number) for number in range(1, 401)]
    windows = [some_window(rng) for _ in range(12)]
    windows.append(Window((), ADA, T0, T0 + 200 * S, Given(("nobody",))))
    before = store.versions([("42", window) for window in windows])
    store.append(events)
    found_any = 0
    for window in windows:
        expected = sorted(run["bytes"] for run in events if is_given(run, window))
        found_any += bool(expected)
        assert sorted(store.runs("42", ["bytes"], window)["bytes"].to_pylist()) == expected
        span = (window.from_ns + 5 * S, window.from_ns + 10 * S)
        within = sorted(run["bytes"] for run in events if is_given(run, window) and run["start"] <= span[1] and run["end"] >= span[0])
        assert sorted(store.runs("42", ["bytes"], window, span)["bytes"].to_pylist()) == within
        # Sums by second are of processes, and of the whole time.
        whole = Window((), window.uid, T0 - S, T0 + 200 * S, Given(window.given.nodes, window.given.own, window.given.others))
        sums = store.seconds("42", window.uid, None, (T0 - S) // S, T0 // S + 200, given=window.given)
        assert sum(sums["write_bytes"].to_pylist()) == sum(run["bytes"] for run in events if is_given(run, whole))
    assert found_any > 8
    after = store.versions([("42", window) for window in windows])
    assert after == [store.version("42", window) for window in windows]
    for window, old, new in zip(windows, before, after, strict=True):
        count = sum(is_given(run, window) for run in events)
        assert old == 0 and new >= count


def test_versions_grow_with_what_is_the_jobs_and_mix_with_those_without(store: Store) -> None:
    window = Window(("cn1",), ADA, T0, T0 + 10 * S, Given(("cn1",), ("cn1",)))
    asked = [("42", window), ("42", None), ("43", Window(("cn1",), ADA, T0, T0 + 10 * S))]
    run = {"node": "cn1", "uid": ADA, "start": T0 + S, "end": T0 + 2 * S}
    store.append([run_event(1, **run, job=None)])
    one = store.versions(asked)
    assert one[0] == 1 and one[1:] == [0, 0]
    store.append([run_event(2, **run, job="42"), run_event(3, **run | {"start": T0 + 20 * S, "end": T0 + 21 * S}, job="42"), run_event(4, **run, job="43")])
    assert store.versions(asked)[0] > one[0] and store.versions(asked)[1:] == [2, 1]
