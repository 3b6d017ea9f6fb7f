"""Standard error as Bellrock uses it: warnings, progress, errors. Standard output is for results alone."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from bellrock import text

# Shorter waits are not worth a word.
QUIET_S = 1.0


class _Stderr(Console):
    def on_broken_pipe(self) -> None:
        """Goes on: rich would end the process, and send standard output, which is the program's, to nowhere."""


def stderr() -> Console:
    """rich on standard error; it leaves colours and movement out where there is no terminal, or NO_COLOR is set."""
    return _Stderr(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def say(line: str) -> None:
    """A line of Bellrock's own."""
    stderr().print(Text(f"bellrock: {text.plain(line)}"))


def warn(line: str) -> None:
    """Something went wrong and the command goes on."""
    stderr().print(Text.assemble(("bellrock: ", "yellow"), text.plain(line)))


def fail(what: str, hint: str = "") -> None:
    """Why the command ends."""
    stderr().print(Text.assemble(("bellrock: ", "bold red"), text.plain(what), f"\n  {text.plain(hint)}" if hint else ""))


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            warn(self.format(record).splitlines()[0])
        except Exception:
            self.handleError(record)


def log_warnings() -> None:
    """Let what the server's parts warn of in this process reach the person, a line each, without tracebacks."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Handler()], format="%(message)s")


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show `what` on standard error when what is done inside takes longer than a second."""
    shown: list[Status] = []

    def show() -> None:
        console = stderr()
        if console.is_terminal:
            shown.append(console.status(Text(what)))
            shown[0].start()
        else:
            say(what)

    timer = threading.Timer(QUIET_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for status in shown:
            status.stop()
