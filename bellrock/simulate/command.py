"""What `bellrock simulate` does: opens the writers that were asked for, and tells how far it is."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellrock import console
from bellrock.errors import BellrockError, UsageError
from bellrock.simulate.model import START_S_MAX
from bellrock.simulate.volume import TRUTH, Done, Plan, simulate

if TYPE_CHECKING:
    from bellrock.simulate.virtual import VirtualMachine

# How often progress is told.
TELL_S = 2.0
# A job is made whole in memory, at 400 bytes a record, and some are many times as large as the mean.
MEAN_RECORDS_MAX = 1_000_000


def virtual_machine(name: str, scale: float, hours: float, intensity: float, faults: Sequence[str], seed: int, start_ns: int, *, noise: bool = False) -> "VirtualMachine":
    """The machine of that name or file, at a part of its size, with what goes wrong there, and noise or none. Raises UsageError."""
    from bellrock.simulate.description import read_machine
    from bellrock.simulate.faults import draw
    from bellrock.simulate.noise import draw_noise
    from bellrock.simulate.schedule import Plan
    from bellrock.simulate.virtual import VirtualMachine

    machine = read_machine(name).scaled(scale)
    more = draw_noise(machine, seed, hours) if noise else None
    return VirtualMachine(Plan(machine, seed, hours, intensity, draw(faults, machine, seed, hours), start_ns, more))


def run_simulate(
    source: "Plan | VirtualMachine",
    *,
    state: Path | None,
    add: bool,
    out: Path | None,
    lwfs_logs: Path | None,
    trees: Path | None,
    garbage: float,
    look_every_s: int,
    job_names: bool,
) -> dict[str, Any]:
    """Simulate into what is given; returns what was done, fit for JSON. Raises UsageError where nothing is given."""
    if state is None and out is None and lwfs_logs is None and trees is None:
        raise UsageError("simulate has nowhere to write", "give --state DIR, --out DIR, --lwfs-logs DIR or --trees DIR")
    if isinstance(source, Plan) and source.records > source.jobs * MEAN_RECORDS_MAX:
        raise UsageError(
            f"{source.records:,} records in {source.jobs} jobs are more than {MEAN_RECORDS_MAX:,} a job",
            f"take --jobs {-(-source.records // MEAN_RECORDS_MAX)} or more",
        )
    last_s = time.monotonic()

    def say(line: str) -> None:
        nonlocal last_s
        if asked_to_end():
            raise KeyboardInterrupt
        if time.monotonic() - last_s >= TELL_S:
            last_s = time.monotonic()
            console.say(line)

    def tell(done: Done) -> None:
        say(f"{done.jobs} of {source.count} jobs, {done.records:,} records")

    def tell_trees(done: int, count: int) -> None:
        say(f"trees of {done} of {count} servers")

    with ExitStack() as stack:
        asked_to_end = stack.enter_context(_interrupt_noted())
        records: list[Any] = []
        runs: list[Any] = []
        try:
            if out is not None:
                from bellrock.simulate.to_parquet import ParquetSink

                records.append(ParquetSink(out))
            if lwfs_logs is not None:
                from bellrock.simulate.to_lwfs import LwfsSink

                runs.append(LwfsSink(lwfs_logs, source.seed, garbage))
            if trees is not None:
                from bellrock.simulate.to_trees import TreeSink

                runs.append(TreeSink(trees, source, look_every_s, tell_trees, with_jobs=job_names))
            # Last, since it makes files; and written to first, since it may refuse what comes.
            if state is not None:
                from bellrock.simulate.to_state import StateSink

                records.insert(0, StateSink(state, add))
                stack.callback(records[0].close)
            done = simulate(source, records, runs, tell)
        except KeyboardInterrupt:
            more = ("; the logs also hold lines of later ones" if runs else "") + ("; servers' trees are not all there" if trees is not None else "")
            console.say(f"broken off; the jobs that {TRUTH} names are there, whole{more}")
            raise
        except OSError as error:
            raise BellrockError(f"{error.filename or 'a file'}: cannot be written: {error.strerror}", "see to room and rights there") from error
    console.say(f"{done.jobs} jobs, {done.records:,} records in {done.seconds:.1f} s ({done.records / max(done.seconds, 1e-9):,.0f} a second)")
    console.say(f"what their profiles must show: {', '.join(str(sink.folder / TRUTH) for sink in (*records, *runs))}")
    if state is not None:
        console.say(f"to look at them: BELLROCK_STATE={state} bellrock jobs")
    return {**source.told(), **asdict(done), "truth": [str(sink.folder / TRUTH) for sink in (*records, *runs)]}


@contextmanager
def _interrupt_noted() -> Iterator[Callable[[], bool]]:
    """Meanwhile the first SIGINT is noted, for whoever calls what this gives: raised between any two instructions, one in thirteen
    KeyboardInterrupts came up inside a library's import or callback and was dropped there. A second one raises as ever."""
    before = signal.getsignal(signal.SIGINT)
    asked: list[int] = []

    def note(number: int, _frame: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def read_start(text: str) -> int:
    """ns since the epoch of a date or time in ISO form, UTC where it names no zone. Raises UsageError."""
    try:
        moment = datetime.fromisoformat(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"--start {text!r} is no time", "write it like 2026-01-01 or 2026-01-01T08:30:00+01:00") from None
    if not 0 <= seconds <= START_S_MAX:
        raise UsageError(f"--start {text!r} lies before 1970 or far ahead", "take a time of this century")
    return int(seconds) * 10**9
