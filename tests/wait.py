"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import Any

PAUSE_S = 0.01


def until(condition: Callable[[], Any], what: str = "it", limit_s: float = 120, pause_s: float = PAUSE_S) -> Any:
    """The first answer that is something. pause_s: between two tries, longer where asking takes from what is waited for. Raises AssertionError, which says what was waited for, where none came in time."""
    end_s = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > end_s:
            raise AssertionError(f"waited {limit_s:.0f} s in vain for: {what}")
        time.sleep(pause_s)
    return found
