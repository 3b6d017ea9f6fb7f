"""The part of a job's report that tells how long its calls took."""

import math
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bellrock import text

BINS = ("under 10 µs", "10 to 100 µs", "0.1 to 1 ms", "1 to 10 ms", "10 to 100 ms", "0.1 to 1 s", "1 to 10 s", "over 10 s")
STYLES = {"read": "green", "write": "blue", "metadata": "magenta"}


def is_known(latency: dict[str, Any] | None) -> bool:
    """Whether there are calls whose durations are known; `latency` is that of a profile."""
    return latency is not None and any(any(part["counts"]) for part in latency.values())


def took(latency: dict[str, Any]) -> Table:
    """Calls by duration. The bars are logarithmic: one stalled call among a million must show."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("TOOK", no_wrap=True)
    for title in ("READS", "WRITES", "METADATA"):
        table.add_column(title, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    counts = [latency[kind]["counts"] for kind in STYLES]
    largest = 1 + math.log10(max(map(max, counts)))
    used = [number for number, of_bin in enumerate(zip(*counts, strict=True)) if any(of_bin)]
    for number in range(used[0], used[-1] + 1):
        cells: list[RenderableType] = []
        for of_kind, style in zip(counts, STYLES.values(), strict=True):
            n = of_kind[number]
            cells += [text.number(n), Text(text.bar((1 + math.log10(n)) / largest, 10), style=style)] if n else ["", ""]
        table.add_row(BINS[number], *cells)
    return table


def slowest(latency: dict[str, Any]) -> Table:
    """Of each kind the slowest call: how long it took, its file, its process, and when its run began."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for kind in STYLES:
        call = latency[kind]["slowest"]
        if call:
            name = f"slowest {kind}" if call["op"] == kind else f"slowest {kind} call, {call['op']}"
            where = [call["file"], process_name(call), text.instant(call["start_ns"])]
            table.add_row(name, text.duration(call["seconds"]), Text(text.plain(" · ".join(filter(None, where)))))
    return table


def process_name(row: dict[str, Any]) -> str:
    """A process as people know it: node, pid, program and rank, and whether that is only inferred."""
    rank = "" if row["rank"] is None else f" rank {row['rank']}{' (inferred)' if row.get('rank_inferred') else ''}"
    return f"{row['node']} {row['process'].split('.')[0]} {row['program'] or ''}{rank}"
