"""Finds and ends what a machine left that was killed, and nothing else: by marks in its processes' environment, never by a name."""

from __future__ import annotations

import shutil
from pathlib import Path

from bellrock.errors import BellrockError
from bellrock.stack.process import end_below
from tests.field.disk import release_left
from tests.wait import until


# By which a folder is known as a machine's, to be removed.
MARKER = "field.json"


def claim(folder: Path) -> None:
    """Makes the folder of a machine. Raises BellrockError where something else is in it."""
    if folder.exists() and any(folder.iterdir()):
        raise BellrockError(f"{folder} holds something else than a machine", "set BELLROCK_FIELD to a folder that does not exist yet")
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    folder.chmod(0o711)
    (folder / MARKER).write_text('{"version": 1}\n')


def sweep(folder: Path) -> list[str]:
    """Ends whatever runs of the machine in a folder, gives the titles, and removes the folder. With the nodes' first processes end all others there, and
    mounts, links and loop devices; limits of disks are lifted. Raises BellrockError."""
    if not (folder / MARKER).exists():
        release_left()
        return []
    ended = end_below(folder)
    release_left()
    until(lambda: not in_use(folder), f"devices on images below {folder} are free")
    shutil.rmtree(folder)
    return ended


def in_use(folder: Path) -> list[str]:
    """The loop devices that lie on files below a folder."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if Path(backing.read_text().strip()).is_relative_to(folder):
                found.append(backing.parent.parent.name)
        except OSError:
            continue  # detached meanwhile
    return found
