"""Whether the calls of the program that is launched can be seen.

The same questions that collectors/preload/unseen.c asks of what a watched program runs; the first one has nobody to ask for it but us.
"""

import os
import re
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

# Bounds of what is looked at: scripts whose interpreters are scripts, bytes of a `#!` line, program headers, entries of the dynamic section, notes.
SCRIPTS = 4
LINE_BYTES = 256
SEGMENTS = 64
DYNAMIC = 256
NOTES = 4
_INTERPRETER = re.compile(rb"#![ \t]*([^ \t\n\0]+)[ \t\n\0]")
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
        if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
            return 0
        try:
            file = open(path, "rb")
        except PermissionError:
            return PRIVILEGED if _gains_rights(path, status) else 0
        with file:
            head = file.read(LINE_BYTES)
            if head[:4] == b"\x7fELF":
                return _of_elf(file, head, library) or (PRIVILEGED if _gains_rights(path, status) else 0)
        interpreter = _INTERPRETER.match(head)
        if interpreter is None:
            return 0
        path = interpreter[1]
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
    if len(head) < 64:
        return 0
    with open(library, "rb") as own:
        ours = own.read(20)
    # Class, byte order and machine must be the library's.
    if (head[4:6], head[18:20]) != (ours[4:6], ours[18:20]):
        return FOREIGN
    order = "<" if head[5] == 1 else ">"
    kind, headers_at, count = struct.unpack_from(order + "H14xQ16xH", head, 16)
    is_dynamic = is_library = is_go = False
    for number in range(min(count, SEGMENTS)):
        header = _bytes_at(file, headers_at + 56 * number, 56)
        if not header:
            return 0
        segment, offset, size = struct.unpack(order + "I4xQ16xQ16x", header)
        if segment == _PT_INTERP:
            is_dynamic = True
            if _is_foreign_loader(file, offset, size):
                return FOREIGN
        elif segment == _PT_DYNAMIC:
            is_library |= _has_soname(file, offset, size, order)
        elif segment == _PT_NOTE:
            is_go |= _has_go_note(file, offset, size, order)
    if is_dynamic:
        return FOREIGN if is_go else 0
    return STATIC if kind == _ET_EXEC or (kind == _ET_DYN and not is_library) else 0


def _is_foreign_loader(file: BinaryIO, offset: int, size: int) -> bool:
    """Whether the loader's name, at the end of its path, is one that knows no library of ours."""
    tail = min(size, 63)
    name = _bytes_at(file, offset + size - tail, tail).partition(b"\0")[0].rpartition(b"/")[2]
    return b"musl" in name or b"uClibc" in name or name.startswith(b"linker")


def _has_soname(file: BinaryIO, offset: int, size: int, order: str) -> bool:
    """Tells a library that can be run, the loader above all, from a program that needs none."""
    for number in range(min(size // 16, DYNAMIC)):
        entry = _bytes_at(file, offset + 16 * number, 16)
        if not entry or struct.unpack(order + "q8x", entry)[0] == _DT_NULL:
            return False
        if struct.unpack(order + "q8x", entry)[0] == _DT_SONAME:
            return True
    return False


def _has_go_note(file: BinaryIO, offset: int, size: int, order: str) -> bool:
    """Go's own runtime calls the kernel past every C library."""
    at = 0
    for _ in range(NOTES):
        note = _bytes_at(file, offset + at, 16) if at + 16 <= size else b""
        if not note:
            return False
        name_size, size_of_rest, name = struct.unpack(order + "II4x4s", note)
        if name_size == 4 and name == b"Go\0\0":
            return True
        at += 12 + (name_size + 3 & ~3) + (size_of_rest + 3 & ~3)
    return False


def _bytes_at(file: BinaryIO, offset: int, size: int) -> bytes:
    """So many bytes of the file, or none where it has not as many there."""
    try:
        found = os.pread(file.fileno(), size, offset)
    except (OSError, OverflowError):
        return b""  # beyond what a file can have
    return found if len(found) == size else b""
