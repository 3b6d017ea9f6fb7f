"""What `bellrock run`, `jobs` and `show` print: pure functions from the API's answers to rich's tables and text."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bellrock import report_latency, text

# The headline of a job, in the order in which `--json` prints it. jobdb.profile has the same tuple, and a test holds the
# two together: importing it from there would cost every `bellrock run` 0.3 s.
HEADLINE = (
    "job_id",
    "program",
    "nodes",
    "processes",
    "io_processes",
    "runtime_s",
    "read_bytes",
    "write_bytes",
    "read_ops",
    "write_ops",
    "metadata_ops",
    "mdops_avg",
    "bandwidth_avg_read",
    "bandwidth_avg_write",
    "bandwidth_peak_read",
    "bandwidth_peak_write",
    "iops_avg",
    "io_mode_read",
    "io_mode_write",
    "files",
    "phases",
)

MODES = {
    "N-N": "each process has files of its own",
    "N-1": "all processes share one file",
    "N-M": "groups of processes share files, or only some processes do I/O",
    "1-1": "one process does all of it",
}
STATE_STYLES = {"running": "cyan", "completed": "green", "failed": "red"}


def headline(profile: dict[str, Any]) -> dict[str, Any]:
    """The 21 headline figures of a profile. Raises KeyError where the API left one out."""
    return {name: profile[name] for name in HEADLINE}


def of(count: int | None, noun: str) -> str:
    """ "1 file", "3 files", "2 processes"."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{text.number(count)} {noun if count == 1 else plural}"


def first_line(job: dict[str, Any], profile: dict[str, Any]) -> str:
    """Who, how it ended, how long, on how many."""
    state = job["state"]
    if state == "failed" and job.get("exit_code") is not None:
        state = f"failed with exit code {job['exit_code']}"
    took = f"{'for' if job['state'] == 'running' else 'in'} {text.duration(profile['runtime_s'])}"
    who = "processes unseen" if profile["processes"] is None else of(profile["processes"], "process")
    size = f"{who} on {of(profile['nodes'], 'node')}"
    return f"job {text.plain(job['job_id'])} · {text.plain(job['program'])} · {state} {took} · {size}"


def is_blank(profile: dict[str, Any]) -> bool:
    """Whether nothing at all was seen of the job's programs."""
    return not (profile["processes"] or profile["read_ops"] or profile["write_ops"] or profile["metadata_ops"] or profile["errors"])


NOTHING_SEEN = (
    "no I/O on watched files was seen: the program made none, its files are outside what is watched (see --watch and --ignore), "
    "it was started without the library (an empty environment, another user), or it works in ways that are not seen (mapped memory, bare system calls)"
)


UNSEEN_REASONS = {
    "static": "statically linked",
    "io_uring": "uses io_uring",
    "privileged": "set-uid, or has capabilities of its own",
    "foreign": "built for another C library or processor",
}
UNSEEN_SHOWN_MAX = 5


def unseen(profile: dict[str, Any]) -> list[str]:
    """A line for each program that ran unwatched: a job is never shown as idle for it."""
    found = profile.get("unseen") or []
    lines = []
    for row in found[:UNSEEN_SHOWN_MAX]:
        why = UNSEEN_REASONS.get(row["reason"], "cannot be preloaded")
        lines.append(f"{text.plain(row['program'] or 'a program')} could not be watched ({why}; {of(row['processes'], 'process')}): its I/O is not in the figures")
    further = max(len(found), profile.get("unseen_programs") or 0) - UNSEEN_SHOWN_MAX
    if further > 0:
        lines.append(f"nor could {of(further, 'further program')}")
    return lines


OF_NODES = "no process was seen: the figures are those of the nodes' file system clients in the job's time, each node for one process, times to the second"


def caveats(answer: dict[str, Any]) -> list[str]:
    """What must be known before the figures are trusted."""
    profile = answer["profile"]
    return [*losses(answer), *unseen(profile), *([OF_NODES] if profile.get("granularity") == "node" else [])]


def losses(answer: dict[str, Any]) -> list[str]:
    """A line for each thing that was lost on a node while the job ran."""
    lines = []
    for row in answer["losses"]:
        node = text.plain(row["node"])
        if row["lost"]:
            lines.append(f"{text.number(row['lost'])} operations or records were lost on {node} meanwhile: the figures are perhaps too low")
        if row["lost_log_bytes"]:
            lines.append(f"{text.data(row['lost_log_bytes'])} of a trace log on {node} were gone before they were read: the figures are perhaps too low")
        if row["lost_names"]:
            lines.append(f"{of(row['lost_names'], 'file name')} found no room on {node} meanwhile: some files are listed by their id")
    return lines


def overflows(answer: dict[str, Any]) -> list[str]:
    """A line for each node whose agent could not pass on what it read while the job ran."""
    return [
        f"the agent's spool on {text.plain(row['node'])} was full for {text.duration(row['spool_full_s'])} meanwhile, and {of(row['folded'], 'operation')} "
        "of programs there were folded: counts and bytes are exact, single times and offsets are not"
        for row in answer["losses"]
        if row["spool_full_s"]
    ]


def summary(answer: dict[str, Any]) -> list[str]:
    """A job in a few lines of plain text, for the end of `bellrock run`."""
    job, profile = answer["job"], answer["profile"]
    lines = [first_line(job, profile), *(f"  {line}" for line in (*caveats(answer), *overflows(answer)))]
    if is_blank(profile):
        return lines if profile.get("unseen") else [*lines, f"  {NOTHING_SEEN}"]
    for direction in ("read", "write"):
        operations = profile[f"{direction}_ops"]
        if operations:
            mode = profile[f"io_mode_{direction}"]
            lines.append(
                f"  {direction:<6}{text.data(profile[f'{direction}_bytes']):>10} in {of(operations, 'call')} · "
                f"{text.rate(profile[f'bandwidth_avg_{direction}'])}, at most {text.rate(profile[f'bandwidth_peak_{direction}'])}"
                + (f" · {mode}: {MODES.get(mode, '')}" if mode else "")
            )
    lines.append(
        f"  {of(profile['files'], 'file')} · {of(profile['metadata_ops'], 'metadata operation')} · {of(profile['phases'], 'phase')} of I/O"
    )
    if profile["errors"]:
        lines.append(f"  {of(profile['errors'], 'call')} failed")
    return lines


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
            text.number(len(job["node_names"])),
            text.number(job.get("processes")),
            text.data(job.get("read_bytes")),
            text.data(job.get("write_bytes")),
            f"{job.get('io_mode_read') or '-'} / {job.get('io_mode_write') or '-'}",
        )
    return table


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


def _facts(job: dict[str, Any], profile: dict[str, Any], page: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    nodes = ", ".join(job["node_names"][:8]) + (" …" if len(job["node_names"]) > 8 else "")
    slowest = profile.get("slowest_op")
    facts = [
        ("command", job["command"]),
        ("user", job["user"]),
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
