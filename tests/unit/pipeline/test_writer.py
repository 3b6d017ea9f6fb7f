"""Windows that are written together are settled one after the other, whoever still waits for them."""

import itertools

import pytest

from pipeline.lumberjack import Window
from pipeline.writer import Job


def batch(count):
    jobs = [Job(Window(), None) for _ in range(count)]
    for job, following in itertools.pairwise(jobs):
        job.following = following
    return jobs


def settled(jobs):
    return [job.done.is_set() for job in jobs]


def test_who_was_woken_wakes_the_next():
    jobs = batch(3)
    jobs[0].settle()
    assert settled(jobs) == [True, False, False]
    jobs[0].leave()
    assert settled(jobs) == [True, True, False]
    jobs[1].leave()
    jobs[2].leave()
    assert settled(jobs) == [True, True, True]


@pytest.mark.parametrize("gone", list(itertools.product((False, True), repeat=4)))
def test_nobody_waits_for_one_who_left_before(gone):
    jobs = batch(4)
    for job, is_gone in zip(jobs, gone, strict=True):
        if is_gone:
            job.leave()
    jobs[0].settle()
    for job, is_gone in zip(jobs, gone, strict=True):
        assert job.done.is_set()
        if not is_gone:
            job.leave()
    assert settled(jobs) == [True] * 4


def test_many_who_left_are_passed_over():
    jobs = batch(5000)
    for job in jobs[:-1]:
        job.leave()
    jobs[0].settle()
    assert settled(jobs)[-1]
