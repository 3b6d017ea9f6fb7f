"""The first pass on the trace logs of LWFS clients."""

from __future__ import annotations

from tests.bench._beacon import records_vs_beacon_rule


def run() -> list[dict]:
    return records_vs_beacon_rule()
