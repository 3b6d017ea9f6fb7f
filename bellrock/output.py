"""Standard output: results alone, as tables or JSON. A reader that goes away (`bellrock jobs | head`) is no error."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bellrock.errors import BellrockError

if TYPE_CHECKING:
    from rich.console import Console

# Into a file or a pipe a table may be as wide as it likes, but no narrower, columns.
PIPE_WIDTH_MIN = 160


class ReaderGone(Exception):
    """Whoever read our output has gone. click would take a broken pipe for a failure."""


def stdout() -> "Console":
    """rich on standard output."""
    # Imported here: `bellrock run` and `--help` print nothing with it.
    from rich.console import Console

    class Stdout(Console):
        def on_broken_pipe(self) -> None:
            raise ReaderGone  # rich would end the process with 1

    columns = os.environ.get("COLUMNS", "")
    wide = max(int(columns) if columns.isdecimal() else 0, PIPE_WIDTH_MIN)
    return Stdout(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else wide)


def show(printed: Any) -> None:
    """Print one of rich's tables or texts. Raises ReaderGone."""
    with guarded():
        stdout().print(printed)


def show_json(value: Any) -> None:
    """Print `value` as indented JSON. Raises ReaderGone."""
    with guarded():
        json.dump(value, sys.stdout, indent=2)
        sys.stdout.write("\n")


@contextmanager
def guarded() -> Iterator[None]:
    """What is written to standard output inside. Raises ReaderGone, and BellrockError where it cannot be written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        abandon()
        raise BellrockError(f"standard output cannot be written: {error.strerror}", "look at where it goes: is that disk full?") from error


def prepare() -> None:
    """See to it that anything can be printed: what the terminal's encoding lacks becomes escapes, and a closed output takes all."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def abandon() -> None:
    """Let nothing more be written: the interpreter would find out again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
