"""The tables that `bellrock jobs` and `bellrock show` print: pure functions from the API's answers to what rich renders."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bellrock import report_latency, text
from bellrock.report import MODES, NOTHING_SEEN, caveats, first_line, is_blank, overflows
from bellrock.text import of

STATE_STYLES = {"running": "cyan", "completed": "green", **dict.fromkeys(("failed", "timeout", "node_fail", "out_of_memory"), "red")}


def jobs_table(jobs: Sequence[dict[str, Any]]) -> Table:
    """The job list, a line a job."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("JOB", "left"), ("USER", "left"), ("PROGRAM", "left"), ("STATE", "left"), ("START", "left")):
        table.add_column(name, justify=justify, overflow="fold" if name == "JOB" else "ellipsis")
    for name in ("TIME", "NODES", "PROCS", "READ", "WRITTEN"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("MODE", no_wrap=True)
    for job in jobs:
        state = job["state"]
        table.add_row(
            Text(text.plain(job["job_id"])),
            Text(text.plain(job["user"] or "-")),
            Text(text.plain(job["program"] or "-")),
            Text(state, style=STATE_STYLES.get(state, "")),
            text.instant(job["start_ns"]),
            text.duration(job["runtime_s"]),
            text.number(_nodes(job, job)),
            text.number(job.get("processes")),
            text.data(job.get("read_bytes")),
            text.data(job.get("write_bytes")),
            f"{job.get('io_mode_read') or '-'} / {job.get('io_mode_write') or '-'}",
        )
    return table


def _nodes(job: dict[str, Any], profile: dict[str, Any]) -> int:
    """How many nodes a job ran on; until its records have been looked at, those of its launches, which with mpirun is one."""
    return len(job["node_names"]) if profile.get("nodes") is None else profile["nodes"]


def show(
    answer: dict[str, Any], series: dict[str, Any], files: dict[str, Any], processes: dict[str, Any], page: str, width: int
) -> RenderableType:
    """A job's report for a terminal of `width` columns; `page` is the address of the same in a browser ("": none)."""
    job, profile = answer["job"], answer["profile"]
    parts: list[RenderableType] = [Text(first_line(job, profile), style="bold"), _facts(job, profile, page)]
    parts += [Text(line, style="red") for line in caveats(answer)]
    parts += [Text(line, style="yellow") for line in overflows(answer)]
    if is_blank(profile):
        return Group(*parts) if profile.get("unseen") else Group(*parts, Text(NOTHING_SEEN))
    parts += [_heading("Traffic"), _traffic(profile)]
    parts += _bandwidth(series, width)
    if any(r["read_ops"] or r["write_ops"] for r in profile["request_sizes"]):
        parts += [_heading("Request sizes"), _request_sizes(profile["request_sizes"])]
    if report_latency.is_known(latency := profile["latency"]):
        parts += [_heading("How long calls took"), report_latency.took(latency), report_latency.slowest(latency)]
    if profile["operations"]:
        parts += [_heading("Calls"), _operations(profile["operations"])]
    if files["files"]:
        parts += [
            _heading("Files", len(files["files"]), files["total"]),
            _traffic_rows("FILE", files["files"], lambda row: row["file"] or f"id {row['file_id']}"),
        ]
    if processes["processes"]:
        parts += [
            _heading("Processes", len(processes["processes"]), processes["total"]),
            _traffic_rows("PROCESS", processes["processes"], report_latency.process_name),
        ]
    return Group(*parts)


def _heading(title: str, shown: int = 0, total: int = 0) -> Text:
    more = f" (the first {shown} of {text.number(total)}, by bytes)" if total > shown else ""
    return Text.assemble("\n", (title, "bold"), (more, "dim"))


def _queued(queued: dict[str, Any] | None) -> str | None:
    """What the batch system tells of a job, in a line."""
    if queued is None:
        return None
    parts = [queued["queue"], queued["name"], queued["project"] and f"project {queued['project']}", queued["array"] and f"of array {queued['array']}"]
    parts += [queued["het"] and f"component of {queued['het']}", queued["cores"] and of(queued["cores"], "core")]
    parts += [queued["suspended_s"] and f"suspended for {text.duration(queued['suspended_s'])}", queued["restarts"] and of(queued["restarts"], "restart")]
    return " · ".join(text.plain(str(part)) for part in parts if part)


def _facts(job: dict[str, Any], profile: dict[str, Any], page: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    named = job["node_names"][:8]
    nodes = ", ".join(named) + (" …" if _nodes(job, profile) > len(named) else "")
    slowest = profile.get("slowest_op")
    facts = [
        ("command", job["command"]),
        ("user", job["user"]),
        ("queue", _queued(job.get("queued"))),
        ("nodes", nodes),
        ("time", f"{text.instant(job['start_ns'])} to {text.instant(job['end_ns'])}"),
        (
            "I/O",
            None if profile["io_processes"] is None else f"{of(profile['io_processes'], 'process')} with bytes · {of(profile['files'], 'file')} · {of(profile['phases'], 'phase')}",
        ),
        ("slowest call", f"{slowest['op']} of {text.duration(slowest['seconds'])} {slowest['file'] or ''}" if slowest else None),
        ("failed calls", text.number(profile["errors"]) if profile["errors"] else None),
        (
            "mapped",
            f"{text.data(profile['mapped_bytes'])} (what is read and written through mmap is not seen)"
            if profile.get("mapped_bytes")
            else None,
        ),
        (
            "folded",
            f"{of(profile['folded_ops'], 'call')}: counts and bytes exact, times and offsets not" if profile.get("folded_ops") else None,
        ),
        ("page", page),
    ]
    for name, value in facts:
        if value:
            table.add_row(name, Text(text.plain(value)))
    return table


def _traffic(profile: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in ("BYTES", "CALLS", "BANDWIDTH", "PEAK SECOND"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("MODE")
    for direction in ("read", "write"):
        mode = profile[f"io_mode_{direction}"]
        table.add_row(
            direction,
            text.data(profile[f"{direction}_bytes"]),
            text.number(profile[f"{direction}_ops"]),
            text.rate(profile[f"bandwidth_avg_{direction}"]),
            text.rate(profile[f"bandwidth_peak_{direction}"]),
            f"{mode}  {MODES.get(mode, '')}" if mode else "-",
        )
    table.add_row("metadata", "", text.number(profile["metadata_ops"]), f"{text.number(profile['mdops_avg'])}/s", "", "")
    table.add_row(
        "reads and writes", "", text.number(profile["read_ops"] + profile["write_ops"]), f"{text.number(profile['iops_avg'])}/s", "", ""
    )
    return table


def _bandwidth(series: dict[str, Any], width: int) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for direction in ("read", "write"):
        values = series[f"{direction}_bytes_per_s"]
        top = max((v for v in values if v is not None), default=0)
        if top > 0:
            line = text.sparkline(values, max(width - 32, 10))
            lines.append(
                Text.assemble(f"{direction:<6}", (line, "green" if direction == "read" else "blue"), ("  up to " + text.rate(top), "dim"))
            )
    if not lines:
        return []
    span = (series["to_ns"] - series["from_ns"]) / 1e9
    return [
        Text.assemble(
            "\n", ("Bandwidth over time", "bold"), (f" ({text.duration(span)}, a bin of {text.duration(series['step_s'])})", "dim")
        ),
        *lines,
    ]


def _request_sizes(sizes: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("FROM", justify="right", no_wrap=True)
    for direction in ("READS", "WRITES"):
        table.add_column(direction, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    most = max(max(row["read_ops"], row["write_ops"]) for row in sizes)
    for row in sizes:
        if row["read_ops"] or row["write_ops"]:
            table.add_row(
                text.data(row["from_bytes"]),
                text.number(row["read_ops"]) if row["read_ops"] else "",
                Text(text.bar(row["read_ops"] / most), style="green"),
                text.number(row["write_ops"]) if row["write_ops"] else "",
                Text(text.bar(row["write_ops"] / most), style="blue"),
            )
    return table


def _operations(operations: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("CALL")
    for name in ("COUNT", "BYTES", "FAILED", "TIME IN CALLS", "SLOWEST"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in operations:
        table.add_row(
            row["op"],
            text.number(row["count"]),
            text.data(row["bytes"]) if row["bytes"] else "",
            text.number(row["errors"]) if row["errors"] else "",
            text.duration(row["busy_s"]),
            text.duration(row["slowest_s"]),
        )
    return table


def _traffic_rows(title: str, rows: Sequence[dict[str, Any]], name: Any) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(title, overflow="fold", ratio=1)
    for column in ("READ", "WRITTEN", "READS", "WRITES", "METADATA"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        counts = [text.number(row[key]) for key in ("read_ops", "write_ops", "metadata_ops")]
        table.add_row(Text(text.plain(name(row))), text.data(row["read_bytes"]), text.data(row["write_bytes"]), *counts)
    return table
