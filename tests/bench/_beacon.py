"""Records that the first pass makes of the trace logs of LWFS clients, against those of Beacon's published rule on the same logs."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bellrock.simulate.kinds import KINDS
from bellrock.simulate.to_lwfs import LwfsSink
from bellrock.simulate.volume import Plan, simulate
from tests.bench._models import APPLICATIONS, model_job
from tests.integration.lwfs.beacon_rule import RELEASED, first_pass, read_log

AGENT = Path(__file__).resolve().parents[2] / "build" / "bellrock-agent"
SEED = 11
JOBS, NODES, RECORDS = 3, 4, 2_000  # of each kind of job
GARBAGE = 0.1
TARGET = 3


def records_vs_beacon_rule() -> list[dict]:
    """Records of simulated logs, by kind of job: the agent's against those of the rule, and of the released code with its faults."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    counts = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            sink = LwfsSink(Path(folder), SEED, GARBAGE)
            simulate(Plan(SEED, JOBS, NODES, RECORDS, (kind,)), [], [sink])
            logs = sorted(sink.folder.glob("*.log"))
            counts[kind] = [sum(part) for part in zip(*map(_records, logs), strict=True)]
    rows = [
        {
            "name": "records_vs_beacon_rule",
            "value": _mean(theirs / ours for ours, theirs, _ in counts.values()),
            "unit": "of Beacon's for one of ours",
            "baseline_name": "the target",
            "baseline": TARGET,
        },
        {"name": "records_vs_beacon_released", "value": _mean(theirs / ours for ours, _, theirs in counts.values()), "unit": "of Beacon's for one of ours"},
    ]
    return rows + [
        {"name": f"records_{kind.replace('-', '_')}", "value": ours, "unit": "records", "baseline_name": "Beacon's rule", "baseline": theirs}
        for kind, (ours, theirs, _) in counts.items()
    ]


def model_records_vs_beacon_rule(processes: int = 64) -> dict[str, tuple[int, int]]:
    """Of the trace logs of one job of each of Table 8's applications: the agent's records, and those of the rule."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    counts = {}
    for name in APPLICATIONS:
        with tempfile.TemporaryDirectory() as folder:
            sink = LwfsSink(Path(folder), SEED)
            sink.add(*model_job(name, processes))
            ours, theirs, _ = (sum(part) for part in zip(*map(_records, sorted(sink.folder.glob("*.log"))), strict=True))
        counts[name] = (ours, theirs)
    return counts


def _records(log: Path) -> tuple[int, int, int]:
    """Records of a log by the agent, by Beacon's rule and by its released code. Beacon leaves each metadata operation a record."""
    trace = read_log(log.read_bytes())
    metadata = sum(trace.metadata.values()) + sum(trace.failed.values())
    printed = subprocess.run([AGENT, "--lwfs-log", log, "--print"], capture_output=True, check=True).stdout
    ours = sum(json.loads(line)["kind"] == "run" for line in printed.splitlines())
    return ours, len(first_pass(trace.data)) + metadata, len(first_pass(trace.data, RELEASED)) + metadata


def _mean(ratios) -> float:
    """Geometric."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))
