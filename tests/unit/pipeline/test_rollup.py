"""Sums by second against a slow reference that knows fractions."""

import random
from fractions import Fraction

import numpy as np
import pytest

from pipeline.rollup import FAILED, METADATA, NOTHING, READ, SECOND_NS, SUMS, WRITE, Seconds, class_of, roll_up

Run = tuple[int, int, int, int, int, int, int]


def rolled(runs: list[Run]) -> Seconds:
    columns = np.array(runs, dtype=np.int64).reshape(-1, 7).T
    return roll_up(*columns)


def rows(found: Seconds) -> dict[tuple[int, int, int], dict[str, int]]:
    return {
        (int(who), int(second), int(seconds)): {name: int(value) for name, value in zip(SUMS, sums, strict=True) if value}
        for who, second, seconds, sums in zip(found.who, found.second, found.seconds, found.sums, strict=True)
    }


def exact(runs: list[Run]) -> dict[tuple[int, int], Fraction]:
    """Bytes read by (who, second), each run's spread evenly over its time."""
    out: dict[tuple[int, int], Fraction] = {}
    for who, kind, start, end, nbytes, _, _ in runs:
        if kind != READ:
            continue
        edge = start
        while edge < max(end, start + 1):
            until = min((edge // SECOND_NS + 1) * SECOND_NS, max(end, start + 1))
            key = (who, edge // SECOND_NS)
            out[key] = out.get(key, Fraction(0)) + Fraction(nbytes * (until - edge), max(end - start, 1))
            edge = until
    return out


def test_a_run_within_a_second_is_one_row():
    found = rows(rolled([(7, READ, 5 * SECOND_NS, 6 * SECOND_NS, 4096, 2, 30)]))
    assert found == {(7, 5, 1): {"read_bytes": 4096, "read_ops": 2, "read_busy_ns": 30}}


def test_a_run_without_length_goes_into_its_second():
    assert rows(rolled([(0, WRITE, 3 * SECOND_NS, 3 * SECOND_NS, 10, 1, 0)])) == {(0, 3, 1): {"write_bytes": 10, "write_ops": 1}}


def test_a_run_across_an_edge_is_split_by_time():
    found = rows(rolled([(0, WRITE, 4_750_000_000, 5_250_000_000, 101, 3, 7)]))
    assert found == {
        (0, 4, 1): {"write_bytes": 51, "write_ops": 2, "write_busy_ns": 4},
        (0, 5, 1): {"write_bytes": 50, "write_ops": 1, "write_busy_ns": 3},
    }


def test_a_long_run_gives_three_rows_however_long():
    found = rows(rolled([(0, READ, 500_000_000, 366 * 86400 * SECOND_NS, 10**12, 1, 0)]))
    assert len(found) == 3
    assert sum(row["read_bytes"] for row in found.values()) == 10**12
    assert (0, 1, 366 * 86400 - 2) in found


def test_each_class_adds_to_its_own_sums():
    at = (9 * SECOND_NS, 9 * SECOND_NS + 1)
    found = rows(rolled([(1, METADATA, *at, 0, 5, 50), (1, FAILED, *at, 0, 2, 20), (1, NOTHING, *at, 8, 8, 8), (1, READ, *at, 1, 1, 1), (2, READ, *at, 2, 1, 1)]))
    assert found == {
        (1, 9, 1): {"read_bytes": 1, "read_ops": 1, "read_busy_ns": 1, "metadata_ops": 5, "metadata_busy_ns": 50, "errors": 2},
        (2, 9, 1): {"read_bytes": 2, "read_ops": 1, "read_busy_ns": 1},
    }


def test_nothing_gives_nothing():
    assert len(rolled([])) == 0
    assert len(rolled([(0, NOTHING, 1, 2, 3, 4, 5)])) == 0


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_agree_with_the_reference(seed):
    chance = random.Random(seed)
    runs = []
    for _ in range(200):
        start = chance.randrange(20 * SECOND_NS)
        end = start + chance.choice([0, 1, chance.randrange(SECOND_NS), chance.randrange(9 * SECOND_NS)])
        kind = chance.choice([READ, WRITE, METADATA, FAILED, NOTHING])
        runs.append((chance.randrange(3), kind, start, end, chance.choice([0, 1, chance.randrange(10**15)]), chance.randrange(1, 1000), chance.randrange(10**9)))
    found = rolled(runs)
    assert int(found.sums[:, 0].sum()) == sum(run[4] for run in runs if run[1] == READ)
    assert int(found.sums[:, 4].sum()) == sum(run[5] for run in runs if run[1] == WRITE)
    assert int(found.sums[:, 8].sum()) == sum(run[5] for run in runs if run[1] == FAILED)
    spread: dict[tuple[int, int], Fraction] = {}
    for (who, second, seconds), row in rows(found).items():
        for each in range(second, second + seconds):
            spread[who, each] = spread.get((who, each), Fraction(0)) + Fraction(row.get("read_bytes", 0), seconds)
    for key, amount in exact(runs).items():
        # Each of the runs that touch a second is off by less than 2 bytes there.
        assert abs(spread.get(key, Fraction(0)) - amount) < 2 * len(runs)


def test_sums_that_no_machine_moves_do_not_wrap():
    found = rolled([(0, READ, 0, 1, 2**63 - 1, 2**63 - 1, 2**63 - 1)] * 3)
    assert (found.sums >= 0).all()


@pytest.mark.parametrize(
    ("op", "errno", "kind"), [("read", 0, READ), ("write", 28, FAILED), ("open", 0, METADATA), ("start", 0, NOTHING), ("unseen", 5, NOTHING), ("mmap", 0, NOTHING)]
)
def test_what_operations_count_as(op, errno, kind):
    assert class_of(op, errno) == kind
