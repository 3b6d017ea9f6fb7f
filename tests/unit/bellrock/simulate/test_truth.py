"""The profile of a simulated job says what its model knows."""

import pytest

from anomaly.phases import find_phases
from bellrock.simulate.expand import expand
from bellrock.simulate.kinds import KINDS
from bellrock.simulate.machine import jobs
from bellrock.simulate.records import Numbering, table
from bellrock.simulate.truth import truth
from jobdb.job import Job
from jobdb.profile import HEADLINE, profile
from jobdb.runs import read_runs

START = 1_767_225_600 * 10**9
# Of rates: a run's time is a whole number of ns, where the truth takes it for even.
TOLERANCE = 1e-6
# What the truth says of the job beside its profile.
BESIDE = {"kind", "user", "uid", "node_names", "start_ns", "end_ns", "records"}


def simulated(seed, count, nodes, records, kinds=tuple(KINDS)):
    numbering = Numbering(seed, nodes, START)
    for job in jobs(seed, count, nodes, records, kinds, START):
        yield job, table(job, expand(job), numbering)


def profile_of(job, records):
    runs = read_runs(records, uid=job.uid)
    ran = Job(
        job.job_id, job.job_id, job.uid, "simulated", job.user, job.model.program, "", "completed", True, job.start_ns, job.end_ns, 0,
        job.node_names[:1],
    )  # fmt: skip
    return profile(runs, find_phases(runs), ran).to_dict()


@pytest.mark.parametrize(
    ("seed", "count", "nodes", "records"),
    [(0, 28, 1, 28), (1, 28, 3, 500), (2, 35, 16, 20_000), (3, 35, 64, 60_000), (4, 14, 500, 200_000), (5, 21, 7, 150_000), (6, 7, 2, 300_000)],
)
def test_every_profile_is_the_truth(seed, count, nodes, records):
    for job, made in simulated(seed, count, nodes, records):
        known = truth(job)
        found = profile_of(job, made)
        expected = {name: value for name, value in known.items() if name not in BESIDE}
        rates = {name: value for name, value in expected.items() if isinstance(value, float)}
        exact = {name: value for name, value in expected.items() if name not in rates}
        assert {name: found[name] for name in exact} == exact, job.model.kind
        assert {name: found[name] for name in rates} == pytest.approx(rates, rel=TOLERANCE, abs=0), job.model.kind
        assert known["records"] == made.num_rows


def test_kinds_do_what_they_are_called_after():
    seen = {kind: [truth(job) for job, _ in simulated(8, 12, 32, 60_000, [kind])] for kind in KINDS}
    for kind in ("n-n", "n-m", "n-1", "1-1"):
        assert {known["io_mode_write"] for known in seen[kind]} == {kind.upper()}
    assert {known["io_mode_write"] for known in seen["checkpoint"]} == {"N-N", "N-M", "N-1"}
    assert all(known["phases"] > 2 and known["read_bytes"] > 0 for known in seen["checkpoint"])
    for known in seen["random-read"]:
        assert known["write_ops"] == 0 and known["read_bytes"] // known["read_ops"] <= 64 << 10
    for known in seen["metadata-storm"]:
        assert known["metadata_ops"] > 3 * known["write_ops"] and known["errors"] > 0 and known["mdops_avg"] > 300 * known["io_nodes"] / 32
    # One process does it all, whatever their number.
    assert {known["io_processes"] for known in seen["1-1"]} == {1} and max(known["processes"] for known in seen["1-1"]) > 1


def test_truth_has_every_headline_figure():
    job, made = next(simulated(1, 1, 4, 100))
    known = truth(job).keys() - BESIDE
    assert set(HEADLINE) | {"errors", "io_nodes"} == known <= profile_of(job, made).keys()
