"""Answers that take long and are asked for often: each is kept for a while, and none is worked out twice at a time, on few of the server's threads."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .errors import Busy
from .threads import Threads

# So long an answer is given out again.
KEPT_S = 10.0
# So old an answer may be where another is just being worked out.
OLD_S = 60.0
# Of so many questions.
KEPT_MAX = 16
# How long a request waits while another answer is worked out.
WAIT_S = 30.0


class Kept:
    """Answers by question. Any thread may ask. `threads`: those that may work one out, or wait for their turn; others may be among them, too.
    `turns`: so many may be worked out at once, each question's by one thread. `clock`: in s."""

    def __init__(self, threads: Threads, clock: Callable[[], float] = time.monotonic, turns: int = 1) -> None:
        self._clock = clock
        self._turns = [threading.Lock() for _ in range(turns)]  # a question's is that of its hash
        self._threads = threads
        self._lock = threading.Lock()  # owner of _answers
        self._answers: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()  # with the time when working it out began

    def get(self, question: Hashable, work_out: Callable[[], Any], *, fresh: bool = False) -> Any:
        """The answer as it was at most KEPT_S ago; where another is just being worked out, at most OLD_S ago. fresh: as it is now.
        Raises Busy where neither is to be had."""
        asked = self._clock()
        since = asked if fresh else asked - KEPT_S
        found = self._find(question)
        if found is not None and found[0] >= since:
            return found[1]
        older = found if found is not None and not fresh and found[0] >= asked - OLD_S else None
        try:
            with self.thread(wait_s=0 if older is not None else None), self._turn(question, wait_s=0 if older is not None else WAIT_S):
                found = self._find(question)
                if found is not None and found[0] >= since:
                    return found[1]  # worked out while this one waited
                began = self._clock()
                answer = work_out()
                self._keep(question, began, answer)
                return answer
        except Busy:
            if older is None:
                raise
            return older[1]

    def thread(self, wait_s: float | None = None) -> AbstractContextManager[None]:
        """Counts this thread as one of those that may be at work here, whatever it does, see `Threads.one`. Raises Busy."""
        return self._threads.one("the server is working on audits, or on the layers of other jobs", wait_s)

    @contextmanager
    def _turn(self, question: Hashable, wait_s: float) -> Iterator[None]:
        """The turn to work a question out. Raises Busy."""
        turn = self._turns[hash(question) % len(self._turns)]
        if not turn.acquire(timeout=wait_s):
            raise Busy("the server is still working on an answer that comes before this one")
        try:
            yield
        finally:
            turn.release()

    def _find(self, question: Hashable) -> tuple[float, Any] | None:
        with self._lock:
            return self._answers.get(question)

    def _keep(self, question: Hashable, began: float, answer: Any) -> None:
        with self._lock:
            self._answers[question] = (began, answer)
            self._answers.move_to_end(question)
            while len(self._answers) > KEPT_MAX:
                self._answers.popitem(last=False)
