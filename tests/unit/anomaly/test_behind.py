"""Jobs that hurt, by the layers behind them."""

import pytest

from anomaly.behind import ONE_SIDED_TARGETS, READ_AHEAD, in_layers, is_worth, one_sided_targets, over_targets, read_ahead
from anomaly.harm import Bounds
from jobdb.topology.layouts import Part
from tests.unit.jobdb.tables import job

GB = 10**9
PAGES = GB // 4096 + 1


def profile(**more):
    return {"io_nodes": 64, "read_bytes": 0, "write_bytes": 100 * GB, "bandwidth_avg_read": 0.0, "bandwidth_avg_write": 1e9, "runtime_s": 500.0} | more


def sided(by_target, offered=84, asked=None, bounds=None, **more):
    return one_sided_targets(job(), profile(**more), "scratch", by_target, offered, asked, "servers", bounds or Bounds())


def even(targets, total=100 * GB):
    return {f"OST{number:04x}": total / targets for number in range(targets)}


@pytest.mark.parametrize(
    ("told", "by_target", "more"),
    [
        (True, even(1), {}),
        (True, even(10), {}),
        (False, even(12), {}),
        (False, even(84), {}),
        (False, even(1), {"io_nodes": 7}),
        (False, even(3), {"io_nodes": 12}),
        (True, even(3), {"io_nodes": 13}),
        (False, even(1), {"offered": 7}),
        (True, even(1), {"offered": 8}),
        (False, even(2), {"offered": 8}),
        (False, even(1, 9 * GB), {}),
        (False, even(1), {"bandwidth_avg_write": 1e10}),
        (False, even(1), {"runtime_s": 1001.0}),
        (False, even(1), {"asked": 201 * GB}),
        (True, even(1), {"asked": 200 * GB}),
        (True, even(84, 5 * GB) | {"OST9999": 95 * GB}, {}),
        (False, even(84, 50 * GB) | {"OST9999": 50 * GB}, {}),
        (False, {}, {}),
        (False, {"OST0000": float("nan"), "OST0001": float("inf"), "OST0002": -5.0}, {}),
    ],
)
def test_few_targets_that_bear_all_of_many_nodes_are_told(told, by_target, more):
    one = sided(by_target, **more)
    assert (one is not None) == told
    if one is not None:
        assert one.kind == ONE_SIDED_TARGETS and sum(row["share"] for row in one.evidence["targets"]) <= 1 + 1e-9 and one.jobs == (("7", "subject"),)


def test_bytes_lie_on_a_files_stripes():
    on = {"plain": (Part(targets=("a", "b")),), "composite": (Part(0, 10, 1, ("a",)), Part(10, 2**62, 1, ("b", "c", "d", "e")))}
    assert over_targets([(100, on["plain"])]) == {"a": 50, "b": 50}
    assert over_targets([(50, on["composite"]), (4, on["composite"])]) == {"a": 14, "b": 10, "c": 10, "d": 10, "e": 10}
    assert over_targets([(0, on["plain"]), (9, ()), (9, (Part(),))]) == {"a": 0, "b": 0} and over_targets([]) == {}


@pytest.mark.parametrize(
    ("told", "hits", "misses", "discards"),
    [
        (True, PAGES, PAGES, PAGES),
        (True, 0, 2 * PAGES, PAGES),
        (False, 0, 2 * PAGES + 2, PAGES),  # at random places
        (False, PAGES + 1, PAGES, PAGES),
        (False, 1000 * PAGES, 4 * PAGES, PAGES),
        (False, 0, 10, 9),
        (False, 0, 0, PAGES - 2),
        (False, None, PAGES, PAGES),
        (False, float("nan"), PAGES, PAGES),
        (False, 0, 0, 0),
    ],
)
def test_read_ahead_is_thrashed_where_it_is_dropped_unread_and_little_is_found(told, hits, misses, discards):
    one = read_ahead(job(), hits, misses, discards, Bounds())
    assert (one is not None) == told
    if one is not None:
        assert one.kind == READ_AHEAD and one.evidence["discards"] == discards


def layer(components, own=None):
    return {"layer": "storage", "components": components, "own": own}


def component(target, own, whole=None, is_beneath=False):
    figures = {"read_bytes": 0, "write_bytes": own if whole is None else whole}
    return {"target": target, "own": None if own is None else {"read_bytes": 0, "write_bytes": own}, "figures": figures, "is_beneath": is_beneath}


def answer(*components, **own):
    return {"file_systems": [{"name": "scratch", "layers": [{"layer": "client", "own": {"read_bytes": 0, "write_bytes": 100 * GB} | own}, layer(list(components))]}]}


def found(told, layouts=None):
    return {one.kind: one for one in in_layers(job(), profile(), told, {"scratch": 84}, layouts or {}, Bounds())}


def test_what_servers_tell_comes_before_layouts_and_what_is_not_known_is_not_guessed():
    assert found(answer(component("OST0000", 100 * GB), component(None, 7 * GB)))[ONE_SIDED_TARGETS].evidence["told_by"] == "servers"
    shared = answer(component("OST0000", 50 * GB), component("OST0001", None, 500 * GB))
    assert not found(shared)
    assert found(shared, {"scratch": {"OST0001": 100 * GB}})[ONE_SIDED_TARGETS].evidence["told_by"] == "layouts"
    assert not found(shared, {"scratch": even(84)})
    # One that did nothing at all is none of the job's, whoever it served; disks tell the same once more.
    assert ONE_SIDED_TARGETS in found(answer(component("OST0000", 100 * GB), component("OST0001", None, 0), component("OST0002", None, 9, is_beneath=True)))
    assert not found({"file_systems": []}) and not found(answer())


def test_caches_count_where_the_job_had_its_nodes_alone():
    thrashed = {"cache_hits": 0, "cache_misses": PAGES, "cache_discards": PAGES}
    assert found(answer(**thrashed)).keys() == {READ_AHEAD}
    alone = answer()
    alone["file_systems"][0]["layers"][0]["own"] = {"read_bytes": 0, "write_bytes": 100 * GB}
    assert not found(alone)


@pytest.mark.parametrize(
    ("is_so", "more"),
    [(True, {}), (False, {"write_bytes": GB}), (True, {"write_bytes": 0, "read_bytes": GB}), (False, {"io_nodes": 7}), (False, {"read_bytes": None, "write_bytes": None})],
)
def test_only_jobs_that_did_much_are_looked_at(is_so, more):
    assert is_worth(profile(**more), Bounds()) == is_so
