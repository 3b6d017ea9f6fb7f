"""Agent, server and programs are killed with SIGKILL at random moments, again and again: every sum stays exact, nothing comes twice.

`$BELLROCK_KILLS` is how many kills (6; `make soak` has 30), `$BELLROCK_SEED` the seed, which is printed. The seed settles who is killed, and
when as far as a clock can; what the machine does between is its own.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest

from tests.e2e.hammer import Hammer
from tests.e2e.site import Site, compiled

KILLS = int(os.environ.get("BELLROCK_KILLS", "6"))
# (processes, threads, pause in us, more) of the jobs that run at any time: regular, a record for each operation, many threads.
JOBS = ((3, 2, 5000), (2, 2, 5000, "random"), (1, 8, 10000))
SETTLE_S = 240


def say(began: float, text: str) -> None:
    print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)


def victims(chance: random.Random) -> list[str]:
    """Who is killed, in which order: each kind as often as the others."""
    kinds = [("agent", "server", "program")[n % 3] for n in range(KILLS)]
    chance.shuffle(kinds)
    return kinds


@pytest.mark.timeout(300 + 60 * KILLS)
def test_sums_are_exact_whoever_is_killed(site: Site) -> None:
    seed = int(os.environ.get("BELLROCK_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"\nBELLROCK_SEED={seed}")
    chance, began = random.Random(seed), time.monotonic()
    binary = compiled("hammer", site.folder)

    def start(kind: tuple) -> Hammer:
        processes, threads, pause_us, *more = kind
        job = Hammer(site, binary, processes, threads, 0, pause_us, *more)
        job.wait_busy(1)
        return job

    running = [start(kind) for kind in JOBS]
    over: list[Hammer] = []

    def kill_program() -> str:
        place = chance.randrange(len(running))
        job = running[place]
        process = chance.randrange(job.processes)
        if job.processes - len(job.killed) > 1 and process not in job.killed:
            job.kill_one(process)
            return f"process {process} of {job.job}"
        # All of it, and another takes its place.
        job.kill()
        over.append(job)
        running[place] = start(JOBS[place])
        return f"all of {job.job}"

    def kill_server() -> str:
        site.agent_pid()  # with neither, a `bellrock run` would take the server's place
        site.kill_server()
        away_s = chance.uniform(0, 2)
        time.sleep(away_s)
        site.start()
        return f"server, away for {away_s:.1f} s"

    def kill_agent() -> str:
        site.kill_agent()
        return "agent"

    kinds: dict[str, Callable[[], str]] = {"agent": kill_agent, "server": kill_server, "program": kill_program}
    for number, kind in enumerate(victims(chance), 1):
        time.sleep(chance.uniform(0.02, 1.5))  # at no moment in particular
        say(began, f"kill {number} of {KILLS}: {kinds[kind]()}")

    for job in running:
        job.stop()
    for job in over + running:
        job.wait()
        job.assert_exact(SETTLE_S)
        say(began, f"{job.job}: {sum(row[1] for row in job.truth().values())} operations, all exact")
    status = site.get("/api/v1/status")
    assert (status["dead_letters"], status["missing"], status["store_error"]) == (0, 0, None)
