"""Runs against earlier runs of the same program."""

import json
import math

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from anomaly.history import (
    ALIKE, COLUMNS, KIND, LONGEST, METADATA, NOTHING, OTHER_WORK, PHASES, READ, SLOW, SORTS_MAX, TOO_LITTLE, USUAL, USUAL_WORK, VOLUME, WRITE, Limits, Past, _clusters, judge, packed, sorts_of,
)  # fmt: skip
from anomaly.names import Rules
from anomaly.slow_jobs import held_against, past_run
from jobdb.findings import EVIDENCE_BYTES_MAX, Looked
from tests.unit.jobdb.tables import job

GIB = 1 << 30
LIMITS = Limits()


def phase(seconds, written=GIB, read=0, metadata=0, start=0.0):
    return {"start_ns": round(start * 1e9), "end_ns": round((start + seconds) * 1e9), "read_bytes": read, "write_bytes": written, "metadata_ops": metadata}


def past(runs):
    return Past.of([packed(sorts_of(run)[0]) for run in runs])


def usual(rng, count=60, seconds=20.0, spread=0.1, phases=5, written=GIB):
    """Runs of a few writes each, whose pace differs from run to run, the last first."""
    return [[phase(seconds * pace * rng.lognormal(0, 0.01), written) for _ in range(phases)] for pace in rng.lognormal(0, spread, count)]


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_phases_of_about_one_volume_are_one_sort():
    rows = [phase(10, read=GIB, written=0), phase(8), phase(12, written=int(1.1 * GIB)), phase(2, written=GIB // 4), phase(3, written=0, metadata=9), phase(1, written=10, metadata=1)]
    sorts, left_out = sorts_of(rows)
    assert left_out == 0 and sorts[:, KIND].tolist() == [READ, WRITE, WRITE, METADATA, METADATA] and sorts[:, PHASES].tolist() == [1, 1, 2, 1, 1]
    assert np.exp(sorts[2, [VOLUME, USUAL, LONGEST]]) == pytest.approx([GIB * math.sqrt(1.1), math.sqrt(96), 12])


BAD = [
    phase(0), phase(-1), phase(1, written=0), phase(1, written=-5), phase(1, written=math.nan), phase(1, written=math.inf), phase(math.pi * 1e9), phase(1, written=None), {}, {"start_ns": "x"},
    phase(1, written=GIB, read=-1), phase(1) | {"end_ns": math.nan}, phase(1) | {"end_ns": 10**400},
]  # fmt: skip


def test_what_has_no_figures_is_left_out_and_counted(rng):
    sorts, left_out = sorts_of([*BAD, phase(7)])
    assert left_out == len(BAD) and len(sorts) == 1 and np.exp(sorts[0, USUAL]) == pytest.approx(7)
    runs = usual(rng)
    assert judge(BAD, past(runs), LIMITS).status == NOTHING and judge([], past([]), LIMITS).status == NOTHING
    told = judge([*BAD, *(phase(100) for _ in range(5))], past(runs), LIMITS)
    assert (told.status, told.left_out) == (SLOW, len(BAD))


def test_a_run_keeps_a_bounded_number_of_sorts_those_that_took_longest():
    sorts, _ = sorts_of([phase(number + 1, written=2 ** (number + 1)) for number in range(40)])
    assert sorts.shape == (SORTS_MAX, COLUMNS) and np.exp(sorts[:, USUAL]) == pytest.approx(np.arange(25, 41))
    assert len(packed(sorts)) == SORTS_MAX * COLUMNS * 4


@pytest.mark.parametrize(("times", "is_slow"), [(0.2, False), (1.0, False), (1.2, False), (2.0, True), (20.0, True)])
def test_the_same_work_slowly_is_slow(rng, times, is_slow):
    told = judge([phase(20 * times) for _ in range(5)], past(usual(rng)), LIMITS)
    assert told.status == (SLOW if is_slow else USUAL_WORK)
    if is_slow:
        assert told.times == pytest.approx(times, rel=0.1) and told.lost_s == pytest.approx(100 * (times - 1), rel=0.2)
        assert told.sorts[0].slow_phases == 5 and not told.sorts[0].is_uneven and told.alike == tuple(range(60))


def test_a_slow_phase_among_others_is_told(rng):
    told = judge([phase(20), phase(20), phase(80), phase(20), phase(20)], past(usual(rng)), LIMITS)
    assert told.status == SLOW and told.sorts[0].is_uneven and (told.sorts[0].slow_phases, told.times, told.lost_s) == (1, pytest.approx(4), pytest.approx(60))


@pytest.mark.parametrize("factor", [2, 10, 0.3])
def test_other_work_is_not_slow(rng, factor):
    run = [phase(20 * factor * 5, int(factor * GIB)) for _ in range(5)]
    assert judge(run, past(usual(rng)), LIMITS).status == OTHER_WORK


def test_inputs_of_all_sizes_are_each_held_against_their_like(rng):
    sizes = rng.uniform(1, 8, 100)
    runs = [[phase(20 * size * rng.lognormal(0, 0.1), int(size * GIB))] for size in sizes]
    assert judge([phase(80, 4 * GIB)], past(runs), LIMITS).status == USUAL_WORK and judge([phase(240, 4 * GIB)], past(runs), LIMITS).status == SLOW


def test_too_little_history_says_so(rng):
    runs = usual(rng, 7)
    slow = [phase(200) for _ in range(5)]
    assert judge(slow, past(runs), LIMITS).status == TOO_LITTLE and judge(slow, past([]), LIMITS).status == TOO_LITTLE
    assert judge(slow, past(usual(rng, 8)), LIMITS).status == SLOW


def test_what_runs_differ_by_is_no_anomaly(rng):
    # Every fifth run finds a cold cache.
    runs = [[phase((40 if number % 5 == 0 else 5) * rng.lognormal(0, 0.1))] for number in range(60)]
    assert judge([phase(42)], past(runs), LIMITS).status == USUAL_WORK and judge([phase(20)], past(runs), LIMITS).status == USUAL_WORK
    wild = usual(rng, spread=0.7, phases=1)
    assert judge([phase(60)], past(wild), LIMITS).status == USUAL_WORK


def test_a_drift_of_the_norm_is_followed():
    rng = np.random.default_rng(5)
    runs, told = [], []
    for number in range(100):
        run = [phase(20 * 1.005**number * rng.lognormal(0, 0.05)) for _ in range(3)]
        told.append(judge(run, past(runs[: LIMITS.kept]), LIMITS).status)
        runs.insert(0, run)
    assert SLOW not in told and told.count(TOO_LITTLE) == LIMITS.runs
    # What stays three times slower is found until it is 15 % of what runs are held against.
    told = []
    for _ in range(40):
        run = [phase(100 * rng.lognormal(0, 0.05)) for _ in range(3)]
        told.append(judge(run, past(runs[: LIMITS.kept]), LIMITS).status)
        runs.insert(0, run)
    assert set(told[:9]) == {SLOW} and set(told[25:]) == {USUAL_WORK}


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_it_holds_where_many_earlier_runs_were_slow(rng, share):
    runs = [[phase(20 * rng.lognormal(0, 0.15) * (math.exp(rng.uniform(0.5, 3)) if rng.random() < share else 1))] for _ in range(100)]
    assert judge([phase(160)], past(runs), LIMITS).status == SLOW and judge([phase(22)], past(runs), LIMITS).status == USUAL_WORK


def test_runs_that_are_well_are_hardly_ever_slow(rng):
    runs = usual(rng, 400, spread=0.2, phases=1)
    told = [judge(runs[number], past(runs[number + 1 : number + 1 + count]), LIMITS).status for number, count in zip(range(300), [8, 12, 20, 100] * 75, strict=True)]
    assert told.count(SLOW) <= 1


@pytest.mark.parametrize("seconds", [0.001, 5.0, 1e8])
def test_constant_runs_have_a_norm_too(seconds):
    runs = past([[phase(seconds)] * 4 for _ in range(30)])
    assert judge([phase(seconds)] * 4, runs, LIMITS).status == USUAL_WORK and judge([phase(seconds * 1.15)] * 4, runs, LIMITS).status == USUAL_WORK
    assert (judge([phase(seconds * 3)] * 4, runs, LIMITS).status == SLOW) == (seconds > 1)


def test_the_order_of_earlier_runs_does_not_matter_and_one_more_or_less_hardly(rng):
    runs, slow = usual(rng), [phase(70) for _ in range(5)]
    first, second = judge(slow, past(runs), LIMITS), judge(slow, past(runs[::-1]), LIMITS)
    assert (first.status, first.times, first.sorts) == (second.status, second.times, second.sorts)
    assert judge(slow, past(runs[3:]), LIMITS).times == pytest.approx(first.times, rel=0.05)


def test_a_run_conforms_as_scikit_learn_says_of_it_among_the_others(rng):
    """A slow and obvious reference: cluster the history together with the run; it conforms where it is in a usual cluster."""
    runs = usual(rng, 80, spread=0.2, phases=1)
    volumes, values = (past(runs).points[:, column] for column in (VOLUME, USUAL))
    loose = Limits(times=1.05, spreads=2.0, lost_s=0.0)
    for seconds in np.linspace(10, 80, 36):
        told = judge([phase(seconds)], past(runs), loose)
        if told.status != SLOW:
            continue
        own, eps = math.log(seconds), told.sorts[0].eps
        ordered = np.sort(values)
        scale = max((ordered[40:] - ordered[:40]).min() / 1.349, 0.05)
        points = np.stack([np.append(values, own) / scale, np.append(volumes, volumes[0]) / 0.05], axis=1)
        labels = DBSCAN(eps=eps, min_samples=4).fit_predict(points[:-1])
        core = DBSCAN(eps=eps, min_samples=4).fit(points[:-1]).core_sample_indices_
        far = np.linalg.norm(points[core] - points[-1], axis=1) > eps
        assert far[np.isin(labels[core], np.flatnonzero(np.bincount(labels[labels >= 0]) >= 16))].all()


@pytest.mark.parametrize("count", [4, 9, 40, 100])
def test_clusters_are_those_of_scikit_learn(rng, count):
    points = np.concatenate([rng.normal(at, 0.5, (count, 2)) for at in (0, 2, 9)])[rng.permutation(3 * count)][:count]
    between = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))
    found = set()
    for eps in (0.0, 0.1, 0.3, 0.5, 0.8, 1.2, 20.0):
        labels, core = _clusters(between <= eps)
        fit = DBSCAN(eps=eps, min_samples=4, metric="precomputed").fit(between) if eps else None
        assert (labels == (fit.labels_ if fit else -1)).all() and np.flatnonzero(core).tolist() == (fit.core_sample_indices_.tolist() if fit else [])
        found.add(labels.max())
    assert len(found) > 1


def test_a_finding_tells_how_slow_against_what_and_the_arithmetic(rng):
    runs = [(number, packed(sorts_of(run)[0])) for number, run in enumerate(usual(rng))]

    def keys(numbers):
        return {number: f"old{number}" for number in numbers}

    profile = {"phase_list": [phase(100) for _ in range(5)], "nodes": 4, "processes": 16}
    look = Looked(job(program="wrf", command="mpirun ./wrf.exe", end_ns=job().start_ns + 10**12), 3, (), past_run(job(command="mpirun ./wrf.exe"), profile, Rules()))
    told = held_against(look, runs, keys, profile, LIMITS)
    (found,) = told.found
    assert told.run.status == SLOW and (told.run.program, told.run.nodes, told.run.processes) == ("wrf", 4, 16)
    assert (found.kind, found.key, found.severity, found.jobs) == ("slow-job", "7", "warning", (("7", "subject"),)) and found.times == pytest.approx(5, rel=0.1)
    assert "5 of its 5 write phases" in found.cause and "old" not in found.cause
    (line,) = found.evidence["arithmetic"]
    assert "60 earlier runs" in line and "slow from" in line and "s lost" in line
    assert [one["job"] for one in found.evidence["held_against"]] == [f"old{number}" for number in range(20)]
    assert len(json.dumps(found.evidence, allow_nan=False)) < EVIDENCE_BYTES_MAX // 10
    # With another finding in hand that stays, and the usual makes none.
    quiet = held_against(look, runs, keys, profile | {"phase_list": [phase(20)]}, LIMITS)
    assert quiet.found == () and quiet.run.status == USUAL_WORK


@pytest.mark.parametrize(
    ("more", "figures"),
    [({"end_ns": None}, {}), ({"program": "", "command": ""}, {}), ({}, {"phase_list": None}), ({}, {"nodes": None}), ({}, {"processes": None}), ({"end_ns": -1}, {})],
)
def test_a_job_without_name_end_or_figures_is_no_past(more, figures):
    assert past_run(job(**more), {"phase_list": [phase(1)], "nodes": 1, "processes": 1} | figures, Rules()) is None


def test_volumes_within_a_quarter_are_alike():
    assert math.exp(ALIKE) == pytest.approx(1.25)
