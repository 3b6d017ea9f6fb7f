import itertools

import pytest

from bellrock import ids
from bellrock.errors import UsageError

BATCH = {"SLURM_JOB_ID": "17", "PBS_JOBID": "18.server", "LSB_JOBID": "19", "BELLROCK_JOB": "20"}


def test_a_name_comes_first_then_the_batch_systems_in_order() -> None:
    assert ids.job_id("mine", BATCH) == "mine"
    left = dict(BATCH)
    for variable, value in BATCH.items():
        assert ids.job_id(None, left) == value
        del left[variable]
    assert ids.is_valid(ids.job_id(None, {}))


def test_an_empty_variable_is_none() -> None:
    assert ids.job_id(None, {"SLURM_JOB_ID": " ", "LSB_JOBID": "19"}) == "19"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-x", "a\n", "ä", "x" * 128, "a\0"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        ids.job_id(name, {})


@pytest.mark.parametrize("claimed", ["a b", "/x", "-", "1[2].server", "x" * 500, "ä\n"])
def test_what_the_environment_claims_is_made_fit(claimed: str) -> None:
    assert ids.is_valid(ids.job_id(None, {"PBS_JOBID": claimed}))


def test_array_jobs_of_pbs_keep_their_name() -> None:
    assert ids.job_id(None, {"PBS_JOBID": "123[4].head"}) == "123[4].head"


@pytest.mark.parametrize(("index", "job"), [("7", "19[7]"), ("0", "19"), ("", "19"), ("x", "19"), ("7]", "19"), ("٣", "19")])
def test_tasks_of_an_lsf_array_are_told_apart(index: str, job: str) -> None:
    assert ids.job_id(None, {"LSB_JOBID": "19", "LSB_JOBINDEX": index}) == job
    assert ids.job_id(None, {"PBS_JOBID": "18.server", "LSB_JOBINDEX": index}) == "18.server"


def test_new_ids_sort_by_time() -> None:
    stamps = [ids.short_id(now_s=now) for now in (1, 31, 32, 1_000_000, 1_800_000_000, 1_800_000_001, 2**34)]
    assert stamps == sorted(stamps)
    assert all(a[:7] != b[:7] for a, b in itertools.pairwise(stamps))
    assert len({ids.short_id(9, now_s=0) for _ in range(200)}) == 200
