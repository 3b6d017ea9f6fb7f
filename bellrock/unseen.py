"""Whether the calls of the program that is launched can be seen.

The same questions that collectors/preload/unseen.c asks of what a watched program runs; the first one has nobody to ask for it but us.
"""

import os
import shutil
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# Flags of an `unseen` run (docs/records.md).
STATIC = 128
PRIVILEGED = 512
FOREIGN = 1024

# Scripts whose interpreters are scripts, program headers, entries of the dynamic section: bounds of what is looked at.
SCRIPTS = 4
SEGMENTS = 64
DYNAMIC = 256
_PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 2, 3, 4
_ET_EXEC, _ET_DYN = 2, 3
_DT_NULL, _DT_SONAME = 0, 14


@dataclass(frozen=True)
class Unseen:
    """A program's path, and the flag that says why its calls cannot be seen."""

    executable: str
    why: int


def look(program: str, environ: Mapping[str, str], library: Path) -> Unseen | None:
    """What stands in the way of watching `program`, found along $PATH, with `library`; None: nothing, or it cannot be told."""
    path = shutil.which(program, path=environ.get("PATH"))
    try:
        why = _why(path, library) if path else 0
    except (OSError, ValueError, struct.error):
        return None  # who cannot be read, or makes no sense, can hardly be run
    return Unseen(os.path.abspath(path), why) if path and why else None


def _why(path: str | bytes, library: Path) -> int:
    for _ in range(SCRIPTS + 1):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return 0
        try:
            file = open(path, "rb")
        except PermissionError:
            return PRIVILEGED if _gains_rights(path, status) else 0
        with file:
            head = file.read(256)
            if head[:4] == b"\x7fELF":
                return _of_elf(file, head, library) or (PRIVILEGED if _gains_rights(path, status) else 0)
        words = head[2:].partition(b"\n")[0].split(maxsplit=1)
        if head[:2] != b"#!" or not words:
            return 0
        path = words[0]
    return 0


def _gains_rights(path: str | bytes, status: os.stat_result) -> bool:
    other_user = status.st_mode & stat.S_ISUID and status.st_uid != os.getuid()
    other_group = status.st_mode & stat.S_ISGID and status.st_mode & stat.S_IXGRP and status.st_gid != os.getgid()
    if not (other_user or other_group or (os.getuid() and _has_capabilities(path))):
        return False
    return not os.statvfs(path).f_flag & os.ST_NOSUID and "\nNoNewPrivs:\t1\n" not in Path("/proc/self/status").read_text()


def _has_capabilities(path: str | bytes) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False  # none, or the file system has no such thing


def _of_elf(file: BinaryIO, head: bytes, library: Path) -> int:
    with open(library, "rb") as own:
        ours = own.read(20)
    # Class, byte order and machine must be the library's.
    if (head[4:6], head[18:20]) != (ours[4:6], ours[18:20]):
        return FOREIGN
    order = "<" if head[5] == 1 else ">"
    kind, headers_at, count = struct.unpack_from(order + "H14xQ16xH", head, 16)
    headers = _bytes_at(file, headers_at, 56 * min(count, SEGMENTS))
    loader, is_library, is_go = b"", False, False
    for segment, _, offset, _, _, size, _, _ in struct.iter_unpack(order + "IIQQQQQQ", headers[: len(headers) // 56 * 56]):
        if segment == _PT_INTERP:
            loader = os.path.basename(_bytes_at(file, offset, min(size, 4096)).rstrip(b"\0"))
        elif segment == _PT_DYNAMIC:
            is_library |= _has_soname(_bytes_at(file, offset, 16 * min(size // 16, DYNAMIC)), order)
        elif segment == _PT_NOTE:
            is_go |= b"\x04\0\0\0Go\0\0" in _bytes_at(file, offset, min(size, 4096))
    if loader:
        return FOREIGN if is_go or b"musl" in loader or b"uClibc" in loader or loader.startswith(b"linker") else 0
    return STATIC if kind == _ET_EXEC or (kind == _ET_DYN and not is_library) else 0


def _has_soname(entries: bytes, order: str) -> bool:
    """Tells a library that can be run, the loader above all, from a program that needs none."""
    for tag, _ in struct.iter_unpack(order + "qQ", entries[: len(entries) // 16 * 16]):
        if tag in (_DT_NULL, _DT_SONAME):
            return tag == _DT_SONAME
    return False


def _bytes_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)
