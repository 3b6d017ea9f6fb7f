"""The files of a node that change with time: a tar archive of what changed, look after look.

A day of a tenth of TaihuLight has 1.9 million small files: Python's tarfile took four times as long to write one (31 us instead of 8), and to read one.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from bellrock.errors import BellrockError, UsageError

BLOCK = 512
NAME_BYTES_MAX = 100
# No file of a look is larger.
FILE_BYTES_MAX = 256 << 20


class Looks:
    """Appends files to an archive, plain ustar, each whole, with the second of the look that saw it as its time; owner 0. Nothing is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed by `close`

    def add(self, second: int, name: str, text: str) -> None:
        """A file at a look. Raises UsageError for a name that does not fit."""
        if len(name.encode()) > NAME_BYTES_MAX:
            raise UsageError(f"{name}: more than {NAME_BYTES_MAX} bytes", "take a shorter file_system in the machine's description")
        data = text.encode()
        self._file.write(_header(name, len(data), second))
        self._file.write(data)
        self._file.write(bytes(-len(data) % BLOCK))

    def close(self) -> None:
        """Ends the archive."""
        self._file.write(bytes(2 * BLOCK))
        self._file.close()

    def __enter__(self) -> "Looks":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()


def read_looks(file: BinaryIO) -> Iterator[tuple[int, str, bytes]]:
    """Second, name and content of each file of an archive, one after the other. Raises BellrockError for one that breaks off, or is none of `Looks`'."""
    wrong = BellrockError(f"{file.name}: it breaks off, or is no archive of looks", "write the trees anew")
    while True:
        head = file.read(BLOCK)
        if head == bytes(BLOCK):
            return
        try:
            name, size, second = head[:NAME_BYTES_MAX].rstrip(b"\0").decode(), int(head[124:135], 8), int(head[136:147], 8)
        except ValueError:
            raise wrong from None
        if len(head) < BLOCK or not name or not 0 <= size <= FILE_BYTES_MAX or head != _header(name, size, second):
            raise wrong
        data = file.read(size)
        if len(data) < size or len(file.read(-size % BLOCK)) < -size % BLOCK:
            raise wrong
        yield second, name, data


def _header(name: str, size: int, second: int) -> bytes:
    head = name.encode().ljust(NAME_BYTES_MAX, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0%011o\0" % (size, second)
    tail = b"0".ljust(NAME_BYTES_MAX + 1, b"\0") + b"ustar\x0000"
    # The sum is taken with blanks in its own place.
    number = sum(head) + 8 * ord(" ") + sum(tail)
    return (head + b"%06o\0 " % number + tail).ljust(BLOCK, b"\0")
