"""Samples of components as agents send them, over some time: busy by waves, quiet at times, and one a minute while nothing changes."""

import math
from collections.abc import Iterator
from typing import Any

from tests.unit.pipeline.events import sample_event

S = 10**9
# Upper bounds of waits, in µs, and how many of a hundred requests lie in each bucket.
WAITS = {"100": 20, "200": 35, "500": 25, "1000": 12, "5000": 6, "20000": 1, "inf": 1}
UNCHANGED_S = 60


def disk(node: str, instance: str, from_s: int, to_s: int, *, period_s: int = 1, seq: int = 1, quiet: tuple[int, int] = (0, 0)) -> Iterator[dict[str, Any]]:
    """Of each period from `from_s` to `to_s`, s since the epoch; between `quiet[0]` and `quiet[1]`, s after `from_s`, nothing changes."""
    last_s = from_s - UNCHANGED_S
    for at_s in range(from_s, to_s, period_s):
        is_quiet = quiet[0] <= at_s - from_s < quiet[1]
        if is_quiet and at_s - last_s < UNCHANGED_S:
            continue
        requests = 0 if is_quiet else 40 + round(35 * math.sin(at_s / 90)) + (60 if at_s % 400 < 25 else 0)
        values = {
            "reads": requests * period_s, "read_bytes": requests * 65536 * period_s, "writes": 2 * requests * period_s, "write_bytes": requests * 131072 * period_s,
            "busy_ns": min(period_s, requests * period_s / 150) * S, "in_flight": requests // 8, "discards": 0,
        }  # fmt: skip
        yield sample_event(seq, node=node, component="block_device", instance=instance, start=at_s * S, end=(at_s + period_s) * S, values=values)
        seq, last_s = seq + 1, at_s


def lwfs_server(node: str, instance: str, from_s: int, to_s: int, *, period_s: int = 5, seq: int = 1) -> Iterator[dict[str, Any]]:
    """How long reads waited at a server of a file system."""
    for place, at_s in enumerate(range(from_s, to_s, period_s)):
        requests = 1000 + round(800 * math.sin(at_s / 200))
        waits = {f"read_wait_to_{bound}": math.floor(requests * share / 100) for bound, share in WAITS.items()}
        values = {**waits, "queue_length": requests // 100}
        yield sample_event(seq + place, node=node, component="lwfs_server", instance=instance, start=at_s * S, end=(at_s + period_s) * S, values=values)


def node_itself(node: str, from_s: int, to_s: int, *, period_s: int = 10, seq: int = 1) -> Iterator[dict[str, Any]]:
    """A node's processors and memory, and a value that no schema knows."""
    for place, at_s in enumerate(range(from_s, to_s, period_s)):
        busy_ns = period_s * S * (3 + 2 * math.sin(at_s / 300))
        memory = 48 * 2**30 + round(2**33 * math.cos(at_s / 700))
        values = {"cpu_user_ns": busy_ns, "memory_available_bytes": memory, "new_value": place % 7}
        yield sample_event(seq + place, node=node, component="node", instance=node, start=at_s * S, end=(at_s + period_s) * S, values=values)
