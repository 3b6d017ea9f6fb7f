"""What being watched costs a program: a 4 KiB pread and pwrite on tmpfs, and a program that writes checkpoints.

Plain and watched runs alternate. A run's figure is the minimum over its rounds, because whatever else the machine does only adds; the median
over the turns keeps one turn at another clock rate from deciding. An agent reads along, as in real use.
"""

from __future__ import annotations

import os
from statistics import median

from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from tests.bench._watch import agent, answer, compiled, watch_environment, workplace
from tests.bench.agent_footprint import Sink

TURNS = 12
ROUNDS = 300
STEPS = 20


def run() -> list[dict]:
    with workplace() as place:
        calls, checkpoint = compiled("calls", place), compiled("checkpoint", place)
        data, rings = place / "data", place / "rings"
        data.mkdir()
        ingest = Ingest(StoreSink(Sink()), host="127.0.0.1", port=0)
        ingest.start()
        try:
            with agent(place, rings, ingest.port):
                env = watch_environment(rings, data)
                plain, watched, slow, fast = [], [], [], []
                cores = sorted(os.sched_getaffinity(0))
                for turn in range(TURNS):
                    # Plain and watched on the same core, each core in its turn: they differ, and so do their neighbours.
                    os.sched_setaffinity(0, {cores[turn % len(cores)]})
                    plain.append(answer([str(calls), str(data / "file"), str(ROUNDS)]))
                    watched.append(answer([str(calls), str(data / "file"), str(ROUNDS)], env))
                    fast.append(answer([str(checkpoint), str(data / "checkpoint"), str(STEPS)])["seconds"])
                    slow.append(answer([str(checkpoint), str(data / "checkpoint"), str(STEPS)], env)["seconds"])
                os.sched_setaffinity(0, cores)
        finally:
            ingest.stop()
    pair = min(p["timestamp_pair_ns"] for p in plain)

    def added(key: str) -> float:
        return median(w[key] - p[key] for w, p in zip(watched, plain, strict=True))

    rows = [
        {"name": f"{call}_4k_added_ns", "value": added(f"{call}_ns"), "unit": "ns", "baseline_name": "a pair of timestamps", "baseline": pair}
        for call in ("pread", "pwrite")
    ]
    rows.append(
        {
            "name": "checkpoint_slowdown_pct",
            "value": (median(w / p for w, p in zip(slow, fast, strict=True)) - 1) * 100,
            "unit": "%",
            "baseline_name": "largest slowdown by Beacon (NSDI'19, Table 6), %",
            "baseline": 0.86,
        }
    )
    return rows
