"""Phases of simulated jobs against what their models know, as they are and with a log beneath them. The figures are printed: pytest -s."""

import numpy as np
import pytest

from anomaly.phases import METADATA_BYTES, OTHER, READ, WRITE, phases_of
from bellrock.simulate import faults
from bellrock.simulate.description import read_machine
from bellrock.simulate.expand import expand
from bellrock.simulate.kinds import KINDS
from bellrock.simulate.machine import jobs
from bellrock.simulate.model import OPS
from bellrock.simulate.schedule import Plan
from bellrock.simulate.virtual import VirtualMachine

S = 10**9
START = 1_767_225_600 * S
TOLERANCE_NS = 2 * S
# Larger ones take memory and show nothing more.
ROWS_MAX = 400_000
EVERY_S = (0.2, 0.5, 1, 2, 3, 4, 5, 7, 10, 30)


def columns_and_truth(job, jitter):
    """The runs that succeeded, and the first start and last end of each phase of the model."""
    made = expand(job, jitter)
    done = (made.errno == 0) & (made.op != OPS.index("start"))
    kind = np.where(made.op == OPS.index("read"), READ, np.where(made.op == OPS.index("write"), WRITE, OTHER))
    amount = np.where(kind == OTHER, METADATA_BYTES * made.count.astype(float), made.size * made.count)
    truth, at = {}, job.model.processes
    for burst in job.model.bursts:
        of = slice(at, at + burst.rows)
        at += burst.rows
        if not burst.errno:
            begin, until = truth.get(burst.phase, (2**63 - 1, 0))
            truth[burst.phase] = (min(begin, made.start[of].min()), max(until, made.end[of].max()))
    return [made.start[done], made.end[done], amount[done], kind[done]], np.array(sorted(truth.values()))


def log_of(job, rng):
    """A line of log every so often all through the job; of some jobs it is opened and closed for each."""
    every_s = rng.choice(EVERY_S)
    lines = max(int((job.end_ns - job.start_ns) / S / every_s), 1)
    start = job.start_ns + ((np.arange(lines) + rng.uniform(0, 0.3, lines)) * every_s * S).astype(np.int64)
    amount = rng.integers(50, 500, lines) + (rng.random() < 0.3) * 2.0 * METADATA_BYTES
    return [start, start + rng.integers(10**4, 10**7, lines), amount, np.full(lines, WRITE)]


def score(some, jitter, with_log, seed):
    """Jobs, those with as many phases as they have, the phases of these, and those of them whose edges are right."""
    rng = np.random.default_rng(seed)
    n_jobs = n_right = n_phases = n_near = 0
    for job in some:
        if job.model.rows > ROWS_MAX:
            continue
        columns, truth = columns_and_truth(job, jitter)
        if with_log:
            columns = [np.concatenate(pair) for pair in zip(columns, log_of(job, rng), strict=True)]
        found = phases_of(*columns).spans
        n_jobs += 1
        if len(found) == len(truth):
            n_right += 1
            n_phases += len(truth)
            n_near += int((np.abs(found - truth).max(axis=1) <= TOLERANCE_NS).sum())
    return n_jobs, n_right, n_phases, n_near


def virtual_jobs(seed):
    machine, hours = read_machine("taihulight").scaled(0.025), 2
    kinds = ["slow-forwarding", "metadata-storm", "n-1-aggressor", "slow-ost"]
    yield from VirtualMachine(Plan(machine, seed, hours, 2.0, faults.draw(kinds, machine, seed, hours), START)).jobs()


def modelled_jobs(seed):
    yield from jobs(seed, 70, 16, 60_000, tuple(KINDS), START)


@pytest.mark.parametrize(
    ("what", "source", "jitter", "with_log", "right_min", "near_min"),
    [
        ("virtual jobs", virtual_jobs, 0.0, False, 0.98, 0.98),
        ("virtual jobs, irregular", virtual_jobs, 0.3, False, 0.98, 0.98),
        ("virtual jobs over a log", virtual_jobs, 0.3, True, 0.98, 0.98),
        ("kinds of job", modelled_jobs, 0.0, False, 0.98, 0.98),
        ("kinds of job over a log", modelled_jobs, 0.3, True, 0.95, 0.95),
    ],
)
def test_phases_are_those_that_the_model_knows(what, source, jitter, with_log, right_min, near_min):
    # No seed that the rules were made with.
    results = [score(source(seed), jitter, with_log, seed) for seed in (211, 212)]
    n_jobs, n_right, n_phases, n_near = (sum(column) for column in zip(*results, strict=True))
    shares = f"number right in {n_right} of {n_jobs} jobs ({n_right / n_jobs:.2%}); edges within 2 s in {n_near} of {n_phases} phases"
    print(f"\n{what}: {shares} ({n_near / n_phases:.2%})")
    assert n_jobs >= 90 and n_right >= right_min * n_jobs and n_near >= near_min * n_phases
