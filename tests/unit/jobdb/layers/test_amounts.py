"""Samples on steps, and the figures of them."""

import math
import random
import time

import numpy as np
import pyarrow as pa
import pytest

from jobdb.layers import amounts
from jobdb.layers.amounts import PIECE_NS, Grid, moved, together
from jobdb.layers.figures import blank, figures
from jobdb.layers.spans import common, joined, without
from pipeline.steps import MARGIN_NS, STEPS_MAX
from pipeline.store import SAMPLES, TooManySamples

S = 10**9
HOUR = 3600 * S
START = 10**6 * S


def samples(*rows, most=10**6):
    """As a store gives them: (start_s, end_s, values), s after START."""
    asked = []

    def read(from_ns, to_ns):
        asked.append((from_ns, to_ns))
        found = [
            {"node": "s", "boot": 1, "instance": "b", "start": START + int(start * S), "end": START + int(end * S), "values": list(values.items())}
            for start, end, values in rows
        ]
        found = [one for one in found if one["end"] >= from_ns and one["start"] <= to_ns]
        if len(found) > most:
            raise TooManySamples("it", most, found[most]["start"] - 1)
        return [pa.Table.from_pylist(found, schema=SAMPLES)]

    read.asked = asked
    return read


def measured(component, read, spans, grid):
    """Of one component."""
    (found,) = amounts.measured(component, read, [spans], grid)
    return found


def spans(*pairs):
    return [(START + int(low * S), START + int(high * S)) for low, high in pairs]


def grid(seconds, step_s):
    return Grid(START, START + int(seconds * S), int(step_s * S))


def test_spans():
    assert joined([(5, 7), (1, 3), (3, 4), (6, 9), (8, 8)]) == ((1, 4), (5, 9))
    assert common([(0, 5), (8, 9)], [(4, 8)]) == ((4, 5),) and common([(0, 5)], []) == ()
    assert without([(0, 10)], [(2, 3), (5, 20)]) == ((0, 2), (3, 5)) and without([(0, 1)], [(1, 2)]) == ((0, 1),)


def test_spans_of_a_map_that_changes_all_the_time():
    rng = random.Random(5)
    for _ in range(200):
        one, other = (joined((low, low + rng.randrange(4)) for low in rng.choices(range(40), k=rng.randrange(9))) for _ in range(2))
        in_one, in_other = ({at for low, high in of for at in range(low, high)} for of in (one, other))
        assert {at for low, high in common(one, other) for at in range(low, high)} == in_one & in_other
        assert {at for low, high in without(one, other) for at in range(low, high)} == in_one - in_other
    many = [(at * 10, at * 10 + 6) for at in range(50_000)]
    began_s = time.monotonic()
    assert len(common(many, [(low + 5, high + 5) for low, high in many])) == 99_999
    assert len(without(many, [(low + 2, high - 2) for low, high in many])) == 100_000
    assert time.monotonic() - began_s < 20


def test_steps_that_cannot_be():
    for seconds, step_s in ((0, 1), (STEPS_MAX + 1, 1)):
        with pytest.raises(ValueError, match="steps: ask for 1 to"):
            grid(seconds, step_s)


def test_amounts_are_cut_at_spans_and_steps():
    read = samples((0, 10, {"read_bytes": 100, "read": 10, "read_ns": 5 * S, "queue_length": 4}), (10, 12, {"read_bytes": 8, "queue_length": 1}))
    found = measured("gluster_server", read, spans((2, 5), (9, 11.5)), grid(20, 4))
    assert found.known_s.tolist() == pytest.approx([2, 1, 2.5, 0, 0])
    np.testing.assert_allclose(found.sums["read_bytes"], [20, 10, 16, math.nan, math.nan])
    assert found.total("read_bytes") == pytest.approx(46) and found.total("write_bytes") is None
    assert figures(found)["queue_mean"] == pytest.approx((4 * 4 + 1.5 * 1) / 5.5) and figures(found)["queue_max"] == 4
    assert figures(found)["read_latency"] == {"mean_s": pytest.approx(0.5), "p95_s": None}


def test_pieces_add_up_to_the_whole():
    hours = 5
    read = samples(*((at, at + 60, {"reads": 60, "queue_ns": 30 * S}) for at in range(-120, hours * 3600 + 120, 60)))
    found = measured("block_device", read, spans((0, hours * 3600)), grid(hours * 3600, 10))
    assert found.total("read_ops") == pytest.approx(hours * 3600) and found.known_s.sum() == pytest.approx(hours * 3600)
    assert figures(found)["queue_mean"] == pytest.approx(0.5) == figures(found)["queue_max"]
    assert [(low + MARGIN_NS - START, high - MARGIN_NS - START) for low, high in read.asked] == [
        (0, PIECE_NS),
        (PIECE_NS, 3 * PIECE_NS),
        (3 * PIECE_NS, 5 * PIECE_NS),
    ]
    (by_name,) = moved("block_device", read, spans((0, 30)), grid(30, 30))
    assert by_name["reads"].tolist() == pytest.approx([30])


def test_of_a_time_with_too_many_samples_a_part_is_read():
    rows = [(at, at + 1, {"reads": 1}) for at in range(-200, 1200)]
    read = samples(*rows, most=400)
    found = measured("block_device", read, spans((0, 1000)), grid(1000, 10))
    assert found.sums["read_ops"].tolist() == pytest.approx([10] * 100) and len(read.asked) == 8, "refused once, and then 150 s at a time"
    with pytest.raises(TooManySamples):
        measured("block_device", samples(*rows, most=100), spans((0, 1000)), grid(1000, 10))


def test_a_year_with_few_samples_takes_few_questions():
    days, read = 365, samples((0, 10, {"reads": 5}))
    found = measured("block_device", read, spans((0, days * 86400)), grid(days * 86400, days * 86400 / 2000))
    assert found.total("read_ops") == 5 and len(read.asked) < 15


def test_components_asked_for_together_have_spans_of_their_own():
    (one,), (other,) = samples((0, 10, {"reads": 10}))(0, 2**62), samples((0, 10, {"reads": 20}))(0, 2**62)
    of = [spans((0, 5)), spans((5, 10))]
    found = amounts.measured("block_device", lambda low, high: [one, other], of, grid(10, 10))
    assert [part.total("read_ops") for part in found] == [5, 10]


def test_histograms_make_times():
    read = samples((0, 10, {"read_exe_to_100": 90, "read_exe_to_1000": 10, "read_exe_to_inf": 0, "read_wait_to_100": 100, "read_wait_to_1000": 0}))
    found = measured("lwfs_server", read, spans((0, 10)), grid(10, 10))
    told = figures(found)
    assert told["read_ops"] == 100 and told["read_bytes"] is None and told["write_latency"] is None
    # The middles: 90 × 50 µs + 10 × 550 µs carried out, 100 × 50 µs waited.
    assert told["read_latency"]["mean_s"] == pytest.approx(150e-6)
    assert told["read_latency"]["p95_s"] == pytest.approx(1100e-6), "97.5 of 100 are in the second bucket, and in the first"


def test_what_lies_beyond_the_last_bound_has_no_bound():
    read = samples((0, 10, {"read_exe_to_100": 1, "read_exe_to_inf": 99, "read_wait_to_100": 100}))
    told = figures(measured("lwfs_server", read, spans((0, 10)), grid(10, 10)))
    assert told["read_latency"] == {"mean_s": pytest.approx((50 + 99 * 100 + 100 * 50) / 100 * 1e-6), "p95_s": None}


def test_several_components_are_added_where_they_are_known():
    one = measured("gluster_server", samples((0, 10, {"read_bytes": 100, "queue_length": 2})), spans((0, 20)), grid(20, 10))
    other = measured("gluster_server", samples((10, 20, {"read_bytes": 50, "queue_length": 4})), spans((0, 20)), grid(20, 10))
    whole = together([one, other], 2)
    assert whole.sums["read_bytes"].tolist() == [100, 50] and whole.known_s.tolist() == [10, 10]
    assert (figures(whole)["queue_mean"], figures(whole)["queue_max"]) == (3, 4)
    assert figures(together([], 2)) == blank()


@pytest.mark.parametrize("component", ["no such kind", "node"])
def test_what_tells_no_layer_has_no_figures(component):
    found = measured(component, samples((0, 10, {"read_bytes": 100})), spans((0, 10)), grid(10, 10))
    assert not found.known_s.any() and figures(found) == blank()
