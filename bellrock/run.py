"""`bellrock run`: a program as a job under watch. Whatever fails on our side is a warning; the program runs."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bellrock import events, paths, program, watch
from bellrock.client import Client
from bellrock.errors import ApiError, BellrockError, Unavailable

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
    launch = events.new_launch(job, argv)
    folder: Path | None = None
    environ = dict(os.environ)
    try:
        library = paths.artefact(paths.PRELOAD)
        folder = paths.user_rings()
        environ = watch.environment(environ, library, paths.rings_dir(), job, watched)
        events.write_event(folder, launch, "start")
    except (BellrockError, OSError) as error:
        warn(f"{argv[0]} runs unwatched: {error}")
        folder = None
    try:
        pid = program.spawn(argv, environ, mask, output)
    except program.CannotStart as error:
        _write_end(folder, launch, error.exit_code, warn)
        raise
    started()
    ended = program.wait(pid)
    return Finished(job, ended.exit_code, ended.signals, _write_end(folder, launch, ended.exit_code, warn))


def _write_end(folder: Path | None, launch: events.Launch, exit_code: int, warn: Warn) -> int:
    if folder is None:
        return 0
    end_ns = time.time_ns()
    try:
        events.write_event(folder, launch, "end", exit_code, end_ns)
    except OSError as error:
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
            if error.status != 404:
                raise
        except Unavailable:
            if time.monotonic() > until:
                raise
        if time.monotonic() > until or pause(SETTLE_STEP_S):
            return None


def interrupt_on_term() -> None:
    """From here on SIGTERM ends the command as Ctrl-C does: in order."""

    def raise_interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, raise_interrupt)
    signal.signal(signal.SIGHUP, raise_interrupt)
