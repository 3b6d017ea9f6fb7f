"""How fast the agent reads LWFS logs: lines cut, parsed and merged on one core.

The log is made in memory from a seed (collectors/agent/benches/lwfs_lines.rs): 128 handles, interleaved at random, 10 % garbage. The baseline is a
plain scan for line ends over the same bytes; the two take turns, and the least processor time of each counts, because whatever else the machine does only adds.
"""

from __future__ import annotations

import json
import os
import subprocess

from tests.bench._watch import ROOT

COMMAND = ["cargo", "bench", "--quiet", "--locked", "--package", "bellrock-agent", "--bench", "lwfs_lines", "--"]


def lwfs_lines_per_s() -> list[dict]:
    """Rows of logs in which each request has its reply, and of logs of requests only. Raises CalledProcessError where cargo fails."""
    return [_row("lwfs_lines_per_s"), _row("lwfs_request_lines_per_s", "--requests-only")]


def _row(name: str, *flags: str) -> dict:
    core = max(os.sched_getaffinity(0))
    done = subprocess.run(["taskset", "-c", str(core), *COMMAND, *flags], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {
        "name": name,
        "value": found["lines"] / found["merge_s"],
        "unit": "1/s",
        "baseline_name": "a plain scan for line ends over the same bytes",
        "baseline": found["lines"] / found["scan_s"],
    }
