"""The archive as files: a file of blocks for each generation, beside a file that says which one counts.

Both bear the subject's digest as their name, since a job's key may be anything. Blocks are written in `unsealed/`, in a file that is locked for as long as its writer lives. To seal is to move it and put the
new state in the old one's place, which one does at a time; so there is no instant at which half of a generation counts. All is synced before what rests on it: files before their
names, names before the state.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import orjson

from pipeline.archive import ArchiveError, Damaged, Overtaken, State, new_writing

# Of a state: a million blocks take less.
STATE_BYTES_MAX = 32 << 20
NAME_DIGITS = 40
# Of the archive's folder: files that no state tells of yet, and what is locked by who changes which files there are.
UNSEALED, LOCK = "unsealed", "lock"


class FileArchive:
    """An `Archive` in the folder `path`, which is made when it is first written to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = str(path)
        self._unsealed: dict[str, BinaryIO] = {}  # by writing: open, so that they stay locked

    def states(self, subjects: Sequence[str]) -> dict[str, State]:
        """See `Archive.states`."""
        found = {subject: self._state(subject) for subject in subjects}
        return {subject: state for subject, state in found.items() if state is not None}

    def _state(self, subject: str) -> State | None:
        path = self._state_path(subject)
        try:
            with path.open("rb") as file:
                text = file.read(STATE_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be read: {error.strerror}") from error
        try:
            state = State.of(orjson.loads(text))
        except (orjson.JSONDecodeError, Damaged) as error:
            raise Damaged(f"{path}: {error}; move it away, and the subject is packed anew from what the store has") from error
        if state.subject != subject:
            raise Damaged(f"{path}: is of {state.subject[:200]!r}, not of {subject[:200]!r}; move it away")
        return state

    def write(self, subject: str, generation: int, from_ns: int, blocks: Iterable[bytes]) -> str:
        """See `Archive.write`."""
        writing = new_writing()
        path = self._path / UNSEALED / _blocks_name(subject, generation, writing)
        with _told(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked():
                file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            with _told(path):
                for block in blocks:
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with self._locked(), file:
                path.unlink(missing_ok=True)
            raise
        self._unsealed[writing] = file
        return writing

    def seal(self, state: State, before: State | None) -> None:
        """See `Archive.seal`."""
        path, blocks = self._state_path(state.subject), self._blocks_path(state)
        written = self._path / UNSEALED / blocks.name
        with _told(path), self._locked(), self._unsealed.pop(state.writing):
            if self._state(state.subject) != before:
                written.unlink()
                raise Overtaken(state.subject)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            written.replace(blocks)
            # All names on the way there, whoever made them.
            for folder in (path.parent, self._path, self._path.parent):
                _sync(folder)
            temporary = path.with_name(f"{path.name}.new")
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(orjson.dumps(state.json()))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync(path.parent)
            for other in path.parent.glob(f"{_name(state.subject)}-*"):
                if other != blocks:
                    other.unlink(missing_ok=True)
            self._remove_left()

    def _remove_left(self) -> None:
        """What writers left that were killed: nobody has it locked."""
        for path in (self._path / UNSEALED).iterdir():
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                path.unlink(missing_ok=True)

    def heads(self, state: State) -> Iterator[bytes]:
        """See `Archive.heads`."""
        at = 0
        with self._blocks_of(state) as file:
            for size, head in state.blocks:
                file.seek(at)
                yield file.read(head)
                at += size

    def blocks(self, state: State, places: Sequence[int]) -> Iterator[bytes]:
        """See `Archive.blocks`."""
        begins = [0]
        for size, _ in state.blocks:
            begins.append(begins[-1] + size)
        with self._blocks_of(state) as file:
            for place in places:
                file.seek(begins[place])
                yield file.read(state.blocks[place][0])

    def close(self) -> None:
        """See `Archive.close`."""
        for file in self._unsealed.values():
            file.close()
        self._unsealed.clear()

    @contextmanager
    def _blocks_of(self, state: State) -> Iterator:
        path = self._blocks_path(state)
        try:
            # What is open stays, whoever removes it meanwhile.
            with path.open("rb") as file:
                yield file
        except FileNotFoundError as error:
            raise ArchiveError(f"{path}: is gone: a newer generation has taken its place, or somebody removed it; ask again") from error
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be read: {error.strerror}") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time, in this process or another."""
        with os.fdopen(os.open(self._path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _blocks_path(self, state: State) -> Path:
        name = _blocks_name(state.subject, state.generation, state.writing)
        return self._path / name[:2] / name

    def _state_path(self, subject: str) -> Path:
        name = _name(subject)
        return self._path / name[:2] / f"{name}.json"


def _name(subject: str) -> str:
    return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()[:NAME_DIGITS]


def _blocks_name(subject: str, generation: int, writing: str) -> str:
    return f"{_name(subject)}-{generation}-{writing}.blocks"


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be written: {error.strerror}") from error


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
