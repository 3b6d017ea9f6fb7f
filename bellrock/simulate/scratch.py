"""Where a node's files stand while they are played: a root of its own, in memory where there is such a place. What is played may come from elsewhere:
nothing is written or removed but in this root and in the folder of the replay."""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePosixPath

from bellrock.errors import BellrockError

MEMORY = Path("/dev/shm")
# What all roots' files may have in memory together.
MEMORY_BYTES_MAX = 4 << 30
# A file takes whole pages; its name, and each folder, are taken for one.
PAGE_BYTES = 4096
# Of a tree at its top, and of a node's work.
ENTRIES_MAX = 10_000
# Below a root, where its agent looks for rings, which it removes once read: none of this machine's, wherever a tree leads.
RINGS = "bellrock-rings"
_HINT = "play only what `bellrock simulate --trees` wrote"


class Scratch:
    """A root that looks are put into. bytes_max: what these files may take at a time."""

    def __init__(self, root: Path, bytes_max: int) -> None:
        self.root = root
        self._bytes_max = self._rest = bytes_max
        self._taken: dict[PurePosixPath, int] = {}

    def put(self, name: str, data: bytes) -> None:
        """A file as a look has it. Raises BellrockError for a name that does not lie below the root, and where there is no room."""
        path = PurePosixPath(name)
        if not path.parts or "\0" in name or path.is_absolute() or ".." in path.parts or (self.root / path.parts[0]).is_symlink():
            raise BellrockError(f"{name!r} is no file that a look could have", _HINT)
        place = self.root / path
        takes = (1 + -(-len(data) // PAGE_BYTES)) * PAGE_BYTES
        self._rest += self._taken.get(path, 0) - takes
        self._taken[path] = takes
        is_new = not place.parent.is_dir()
        if is_new:
            self._rest -= (len(path.parts) - 1) * PAGE_BYTES
        if self._rest < 0:
            raise BellrockError(f"{name}: with it a node's files take more than {self._bytes_max:,} bytes of memory", "take a smaller --at-once")
        if is_new:
            place.parent.mkdir(parents=True)
        place.write_bytes(data)


@contextmanager
def scratch(tree: Path, work: Path, bytes_max: int) -> Iterator[Scratch]:
    """A root of links to what lies at the top of a node's tree; below `work` where there is no memory. Raises BellrockError for a tree that leads elsewhere."""
    refuse_links(chain((tree,), tree.iterdir()))
    if (tree / RINGS).exists():
        raise BellrockError(f"{tree / RINGS} cannot be played", _HINT)
    place = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else work
    with tempfile.TemporaryDirectory(prefix="bellrock-replay-", dir=place) as name:
        root = Path(name)
        for entry in tree.iterdir():
            (root / entry.name).symlink_to(entry)
        yield Scratch(root, bytes_max)


def refuse_links(paths: Iterable[Path]) -> None:
    """Raises BellrockError where any of these is there and no file or folder of its own."""
    for place, path in enumerate(paths):
        if place == ENTRIES_MAX:
            raise BellrockError(f"{path.parent}: more than {ENTRIES_MAX:,} files", _HINT)
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise BellrockError(f"{path} is a link, or no file", f"remove it; {_HINT}")
