"""A folder of TOML files as blocks, each with the place that mistakes in it are told by."""

import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import BYTES_MAX, FILES_MAX, MISTAKES_MAX, BadTopology, Mistake

# The reader of TOML takes the square of the time for names joined by dots. They are counted where texts and comments are taken out.
# Each part can end in one way only, so nothing is gone over twice; Python's possessive quantifiers would say so, and are wrong in 3.11.2.
_TEXT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'|#[^\n]*",
    re.DOTALL,
)
NAME_PARTS_MAX = 16
_TOO_DEEP = re.compile(rf"(?<![\w\".-])(?:[\w\"-]+[ \t]*\.[ \t]*){{{NAME_PARTS_MAX}}}")


@dataclass
class Mistakes:
    """What was found so far; of more than MISTAKES_MAX they are only counted."""

    found: list[Mistake] = field(default_factory=list)
    more: int = 0

    def add(self, where: str, what: str) -> None:
        if len(self.found) < MISTAKES_MAX:
            self.found.append(Mistake(where, what))
        else:
            self.more += 1

    def raise_any(self) -> None:
        """Raises BadTopology where there is one."""
        if self.found:
            raise BadTopology(self.found, self.more)


@dataclass(frozen=True, eq=False)
class Block:
    """One [[kind]] of a file. where: "storage.toml:12: [[target]]"."""

    kind: str
    where: str
    table: dict[str, Any]


def read_folder(folder: Path, kinds: Iterable[str], mistakes: Mistakes) -> tuple[list[Block], str]:
    """The blocks of all *.toml in a folder, by name, and the SHA-256 of them all. Raises BadTopology where there is nothing to read."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml" and not path.name.startswith("."))
    except OSError as error:
        raise BadTopology([Mistake(str(folder), f"cannot be read: {error.strerror}; name the folder with the site's files")]) from error
    if not paths:
        raise BadTopology([Mistake(str(folder), "holds no file *.toml; docs/topology.md has an example")])
    if len(paths) > FILES_MAX:
        raise BadTopology([Mistake(str(folder), f"holds {len(paths)} files *.toml, and {FILES_MAX} at most are read")])
    blocks: list[Block] = []
    digest, left = hashlib.sha256(), BYTES_MAX
    for path in paths:
        name = ascii(path.name)[1:-1]
        try:
            data = _read(path, left)
            left -= len(data)
            text = data.decode()
            _check_names(text)
            blocks += _blocks(name, text, tomllib.loads(text), tuple(kinds), mistakes)
            digest.update(b"%d %b %d " % (len(path.name), os.fsencode(path.name), len(data)) + data)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            mistakes.add(f"{name}:{line}", "no UTF-8")
        except tomllib.TOMLDecodeError as error:
            mistakes.add(name, f"no TOML: {ascii(str(error))[1:-1][:200]}")
        except OSError as error:
            mistakes.add(name, f"cannot be read: {error.strerror}")
        except RecursionError:
            mistakes.add(name, "no TOML that can be read: brackets in brackets in brackets")
        except ValueError as error:
            mistakes.add(name, f"cannot be read: {ascii(str(error))[1:-1][:200]}")
    return blocks, digest.hexdigest()


def _read(path: Path, most: int) -> bytes:
    # Not made to wait by a pipe of that name.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is no file")
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"all files have more than {BYTES_MAX >> 20} MiB; ranges such as cn[0-511] are shorter")
    return data


def _check_names(text: str) -> None:
    """Raises ValueError for names that are too deep."""
    bare = _TEXT.sub(lambda found: '""' + "\n" * found[0].count("\n"), text)
    if deep := _TOO_DEEP.search(bare):
        line = bare.count("\n", 0, deep.start()) + 1
        raise ValueError(f"line {line}: a name of more than {NAME_PARTS_MAX} parts with dots between them")


def _blocks(name: str, text: str, table: dict[str, Any], kinds: tuple[str, ...], mistakes: Mistakes) -> list[Block]:
    blocks = []
    for kind, found in table.items():
        if kind not in kinds:
            mistakes.add(name, f"[[{ascii(kind)[1:-1][:60]}]] is not known; there are {', '.join(f'[[{known}]]' for known in kinds)}")
        elif not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            mistakes.add(name, f"{kind}: write each one as a [[{kind}]] of its own")
        else:
            lines = _header_lines(text, kind)
            # A header in a text of several lines would make one too many: then only the place among them is told.
            places = [f"{name}:{line}" for line in lines] if len(lines) == len(found) else [f"{name}: no. {number}" for number in range(1, len(found) + 1)]
            blocks += [Block(kind, f"{place}: [[{kind}]]", one) for place, one in zip(places, found, strict=True)]
    return blocks


def _header_lines(text: str, kind: str) -> list[int]:
    header = re.compile(rf"[ \t]*\[\[[ \t]*{kind}[ \t]*\]\]")
    return [number for number, line in enumerate(text.split("\n"), 1) if header.match(line)]
