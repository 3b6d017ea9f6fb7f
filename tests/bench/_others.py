"""What others make of the same records, in bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from tests.bench._beacon_passes import first_pass, merged_size, published
from tests.bench._json_lines import json_lines
from tests.bench._sizes import json_sizes, parquet_size


def others(runs: pa.Table) -> dict[str, int]:
    """Bytes by name: `json`, the lines as they are; `zstd`, these by `zstd -19`; `beacon_first` and `beacon`, after Beacon's passes; `beacon_published`, with
    what Beacon's own logs hold alone; `parquet`. runs: with the schema's columns, by node."""
    # zstd takes by far the longest, and a core of its own.
    with ThreadPoolExecutor(1) as beside:
        plain = beside.submit(json_sizes, runs)
        items = first_pass(runs)
        sizes = {
            "beacon_first": sum(map(len, json_lines(items))),
            "beacon": merged_size(items)[1],
            "beacon_published": merged_size(published(items), second=1)[1],
            "parquet": parquet_size(runs),
        }
        json, zstd = plain.result()
    return {"json": json, "zstd": zstd, **sizes}
