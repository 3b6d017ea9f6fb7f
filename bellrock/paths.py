"""Where things lie: what was built, the state, the rings.

Every place can be moved by a variable of the environment: BELLROCK_BUILD, BELLROCK_STATE, BELLROCK_RINGS.
"""

import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from bellrock.errors import BellrockError, Unavailable, UsageError

PRELOAD = "libbellrock.so"
AGENT = "bellrock-agent"


def build_dir() -> Path:
    """The folder of what `make build` leaves: $BELLROCK_BUILD, else build/ beside this package."""
    named = os.environ.get("BELLROCK_BUILD")
    return Path(named) if named else Path(__file__).resolve().parent.parent / "build"


def artefact(name: str) -> Path:
    """Absolute path of a built file. Raises Unavailable when it is not there."""
    path = build_dir().absolute() / name
    if not path.is_file():
        raise Unavailable(f"{path} is missing", "run `make build` in the source tree, or set BELLROCK_BUILD to where it was built")
    return path


def state_dir() -> Path:
    """The state's place, not made yet: $BELLROCK_STATE, else $XDG_DATA_HOME/bellrock, else ~/.local/share/bellrock.

    Raises UsageError for a user without a home directory."""
    named = os.environ.get("BELLROCK_STATE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_DATA_HOME")
    # The base directory specification: a relative path there is to be ignored.
    if base and os.path.isabs(base):
        return Path(base) / "bellrock"
    try:
        return Path.home() / ".local" / "share" / "bellrock"
    except RuntimeError:
        raise UsageError(f"user {os.getuid()} has no home directory to keep records in", "set HOME or BELLROCK_STATE") from None


def rings_dir() -> Path:
    """The rings' place, not made yet: $BELLROCK_RINGS, else /dev/shm/bellrock-UID, or with $BELLROCK_STATE one of that state's own:
    two servers' agents would take each other's records."""
    named = os.environ.get("BELLROCK_RINGS")
    if named:
        return Path(named).absolute()
    own = f"-{hashlib.sha256(os.fsencode(state_dir())).hexdigest()[:8]}" if os.environ.get("BELLROCK_STATE") else ""
    return Path(f"/dev/shm/bellrock-{os.getuid()}{own}")


def private_dir(path: Path) -> Path:
    """Make `path` a directory of this user's alone (0700), or check that it is one. Raises BellrockError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise BellrockError(
            f"{path}: cannot be made: {error.strerror}", "set BELLROCK_STATE or BELLROCK_RINGS to a place you may write"
        ) from error
    # On /dev/shm anyone may have made that name first: what is not ours is not trusted, and a symlink is not followed.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise BellrockError(
            f"{path} is not a directory of yours (owner {found.st_uid})",
            f"look with `ls -ld {path}`; have it removed, or set BELLROCK_STATE or BELLROCK_RINGS to another place",
        )
    if found.st_mode & 0o077:
        path.chmod(0o700)
    return path


def user_rings() -> Path:
    """<rings>/<uid>, made 0700 where it is missing. Raises BellrockError where others could take it away from us.

    The default <rings> is ours alone. One that $BELLROCK_RINGS names may be shared (a site's agent): then it is root's and
    sticky, or ours and nobody else may write there."""
    rings = rings_dir()
    if os.environ.get("BELLROCK_RINGS") and os.path.lexists(rings):
        _check_shared(rings)
    else:
        private_dir(rings)
    return private_dir(rings / str(os.getuid()))


def _check_shared(rings: Path) -> None:
    try:
        found = rings.lstat()
    except OSError as error:
        raise BellrockError(f"BELLROCK_RINGS: {rings}: {error.strerror}", "set it to a directory of yours, or unset it") from error
    # Whoever may write in a directory that is not sticky may also rename what is in it, whosever that is.
    sticky, others_write = found.st_mode & stat.S_ISVTX, found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ours = found.st_uid == os.getuid() and (sticky or not others_write)
    if not stat.S_ISDIR(found.st_mode) or not (ours or (found.st_uid == 0 and sticky)):
        raise BellrockError(
            f"BELLROCK_RINGS: {rings} is neither a directory of yours alone nor root's and sticky "
            f"(owner {found.st_uid}, mode {stat.filemode(found.st_mode)})",
            "set it to a directory of yours, or unset it",
        )


def write_atomically(path: Path, text: str, mode: int = 0o600, owner: int | None = None) -> None:
    """Write a file so that a reader sees all of it or the one before, and a crash leaves no half of it. Root may give it to another `owner`."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            os.fchmod(file.fileno(), mode)
            if owner is not None:
                os.fchown(file.fileno(), owner, owner)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a small state file; None where there is none, or none that can be read as one."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
