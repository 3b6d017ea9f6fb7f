"""Answers that take long and are asked for often: each is kept for a while, and one is worked out at a time."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from .errors import Busy

# So long an answer is given out again.
KEPT_S = 10.0
# Of so many questions.
KEPT_MAX = 16
# How long a request waits while another answer is worked out, and how many wait at once: the server's other threads stay free.
WAIT_S = 30.0
WAITING_MAX = 2


class Kept:
    """Answers by question. Any thread may ask. `clock`: in s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._working = threading.Lock()
        self._waiting = threading.Semaphore(WAITING_MAX)
        self._lock = threading.Lock()  # owner of _answers
        self._answers: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()  # with the time when working it out began

    def get(self, question: Hashable, work_out: Callable[[], Any], *, fresh: bool = False) -> Any:
        """The answer as it was at most KEPT_S ago; where another is just being worked out, perhaps an older one. fresh: as it is now.
        Raises Busy where neither is to be had."""
        asked = self._clock()
        since = asked if fresh else asked - KEPT_S
        found = self._find(question)
        if found is not None and found[0] >= since:
            return found[1]
        if not self._working.acquire(blocking=False):
            if found is not None and not fresh:
                return found[1]
            self._wait()
        try:
            found = self._find(question)
            if found is not None and found[0] >= since:
                return found[1]  # worked out while this one waited
            began = self._clock()
            answer = work_out()
            self._keep(question, began, answer)
            return answer
        finally:
            self._working.release()

    def _wait(self) -> None:
        """Waits for a turn. Raises Busy."""
        if not self._waiting.acquire(blocking=False):
            raise Busy("the server is working on other audits")
        try:
            if not self._working.acquire(timeout=WAIT_S):
                raise Busy("the server is still working on another audit")
        finally:
            self._waiting.release()

    def _find(self, question: Hashable) -> tuple[float, Any] | None:
        with self._lock:
            return self._answers.get(question)

    def _keep(self, question: Hashable, began: float, answer: Any) -> None:
        with self._lock:
            self._answers[question] = (began, answer)
            self._answers.move_to_end(question)
            while len(self._answers) > KEPT_MAX:
                self._answers.popitem(last=False)
