"""Standard output: results alone, as tables or JSON. A reader that goes away (`bellrock jobs | head`) is no error."""

import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

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


@contextmanager
def replacing(target: Path, mode: str, **more: Any) -> Iterator[IO[Any]]:
    """A file that appears whole once all is written, as `open` with a mode and more. Raises BellrockError where it cannot be."""
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.absolute().parent)
        with os.fdopen(handle, mode, **more) as file:
            yield file
        os.rename(temporary, target)
        temporary = None
    except OSError as error:
        raise BellrockError(f"{target}: cannot be written: {error.strerror or error}", f"look with `df {target.absolute().parent}`") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def prepare() -> None:
    """See to it that anything can be printed: what the terminal's encoding lacks becomes escapes, and a closed output takes all."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def abandon() -> None:
    """Let nothing more be written: the interpreter would find out again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
