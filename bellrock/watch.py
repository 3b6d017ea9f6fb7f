"""What a program under watch is told by its environment, and what of its files is watched."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bellrock.errors import UsageError


# The library's bounds (collectors/preload/process.c): it leaves out what is beyond.
PREFIXES_MAX = 128
PREFIX_BYTES_MAX = 8191
# Below what is no directory there can be nothing.
NOWHERE = "/dev/null/nothing"


@dataclass(frozen=True)
class Watch:
    """Prefixes of paths. `watch` empty: everything but what the library ignores by itself."""

    watch: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def make_watch(
    watch: Sequence[str], ignore: Sequence[str], file_systems: Sequence[str], mounts: str | None = None
) -> tuple[Watch, list[str]]:
    """A Watch of prefixes (made absolute) and the mount points of `file_systems`; with it, warnings for a person.

    `mounts` is the text of /proc/self/mounts. Raises UsageError for a prefix with a colon, which the list cannot hold."""
    warnings = []
    prefixes = [form for prefix in watch for form in _forms(prefix)]
    if file_systems:
        # The names of file systems and mount points are bytes; Python's own functions take them so.
        mounted = mount_points(Path("/proc/self/mounts").read_text(errors="surrogateescape") if mounts is None else mounts)
        for kind in file_systems:
            if kind not in mounted:
                warnings.append(f"no file system of type {kind} is mounted here (there are: {', '.join(sorted(mounted))})")
            prefixes += mounted.get(kind, [])
        if not prefixes:
            # No prefix at all would mean everything.
            prefixes.append(NOWHERE)
            warnings.append("nothing is watched, since --watch-fs found nothing to watch")
    ignored = [form for prefix in ignore for form in _forms(prefix)]
    for prefix in [*prefixes, *ignored]:
        if ":" in prefix:
            raise UsageError(f"{prefix!r} holds a colon, which separates prefixes", "name a directory above it")
    made = Watch(tuple(dict.fromkeys(prefixes)), tuple(dict.fromkeys(ignored)))
    every = made.watch + made.ignore
    if len(every) > PREFIXES_MAX or sum(len(os.fsencode(prefix)) for prefix in every) > PREFIX_BYTES_MAX:
        warnings.append(
            f"the last of the {len(every)} prefixes are left out: there is room for {PREFIXES_MAX}, and {PREFIX_BYTES_MAX} bytes"
        )
    return made, warnings


def _forms(prefix: str) -> list[str]:
    """The path as a program may write it, and as it is without symlinks."""
    return [os.path.abspath(prefix), os.path.realpath(prefix)]


def mount_points(mounts: str) -> dict[str, list[str]]:
    """File system type → its mount points, from the text of /proc/self/mounts. Lines that are cut are left out."""
    found: dict[str, list[str]] = {}
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) >= 3:
            # The kernel writes blanks and backslashes in octal.
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[1])
            found.setdefault(words[2], []).append(point)
    return found


def environment(base: Mapping[str, str], library: Path, rings: Path, job: str, watch: Watch) -> dict[str, str]:
    """`base` with what libbellrock.so needs. A preload that is there already stays, after ours.

    Raises UsageError where the library's path cannot stand in LD_PRELOAD."""
    if re.search(r"[\s:]", str(library)):
        raise UsageError(
            f"{library} cannot be preloaded: its path holds a blank or a colon", "set BELLROCK_BUILD to a copy at another path"
        )
    environ = dict(base)
    already = environ.get("LD_PRELOAD", "")
    if str(library) not in re.split(r"[\s:]+", already):
        environ["LD_PRELOAD"] = f"{library}:{already}" if already else str(library)
    # A program with the address sanitizer would refuse to start, because we come before its runtime.
    options = base.get("ASAN_OPTIONS", "")
    if "verify_asan_link_order" not in options:
        environ["ASAN_OPTIONS"] = f"{options}:verify_asan_link_order=0".lstrip(":")
    environ["BELLROCK_JOB"] = job
    environ["BELLROCK_RINGS"] = str(rings)
    for name, prefixes in (("BELLROCK_WATCH", watch.watch), ("BELLROCK_IGNORE", watch.ignore)):
        if prefixes:
            environ[name] = ":".join(prefixes)
    return environ
