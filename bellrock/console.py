"""Standard error as Bellrock uses it: warnings, progress, errors. Standard output is for results alone."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from bellrock import text

# Shorter waits are not worth a word.
QUIET_S = 1.0
# How far it is, where there is no terminal, is said so often.
SAY_EVERY_S = 10.0


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


def fail(what: str, hint: str = "", detail: Sequence[str] = ()) -> None:
    """Why the command ends; `detail` are lines of another program."""
    lines = [*([hint] if hint else []), *(f"  {line}" for line in detail)]
    stderr().print(Text.assemble(("bellrock: ", "bold red"), text.plain(what), *(f"\n  {text.plain(line)}" for line in lines)))


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            warn(self.format(record).splitlines()[0])
        except Exception:
            self.handleError(record)


def log_warnings() -> None:
    """Let what the server's parts warn of in this process reach the person, a line each, without tracebacks."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Handler()], format="%(message)s")


def log_for_service() -> None:
    """The log of a process that stays: lines with time and part on standard error, for the journal. What goes wrong between us and others is told by our own
    parts, once; libraries would tell of each try, with its traceback."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # The level of `elastic_transport` itself is set by its import.
    for part in ("transport", "node_pool"):
        logging.getLogger(f"elastic_transport.{part}").setLevel(logging.ERROR)


class Wait:
    """Something that is waited for, and how far it is."""

    def __init__(self, what: str) -> None:
        self._lock = threading.Lock()  # owner of the rest
        self._text = what
        self._status: Status | None = None
        self._said = False
        self._say_at = 0.0

    def show(self) -> None:
        """Shows it from now on: moving on a terminal, else a line now and then."""
        with self._lock:
            console = stderr()
            if console.is_terminal:
                self._status = console.status(Text(self._text))
                self._status.start()
            else:
                self._said = True
                self._say()

    def tell(self, what: str) -> None:
        """How far it is by now."""
        with self._lock:
            self._text = what
            if self._status is not None:
                self._status.update(Text(what))
            elif self._said and time.monotonic() >= self._say_at:
                self._say()

    def end(self) -> None:
        """Shows it no longer."""
        with self._lock:
            if self._status is not None:
                self._status.stop()

    def _say(self) -> None:
        say(self._text)
        self._say_at = time.monotonic() + SAY_EVERY_S


@contextmanager
def waiting(what: str) -> Iterator[Wait]:
    """Show `what` on standard error when what is done inside takes longer than a second."""
    wait = Wait(what)
    timer = threading.Timer(QUIET_S, wait.show)
    timer.daemon = True
    timer.start()
    try:
        yield wait
    finally:
        timer.cancel()
        timer.join()
        wait.end()


@contextmanager
def silent() -> Iterator[Wait]:
    """As `waiting`, for what shows by itself how far it is."""
    yield Wait("")
