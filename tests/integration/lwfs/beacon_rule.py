"""An LWFS client's trace log read slowly and plainly, and Beacon's published first pass over it, to hold the agent's against.

The rule (Beacon, NSDI'19, §3.2, and its released code): adjacent requests merge when they are of the same second, operation, handle and size, and
contiguous. `Faults` has what the released code gets wrong, each as a switch. Not here, since no log shows it: it sends without an acknowledgement.

Local time is UTC here. A request is an operation; its reply only says if it failed or did less. That, and how long a reply is waited for, is the agent's way (Beacon
ignores replies), so that both count the same.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache

WAIT_S = 10
WAITING_MAX = 1024
LARGEST = 2**63 - 1
UNKNOWN_ERRNO = 65535
ERRNOS = {b"No such file or directory": 2, b"Input/output error": 5, b"Permission denied": 13, b"No space left on device": 28}
METADATA = {
    "open": "OPEN CREATE OPENDIR", "stat": "LOOKUP STAT FSTAT GETATTR SETATTR FSETATTR READLINK GETXATTR FGETXATTR SETXATTR FSETXATTR "
    "LISTXATTR REMOVEXATTR", "close": "RELEASE RELEASEDIR", "access": "ACCESS", "readdir": "READDIR READDIRP", "unlink": "UNLINK",
    "rename": "RENAME", "mkdir": "MKDIR", "rmdir": "RMDIR", "link": "LINK SYMLINK", "truncate": "TRUNCATE FTRUNCATE", "sync": "FSYNC FSYNCDIR",
}  # fmt: skip
OP_OF = {name.encode(): op for op, names in METADATA.items() for name in names.split()}

_HEX, _NUMBER = rb"0x([0-9a-fA-F]{1,16})", rb"(\d{1,19})"
_LINE = re.compile(rb"\[(.{19})\] [A-Z] (?:\[([^\]]{0,254})\] [\w.-]{1,63}: (?:(\d+): |(?!\d)))?(.+)", re.DOTALL)
_REQUEST = re.compile(rb"(READ|WRITE) \(" + _HEX + rb", size=" + _NUMBER + rb", offset=" + _NUMBER + rb"\)")
_COMPRESSED = re.compile(rb"(READ|WRITE) " + _HEX + rb" size=" + _NUMBER + rb" offset=" + _NUMBER + rb" count=" + _NUMBER)
_REPLY = re.compile(rb"(?:READ|WRITE) => (.*)", re.DOTALL)
_MOVED = re.compile(_NUMBER + rb"/" + _NUMBER + rb",.*", re.DOTALL)
_FAILED = re.compile(rb"-" + _NUMBER + rb"(/.*| \((.*)\))?", re.DOTALL)
_META = re.compile(rb"([A-Z_]{2,})(\(\))? (.+)", re.DOTALL)
_SUCCEEDED = re.compile(rb"(?:0x[0-9a-fA-F]{1,16}|\d{1,19})(?:| \(.*\)|/.*)", re.DOTALL)
_RELEASED = re.compile(rb"\(?" + _HEX + rb"\)?")


@dataclass
class Operation:
    """`count` operations of `size` bytes each, the first at `offset`. file: its path's bytes, None where not known. life: how often the handle had been given
    away before. size: as the reply says, 0 where it failed."""

    second: int
    op: str
    handle: int | None
    file: bytes | None = None
    size: int = 0
    offset: int = 0
    count: int = 1
    errno: int = 0
    life: int = 0
    id: int = 0


@dataclass(frozen=True)
class Faults:
    """What the released code does wrong. neighbours_only: merges only lines that are next to each other in the log, so that interleaved files or directions
    do not merge. offsets_32_bits: compares offsets in 32 bits. batch: reads so many operations at once, and one more of the batch before when the last is
    partial. names_crash: takes a name for an operation and raises ValueError. torn: the log's positions at which a read ended, and with it the line."""

    neighbours_only: bool = False
    offsets_32_bits: bool = False
    batch: int = 0
    names_crash: bool = False
    torn: tuple[int, ...] = ()


RELEASED = Faults(neighbours_only=True, offsets_32_bits=True)


@dataclass
class Trace:
    """What a log says: reads and writes in their order, and how many metadata operations of each kind succeeded and failed."""

    data: list[Operation] = field(default_factory=list)
    metadata: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)


def first_pass(data: list[Operation], faults: Faults = Faults()) -> list[Operation]:  # noqa: B008
    """Beacon's records of some reads and writes."""
    records: list[Operation] = []
    last_of: dict[tuple, Operation] = {}
    for one in _batches(data, faults.batch):
        stream = (one.op, one.handle, one.life, one.errno)
        last = last_of.get(stream)
        if last is not None and _continues(last, one, faults):
            last.count += one.count
            continue
        if faults.neighbours_only:
            last_of.clear()
        last_of[stream] = replace(one)
        records.append(last_of[stream])
    return records


def _continues(last: Operation, one: Operation, faults: Faults) -> bool:
    gap = one.offset - (last.offset + last.count * last.size)
    contiguous = gap % 2**32 == 0 if faults.offsets_32_bits else gap == 0
    return last.second == one.second and last.size == one.size and contiguous


def _batches(data: list[Operation], batch: int) -> Iterator[Operation]:
    if not batch:
        yield from data
        return
    before: list[Operation] = []
    for at in range(0, len(data), batch):
        now = data[at : at + batch]
        yield from now
        if len(now) < batch and before:
            yield before[len(now)]  # what still stands in the place after the last one
        before = now


def compressed(records: list[Operation]) -> bytes:
    """The records as Beacon writes them."""
    lines = []
    for r in records:
        stamp = datetime.fromtimestamp(r.second, UTC).strftime("%Y-%m-%d %H:%M:%S")
        lines.append(f"[{stamp}] T {r.op.upper()} {r.handle:#x} size={r.size} offset={r.offset + r.size * (r.count - 1)} count={r.count}\n")
    return "".join(lines).encode()


def read_log(log: bytes, faults: Faults = Faults()) -> Trace:  # noqa: B008
    """What the lines of a log say; a line that makes no sense says nothing."""
    for position in faults.torn:
        log = log[:position] + b"\n" + log[position:]
    trace = Trace()
    files: dict[int, bytes | None] = {}
    lives: dict[int, int] = {}
    waiting: deque[Operation] = deque()
    operations: list[Operation] = []
    for text in log.split(b"\n"):
        line = _parse(text.removesuffix(b"\r"))
        if line is None:
            continue
        second, number, said = line
        if faults.names_crash and isinstance(said, Operation) and b"READ size" in (said.file or b""):
            raise ValueError(f"no size in {said.file!r}")
        if isinstance(said, tuple):
            _reply(waiting, number, *said)
            continue
        said.second, said.id = second, number
        if said.op == "opened":
            lives[said.handle] = lives.get(said.handle, 0) + 1
            files[said.handle] = said.file
        elif said.op == "close":
            said.life = lives.get(said.handle, 0)
            lives[said.handle] = said.life + 1
            files.pop(said.handle, None)
        elif said.op in ("read", "write"):
            said.file, said.life = files.get(said.handle), lives.get(said.handle, 0)
        operations.append(said)
        waiting.append(said)
        while len(waiting) > WAITING_MAX or waiting[0].second + WAIT_S < second:
            waiting.popleft()
    for one in operations:
        if one.op in ("read", "write"):
            trace.data.append(one)
        elif one.op != "opened":
            counts = trace.failed if one.errno else trace.metadata
            counts[one.op] = counts.get(one.op, 0) + 1
    return trace


def _reply(waiting: deque[Operation], number: int, errno: int, moved: int) -> None:
    """A request did what was asked (`moved` is LARGEST), failed, or did less. It is the newest of its number, if it still waits; it is answered once."""
    asked = next((one for one in reversed(waiting) if number and one.id == number), None)
    if asked is None:
        return
    if errno:
        asked.errno, asked.size = errno, 0
    elif moved != LARGEST:
        if asked.op not in ("read", "write") or asked.count != 1 or moved > asked.size:
            return
        asked.size = moved
    asked.id = 0


def _parse(text: bytes) -> tuple[int, int, Operation | tuple[int, int]] | None:
    """Second, request's number, and what a line says: an operation ("opened" for an open's completion), or a reply's errno and bytes."""
    match = _LINE.fullmatch(text)
    second = _second(match[1]) if match else None
    if second is None:
        return None
    number = _number(match[3]) if match[3] is not None else 0
    said = _said(match[2], match[4])
    return None if number is None or said is None else (second, number, said)


def _said(place: bytes | None, rest: bytes) -> Operation | tuple[int, int] | None:
    for form in (_REQUEST, _COMPRESSED):
        if match := form.fullmatch(rest):
            size, offset, count = (_number(part) for part in (*match.groups(), b"1")[2:5])
            return _data(match[1].decode().lower(), int(match[2], 16), size, offset, count)
    if match := _REPLY.fullmatch(rest):
        return _result_of_data(match[1])
    if rest.startswith((b"READ ", b"WRITE ")) or not (match := _META.fullmatch(rest)):
        return None
    name, called, body = match.groups()
    path, arrow, result = body.rpartition(b" => ") if b" => " in body else (b"", body[:3] if body.startswith(b"=> ") else b"", body[3:])
    has_result = bool(arrow) and (_failure(result) is not None if result.startswith(b"-") else bool(_SUCCEEDED.fullmatch(result)))
    is_open = OP_OF.get(name) == "open"
    if place is not None:
        is_reply = place.endswith(b"_cbk")
        if is_reply and not has_result:
            return None
    else:
        is_reply = has_result and (bool(called) or not path or is_open and result.startswith(b"0x"))
    if is_reply:
        if is_open and re.match(_HEX, result):
            return Operation(0, "opened", int(re.match(_HEX, result)[1], 16), path)
        return _failure(result) if result.startswith(b"-") else (0, LARGEST)
    if name not in OP_OF:
        return None
    if OP_OF[name] == "close":
        released = _RELEASED.fullmatch(body)
        return Operation(0, "close", int(released[1], 16)) if released else None
    return Operation(0, OP_OF[name], None, body)


def _data(op: str, handle: int, size: int | None, last: int | None, count: int | None) -> Operation | None:
    if None in (size, last, count) or not count or last + size > LARGEST or last < size * (count - 1):
        return None
    return Operation(0, op, handle, None, size, last - size * (count - 1), count)


def _result_of_data(result: bytes) -> tuple[int, int] | None:
    if result.startswith(b"-"):
        return _failure(result)
    match = _MOVED.fullmatch(result)
    if not match or None in (done := _number(match[1]), asked := _number(match[2])) or done > asked:
        return None
    return (0, done) if done < asked else (0, LARGEST)


def _failure(result: bytes) -> tuple[int, int] | None:
    match = _FAILED.fullmatch(result)
    number = _number(match[1]) if match else None
    if not number:
        return None
    if match[3] is not None:
        return ERRNOS.get(match[3], UNKNOWN_ERRNO), 0
    # -1 says no more than that it failed.
    return (number if 1 < number < 4096 else UNKNOWN_ERRNO), 0


def _number(text: bytes) -> int | None:
    value = int(text)
    return value if len(text) <= 19 and value <= LARGEST else None


@lru_cache(maxsize=1024)
def _second(stamp: bytes) -> int | None:
    try:
        moment = datetime.strptime(stamp.decode("ascii"), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    plain = re.fullmatch(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", stamp)
    return int(moment.replace(tzinfo=UTC).timestamp()) if plain and 1971 <= moment.year <= 2261 else None
