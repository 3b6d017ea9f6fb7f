"""Ranks that are not claimed: where they can be told, and where they must not be."""

import random
import time
from dataclasses import replace

import numpy as np
import pytest

from jobdb.inferred import infer_ranks
from jobdb.job import JobStep
from jobdb.profile import n_processes
from jobdb.runs import read_runs
from jobdb.tables import process_table
from tests.unit.jobdb.tables import T0, row, table

S = 10**9


def step(tasks=4, nodes="n[1-2]", begin_s=0, end_s=100, id="0", name="prog"):
    return JobStep(id, name, T0 + begin_s * S, None if end_s is None else T0 + end_s * S, nodes, tasks)


def process(pid, node="n1", ticks=None, parent=9, at_s=1, **more):
    """What began with a tick to each pid, unless told otherwise."""
    return row("write", T0 + int(at_s * S), node=node, process=f"{pid}.{pid if ticks is None else ticks}", parent=parent, bytes=1, **more)


def pair(node, first=100, **more):
    return [process(first + number, node, **more) for number in (0, 1)]


def inferred(rows, *steps):
    """The ranks by NODE:PID of processes that claim none."""
    rows = list(rows)
    random.Random(1).shuffle(rows)
    runs = read_runs(table(rows))
    found = infer_ranks(runs, steps)
    assert all(runs.ranks[number] is None for number in found)
    return {f"{runs.process_keys[number][0]}:{runs.process_keys[number][1].split('.')[0]}": rank for number, rank in found.items()}


RANKS = {"n1:100": 0, "n1:101": 1, "n2:100": 2, "n2:101": 3}
FOUR = [*pair("n1"), *pair("n2", parent=7)]


def test_a_steps_processes_count_node_after_node_as_the_batch_system_tells_them():
    assert inferred(FOUR, step()) == RANKS
    assert inferred(FOUR, step(nodes="n2,n1")) == {"n2:100": 0, "n2:101": 1, "n1:100": 2, "n1:101": 3}
    assert inferred(FOUR, step(end_s=None)) == RANKS
    uneven = [*pair("n1"), process(102), process(50, "n2")]
    assert inferred(uneven, step()) == {"n1:100": 0, "n1:101": 1, "n1:102": 2, "n2:50": 3}


def test_pids_that_began_anew_do_not_turn_ranks_round():
    late = [process(32767, ticks=500), process(3, ticks=501), *pair("n2")]
    assert inferred(late, step()) == {"n1:32767": 0, "n1:3": 1, "n2:100": 2, "n2:101": 3}
    assert inferred([process(32767, ticks=500), process(3, ticks=500), *pair("n2")], step()) == {}


@pytest.mark.parametrize(
    "rows, steps",
    [
        (FOUR, []),
        (FOUR, [step(tasks=5)]),
        (FOUR, [step(tasks=3)]),
        (FOUR, [step(tasks=None)]),
        (FOUR, [step(nodes="n[1-3]")]),  # one of its nodes has none
        (FOUR, [step(name="orted", tasks=4)]),  # its tasks are not the program's
        (FOUR, [step(id="batch")]),
        ([process(100)], [step(tasks=1, nodes="n1")]),
        ([*FOUR, process(200, "n3")], [step(tasks=5)]),  # not on the step's nodes
        (FOUR, [step(), step(id="1", begin_s=50)]),  # two at a time
        (FOUR, [step(), step(id="1", nodes="n2", begin_s=99)]),  # on one node only
        (FOUR, [step(end_s=0), step(id="1", end_s=0)]),
        (FOUR, [step(), step(id="1", end_s=5, tasks=1), step(id="2", begin_s=20, end_s=30, tasks=1)]),
        (FOUR, [step(begin_s=2)]),  # before it
        (FOUR, [step(begin_s=-100, end_s=-1)]),  # after it
        ([*pair("n1"), *pair("n2", program="other")], [step()]),
        ([*FOUR[:3], process(101, "n2", rank=3, parent=7)], [step()]),  # one of them claims a rank
        ([process(100, parent=8), process(101), *pair("n2")], [step()]),  # two started them
        ([process(100, parent=None), process(101, parent=None), *pair("n2")], [step()]),
        ([*pair("n1"), row("write", T0 + S, node="n2", process="1.100.A", parent=0, bytes=1), row("write", T0 + S, node="n2", process="1.101.B", parent=0, bytes=1)], [step()]),
        ([*FOUR[:3], row("write", T0 + S, node="n2", process="forged", parent=7, bytes=1)], [step()]),
        ([process(100 + number, program="orted") for number in range(4)], [step(nodes="n1")]),
        ([row("write", T0 + S, node=node, process="node", parent=None, bytes=1) for node in ("n1", "n2")], [step(tasks=2)]),
    ],
)  # fmt: skip
def test_no_rank_rather_than_a_wrong_one(rows, steps):
    assert inferred(rows, *steps) == {}


def test_one_task_to_a_node_needs_no_order():
    rows = [process(5, node, parent=parent) for node, parent in (("n1", None), ("n2", 3), ("n3", 4))]
    assert inferred(rows, step(tasks=3, nodes="n[1-3]")) == {"n1:5": 0, "n2:5": 1, "n3:5": 2}


def test_steps_one_after_another_have_ranks_of_their_own():
    """Also where the second begins in the second in which the first ended."""
    second = [process(300 + number, node, at_s=100.5) for node in ("n1", "n2") for number in (0, 1)]
    assert inferred([*FOUR, *second], step(), step(id="1", begin_s=100, end_s=200)) == RANKS | {"n1:300": 0, "n1:301": 1, "n2:300": 2, "n2:301": 3}


def test_steps_at_a_time_on_nodes_of_their_own_are_told_apart():
    found = inferred([*pair("n1"), *pair("n2")], step(2, "n1"), step(2, "n2", id="1"))
    assert found == {"n1:100": 0, "n1:101": 1, "n2:100": 0, "n2:101": 1}


def test_what_a_rank_forked_is_none_of_its_own():
    helpers = [process(200 + number, node, parent=100 + number) for node in ("n1", "n2") for number in (0, 1)]
    more = [process(300, "n1", parent=101, program="cp"), process(301, "n1", parent=101, program="cp")]
    launcher = [process(90, "n1", parent=1, program="mpirun"), process(91, "n1", parent=90, program="sh")]
    # A rank's only process of a program shares its number, as it would were it claimed.
    assert inferred([*FOUR, *helpers, *more, *launcher], step()) == RANKS | {"n1:200": 0, "n1:201": 1, "n2:200": 2, "n2:201": 3}


def test_a_process_has_its_parents_rank_where_that_claims_one():
    wrapped = [process(100, rank=3, program="sh"), process(101, parent=100), process(102, parent=101, program="gzip")]
    assert inferred(wrapped) == {"n1:101": 3, "n1:102": 3}
    assert inferred([process(100, rank=3, program="/usr/bin/orted"), process(101, parent=100)]) == {}
    assert inferred([process(100, rank=3), process(101, parent=100), process(102, parent=100)]) == {}
    # Of two that had its pid it was the one that was there; one that came later is none.
    again = [process(100, rank=3, ticks=10), process(100, rank=4, ticks=50), process(200, ticks=60, parent=100), process(300, ticks=5, parent=100)]
    assert inferred(again) == {"n1:200": 4}
    assert inferred([process(100, rank=3), process(101, "n2", parent=100)]) == {}


def test_figures_go_by_claims_alone_and_the_table_says_which_is_which():
    runs = read_runs(table([*FOUR, process(500, rank=7, program="other", parent=1)]))
    before = n_processes(runs)
    runs = replace(runs, inferred=infer_ranks(runs, [step()]))
    assert n_processes(runs) == before
    made = process_table(runs)
    rows = made.rows(made.order("-rank"))
    assert [(r["rank"], r["rank_inferred"]) for r in rows] == [(7, False), (3, True), (2, True), (1, True), (0, True)]


def test_steps_that_never_end_being_told_are_left_alone():
    many = [step(tasks=2, nodes="n[1-200000]", id=str(number), begin_s=number, end_s=number + 1) for number in range(1000)]
    began_s = time.monotonic()
    assert inferred(FOUR, *many) == {}
    assert time.monotonic() - began_s < 30


def test_very_many_processes_are_looked_at_in_little_time():
    count = 200_000
    rows = table([process(100)])
    columns = {name: rows[name].take(np.zeros(count, dtype=np.int64)) for name in rows.column_names}
    pids = [f"{number + 2}.{number + 2}" for number in range(count)]
    big = table([]).from_pydict(columns | {"process": pids, "parent": [1] * count}, schema=rows.schema)
    runs, began_s = read_runs(big), time.monotonic()
    found = infer_ranks(runs, [step(tasks=count, nodes="n1")])
    assert len(found) == count and sorted(found.values()) == list(range(count))
    assert time.monotonic() - began_s < 30


def test_many_programs_in_a_step_of_many_nodes_are_looked_at_in_little_time():
    rows = [process(100 + number, program=f"p{number}") for number in range(2000)]
    runs, began_s = read_runs(table(rows)), time.monotonic()
    assert infer_ranks(runs, [step(tasks=20_000, nodes="n[1-20000]")]) == {}
    assert time.monotonic() - began_s < 10
