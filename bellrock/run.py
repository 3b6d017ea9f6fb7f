"""`bellrock run`: a program as a job under watch. Whatever fails on our side is a warning; the program runs."""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from bellrock import console, events, paths, program, unseen, watch
from bellrock.client import Client
from bellrock.embedded import Keeper
from bellrock.errors import ApiError, BellrockError, ServerFault, Unavailable

# How long the records of an ended job are waited for.
SETTLE_S = 30.0
SETTLE_STEP_S = 0.1

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Finished:
    """A program that ran: how it ended, and when its end was written (0: it could not be)."""

    job: str
    exit_code: int
    signals: tuple[int, ...]
    end_ns: int


def run_and_tell(argv: Sequence[str], job: str, watched: watch.Watch, *, quiet: bool, as_json: bool) -> NoReturn:
    """All of `bellrock run`: runs the program, waits for its records unless `quiet`, tells what it did, and ends the
    process with the program's exit code. Once the program has ended nothing can change that code any more.

    Raises CannotStart."""
    keeper = Keeper("run")
    finished = None
    try:
        with program.signals_held() as mask:
            # The server comes up beside the program, never before it.
            finished = run_program(argv, job, watched, mask, console.warn, started=keeper.start)
            # Inside, so that a signal that came too late for the program finds all this in place.
            program.interrupt_once()
        _tell(keeper, finished, quiet, as_json)
    except KeyboardInterrupt:
        if finished is None:
            raise
        console.say(f"not waited for; later: bellrock show {job}")
    except Exception as error:
        if finished is None:
            raise
        if os.environ.get("BELLROCK_DEBUG"):
            traceback.print_exc()
        what = str(error) if isinstance(error, BellrockError) else f"{type(error).__name__}: {error}"
        console.warn(f"what job {job} did is not shown: {what}")
    finally:
        if finished is not None:
            _end(keeper, finished.exit_code)


def _tell(keeper: Keeper, finished: "Finished", quiet: bool, as_json: bool) -> None:
    from bellrock import report

    if quiet or not finished.end_ns:
        return
    with console.waiting(f"waiting for the last records of job {finished.job}"):
        answer = wait_settled(keeper.client, finished, time.sleep)
    if answer is None:
        console.warn(f"job {finished.job} was not complete after {SETTLE_S:.0f} s; later: bellrock show {finished.job}")
        return
    if as_json:
        print(json.dumps(report.headline(answer["profile"])), file=sys.stderr)
    else:
        for line in report.summary(answer):
            console.stderr().print(line if line.startswith(" ") else f"bellrock: {line}")
        console.stderr().print(
            f"  more: bellrock show {finished.job}" if keeper.is_own else f"  {keeper.client().page(answer['job']['job_id'])}"
        )
    # Everything is stored, so an end in order takes no time.
    keeper.stop()


def _end(keeper: Keeper, exit_code: int) -> NoReturn:
    try:
        keeper.leave()
    finally:
        program.leave(exit_code)


def run_program(
    argv: Sequence[str],
    job: str,
    watched: watch.Watch,
    mask: set[int],
    warn: Warn,
    *,
    started: Callable[[], object] = lambda: None,
    output: str | None = None,
) -> Finished:
    """Run `argv` under watch as (a launch of) `job` and wait for it, inside `program.signals_held`.

    `mask` is the program's signal mask, `started` is called once it runs, `output` takes its standard output if given.
    Raises CannotStart when the program cannot be executed; everything else goes to `warn`."""
    told: tuple[Path, events.Launch] | None = None
    environ = dict(os.environ)
    try:
        library = paths.artefact(paths.PRELOAD)
        folder = paths.user_rings()
        under_watch = watch.environment(environ, library, paths.rings_dir(), job, watched)
        launch = events.new_launch(job, argv, unseen.look(argv[0], environ, library))
        events.write_event(folder, launch, "start")
        # Only now: a program that nobody was told of must not be watched either.
        told, environ = (folder, launch), under_watch
    except Exception as error:
        warn(f"{argv[0]} runs unwatched: {error}")
    try:
        pid = program.spawn(argv, environ, mask, output)
    except program.CannotStart as error:
        _write_end(told, error.exit_code, warn)
        raise
    try:
        started()
    except Exception as error:
        warn(f"no server comes up beside {argv[0]}: {error}")
    ended = program.wait(pid)
    return Finished(job, ended.exit_code, ended.signals, _write_end(told, ended.exit_code, warn))


def _write_end(told: tuple[Path, events.Launch] | None, exit_code: int, warn: Warn) -> int:
    if told is None:
        return 0
    folder, launch = told
    end_ns = time.time_ns()
    try:
        events.write_event(folder, launch, "end", exit_code, end_ns)
    except Exception as error:
        warn(f"the end of job {launch.job} could not be written, it will seem to run on: {error}")
        return 0
    return end_ns


def wait_settled(
    client: Callable[[], Client], finished: Finished, pause: Callable[[float], object], limit_s: float = SETTLE_S
) -> dict[str, Any] | None:
    """Wait until all records of the job are stored and return the API's answer for it; None when `limit_s` was too short.

    `client` gives a client of a server that answers, each time anew, since a server may be restarted meanwhile;
    `pause` waits, and ends the wait by a true value. Raises BellrockError when no server is to be had."""
    until = time.monotonic() + limit_s
    while True:
        try:
            answer = client().job(finished.job)
            job = answer["job"]
            # A job of several launches may have been settled before; then its end lies before this launch's.
            if job["settled"] and (job["end_ns"] or 0) >= finished.end_ns:
                return answer
        except ApiError as error:
            if error.status not in (404, 503):  # not yet known; busy with another job's figures
                raise
        except ServerFault:
            raise
        except Unavailable:
            if time.monotonic() > until:
                raise
        if time.monotonic() > until or pause(SETTLE_STEP_S):
            return None
