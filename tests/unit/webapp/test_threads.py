"""Threads that may work long: who waits for one, and who does not."""

import threading

import pytest

from webapp.api.errors import Busy
from webapp.api.threads import Threads


class Places(threading.Semaphore):
    """Tells when one is taken."""

    def __init__(self, count):
        super().__init__(count)
        self.taken = threading.Event()

    def acquire(self, *args, **more):
        is_taken = super().acquire(*args, **more)
        if is_taken:
            self.taken.set()
        return is_taken


@pytest.fixture
def waiter():
    """One of one thread is at work, and another waits for it: the threads, the work, and where the one that waited says so."""
    places, worked = Places(1), []
    threads = Threads(1, places)

    def wait():
        with threads.one("busy", 60):
            worked.append("waited")

    with threads.one("busy"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert places.taken.wait(60)
        yield threads, worked
    waiting.join(60)
    assert worked == ["waited"]
    with threads.one("busy", 0):
        pass


def test_who_comes_when_all_are_taken_waits_for_one(waiter):
    assert waiter[1] == []


def test_where_too_many_wait_the_next_is_told_at_once(waiter):
    with pytest.raises(Busy, match="why"), waiter[0].one("why", 3600):
        pytest.fail("two at once")


@pytest.mark.parametrize("wait_s", [0, 0.01])
def test_nobody_waits_for_ever(wait_s):
    threads = Threads(1, threading.Semaphore(1))
    with threads.one("busy"):
        for _ in range(2):
            with pytest.raises(Busy, match="why"), threads.one("why", wait_s):
                pytest.fail("two at once")
    with threads.one("busy"):
        pass
