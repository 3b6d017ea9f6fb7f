"""A day and an hour of a whole machine as files of windows, made before they are sent.

    python -m tests.bench._days FOLDER SHARE     writes FOLDER/day-0000 and so on, and FOLDER/peak-0000; prints what each of both holds as a line of JSON

Half an hour to an hour passes before either begins: a machine that has just begun to work does little.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from bellrock.simulate.command import virtual_machine
from bellrock.simulate.expand import expand
from bellrock.simulate.records import Numbering
from bellrock.simulate.to_lwfs import LwfsSink
from bellrock.simulate.virtual import VirtualMachine
from tests.bench._machine import Stream, pack

S = 10**9
HOUR_S = 3600
DAY_S = 24 * HOUR_S
SEED = 1
# So intense that the machine's LWFS clients write 105 GB of trace logs a day; and an hour of ten times that, for which it has to be eleven times, as jobs are in each
# other's way.
INTENSITY, PEAK_INTENSITY = 1.3, 14.5
DAY_WARM_S, PEAK_WARM_S = HOUR_S, HOUR_S // 2
# Made at once: half a million records of either.
DAY_EACH_S, PEAK_EACH_S = 600, 60
TELL_S = 30.0


@dataclass
class Packed:
    """What was packed: of so many seconds of the machine. raw_bytes: what its LWFS clients would have logged, estimated."""

    name: str
    seconds: int
    files: int = 0
    records: int = 0
    windows: int = 0
    operations: int = 0
    json_bytes: int = 0
    packed_bytes: int = 0
    raw_bytes: float = 0.0


def make(folder: Path, share: float) -> list[Packed]:
    """The day and the peak hour, or their first parts, one after the other in the numbers of each node's records. All of it is over by now."""
    day, peak = (max(60, round(seconds * share)) for seconds in (DAY_S, HOUR_S))
    start_ns = (time.time_ns() // (HOUR_S * S) * HOUR_S - DAY_WARM_S - DAY_S - HOUR_S) * S
    usual = _machine(start_ns, DAY_WARM_S + day, INTENSITY)
    # Its time follows on that of the day, for the jobs of before are left out.
    intense = _machine(start_ns + (DAY_WARM_S + DAY_S - PEAK_WARM_S) * S, PEAK_WARM_S + peak, PEAK_INTENSITY)
    numbering = Numbering(SEED, usual.nodes, start_ns)
    bytes_of = line_bytes(usual, folder)
    return [
        _pack(folder, "day", Stream(usual, numbering, DAY_WARM_S, DAY_WARM_S + day), DAY_EACH_S, Packed("day", day), bytes_of),
        _pack(folder, "peak", Stream(intense, numbering, PEAK_WARM_S, PEAK_WARM_S + peak), PEAK_EACH_S, Packed("peak", peak), bytes_of),
    ]


def _machine(start_ns: int, seconds: int, intensity: float) -> VirtualMachine:
    return virtual_machine("taihulight", 1.0, seconds / HOUR_S, intensity, (), SEED, start_ns)


def _pack(folder: Path, name: str, stream: Stream, each_s: int, packed: Packed, bytes_of: dict[str, float]) -> Packed:
    told_s = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        for records in stream.portions(each_s):
            target = folder / f"{name}-{packed.files:04}"
            windows, json_bytes = pack(records, target, threads)
            packed.files += 1
            packed.records += records.num_rows
            packed.windows += windows
            packed.json_bytes += json_bytes
            packed.packed_bytes += target.stat().st_size
            if time.monotonic() - told_s > TELL_S:
                told_s = time.monotonic()
                print(f"  {name}: {packed.records:,} records are packed", file=sys.stderr, flush=True)
    packed.operations = sum(stream.operations.values())
    packed.raw_bytes = sum(count * bytes_of[name] for name, count in stream.operations.items())
    return packed


def line_bytes(machine: VirtualMachine, place: Path) -> dict[str, float]:
    """By application: bytes of trace log that an LWFS client writes for an operation, from the lines of one job, the smallest of the first of its kind."""
    sizes: dict[str, float] = {}
    wanted = {application.name: min(application.nodes) for application in machine.plan.machine.application}
    for job in machine.jobs():
        name = job.model.kind
        if name in sizes or job.model.nodes > wanted[name]:
            continue
        runs = expand(job)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            sink = LwfsSink(Path(folder) / "logs", SEED)
            sink.add(job, runs)
            size = sum(path.stat().st_size for path in sink.folder.iterdir())
        sizes[name] = size / int(runs.count[runs.op != 0].sum())
        if len(sizes) == len(wanted):
            return sizes
    raise RuntimeError(f"no small job of {', '.join(sorted(set(wanted) - set(sizes)))} has run: take a larger share")


def main(arguments: Sequence[str]) -> int:
    for packed in make(Path(arguments[0]), float(arguments[1])):
        print(json.dumps(asdict(packed)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
