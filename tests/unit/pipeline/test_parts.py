"""When what was dropped, of any number of parts."""

import random

import pytest

from pipeline.store.parts import TOLD_MAX, Drops, Part


def part(data, group, first_ns, last_ns, dropped_ns):
    return Part(data, "", group, 1, None, first_ns, last_ns, "", dropped_ns)


def test_of_more_parts_than_are_listed_none_is_forgotten():
    parts = [part("runs", "g1", day * 10, day * 10 + 9, 1000 + day) for day in range(3 * TOLD_MAX)]
    drops = Drops([*parts, part("samples", "g1", 0, 10**9, 10**9)])
    assert drops.last_ns("runs", [(0, 9), (5, 25), (10 * len(parts), 10**9), (-9, -1)]) == [1000, 1002, 0, 0]
    assert (drops.kept_from_ns("runs"), drops.kept_from_ns("samples"), drops.kept_from_ns("messages")) == (10 * len(parts), 10**9 + 1, 0)
    assert drops.last_ns("messages", [(0, 9)]) == [0] and Drops([]).last_ns("runs", [(0, 9)] * 2) == [0, 0] and drops.last_ns("runs", []) == []


@pytest.mark.parametrize("group", [None, "g1", "g3"])
def test_it_is_what_a_look_at_each_part_tells(group):
    rng = random.Random(7)
    parts = [part(rng.choice(("runs", "rollups")), rng.choice(("g1", "g2")), begin, begin + rng.randrange(50), rng.randrange(1, 10**6)) for begin in rng.choices(range(1000), k=200)]
    spans = [(begin, begin + rng.randrange(30)) for begin in rng.choices(range(-50, 1100), k=100)]
    for data in ("runs", "rollups"):
        of = [one for one in parts if one.data == data and group in (None, one.group)]
        assert Drops(parts).last_ns(data, spans, group) == [max((one.dropped_ns for one in of if one.first_ns <= to_ns and one.last_ns >= from_ns), default=0) for from_ns, to_ns in spans]
