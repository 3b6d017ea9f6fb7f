"""Lists of nodes, in the short forms that queues write them."""

import re

from jobdb.queue import NODES_MAX

_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_HOST_SLOTS = re.compile(r"(?:(\d+)\*)?([^*/]+)")


def slurm(text: str) -> tuple[str, ...]:
    """Slurm's hostlist: "cn[1-2,17],login1", "r[0-1]n[00-03]"; in their order, each once. Raises ValueError."""
    if text in ("", "None", "(null)", "None assigned", "Nodes not available"):
        return ()
    found: dict[str, None] = {}
    for part in _outside_brackets(text):
        for name in _expanded(part):
            found[_checked(name)] = None
            _bound(len(found))
    return tuple(found)


def beacon(text: str, prefix: str = "") -> tuple[str, ...]:
    """Numbers and their ranges, as Beacon's job log has them: "0-511,600". prefix: what comes before each number in a node's name. Raises ValueError."""
    found: dict[str, None] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        for number in _numbers(part.strip()):
            found[f"{prefix}{number}"] = None
            _bound(len(found))
    return tuple(found)


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


def _once(names) -> tuple[str, ...]:
    found = dict.fromkeys(_checked(name) for name in names)
    _bound(len(found))
    return tuple(found)


def _checked(name: str) -> str:
    if _NODE.fullmatch(name) is None:
        raise ValueError(f"{name[:80]!r} is no name of a node")
    return name


def _bound(count: int) -> None:
    if count > NODES_MAX:
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


def _expanded(part: str) -> list[str]:
    names = [""]
    while part:
        fixed, bracket, rest = part.partition("[")
        names = [name + fixed for name in names]
        if not bracket:
            break
        inside, _, part = rest.partition("]")
        numbers = [number for piece in inside.split(",") for number in _numbers(piece.strip())]
        _bound(len(names) * len(numbers))
        names = [name + number for name in names for number in numbers]
    return names


def _numbers(piece: str) -> list[str]:
    """Of "7", "00-03" or "0-8:4", each number with the first one's leading zeros."""
    match = _RANGE.fullmatch(piece)
    if match is None or len(piece) > 60:
        raise ValueError(f"{piece[:80]!r} is no number, nor a range of numbers")
    first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
    if int(last) < int(first) or step < 1:
        raise ValueError(f"range {piece!r} goes backwards")
    _bound((int(last) - int(first)) // step)
    width = len(first) if first.startswith("0") else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1, step)]
