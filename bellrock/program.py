"""Starting a program and being its stand-in: signals go through to it, and its exit code is ours."""

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

NOT_EXECUTABLE = 126
NOT_FOUND = 127
# What is passed on to the program. Stops and window changes are the terminal's, which tells the whole group.
FORWARDED = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
# Those that ask a command to end; the rest of them mean something to the program alone.
ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
WAITED = FORWARDED | {signal.SIGCHLD}
# si_code of a signal that the kernel sent, such as the terminal's on Ctrl-C: the program in our group got its own.
SI_KERNEL = 128
# How long a signal that asks to end is kept: who sends it to the whole group (timeout, a batch system) has sent it to the
# program too, and the kernel does not tell. A program that ends by it meanwhile does not get it twice.
GROUP_S = 0.1
# How often a child is looked after without a SIGCHLD, which a thread from before `signals_held` may have taken.
LOOK_EVERY_S = 1.0


class CannotStart(Exception):
    """The program could not be executed. `exit_code` is the shells' (127 not found, 126 otherwise)."""

    def __init__(self, program: str, error: OSError) -> None:
        super().__init__(f"{program}: {os.strerror(error.errno) if error.errno else error}")
        self.exit_code = NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE


@dataclass(frozen=True)
class Ended:
    """How a program ended: `exit_code` as a shell has it (128 + n for signal n), and the signals that came meanwhile."""

    exit_code: int
    signals: tuple[int, ...] = ()


@contextmanager
def signals_held() -> Iterator[set[int]]:
    """Hold the signals of `WAITED` back, here and in every thread begun inside; gives the mask before.

    Must be entered by the main thread before others begin, so that none of them takes the signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)
    # Where our parent ignores SIGCHLD, children would vanish before their exit code is read.
    chld = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield before
    finally:
        signal.signal(signal.SIGCHLD, chld)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def spawn(argv: Sequence[str], environ: Mapping[str, str], mask: set[int], output: str | None = None) -> int:
    """Start `argv` (found along $PATH) and return its pid. `mask` is its signal mask; `output`, if given, the file that
    takes its standard output. Everything else is inherited. Raises CannotStart."""
    actions = [(os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)] if output else []
    # Python ignores these two; the program begins with what every program begins with.
    keep = {"file_actions": actions, "setsigmask": mask, "setsigdef": [signal.SIGPIPE, signal.SIGXFSZ]}
    try:
        try:
            return os.posix_spawnp(argv[0], list(argv), dict(environ), **keep)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # A script without #! is the shell's, as it is for shells.
            return os.posix_spawn("/bin/sh", ["/bin/sh", *argv], dict(environ), **keep)
    except OSError as error:
        raise CannotStart(argv[0], error) from error
    except ValueError as error:
        raise CannotStart(argv[0], OSError(errno.EINVAL if argv[0] else errno.ENOENT, str(error))) from error


def wait(pid: int) -> Ended:
    """Wait for the child `pid`, passing signals on to it. Inside `signals_held` only."""
    seen: list[int] = []
    # What is to be passed on, and when.
    due: dict[int, float] = {}
    while True:
        now = time.monotonic()
        info = signal.sigtimedwait(WAITED, max(min([LOOK_EVERY_S, *(at - now for at in due.values())]), 0))
        now = time.monotonic()
        if info is not None and info.si_signo != signal.SIGCHLD:
            seen.append(info.si_signo)
            if info.si_code != SI_KERNEL:
                due.setdefault(info.si_signo, now + (GROUP_S if info.si_signo in ENDING else 0))
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return Ended(code if code >= 0 else 128 - code, tuple(seen))
        for number in [number for number, at in due.items() if at <= now]:
            del due[number]
            os.kill(pid, number)


def interrupt_once() -> None:
    """From here on, also for signals that `signals_held` still holds back, the first of those that ask a command to end
    raises KeyboardInterrupt, and the rest do nothing: neither may they change the exit code, nor break off the end.

    What the parent has us ignore (nohup) stays ignored. USR1 and USR2 were for the program."""
    asked = []

    def interrupt(_number: int, _frame: object) -> None:
        if not asked:
            asked.append(True)
            raise KeyboardInterrupt

    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt if number in ENDING else signal.SIG_IGN)


def leave(exit_code: int) -> NoReturn:
    """End the process at once with `exit_code`, whatever its threads do: at an ordinary end they could hold it up or crash."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass  # closed, or nobody reads it
    finally:
        os._exit(exit_code)


def pause(seconds: float) -> bool:
    """Wait inside `signals_held`; True at once when one asks to end (SIGINT, SIGTERM, SIGHUP)."""
    return signal.sigtimedwait({signal.SIGINT, signal.SIGTERM, signal.SIGHUP}, seconds) is not None
