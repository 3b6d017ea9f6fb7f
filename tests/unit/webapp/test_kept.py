"""Answers that are kept: how old, how many at once, and who waits."""

import threading

import pytest

from webapp.api import kept
from webapp.api.errors import Busy
from webapp.api.kept import KEPT_MAX, KEPT_S, OLD_S, Kept
from webapp.api.threads import Threads

THREADS = 3


class Source:
    """Answers 1, 2, 3 …; `hold` keeps one from being ready until `go` is set."""

    def __init__(self):
        self.now, self.asked = 100.0, 0
        self.hold, self.begun, self.go = False, threading.Event(), threading.Event()
        self.kept = Kept(Threads(THREADS, threading.Semaphore(0)), lambda: self.now)

    def work_out(self):
        self.asked += 1
        if self.hold:
            self.begun.set()
            assert self.go.wait(60)
        return self.asked

    def get(self, question="q", **options):
        return self.kept.get(question, self.work_out, **options)

    def in_hand(self, question="q", **options):
        """A thread that is just working an answer out."""
        self.hold = True
        thread = threading.Thread(target=self.get, args=(question,), kwargs=options)
        thread.start()
        assert self.begun.wait(60)
        return thread


def test_an_answer_is_given_out_again_for_a_while():
    source = Source()
    assert [source.get(), source.get(), source.get("other"), source.get()] == [1, 1, 2, 1]
    source.now += KEPT_S + 1
    assert source.get() == 3
    assert source.get(fresh=True) == source.get(fresh=True) == 3, "at one instant nothing is fresher"
    source.now += 0.001
    assert [source.get(), source.get(fresh=True), source.get()] == [3, 4, 4]


def test_what_fails_is_not_kept():
    source = Source()
    with pytest.raises(ZeroDivisionError):
        source.kept.get("q", lambda: 1 // 0)
    assert source.get() == 1


def test_no_more_questions_are_kept_than_there_is_room_for():
    source = Source()
    for number in range(KEPT_MAX + 1):
        source.get(number)
    assert source.get(KEPT_MAX) == KEPT_MAX + 1
    assert source.get(0) == KEPT_MAX + 2


def test_one_is_worked_out_at_a_time_and_the_others_get_its_answer_or_an_older_one():
    source = Source()
    assert source.get() == 1
    source.now += KEPT_S + 1
    worker = source.in_hand()
    assert source.get() == 1, "an older one, at once"
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(source.get("new")))
    waiting.start()
    source.go.set()
    worker.join(60)
    waiting.join(60)
    assert answers == [3] and source.get() == 2


def test_an_answer_that_is_too_old_is_waited_for_even_while_another_is_worked_out(monkeypatch):
    source = Source()
    source.get()
    source.now += OLD_S
    worker = source.in_hand("other")
    monkeypatch.setattr(kept, "WAIT_S", 0.01)
    assert source.get() == 1
    source.now += 0.001
    with pytest.raises(Busy, match="still working"):
        source.get()
    source.go.set()
    worker.join(60)
    assert source.get() == 3


def test_where_all_threads_are_taken_an_older_answer_will_do():
    source = Source()
    source.get()
    source.now += KEPT_S + 1
    with source.kept.thread(), source.kept.thread(), source.kept.thread():
        assert source.get() == 1
        with pytest.raises(Busy, match="working on audits"):
            source.get(fresh=True)
    assert source.get() == 2


def test_only_so_many_wait_and_none_for_ever(monkeypatch):
    source = Source()
    worker = source.in_hand()
    monkeypatch.setattr(kept, "WAIT_S", 0.01)
    with pytest.raises(Busy, match="still working"):
        source.get(fresh=True)
    with source.kept.thread(), source.kept.thread(), pytest.raises(Busy, match="working on audits"):
        source.get("other")
    source.go.set()
    worker.join(60)
    assert source.get() == 1
