"""What parts of this layer have in common: programs of the distribution, servers of root, waiting."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

from bellrock.stack import Missing
from bellrock.stack.process import Server

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
WAIT_S = 180.0
ASK_S = 30.0


def program(name: str) -> str:
    """Where a program is. Raises Missing."""
    found = shutil.which(name, path=PATH)
    if found is None:
        raise Missing(f"`{name}` is missing", "run `scripts/system.sh build field`")
    return found


def run(*words: str, environ: Mapping[str, str] | None = None) -> str:
    """What a command says. Raises Missing, and CalledProcessError with what it said."""
    command = [program(words[0]), *words[1:]]
    done = subprocess.run(command, env={**os.environ, "PATH": PATH, **(environ or {})}, cwd="/", capture_output=True, text=True, timeout=ASK_S)
    if done.returncode:
        error = subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
        error.add_note(done.stderr)
        raise error
    return done.stdout


class OfRoot(Server):
    """A server that stays root, in a folder that users may look into."""

    unprivileged = False
    ready_s = 60.0

    def settings(self) -> str:
        return " ".join(self.command())

    def prepare(self) -> None:
        self.folder.chmod(0o755)


class Part(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


P = TypeVar("P", bound=Part)


@contextlib.contextmanager
def running(part: P) -> Iterator[P]:
    """A part that is ended, whatever becomes of its start."""
    try:
        part.start()
        yield part
    finally:
        part.stop()
