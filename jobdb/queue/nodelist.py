"""Lists of nodes, in the short forms that queues write them."""

import re
from collections.abc import Sequence
from itertools import groupby

from jobdb.queue import NODES_MAX

_RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15})(?::(\d{1,15}))?)?", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_NUMBERED = re.compile(r"(.*?[^0-9])([0-9]{1,15})", re.ASCII)
_HOST_SLOTS = re.compile(r"(?:(\d+)\*)?([^*/]+)", re.ASCII)
# Of one name: rack, chassis, node and such.
_BRACKETS_MAX = 8


def slurm(text: str) -> tuple[str, ...]:
    """Slurm's hostlist: "cn[1-2,17],login1", "r[0-1]n[00-03]"; in their order, each once. Raises ValueError."""
    if text in ("", "None", "(null)", "None assigned", "Nodes not available"):
        return ()
    found: list[str] = []
    for part in _outside_brackets(text):
        found += _expanded(part, NODES_MAX - len(found))
    return tuple(dict.fromkeys(map(_checked, found)))


def beacon(text: str, prefix: str = "") -> tuple[str, ...]:
    """Numbers and their ranges, as Beacon's job log has them: "0-511,600". prefix: what comes before each number in a node's name. Raises ValueError."""
    found: list[str] = []
    for part in text.split(","):
        if part.strip():
            found += _numbers(part.strip(), NODES_MAX - len(found))
    return tuple(dict.fromkeys(f"{prefix}{number}" for number in found))


def pbs(text: str) -> tuple[str, ...]:
    """PBS's exec_host: "n1/0*4+n2/0+n2/1"; in their order, each once. Raises ValueError."""
    return _once(part.strip().strip("()").split("/")[0].split(":")[0] for part in text.split("+") if part.strip())


def lsf(text: str, separator: str = ":") -> tuple[str, ...]:
    """LSF's EXEC_HOST: "4*n1:2*n2" or "n1:n1:n2"; in their order, each once. Raises ValueError."""
    names = []
    for part in re.split(rf"[{re.escape(separator)}\s]+", text.strip()):
        if part in ("", "-"):
            continue
        match = _HOST_SLOTS.fullmatch(part)
        if match is None:
            raise ValueError(f"{part[:80]!r} is no host of LSF's")
        names.append(match[2])
    return _once(names)


def folded(names: Sequence[str]) -> str:
    """Names in Slurm's short form, in their order: "cn[1-4,9],login1". What has no number at its end stands alone."""
    return ",".join(_folded(prefix, width, [number for *_, number in alike]) for (prefix, width), alike in groupby(map(_split, names), key=lambda part: part[:2]))


def _split(name: str) -> tuple[str, int, int]:
    """What stands before a name's number, how many digits that has where they begin with 0, and the number; all of it, -1 and 0 where there is none."""
    match = _NUMBERED.fullmatch(name)
    return (name, -1, 0) if match is None else (match[1], len(match[2]) if match[2].startswith("0") else 0, int(match[2]))


def _folded(prefix: str, width: int, numbers: list[int]) -> str:
    if width < 0:
        return prefix
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    texts = [f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}" for first, last in pieces]
    return prefix + (texts[0] if len(numbers) == 1 else f"[{','.join(texts)}]")


def _once(names) -> tuple[str, ...]:
    found = dict.fromkeys(_checked(name) for name in names)
    _bound(len(found), NODES_MAX)
    return tuple(found)


def _checked(name: str) -> str:
    if _NODE.fullmatch(name) is None:
        raise ValueError(f"{name[:80]!r} is no name of a node")
    return name


def _bound(count: int, most: int) -> None:
    # What is made counts, not what is left of it: the same range a thousand times is few nodes, and much work.
    if count > most:
        raise ValueError(f"more than {NODES_MAX} nodes")


def _outside_brackets(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts, depth, begin = [], 0, 0
    for place, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        if depth not in (0, 1):
            raise ValueError(f"node list {text[:80]!r}: brackets that do not match")
        if character == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    if depth:
        raise ValueError(f"node list {text[:80]!r}: brackets that do not match")
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


def _expanded(part: str, most: int) -> list[str]:
    """The names of one part with its brackets, at most so many."""
    names = [""]
    _bound(1, most)
    if part.count("[") > _BRACKETS_MAX:
        raise ValueError(f"node list {part[:80]!r}: more than {_BRACKETS_MAX} brackets")
    while part:
        fixed, bracket, rest = part.partition("[")
        names = [name + fixed for name in names]
        if not bracket:
            break
        inside, _, part = rest.partition("]")
        numbers: list[str] = []
        for piece in inside.split(","):
            numbers += _numbers(piece.strip(), most // len(names) - len(numbers))
        names = [name + number for name in names for number in numbers]
    return names


def _numbers(piece: str, most: int) -> list[str]:
    """Of "7", "00-03" or "0-8:4", each number with the first one's leading zeros; at most so many."""
    match = _RANGE.fullmatch(piece)
    if match is None:
        raise ValueError(f"{piece[:80]!r} is no number, nor a range of numbers")
    first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
    if int(last) < int(first) or step < 1:
        raise ValueError(f"range {piece!r} goes backwards")
    _bound((int(last) - int(first)) // step + 1, most)
    width = len(first) if first.startswith("0") else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1, step)]
