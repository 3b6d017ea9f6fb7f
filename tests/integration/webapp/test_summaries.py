"""Charts of a component before and after its samples are gone, on the real record store."""

import math
import time

import pytest

from pipeline.retention import Keeper
from pipeline.store.sought import DAY_NS
from pipeline.summarise import SETTLED_NS, Summariser
from pipeline.summary import HOUR_NS
from tests.integration.webapp.test_real_store import S, Server
from tests.unit.pipeline.component_samples import disk, lwfs_server

FROM_S = (time.time_ns() // DAY_NS - 9) * 86400 + 7200
HOURS = 5
FIGURES = ("total", "totals", "per_s", "min_per_s", "max_per_s", "min", "max", "mean")


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    # With a quiet time, over an hour's end.
    made.take(list(disk("fwd1", "sda", FROM_S, FROM_S + HOURS * 3600, quiet=(3000, 4000))))
    made.take(list(lwfs_server("fwd2", "/log", FROM_S, FROM_S + HOURS * 3600)))
    yield made
    made.close()


def series(server, of, step_s, from_s=FROM_S, to_s=FROM_S + HOURS * 3600):
    node, component, instance = of
    return server.get(f"/components/series?node={node}&component={component}&instance={instance}&from_ns={from_s * S}&to_ns={to_s * S}&step_s={step_s}")


def drop(server, **days):
    Summariser(server.store, lambda: (FROM_S + (HOURS + 1) * 3600) * S + SETTLED_NS).look()
    went, left = Keeper(server.store, days).apply()
    assert went and not left


def alike(before, after):
    assert before.keys() == after.keys()
    for name in ("t_ns", "from_ns", "to_ns", "step_s"):
        assert before[name] == after[name]
    for one, other in zip(before["values"], after["values"], strict=True):
        assert one.keys() == other.keys()
        for name in one.keys() - {"last"}:
            assert figures(other[name]) == pytest.approx(figures(one[name]), rel=1e-9, abs=1e-6, nan_ok=True) if name in FIGURES else other[name] == one[name], (one["name"], name)


def figures(told):
    """Flat, what is not known as NaN."""
    lists = told if isinstance(told, list) else [told]
    return [math.nan if one is None else one for of in lists for one in (of if isinstance(of, list) else [of])]


@pytest.mark.parametrize("of", [("fwd1", "block_device", "sda"), ("fwd2", "lwfs_server", "/log")])
def test_a_chart_by_the_minute_or_hour_is_the_same_when_samples_are_gone(server, of):
    by_minutes, by_hours = series(server, of, 60), series(server, of, 7200)
    assert by_minutes["resolution_s"] is None is by_hours["resolution_s"]
    drop(server, samples=1)
    after = series(server, of, 60)
    assert after["resolution_s"] == 60
    alike(by_minutes, after)
    alike(by_hours, series(server, of, 7200))
    drop(server, minutes=1)
    after = series(server, of, 60)
    assert (after["resolution_s"], after["step_s"]) == (3600, 3600)
    alike(by_hours, series(server, of, 7200))


def test_finer_steps_are_told_of_minutes_and_more_than_is_kept_of_hours(server):
    of = ("fwd1", "block_device", "sda")
    drop(server, samples=1)
    fine = series(server, of, 1, FROM_S, FROM_S + 600)
    assert (fine["resolution_s"], fine["step_s"], len(fine["t_ns"])) == (60, 60, 10)
    long = series(server, of, 3600 * 12, FROM_S - 40 * 86400, FROM_S + 86400)
    whole = series(server, of, 3600)
    assert long["resolution_s"] == 3600
    for value, same in zip(long["values"], whole["values"], strict=True):
        if value["kind"] == "counter":
            assert value["total"] == pytest.approx(same["total"])


def test_components_of_a_time_whose_samples_are_gone_are_listed(server):
    span = f"from_ns={(FROM_S - 3600) * S}&to_ns={(FROM_S + 86400) * S}"
    before = server.get(f"/components?{span}")
    drop(server, samples=1)
    after = server.get(f"/components?{span}&node=fwd1")
    assert before["total"] == 2 and [(one["node"], one["instance"]) for one in after["components"]] == [("fwd1", "sda")]
    (one,) = after["components"]
    assert one["first_ns"] == FROM_S * S and one["last_ns"] % HOUR_NS == 0 and one["last_ns"] >= (FROM_S + HOURS * 3600) * S
