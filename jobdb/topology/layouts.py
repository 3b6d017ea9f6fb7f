"""What `lfs getstripe` writes of files: on which OSTs they lie. After Lustre's manual (2.15: plain and composite layouts); no server of it was to be had."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from . import FOREVER_NS

TEXT_BYTES_MAX = 64 << 20
PATH_BYTES_MAX = 4096
# Of one file: Lustre's own bounds are 2,000 stripes a component, and far fewer components.
PARTS_MAX = 256
STRIPES_MAX = 10_000
# Of one text.
LAYOUTS_MAX = 100_000
_FIELD = re.compile(r"[ \t]*((?:lcm|lcme|lmm)_[a-z_.]+):[ \t]*(.*)", re.ASCII)
_OBJECT = re.compile(r"[ \t]*-[ \t]*(?:[0-9]{1,5}:[ \t]*\{[ \t]*)?l_ost_idx:[ \t]*([0-9]{1,9})\b.*", re.ASCII)
_ROW = re.compile(r"[ \t]+([0-9]{1,9})[ \t]+[0-9]+[ \t]+0x[0-9a-f]+[ \t]+(?:0x)?[0-9a-f]+[ \t]*\*?[ \t]*", re.ASCII)
_FNV_BASIS, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


class BadLayout(ValueError):
    """The text is not what `lfs getstripe` writes; which line, and why."""


@dataclass(frozen=True)
class Part:
    """A part of a file from first_byte up to end_byte (FOREVER_NS: to its end), whose pieces of stripe_bytes lie on `targets` in turn: numbers of OSTs, or names of targets."""

    first_byte: int = 0
    end_byte: int = FOREVER_NS
    stripe_bytes: int = 0
    targets: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """On what a file lies. path: absolute, or None where only the id is known; file_id: that of records, 0 where it follows from the path."""

    path: str | None
    parts: tuple[Part, ...]
    file_id: int = 0

    @property
    def id(self) -> str:
        """file_id as 16 hex digits. Raises ValueError for a layout without path and id."""
        if not self.file_id and self.path is None:
            raise ValueError("a layout needs a path or a file id")
        return f"{self.file_id or file_id(self.path or ''):016x}"


def file_id(path: str) -> int:
    """The id of a path as in records: FNV-1a, 64 bits, never 0."""
    found = _FNV_BASIS
    for byte in path.encode("utf-8", "surrogateescape"):
        found = (found ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return found or 1


def getstripe(text: str, paths: Sequence[str] | None = None) -> list[Layout]:
    """The layouts in what `lfs getstripe FILE …` or `lfs getstripe -r DIRECTORY` wrote; directories and files without objects are left out.

    paths: the files that were asked for, in their order. Without them a line that begins with "/" names a file, and a file whose name holds line breaks can pass
    for others. Raises BadLayout."""
    if len(text) > TEXT_BYTES_MAX:
        raise BadLayout(f"more than {TEXT_BYTES_MAX >> 20} Mi characters; give fewer files at once")
    found: list[Layout] = []
    for number, path, lines in _named(text, paths) if paths is not None else _by_slash(text):
        if len(path.encode("utf-8", "surrogateescape")) > PATH_BYTES_MAX:
            raise BadLayout(f"line {number}: a path of more than {PATH_BYTES_MAX} bytes")
        parts = _Reader(number).parts(lines)
        if any(part.targets for part in parts):
            found.append(Layout(path, parts))
        if len(found) > LAYOUTS_MAX:
            raise BadLayout(f"more than {LAYOUTS_MAX} files; give fewer at once")
    return found


def _by_slash(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Line, path and further lines of each file."""
    number, path, lines = 0, "", []
    for place, line in enumerate(text.split("\n"), 1):
        if line.startswith("/"):
            if path:
                yield number, path, lines
            number, path, lines = place, line, []
        elif path:
            lines.append(line)
        elif line.strip():
            raise BadLayout(f"line {place}: expected a path that begins with /, got {ascii(line)[:80]}; run `lfs getstripe` with absolute paths")
    if path:
        yield number, path, lines


def _named(text: str, paths: Sequence[str]) -> Iterator[tuple[int, str, list[str]]]:
    """As `_by_slash`, of files whose names are known."""
    begins, at = [], 0
    for path in paths:
        begin = 0 if not begins and text.startswith(f"{path}\n") else text.find(f"\n{path}\n", at) + 1
        if begin == 0 and (begins or not text.startswith(f"{path}\n")):
            raise BadLayout(f"{ascii(path)[:80]} is not in it; run `lfs getstripe` again")
        begins.append(begin)
        at = begin + len(path)
    line = 1
    for place, (path, begin) in enumerate(zip(paths, begins, strict=True)):
        end = begins[place + 1] if place + 1 < len(begins) else len(text)
        line += text.count("\n", begins[place - 1] if place else 0, begin)
        yield line + path.count("\n"), path, text[begin + len(path) + 1 : end].split("\n")


@dataclass
class _Reader:
    """The parts of one file. line: where its path stands."""

    line: int
    done: list[Part] = field(default_factory=list)

    def parts(self, lines: list[str]) -> tuple[Part, ...]:
        part, is_begun, stripes = Part(), False, 0
        for number, line in enumerate(lines, self.line + 1):
            if match := _FIELD.fullmatch(line):
                name, value = match[1], match[2].strip()
                # Each component of a composite layout begins with its id, a plain layout with the count of its stripes.
                if name == "lcme_id":
                    if is_begun:
                        self.done.append(part)
                    part, is_begun = Part(), True
                elif name == "lcme_extent.e_start":
                    part = replace(part, first_byte=self.number(value, number))
                elif name == "lcme_extent.e_end":
                    part = replace(part, end_byte=FOREVER_NS if value == "EOF" else self.number(value, number))
                elif name == "lmm_stripe_size":
                    part, is_begun = replace(part, stripe_bytes=self.number(value, number)), True
            elif match := _OBJECT.fullmatch(line) or _ROW.fullmatch(line):
                part, is_begun, stripes = replace(part, targets=(*part.targets, int(match[1]))), True, stripes + 1
            if stripes > STRIPES_MAX or len(self.done) >= PARTS_MAX:
                raise BadLayout(f"line {number}: a file of more than {STRIPES_MAX} stripes or {PARTS_MAX} components")
        return (*self.done, part) if is_begun else tuple(self.done)

    def number(self, value: str, number: int) -> int:
        if not value.isascii() or not value.isdecimal() or len(value) > 19 or int(value) > FOREVER_NS:
            raise BadLayout(f"line {number}: expected a number of bytes, got {ascii(value)[:80]}")
        return int(value)
