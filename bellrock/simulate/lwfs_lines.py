"""The lines of an LWFS client's trace log, many at once."""

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bellrock.simulate.model import OPS

S = 10**9
# Place in the client's source, name of the operation.
_REQUESTS = {
    "read": ("fuse-bridge.c:1823:fuse_readv", "READ"),
    "write": ("fuse-bridge.c:1967:fuse_writev", "WRITE"),
    "open": ("fuse-bridge.c:1683:fuse_open", "OPEN"),
    "close": ("fuse-bridge.c:2055:fuse_release", "RELEASE"),
    "stat": ("fuse-bridge.c:612:fuse_lookup", "LOOKUP"),
    "unlink": ("fuse-bridge.c:1342:fuse_unlink", "UNLINK"),
}


@dataclass(frozen=True)
class Operations:
    """Single operations, one element each; `op` is a place in `OPS`, `id` the request's number, `path` the file's. utc: lines bear UTC, not local time."""

    op: np.ndarray
    id: np.ndarray
    handle: np.ndarray
    size: np.ndarray
    offset: np.ndarray
    begin_ns: np.ndarray
    end_ns: np.ndarray
    failed: np.ndarray
    path: pa.Array
    utc: bool = False

    def __len__(self) -> int:
        return len(self.op)


def requests(o: Operations) -> pa.Array:
    """The line of each request, with its line end."""
    stamp, number, handle = stamps(o.begin_ns, o.utc), _decimal(o.id), _hex(o.handle)
    data = _join("(", handle, ", size=", _decimal(o.size), ", offset=", _decimal(o.offset), ")")
    body = _by_op(o, {"read": data, "write": data, "close": _join("(", handle, ")"), "open": o.path, "stat": o.path, "unlink": o.path})
    head = _by_op(o, {op: f"] T [{place}] lwfs-fuse: " for op, (place, _) in _REQUESTS.items()})
    name = _by_op(o, {op: f": {name} " for op, (_, name) in _REQUESTS.items()})
    return _join("[", stamp, head, number, name, body, "\n")


def replies(o: Operations) -> pa.Array:
    """The line of each reply, with its line end; null for a release, which has none."""
    stamp, number = stamps(o.end_ns, o.utc), _decimal(o.id)
    size, end = _decimal(o.size), _decimal(o.offset + o.size)
    moved = _join(size, "/", size, ",", end, "/", end)
    result = pa.array(np.where(o.failed, "-1 (No such file or directory)", "0"))
    told = _join("() ", o.path, " => ", result)
    body = _by_op(o, {"read": _join(" => ", moved), "write": _join(" => ", moved), "stat": told, "unlink": told, "open": _join("() ", o.path, " => ", _hex(o.handle))})
    # An open's completion is logged without place and number.
    head = _by_op(o, {op: "] T " if op == "open" else f"] T [{place}_cbk] lwfs-fuse: " for op, (place, _) in _REQUESTS.items()})
    names = {op: name if op == "open" else f": {name}" for op, (_, name) in _REQUESTS.items()}
    number = pc.if_else(pa.array(o.op == OPS.index("open")), "", number)
    lines = _join("[", stamp, head, number, _by_op(o, names), body, "\n")
    return pc.if_else(pa.array(o.op == OPS.index("close")), pa.scalar(None, lines.type), lines)


def stamps(instants_ns: np.ndarray, utc: bool) -> pa.Array:
    """Local time of each instant, or UTC, to the second."""
    seconds, place = np.unique(instants_ns // S, return_inverse=True)
    texts = [time.strftime("%Y-%m-%d %H:%M:%S", (time.gmtime if utc else time.localtime)(second)) for second in seconds.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(place))


def _by_op(o: Operations, values: dict[str, pa.Array | str]) -> pa.Array:
    """For each operation the value of its kind."""
    index = np.zeros(len(OPS), dtype=np.int64)
    index[[OPS.index(op) for op in values]] = np.arange(len(values))
    if all(isinstance(value, str) for value in values.values()):
        return pa.array(list(values.values()), pa.string()).take(pa.array(index[o.op]))
    return pc.choose(pa.array(index[o.op]), *(pa.scalar(value, pa.string()) if isinstance(value, str) else value for value in values.values()))


def _join(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _decimal(values: np.ndarray) -> pa.Array:
    return pa.array(values).cast(pa.string())


def _hex(values: np.ndarray) -> pa.Array:
    distinct, place = np.unique(values, return_inverse=True)
    return pa.array([f"{value:#x}" for value in distinct.tolist()], pa.string()).take(pa.array(place))
