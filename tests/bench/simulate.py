"""How fast `bellrock simulate` makes records, and how fast they get to where they are wanted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bellrock.simulate.expand import expand
from bellrock.simulate.machine import jobs
from bellrock.simulate.records import Numbering, table
from bellrock.simulate.to_lwfs import LwfsSink
from bellrock.simulate.to_parquet import ParquetSink
from bellrock.simulate.to_state import StateSink
from bellrock.simulate.volume import Plan, simulate

PLAN = Plan(jobs=40, nodes=128, records=4_000_000)
LOG_PLAN = Plan(jobs=7, nodes=4, records=20_000)
TARGET = 1_000_000


def run() -> list[dict]:
    made, _ = _rate(lambda: sum(len(expand(job)) for job in _jobs()))
    numbering = Numbering(PLAN.seed, PLAN.nodes, PLAN.start_ns)
    tables, _ = _rate(lambda: sum(table(job, expand(job), numbering).num_rows for job in _jobs()))
    with tempfile.TemporaryDirectory() as folder:
        state, parquet = StateSink(Path(folder) / "state", add=False), ParquetSink(Path(folder) / "out")
        into_state, state_cpu_us = _rate(lambda: simulate(PLAN, [state]).records)
        state.close()
        into_parquet, parquet_cpu_us = _rate(lambda: simulate(PLAN, [parquet]).records)
        logs = LwfsSink(Path(folder) / "logs", LOG_PLAN.seed)
        lines, _ = _rate(lambda: _lines(logs))
    target = {"baseline_name": "the target", "baseline": TARGET}
    return [
        {"name": "model_records_per_s", "value": made, "unit": "records/s"},
        {"name": "arrow_records_per_s", "value": tables, "unit": "records/s"},
        {"name": "state_records_per_s", "value": into_state, "unit": "records/s", **target},
        {"name": "parquet_records_per_s", "value": into_parquet, "unit": "records/s", **target},
        {"name": "state_cpu_us", "value": state_cpu_us, "unit": "µs of processor time a record"},
        {"name": "parquet_cpu_us", "value": parquet_cpu_us, "unit": "µs of processor time a record"},
        {"name": "lwfs_log_lines_per_s", "value": lines, "unit": "lines/s"},
    ]


def _jobs():
    return jobs(PLAN.seed, PLAN.jobs, PLAN.nodes, PLAN.records, PLAN.kinds, PLAN.start_ns)


def _lines(sink: LwfsSink) -> int:
    simulate(LOG_PLAN, [], [sink])
    return sum(path.read_bytes().count(b"\n") for path in sink.folder.glob("*.log"))


def _rate(work: Callable[[], int]) -> tuple[float, float]:
    """Amount a second, and µs of processor time, of all threads, for one."""
    began, cpu = time.perf_counter(), time.process_time()
    amount = work()
    return amount / (time.perf_counter() - began), (time.process_time() - cpu) / amount * 1e6
