"""Runs a replay for `bellrock replay`: progress, and an end on request."""

import threading
import time
from typing import Any

from bellrock import console, program
from bellrock.simulate.replay import Played, Replay, summary

# How often is told how far it is.
TELL_S = 10.0
LOOK_S = 0.2


def play(replay: Replay, nodes: list[str], at_once: int) -> dict[str, Any]:
    """Plays the nodes until all are done, or a signal asks to end."""
    began, told = time.monotonic(), time.monotonic()
    ended: list[Played] = []
    result: list[Played] = []
    failure: list[BaseException] = []

    def tell(played: Played) -> None:
        ended.append(played)
        if played.why:
            console.warn(f"{played.node}: {played.why}")

    def run() -> None:
        try:
            result.extend(replay.play(nodes, at_once, tell))
        except BaseException as error:
            failure.append(error)

    with program.signals_held():
        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            if program.pause(LOOK_S):
                replay.stop()
                console.say("ending: agents deliver what they have")
            if time.monotonic() - told >= TELL_S:
                told = time.monotonic()
                now = ", ".join(f"{node} at look {look:,}" for node, look in replay.running().items())
                console.say(f"{len(ended)} of {len(nodes)} nodes; {now}")
        thread.join()
    if failure:
        raise failure[0]
    return summary(result, time.monotonic() - began)
