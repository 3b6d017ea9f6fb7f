"""Sums by node or rank and time, against a slow reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobdb.heat import MEASURES, Sums, heat, heat_of_sums, natural
from jobdb.runs import read_runs
from pipeline.rollup import METADATA_OPS
from tests.unit.jobdb.tables import T0, row, rows, table

S = 10**9


def naive(runs, measure, from_ns, to_ns, step_ns):
    """By node: a list of what each bin holds, one run and one bin after the other."""
    ops = {"read_bytes": ("read",), "write_bytes": ("write",), "ops": ("read", "write"), "metadata_ops": METADATA_OPS}[measure]
    first = from_ns // step_ns
    bins = -(-to_ns // step_ns) - first
    found = {node: [0.0] * bins for node, _ in runs.process_keys}
    for at in range(len(runs)):
        if runs.op_names[runs.op[at]] not in ops or runs.failed[at]:
            continue
        start, end = int(runs.start_ns[at]), max(int(runs.shown_end_ns[at]), int(runs.start_ns[at]) + 1)
        amount = int(runs.bytes[at] if measure.endswith("bytes") else runs.count[at])
        for number in range(bins):
            low, high = (first + number) * step_ns, (first + number + 1) * step_ns
            found[runs.process_keys[runs.process[at]][0]][number] += amount * max(min(end, high) - max(start, low), 0) / (end - start)
    return found


@settings(max_examples=60, deadline=None)
@given(rows(), st.sampled_from(MEASURES), st.sampled_from([(0, 15), (2, 5), (-3, 1)]), st.integers(1, 40))
def test_cells_are_those_of_the_reference_and_add_up(given_rows, measure, span, bins):
    runs = read_runs(table(given_rows))
    from_ns, to_ns = T0 + span[0] * S, T0 + span[1] * S
    found = heat(runs, measure, "node", from_ns, to_ns, bins, 512)
    expected = naive(runs, measure, from_ns, to_ns, found.step_ns)
    assert [one.first for one in found.rows] == sorted(expected)
    for one, cells in zip(found.rows, found.cells, strict=True):
        assert cells.sum() == one.total and (cells >= 0).all()
        # What has passed by a bin's end is right to a half, beside what floats lose.
        assert np.abs(np.cumsum(cells) - np.cumsum(expected[one.first])).max(initial=0) <= 1 + 1e-9 * max(sum(expected[one.first]), 1)


def test_a_span_that_holds_all_gives_exact_totals():
    big = [row("write", T0 + n, T0 + 7 * S + n, bytes=2**52 + n, node=f"n{n}", process=f"{n}.1") for n in range(300)]
    found = heat(read_runs(table(big)), "write_bytes", "node", T0, T0 + 8 * S, 100, 512)
    assert [one.total for one in found.rows] == [2**52 + n for n in range(300)] == found.cells.sum(axis=1).tolist()


def test_members_are_in_natural_order_and_share_rows():
    runs = read_runs(table([row("write", T0, T0 + S, bytes=n, node=f"cn{n}") for n in range(1, 12)]))
    found = heat(runs, "write_bytes", "node", T0, T0 + S, 10, 4)
    assert [(one.first, one.last, one.members, one.total) for one in found.rows] == [("cn1", "cn3", 3, 6), ("cn4", "cn6", 3, 15), ("cn7", "cn9", 3, 24), ("cn10", "cn11", 2, 21)]
    assert found.members == 11 and found.cells.shape == (4, len(found.t_ns))
    assert sorted(["a10b", "a9c", "a9", "b1"], key=natural) == ["a9", "a9c", "a10b", "b1"]


def test_by_rank_processes_without_one_come_last():
    of = [(10, "7.1"), (2, "8.1"), (None, "9.1"), (2, "6.1")]
    runs = read_runs(table([row("read", T0, T0 + S, bytes=100, process=process, rank=rank) for rank, process in of]))
    found = heat(runs, "read_bytes", "rank", T0, T0 + S, 10, 128)
    assert [(one.first, one.total) for one in found.rows] == [("2", 200), ("10", 100), ("n1:9.1", 100)]


def test_a_job_that_did_nothing_has_no_rows():
    found = heat(read_runs(table([])), "ops", "rank", T0, T0 + S, 10, 128)
    assert (found.rows, found.members, found.cells.shape[0]) == ([], 0, 0)


def test_what_failed_and_other_users_do_not_count():
    runs = read_runs(table([row("write", T0, T0 + S, bytes=5, errno=28), row("write", T0, T0 + S, bytes=7, uid=1), row("write", T0, T0 + S, bytes=9)]), uid=1000)
    assert heat(runs, "write_bytes", "node", T0, T0 + S, 10, 128).rows[0].total == 9


def sums_of(groups, cells, width_ns=2 * S):
    """groups: (processes, first node, last node, nodes, least rank, largest rank, ranks); cells: (group, bin, bytes written)."""
    processes, first, last, *rest = zip(*groups, strict=True)
    numbers = [np.array(column) for column in (processes, *rest)]
    group, bin, amount = (np.array(column) for column in zip(*cells, strict=True))
    return Sums(T0, width_ns, list(first), list(last), *numbers, group.astype(np.int32), bin.astype(np.int32), np.stack([amount * 0, amount, amount * 0, amount * 0], axis=1))


def told(sums, by, rows):
    found = heat_of_sums(sums, "write_bytes", by, T0, T0 + 8 * S, 300, rows)
    assert sum(one.members for one in found.rows) == found.members
    assert [one.total for one in found.rows] == found.cells.sum(axis=1).tolist()
    return [(one.first, one.last, one.members, one.total) for one in found.rows]


MIXED = sums_of([(4, "n1", "n2", 2, 0, 3, 4), (1, "n3", "n3", 1, 4, 4, 1), (2, "n10", "n10", 1, 0, 0, 0)], [(0, 0, 7), (0, 3, 5), (1, 1, 2**60), (2, 1, 11)])


@pytest.mark.parametrize(
    ("by", "rows", "wanted"),
    [
        ("node", 4, [("n1", "n2", 2, 12), ("n3", "n3", 1, 2**60), ("n10", "n10", 1, 11)]), ("node", 2, [("n1", "n2", 2, 12), ("n3", "n10", 2, 2**60 + 11)]),
        ("rank", 8, [("0", "3", 4, 12), ("4", "4", 1, 2**60), ("n10 without rank", "n10 without rank", 2, 11)]), ("rank", 2, [("0", "3", 4, 12), ("4", "n10 without rank", 3, 2**60 + 11)]),
        ("rank", 1, [("0", "n10 without rank", 7, 2**60 + 23)]),
    ],
)  # fmt: skip
def test_rows_of_stored_sums_tell_first_and_last_and_how_many(by, rows, wanted):
    assert told(MIXED, by, rows) == wanted


def test_stored_sums_are_drawn_in_their_bins_or_longer_ones():
    found = heat_of_sums(MIXED, "write_bytes", "node", T0, T0 + 8 * S, 300, 4)
    assert found.step_ns == 2 * S and found.cells[2].tolist() == [0, 11, 0, 0]
    assert heat_of_sums(MIXED, "write_bytes", "node", T0, T0 + 8 * S, 2, 2).cells.sum() == 2**60 + 23


def test_a_node_or_rank_that_several_groups_have_is_one():
    """A block ended within it, or it has several processes."""
    groups = [(8, "n1", "n2", 2, 0, 7, 8), (3, "n2", "n2", 1, 6, 7, 2), (4, "n3", "n3", 1, 8, 11, 4)]
    sums = sums_of(groups, [(0, 0, 1), (1, 0, 2), (2, 0, 4)])
    assert told(sums, "node", 9) == [("n1", "n2", 2, 3), ("n3", "n3", 1, 4)]
    assert told(sums, "rank", 99) == [("0", "7", 8, 3), ("8", "11", 4, 4)]


def test_ranks_that_lie_between_each_others_are_not_told_as_all():
    """Each node has every third rank."""
    groups = [(4, f"n{node}", f"n{node}", 1, node, node + 9, 4) for node in range(3)]
    sums = sums_of([*groups, groups[2]], [(0, 0, 1), (1, 0, 2), (2, 0, 4), (3, 0, 8)])
    assert told(sums, "rank", 12) == [("0", "9", 4, 1), ("1", "10", 4, 2), ("2", "11", 4, 12)]
    assert told(sums, "rank", 1) == [("0", "11", 12, 15)]


def test_stored_sums_of_nothing_have_no_rows():
    none = np.zeros(0, dtype=np.int64)
    empty = Sums(T0, S, [], [], none, none, none, none, none, none, none, none.reshape(0, 4))
    for by in ("node", "rank"):
        found = heat_of_sums(empty, "ops", by, T0, T0 + S, 10, 128)
        assert (found.rows, found.members, found.cells.shape[0]) == ([], 0, 0)
