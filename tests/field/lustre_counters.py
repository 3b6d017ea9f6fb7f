"""What a brick of GlusterFS, its disk and its clients count, each look as what moved since the one before."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Of one file; a brick's has 60 KiB.
FILE_BYTES_MAX = 512 << 10
WAYS = ("read", "write")
SECTOR_BYTES = 512
# How a mount tells of an operation that it asked a brick for since somebody last looked, and of bytes on the wire.
_ASKED = re.compile(r"\.latency\.(\w+) = AVG:\S+ CNT:(\d+) ")
_WIRE = {way: re.compile(rf"^total_bytes_{word} = (\d+)$", re.MULTILINE) for way, word in (("read", "read"), ("write", "written"))}
# How a brick tells of requests of at least so many bytes.
_SIZE = re.compile(r"(read|write)_(\d+)(b|kb|mb)")
_UNIT = {"b": 1, "kb": 1 << 10, "mb": 1 << 20}


@dataclass(frozen=True)
class Moved:
    """What a brick did from one of its dumps to the next. bytes: by way; count, time_ns: by operation, as GlusterFS calls it; sizes: how many requests by way
    and their least size; queue: calls that waited for a thread at the end; seconds: how long it took."""

    bytes: Mapping[str, int]
    count: Mapping[str, int]
    time_ns: Mapping[str, float]
    sizes: Mapping[tuple[str, int], int]
    queue: int
    seconds: float


class Brick:
    """By the file that it writes of itself each second. Half-written ones are passed over."""

    def __init__(self, dump: Path) -> None:
        self._dump = dump
        self._written_ns = 0
        self._last: dict[str, float] | None = None

    def look(self) -> Moved | None:
        """None where it has not written since, or is looked at for the first time. Raises OSError."""
        try:
            written_ns = self._dump.stat().st_mtime_ns
        except FileNotFoundError:
            return None  # a brick begins to write after a second
        if written_ns == self._written_ns:
            return None
        try:
            now = parse_dump(_bounded(self._dump))
        except ValueError:
            return None
        last, seconds = self._last, (written_ns - self._written_ns) / 1e9
        self._last, self._written_ns = now, written_ns
        return moved(last, now, seconds) if last is not None else None


def parse_dump(text: str) -> dict[str, float]:
    """The values since the brick's start, which come first. Raises ValueError for a text that breaks off, or is none."""
    values, _ = json.JSONDecoder().raw_decode(text)
    if not isinstance(values, dict):
        raise ValueError("expected an object")
    return {name.rpartition(".aggr.")[2]: float(value) for name, value in values.items() if ".aggr." in name}


def moved(last: Mapping[str, float], now: Mapping[str, float], seconds: float) -> Moved:
    """A brick that counts less than before began anew."""
    began_anew = any(now.get(name, 0) < last.get(name, 0) for name in ("bytes_read", "bytes_written", "uptime"))

    before = {} if began_anew else last

    def since(name: str) -> int:
        return int(now.get(name, 0) - before.get(name, 0))

    def time_ns(values: Mapping[str, float], name: str) -> float:
        # A mean since the start, in nanoseconds (GlusterFS 10).
        return values.get(f"fop.{name}.count", 0) * values.get(f"fop.{name}.latency_ave_usec", 0)

    operations = [name.split(".")[1] for name in now if name.startswith("fop.") and name.endswith(".count")]
    return Moved(
        {"read": since("bytes_read"), "write": since("bytes_written")},
        {name: since(f"fop.{name}.count") for name in operations},
        {name: max(time_ns(now, name) - time_ns(before, name), 0.0) for name in operations},
        {(found[1], int(found[2]) * _UNIT[found[3]]): since(name) for name in now if (found := _SIZE.fullmatch(name))},
        int(sum(value for name, value in now.items() if name.endswith(".queue_size"))),
        seconds,
    )


@dataclass(frozen=True)
class Asked:
    """What a client asked a brick for. count: by operation, those that were answered; wire: bytes by way, heads included, of ways that had any request."""

    count: Mapping[str, int]
    wire: Mapping[str, int]


class Client:
    """A node's connection to a brick, by the files that its mount has of it below `.meta`. They count from one look to the next: nobody else may read them. The folder
    is kept open, for a path to it would ask the bricks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: int | None = None
        self._wire: dict[str, int] | None = None
        self._before = dict.fromkeys(WAYS, 0)

    def look(self) -> Asked | None:
        """None where the node has not mounted it, or is looked at for the first time."""
        try:
            if self._open is None:
                self._open = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            # Requests first: the bytes of all that were answered have been counted then.
            count = {name.lower(): int(number) for name, number in _ASKED.findall(self._read("profile"))}
            text = self._read("private")
        except OSError as error:
            if self._open is not None:
                print(f"{self._folder}: {error.strerror}; it is looked for again", file=sys.stderr, flush=True)
            self.close()
            return None
        wire = {way: int(found[1]) for way, pattern in _WIRE.items() if (found := pattern.search(text))}
        last, self._wire = self._wire, wire
        return self._asked(count, last, wire) if last is not None else None

    def close(self) -> None:
        if self._open is not None:
            with contextlib.suppress(OSError):  # what was unmounted is gone
                os.close(self._open)
        self._open = self._wire = None

    def _asked(self, count: dict[str, int], last: Mapping[str, int], now: Mapping[str, int]) -> Asked:
        told = {}
        for way, total in now.items():
            # A connection that was made anew counts from 0.
            before = last.get(way, 0)
            since = total - before if total >= before else total
            # What was sent last may be of requests that are answered now; what had none is talk.
            if count.get(way):
                told[way] = self._before[way] + since
            self._before[way] = 0 if count.get(way) else since
        return Asked(count, told)

    def _read(self, name: str) -> str:
        file = os.open(name, os.O_RDONLY, dir_fd=self._open)
        with open(file) as opened:
            return opened.read(FILE_BYTES_MAX)


@dataclass(frozen=True)
class Ios:
    """What a disk did for one way: how many I/Os, of how many bytes and milliseconds together."""

    count: int
    bytes: int
    ms: int


class Device:
    """A disk, by the kernel's file of it."""

    def __init__(self, name: str) -> None:
        self._file = Path("/sys/block") / name / "stat"
        self._last: list[int] | None = None

    def look(self) -> tuple[dict[str, Ios], float] | None:
        """By way, and how many I/Os were under way at once while there were any. None at the first look. Raises OSError."""
        now = [int(word) for word in _bounded(self._file).split()]
        last, self._last = self._last, now
        if last is None:
            return None
        since = [one - before for one, before in zip(now, last, strict=True)]
        ios = {way: Ios(since[at], since[at + 2] * SECTOR_BYTES, since[at + 3]) for way, at in (("read", 0), ("write", 4))}
        return ios, (since[3] + since[7]) / max(since[9], 1)


def _bounded(path: Path) -> str:
    with path.open() as file:
        return file.read(FILE_BYTES_MAX)
