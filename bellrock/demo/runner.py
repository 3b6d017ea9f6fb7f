"""Runs the demo's programs, one after the other, each as a job of its own, through the same code as `bellrock run`."""

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellrock import config, console, ids, paths, program, report
from bellrock.client import Client
from bellrock.demo.programs import SECONDS_AT_1, DemoProgram, programs
from bellrock.embedded import Lease, obtain
from bellrock.errors import BellrockError
from bellrock.run import SETTLE_S, run_program, wait_settled
from bellrock.watch import Watch

if TYPE_CHECKING:
    from bellrock.demo.stack import StackLease


@dataclass(frozen=True)
class Result:
    """What became of one program: its headline figures, or why there are none."""

    job: str
    headline: dict[str, Any] | None
    failed: str = ""


def run_demo(*, once: bool, seconds: float, keep: Path | None, show_json: Callable[[list[dict[str, Any]]], None] | None, stack: bool = False) -> list[Result]:
    """Run everything; without `once` stay until Ctrl-C if the server is ours. Gives a result a program that ran. stack: on a miniature site.

    Raises BellrockError when something is not built, or no server is to be had."""
    for needed in (paths.PRELOAD, paths.AGENT, "patterns"):
        paths.artefact(needed)
    with program.signals_held() as mask, _on_stack() if stack else _embedded(once) as lease:
        console.say(f"pages: {lease.client.url}")
        results, interrupted = _run_all(lease, seconds, keep, mask)
        if show_json is not None and not interrupted:
            show_json([result.headline for result in results if result.headline is not None])
        if not once and not interrupted:
            _stay(lease.client, lease.own is not None)
    return results


@contextmanager
def _embedded(once: bool) -> Iterator[Lease]:
    with console.waiting("starting the server"):
        lease = obtain("demo", None if once else config.load(None, paths.state_dir()))
    try:
        yield lease
    finally:
        if lease.own is not None:
            console.say("ending: the agent delivers its last records")
        lease.release()


def _on_stack() -> AbstractContextManager["StackLease"]:
    from bellrock.demo.stack import on_stack

    return on_stack()


def _run_all(lease: "Lease | StackLease", seconds: float, keep: Path | None, mask: set[int]) -> tuple[list[Result], bool]:
    results: list[Result] = []
    stamp = ids.short_id()
    with _workspace(keep) as folder:
        work, output = folder / "work", folder / "output"
        work.mkdir()
        output.mkdir()
        chosen = programs(work, output, seconds / SECONDS_AT_1)
        for number, item in enumerate(chosen, 1):
            place = f"[{number}/{len(chosen)}]"
            if item.skipped:
                console.say(f"{place} {item.about}: skipped, {item.skipped}")
                continue
            where = "" if isinstance(lease, Lease) else f", on {lease.next_node()}"
            console.say(f"{place} {item.about}{where}")
            result, interrupted = _run_one(lease.client, item, f"{item.label}-{stamp}", Watch((str(work),)), output, mask)
            if interrupted:
                return results, True
            results.append(result)
            if result.failed:
                console.warn(f"{place} {result.failed}")
        if keep is not None:
            console.say(f"kept in {folder}: work/ is what the programs wrote, output/ what they said")
    return results, False


def _run_one(client: Client, item: DemoProgram, job: str, watched: Watch, output: Path, mask: set[int]) -> tuple[Result, bool]:
    """A program's result, and whether Ctrl-C ended it."""
    item.prepare()
    try:
        finished = run_program(item.argv, job, watched, mask, console.warn, output=str(output / f"{item.label}.out"))
    except program.CannotStart as error:
        return Result(job, None, str(error)), False
    stopped = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} & set(finished.signals)
    if stopped:
        return Result(job, None), True
    pressed: list[bool] = []

    def pause(wait_s: float) -> bool:
        pressed.append(program.pause(wait_s))
        return pressed[-1]

    answer = wait_settled(lambda: client, finished, pause)
    if answer is None:
        return Result(job, None, f"job {job} was not complete after {SETTLE_S:.0f} s; look with `bellrock show {job}`"), any(pressed)
    for line in report.summary(answer)[1:]:
        console.stderr().print(line)
    failed = f"{item.argv[0]} ended with exit code {finished.exit_code}" if finished.exit_code else ""
    return Result(job, report.headline(answer["profile"]), failed), False


def _stay(client: Client, own: bool) -> None:
    if not own:
        console.say(f"the pages stay at {client.url}, with the server that was there before")
        return
    console.say(f"the pages stay at {client.url} until Ctrl-C")
    while not program.pause(3600):
        pass


@contextmanager
def _workspace(keep: Path | None) -> Iterator[Path]:
    """A directory for the programs: a temporary one, removed at the end, or `keep`."""
    if keep is not None:
        folder = keep.absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise BellrockError(f"{folder} is not empty", "name another directory with --keep")
        except OSError as error:
            raise BellrockError(f"{folder}: {error.strerror}", "name another directory with --keep") from error
        yield folder
        return
    folder = Path(tempfile.mkdtemp(prefix="bellrock-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
