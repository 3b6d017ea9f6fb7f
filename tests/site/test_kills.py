"""Each process of a site is killed with SIGKILL at random moments, again and again, under steady load: every sum stays exact, nothing comes twice.

`$BELLROCK_KILLS` is how many kills (12; `make soak-site` has 60), `$BELLROCK_SEED` the seed, which is printed. The seed settles who is killed, and
when as far as a clock can; what the machine does between is its own.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellrock.stack.site import GROUPS
from tests.e2e.hammer import Hammer
from tests.e2e.site import compiled
from tests.site.real_node import RealNode
from tests.site.stack import Stack

KILLS = int(os.environ.get("BELLROCK_KILLS", "12"))
NODES = 50
# Each of them is as likely as the others; of a kind with several parts any.
VICTIMS = {
    "agent": (),
    "ingest": tuple(f"ingest-{group}" for group in GROUPS),
    "redis": (*(f"redis-{group}" for group in GROUPS), "redis-cache"),
    "elasticsearch": (*(f"elasticsearch-{group}" for group in GROUPS), "elasticsearch-archive"),
    "mysql": ("mysql",),
    "server": ("server",),
}
# (processes, threads, pause in us) of the real program on each real node.
JOB = (2, 2, 5000)
ACKNOWLEDGED_S = 300
EXACT_S = 300


@pytest.fixture
def real_nodes(stack: Stack, tmp_path: Path) -> Iterator[list[RealNode]]:
    nodes: list[RealNode] = []
    try:
        for group in GROUPS:
            nodes.append(RealNode(stack, group, tmp_path / group))
        yield nodes
    finally:
        for node in nodes:
            node.close()


def order(chance: random.Random) -> list[str]:
    """Who is killed, in which order: each kind as often as the others."""
    kinds = [tuple(VICTIMS)[n % len(VICTIMS)] for n in range(KILLS)]
    chance.shuffle(kinds)
    return kinds


@pytest.mark.timeout(1200 + 60 * KILLS)
def test_sums_are_exact_whoever_is_killed(stack: Stack, real_nodes: list[RealNode], tmp_path: Path) -> None:
    seed = int(os.environ.get("BELLROCK_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"\nBELLROCK_SEED={seed}")
    chance, began = random.Random(seed), time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    binary = compiled("hammer", tmp_path)
    programs = [Hammer(node, binary, JOB[0], JOB[1], 0, JOB[2]) for node in real_nodes]
    for program in programs:
        program.wait_busy(1)
    load = stack.load(NODES, seed, pause_s=2.0)
    load.start()

    for number, kind in enumerate(order(chance), 1):
        time.sleep(chance.uniform(0.5, 5))  # at no moment in particular
        if kind == "agent":
            node = chance.choice(real_nodes)
            node.kill_agent()
            say(f"kill {number} of {KILLS}: agent of {node.name}")
            continue
        name, away_s = chance.choice(VICTIMS[kind]), chance.uniform(0, 3)
        server = stack.parts[name].server
        server.kill()
        killed = time.monotonic()
        time.sleep(away_s)
        server.start()
        say(f"kill {number} of {KILLS}: {name}, away for {time.monotonic() - killed:.1f} s; {load.records:,} records acknowledged")

    for program in programs:
        program.stop()
        assert program.wait() == 0
    load.finish(ACKNOWLEDGED_S)
    say(f"{load.records:,} records of {NODES} agents are acknowledged, over {sum(node.connections for node in load.nodes.values())} connections")
    stack.wait_exact(load.jobs, EXACT_S)
    say(f"{len(load.jobs)} jobs: {sum(sum(job.ops.values()) for job in load.jobs):,} operations and {sum(sum(job.bytes.values()) for job in load.jobs):,} bytes, all exact")
    for program in programs:
        program.assert_exact(EXACT_S)
        say(f"{program.job}: {sum(row[1] for row in program.truth().values()):,} operations, all exact")
    status = stack.get("/api/v1/status")
    assert (status["dead_letters"], status["missing"], status["store_error"], status["job_events"]["error"]) == (0, 0, None, None)
    code, report = stack.audit()
    assert code == 0, report["flaws"]
    rows = sum(job.runs for job in load.jobs)
    proven = {boot["node"]: boot for boot in report["boots"]}
    assert all(proven[name]["seq"] == node.records and proven[name]["missing"] == 0 for name, node in load.nodes.items())
    say(f"proof: {report['proof']['rows']:,} rows of {report['proof']['boots']} boots, each number once, {rows:,} of them simulated")
