"""The first pass on the trace logs of LWFS clients."""

from __future__ import annotations

from tests.bench._beacon import records_vs_beacon_rule
from tests.bench._lwfs_lines import lwfs_lines_per_s


def run() -> list[dict]:
    return lwfs_lines_per_s() + records_vs_beacon_rule()
