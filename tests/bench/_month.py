"""A month of a virtual machine with known faults, for whoever scores what is found.

    python -m tests.bench._month FOLDER [--seed 1] [--days 30] [--scale 0.1] [--faults KIND:COUNT,…] [--no-noise]

writes FOLDER/truth.json, FOLDER/jobs.jsonl and FOLDER/minutes-0000.npz and so on, a day each, and prints what they hold and took as a line of JSON; `--faults ''` is a
control, with none. `Month` reads them, a day at a time.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bellrock.simulate import names
from bellrock.simulate.command import read_start, virtual_machine
from bellrock.simulate.faults import LAYERS
from bellrock.simulate.minutes import Minutes, minutes, read_minutes
from bellrock.simulate.model import METADATA_OPS, Model, Step
from bellrock.simulate.schedule import Run, model_of, slowness
from bellrock.simulate.virtual import VirtualMachine

SCALE, DAYS = 0.1, 30
# 200 of those that the components have room for. Storms all trouble the one metadata server: more of them, and it had no usual hour left; take more seeds instead.
FAULTS = "slow-ost:200,slow-forwarding:200,n-1-aggressor:200,cache-thrashing:200,metadata-storm:40,login-storm:40"
START = "2026-01-01"
TRUTH, JOBS = "truth.json", "jobs.jsonl"


@dataclass(frozen=True)
class Month:
    """What `make` wrote to a folder."""

    folder: Path

    @cached_property
    def truth(self) -> dict[str, Any]:
        """The machine as `VirtualMachine.told` tells of it, and of each fault its `layer` and `name`, that of the component."""
        return json.loads((self.folder / TRUTH).read_text("utf-8"))

    def jobs(self) -> Iterator[dict[str, Any]]:
        """Each job, by its start: `number`, `program`, `nodes`, `first_node`, `is_aggressor`, `slowness`, `is_outlier`; times in s since the machine began to
        work: `submitted_s`, `start_s`, `end_s`, and lists with an element for each step of I/O: `begin_s`, `end_step_s`, `alone_s` (how long it takes this run with nobody in the way),
        `read_bytes`, `write_bytes`, `ops` (reads and writes) and `metadata_ops`; `lost_s`: what it lost to others, by their number (`Run.lost_s`)."""
        with open(self.folder / JOBS, encoding="utf-8") as file:
            yield from map(json.loads, file)

    def parts(self) -> Iterator[Minutes]:
        """Its days, one after the other."""
        yield from map(read_minutes, sorted(self.folder.glob("minutes-*.npz")))


def make(folder: Path, seed: int, days: float = DAYS, scale: float = SCALE, faults: str = FAULTS, *, noise: bool = True) -> dict[str, Any]:
    """Writes a month, its truth last; returns what it holds and took: `*_s` of processor time, `peak_mb` of memory, `disk_mb`. Where there is one it is left as it is, and
    nothing returned."""
    if (folder / TRUTH).exists():
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    began_s = time.process_time()
    machine = virtual_machine("taihulight", scale, days * 24, 1.0, [word for word in faults.split(",") if word], seed, read_start(START), noise=noise)
    machine = VirtualMachine(replace(machine.plan, tells_lost=True))
    with open(folder / JOBS, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(_job(machine, run)) + "\n" for run in machine.runs)
    jobs_s = time.process_time() - began_s
    count = 0
    for number, part in enumerate(minutes(machine)):
        part.save(folder / f"minutes-{number:04d}.npz")
        count += len(part.seen.metadata)
    minutes_s = time.process_time() - began_s - jobs_s
    (folder / TRUTH).write_text(json.dumps(_truth(machine), indent=1) + "\n", encoding="utf-8")
    disk_mb = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    return {
        "jobs": machine.count, "faults": len(machine.plan.faults), "minutes": count, "jobs_s": jobs_s, "minutes_s": minutes_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, "disk_mb": disk_mb,
    }  # fmt: skip


def _job(machine: VirtualMachine, run: Run) -> dict[str, Any]:
    factor, is_outlier = slowness(machine.plan, run)
    steps = [_step(model, step) for model in (model_of(machine.plan, run),) for step in model.steps[: len(run.end)]]
    return {
        "number": run.number, "program": run.application.name, "nodes": run.nodes, "first_node": run.first_node, "is_aggressor": run.at_forwarder is not None,
        "slowness": factor, "is_outlier": is_outlier, "submitted_s": run.submitted_s, "start_s": run.start_s, "end_s": run.start_s + run.wall_s, "begin_s": run.begin,
        "end_step_s": run.end, **{name: [step[name] for step in steps] for name in ("alone_s", "read_bytes", "write_bytes", "ops", "metadata_ops")}, "lost_s": run.lost_s,
    }  # fmt: skip


def _step(model: Model, step: Step) -> dict[str, float]:
    """How long a step takes alone, and what it does."""
    told = {"alone_s": (step.end_ns - step.begin_ns) / 1e9, "read_bytes": 0, "write_bytes": 0, "ops": 0, "metadata_ops": 0}
    for burst in model.bursts[step.first : step.last]:
        count = int(burst.count.sum()) * burst.runs
        if burst.op in ("read", "write"):
            told[f"{burst.op}_bytes"] += count * burst.size
            told["ops"] += count
        elif burst.op in METADATA_OPS:
            told["metadata_ops"] += count
    return told


def _truth(machine: VirtualMachine) -> dict[str, Any]:
    name_of = {"forwarding": names.forwarder, "storage": names.target, "metadata": lambda _: names.metadata_target(0)}
    told = machine.told()
    for fault in told["faults"]:
        layer = LAYERS[fault["kind"]]
        fault |= {"layer": layer, "name": name_of[layer](fault["component"])}
    return told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench._month", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=float, default=DAYS)
    parser.add_argument("--scale", type=float, default=SCALE)
    parser.add_argument("--faults", default=FAULTS)
    parser.add_argument("--no-noise", dest="noise", action="store_false")
    given = vars(parser.parse_args())
    print(json.dumps(make(given.pop("folder"), given.pop("seed"), **given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
