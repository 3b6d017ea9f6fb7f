"""Events as an agent sends them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pipeline.store import Appended, decoded

T0 = 1_700_000_000 * 10**9


def envelope(kind: str, seq: int, node: str, boot: str) -> dict[str, Any]:
    return {"kind": kind, "node": node, "boot": boot, "seq": seq}


def run_event(seq: int, *, node: str = "cn1", boot: str = "00000000deadbeef", **changes: Any) -> dict[str, Any]:
    """A well-formed run: a read of 4 KiB for each even number, a write for each odd one."""
    return envelope("run", seq, node, boot) | {
        "layer": "compute",
        "source": "preload",
        "job": "local-1",
        "uid": 1000,
        "process": f"{100 + seq % 4}.777",
        "parent": 1,
        "rank": seq % 4,
        "program": "ior",
        "op": "write" if seq % 2 else "read",
        "file": f"/scratch/data/file.{seq % 10}",
        "file_id": f"{(seq % 10 + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}",
        "handle": 5,
        "offset": seq * 4096,
        "stride": 0,
        "size": 4096,
        "count": 1,
        "bytes": 4096,
        "start": T0 + seq * 1000,
        "end": 1_700_000_000_000_000_900 + seq * 1000,
        "busy_ns": 900,
        "slow_ns": 900,
        "errno": 0,
        "flags": 0,
        "latency": [1, 0, 0, 0, 0, 0, 0, 0],
        **changes,
    }


def sample_event(seq: int, *, node: str = "cn1", boot: str = "00000000deadbeef", **changes: Any) -> dict[str, Any]:
    """A well-formed sample of an agent, of second `seq` after T0."""
    return envelope("sample", seq, node, boot) | {
        "component": "agent",
        "instance": node,
        "start": T0 + seq * 10**9,
        "end": T0 + (seq + 1) * 10**9,
        "values": {"seen": 10, "load": 0.5},
        **changes,
    }


def job_event(seq: int, *, node: str = "cn1", boot: str = "00000000deadbeef", **changes: Any) -> dict[str, Any]:
    """A well-formed job event."""
    return envelope("job", seq, node, boot) | {
        "event": "start",
        "job": "local-1",
        "launch": "f00d",
        "cluster": None,
        "program": "ior",
        "command": "ior -w",
        "user": "ann",
        "uid": 1000,
        "time": T0,
        "exit_code": None,
        **changes,
    }


def message_event(seq: int, *, node: str = "cn1", boot: str = "00000000deadbeef", **changes: Any) -> dict[str, Any]:
    """A well-formed message, of second `seq` after T0."""
    return envelope("message", seq, node, boot) | {
        "start": T0 + seq * 10**9,
        "end": T0 + seq * 10**9,
        "count": 1,
        "severity": 4,
        "facility": "kern",
        "origin": "kernel",
        "log": "journal",
        "program": "kernel",
        "event": "lustre_failover",
        "text": "Lustre: Failing over scratch-OST0004",
        **changes,
    }


def take_one_by_one(store: Any, payloads: Sequence[bytes], decode: Callable[[bytes], Any] = decoded) -> Appended:
    """`Store.take` of a store in a test that sees all events: by its `append`."""
    events = [decode(payload) for payload in payloads]
    return replace(store.append(events), events=dict(enumerate(events)))
