"""The records of a block."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np

from tests.unit.compression.reference.callings import Callings
from tests.unit.compression.reference.foretold import DRAWN, FIELDS, Differences, NameTrend, Template, Trend, read_template
from tests.unit.compression.reference.head import OPERATIONS, Block, read_block
from tests.unit.compression.reference.times import Clock, Remembered, Rhythm
from tests.unit.compression.reference.wire import Bytes, wrap

FNV_BASIS, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
READ, WRITE = 1, 2
NULL = -(1 << 63)


@dataclass
class Shape:
    op: int
    file: int
    same_handle: bool
    has_latency: bool
    says: bool


def read_shape(number: int) -> Shape:
    assert number < 1 << 12
    return Shape(number & 31, number >> 5 & 15, bool(number >> 9 & 1), bool(number >> 10 & 1), bool(number >> 11 & 1))


@dataclass
class Track:
    shape: Shape
    # The process that had a record here last.
    process: object = None
    trends: dict[str, Trend] = field(default_factory=dict)
    names: dict[str, NameTrend] = field(default_factory=dict)
    latency: list[Trend] = field(default_factory=lambda: [Trend() for _ in range(8)])
    rhythm: Rhythm = field(default_factory=Rhythm)

    def trend(self, name: str) -> Trend:
        return self.trends.setdefault(name, Trend())

    def name(self, name: str) -> NameTrend:
        return self.names.setdefault(name, NameTrend())

    def copied(self) -> Track:
        return Track(copy.copy(self.shape), self.process, copy.deepcopy(self.trends), copy.deepcopy(self.names), copy.deepcopy(self.latency), copy.deepcopy(self.rhythm))


@dataclass
class Known:
    """What reading a primer leaves."""

    checksum: int | None = None
    templates: list[Template] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    home: int = 0
    of_op: dict[int, int] = field(default_factory=dict)
    callings: Callings = field(default_factory=Callings)
    # How many processes further each turn was, and its records.
    turns: list[tuple[int, int]] = field(default_factory=list)
    # Of the first record of the node that came last.
    first_seq: int = 0
    remembered: Remembered = field(default_factory=Remembered)

    def skip(self, processes: int) -> None:
        self.callings.skip(processes)
        for track in self.tracks:
            for name, trend in track.trends.items():
                if name != "kind":
                    trend.skip(processes)
            for name in track.names.values():
                name.skip(processes)


class Files:
    """The files of a process."""

    def __init__(self) -> None:
        # The first one stands for none.
        self.all = [File()]
        self.recent: list[int] = []

    def use(self, slot: int) -> File:
        self.recent = [slot, *self.recent][:8]
        return self.all[slot]


@dataclass
class File:
    path: bytes | None = None
    id: int | None = None
    handle: int = 0
    line: int = 0
    last: int = 0


class Way:
    def __init__(self, tokens: Bytes, known: Known) -> None:
        self.tokens, self.known = tokens, known
        self.at, self.along = known.home, 0

    def track(self, process: object) -> int:
        """Where the next record stands."""
        tracks = self.known.tracks
        while not self.along:
            token = self.tokens.number()
            what, rest = token & 3, token >> 2
            if what == 0:
                self.along = rest + 1
            elif what == 1:
                shape = read_shape(rest)
                like = self.known.of_op.get(shape.op)
                track = Track(shape) if like is None else tracks[like].copied()
                track.shape, track.process = shape, process
                tracks.append(track)
                return len(tracks) - 1
            else:
                assert what == 2
                self.at += rest >> 1 ^ -(rest & 1)
        self.along -= 1
        at, self.at = self.at, self.at + 1
        assert 0 <= at < len(tracks)
        if tracks[at].process is process:
            tracks.append(tracks[at].copied())
            return len(tracks) - 1
        tracks[at].process = process
        return at


def read_turns(stream: Bytes, rows: int, known: list[tuple[int, int]]) -> list[int]:
    """The process of each record."""
    processes: list[int] = []
    process = 0
    while len(processes) < rows:
        number = stream.number()
        back = stream.number() if number & 1 else None
        assert number > 1 and back != 0
        for _ in range(number >> 1):
            by, more = known[-back] if back is not None else (stream.signed(), stream.number() + 1)
            process += by
            assert 0 <= process <= max(processes, default=-1) + 1
            known.append((by, more))
            processes += [process] * more
    assert len(processes) == rows and stream.is_empty
    return processes


def read_sequences(stream: Bytes, nodes: list[object], known: Known) -> list[int]:
    """nodes: of each record."""
    last: dict[object, int] = {}
    seqs: list[int] = []
    gap = None if stream.is_empty else stream.number()
    for node in nodes:
        seq = wrap(last[node] + 1) if node in last else known.first_seq
        if gap == 0:
            seq = wrap(seq + stream.signed())
            gap = None if stream.is_empty else stream.number()
        elif gap is not None:
            gap -= 1
        if node not in last:
            known.first_seq = seq
        last[node] = seq
        seqs.append(seq)
    assert gap is None
    return seqs


def file_id(path: bytes) -> int:
    number = FNV_BASIS
    for byte in path:
        number = (number ^ byte) * FNV_PRIME & ((1 << 64) - 1)
    return number or 1


class Reader:
    """Reads the records of a block behind what is known."""

    def __init__(self, block: Block, known: Known) -> None:
        self.block, self.known = block, known
        parts = Bytes(block.structure)
        told = parts.squeezed()
        names = ("turns", "sequences", "templates", "tokens", "gaps", "masks", *FIELDS)
        there = told.number()
        assert there < 1 << len(names)
        sizes = {name: told.number() if there >> at & 1 else 0 for at, name in enumerate(names)}
        self.streams = {name: Bytes(told.take(sizes[name])) for name in names if name not in DRAWN}
        self.streams |= {name: Bytes(parts.take(sizes[name])) for name in DRAWN}
        assert told.is_empty and parts.is_empty
        self.differences = Differences(self.streams["gaps"], self.streams["masks"], {name: self.streams[name] for name in FIELDS})
        self.clock = Clock(block.times)

    def records(self) -> list[dict]:
        known, streams = self.known, self.streams
        while not streams["templates"].is_empty:
            known.templates.append(read_template(Bytes(streams["templates"].bytes())))
        of_row = read_turns(streams["turns"], self.block.rows, known.turns)
        processes = [known.callings.read(self.differences, known.templates) for _ in range(max(of_row, default=-1) + 1)]
        assert len(processes) == self.block.processes
        seqs = read_sequences(streams["sequences"], [(processes[process]["node"], processes[process]["boot"]) for process in of_row], known)
        way = Way(streams["tokens"], known)
        of_process = []
        for number, process in enumerate(processes):
            of_process.append(iter(self.of_process(way, process, of_row.count(number))))
        assert all(stream.is_empty for stream in streams.values())
        return [{**next(of_process[process]), "seq": seq} for process, seq in zip(of_row, seqs, strict=True)]

    def name(self, trend: NameTrend, name: str) -> str | None:
        text = trend.read(self.differences, self.known.templates, name)
        return None if text is None else text.decode()

    def of_process(self, way: Way, process: dict, count: int) -> list[dict]:
        known = self.known
        way.at = known.home
        files = Files()
        known.remembered.start = known.remembered.end = known.remembered.first_start
        says: dict = {}
        records = []
        for place in range(count):
            at = way.track(process)
            track = known.tracks[at]
            if place == 0:
                known.home = at
                assert track.shape.says
            self.differences.row()
            if track.shape.says:
                says = self.says(track)
            record = self.record(track, files)
            if place == 0:
                known.remembered.first_start = record.pop("first_start")
            record.pop("first_start", None)
            known.of_op[track.shape.op] = at
            records.append({**process, **says, **record})
        return records

    def says(self, track: Track) -> dict:
        told: dict = {name: self.name(track.name(name), name) for name in ("job", "program")}
        for name in ("uid", "parent", "rank"):
            value = self.differences.trend(name, track.trend(name))
            told[name] = None if value == NULL else value
        return told

    def file(self, track: Track, files: Files) -> File:
        place = track.shape.file
        if place == 15:
            return files.all[0]
        if place == 14:
            path = track.name("file").read(self.differences, self.known.templates, "file")
            kind = self.differences.trend("kind", track.trend("kind"))
            assert kind in (0, 1, 2)
            number = file_id(path) if kind == 0 else None if kind == 1 else self.differences.drawn("file_id", None)
            files.all.append(File(path, number))
            return files.use(len(files.all) - 1)
        if place == 13:
            return files.use(self.differences.trend("slot", track.trend("slot")))
        return files.use(files.recent.pop(place))

    def record(self, track: Track, files: Files) -> dict:
        differences, shape, block = self.differences, track.shape, self.block
        file = self.file(track, files)
        code = differences.trend("code", track.trend("code"))
        if not shape.same_handle:
            file.handle = differences.trend("handle", track.trend("handle"))
        size, count = (differences.trend(name, track.trend(name)) for name in ("size", "count"))
        stride = differences.value("stride", 0) if count == 1 else differences.trend("stride", track.trend("stride"))
        offset = self.offset(track, file, size, count, stride)
        whole = wrap(size * count)
        trend = track.trend("bytes")
        moved = wrap(whole + differences.trend("bytes", trend))
        start, took, busy, slow = track.rhythm.read(self.clock, self.known.remembered, shape.op, count, moved)
        if busy is None:
            busy = differences.value("busy", took)
            slow = differences.value("slow", busy)
        start_ns = wrap(block.origin + start * block.unit)
        return {
            "op": OPERATIONS[shape.op],
            "file": None if file.path is None else file.path.decode(), "file_id": None if file.id is None else file.id & ((1 << 64) - 1),
            "handle": file.handle, "offset": offset, "stride": stride, "size": size, "count": count, "bytes": moved,
            "start": start_ns, "end": wrap(start_ns + took * block.unit), "busy_ns": wrap(busy * block.unit), "slow_ns": wrap(slow * block.unit),
            "errno": code & 0xFFFF, "flags": code >> 16, "latency": differences.numbers("latency", track.latency, [0] * 8) if shape.has_latency else None,
            "first_start": start,
        }  # fmt: skip

    def offset(self, track: Track, file: File, size: int, count: int, stride: int) -> int:
        trend = track.trend("offset")
        by = trend.foretold()
        foretold = (wrap(file.line + by), wrap(file.last + by))
        offset = self.differences.value("offset", *foretold)
        trend.learn(by if offset in foretold else wrap(offset - file.last))
        if track.shape.op in (READ, WRITE):
            file.last = wrap(offset + (size if count == 1 else stride * count))
            if offset in foretold:
                file.line = file.last
        return offset


def read_primer(data: bytes) -> Known:
    """What the other blocks go on from."""
    block = read_block(data)
    assert block.is_primer and not block.is_primed
    known = Known(block.checksum)
    with np.errstate(all="ignore"):
        Reader(block, known).records()
    return known


def read_records(data: bytes, primer: Known | None = None) -> list[dict]:
    """A block's records."""
    block = read_block(data)
    known = Known()
    if block.is_primed:
        assert primer is not None and primer.checksum == block.primer, "it goes on from another primer"
        known = copy.deepcopy(primer)
        known.skip(block.skipped)
    with np.errstate(all="ignore"):
        return Reader(block, known).records()
