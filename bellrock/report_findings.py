"""What `bellrock findings` and `bellrock explain` print: pure functions from the API's answers to what rich renders."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bellrock import text

STYLES = {"critical": "red", "warning": "yellow", "info": ""}
# Of a list of the evidence.
ROWS_MAX = 20
# No length of time is so many ns; instants since 1973 are.
INSTANT_NS = 10**17
# Of a cache; and what hours are called by how loaded they were.
PAGE_BYTES, BANDS = 4096, ("idle", "low", "mid", "high")


def listed(found: Sequence[dict[str, Any]]) -> Table:
    """A line for each finding."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ID", justify="right", no_wrap=True)
    for name in ("SINCE", "SEVERITY", "FINDING", "OF", "STATE"):
        table.add_column(name, no_wrap=name != "OF")
    table.add_column("CAUSE", overflow="fold")
    for one in found:
        state = one["state"] if one["verdict"] is None else f"{one['state']}, {one['verdict']}"
        table.add_row(
            str(one["id"]), text.instant(one["begin_ns"]), Text(one["severity"], STYLES[one["severity"]]), text.plain(one["kind"]), text.plain(subject(one)), state,
            text.plain(one["cause"]),
        )  # fmt: skip
    return table


# What is said of a run by its status.
_HELD = {
    "no-phases": "has no phases that could be held against others'", "too-little-history": "too few runs of it before to say whether it was slow",
    "other-work": "did other work than runs of it before", "usual": "took as long as runs of it before", "slow": "was slow against runs of it before",
    "not-comparable": "nothing is known that could be held against earlier runs",
}  # fmt: skip


_LEFT_OUT = {"skipped": "times it could not be told what lay behind a job", "failed": "could not be looked at, by a fault of Bellrock; see the server's log"}


def held_against(job: str, run: Mapping[str, Any] | None) -> str:
    """How a job did against earlier runs of its program."""
    if run is None:
        return f"job {text.plain(job)}: {_HELD['not-comparable']}"
    return f"job {text.plain(job)}, {text.plain(run['program'])} on {run['nodes']} nodes with {run['processes']} processes: {_HELD.get(run['status'], text.plain(run['status']))}"


def looked(status: Mapping[str, Any]) -> RenderableType:
    """How far the server is with looking for findings."""
    rows = [("jobs", f"{status['jobs']:,} looked at since its start, {status['findings']:,} findings in them, in {status['took_s']:.1f} s")]
    rows += [("", f"{number:,}: {_HELD.get(name, name)}") for name, number in sorted(status["runs"].items(), key=lambda one: -one[1])]
    rows += [("", f"{status[name]:,} {words}") for name, words in _LEFT_OUT.items() if status[name]]
    if (who := status.get("interference")) is not None:
        rows.append(("who slowed jobs", f"asked of {who['jobs']:,}, somebody named for {who['named']:,}, not to be told of {who['skipped']:,}, in {who['took_s']:.1f} s, the last one {who['last_s']:.2f} s"))
    for kind, one in status["slow_servers"].items():
        if one["until_ns"] is None:
            rows.append((kind, "nobody has told of such servers"))
            continue
        doing = "learns what demands take" if one["is_learning"] else f"{one['lasting']:,} slow"
        rows.append((kind, f"up to {text.instant(one['until_ns'])}: {one['servers']:,} servers, {doing}; {_since(one)}"))
    for kind, one in status["large_jobs"].items():
        if one["until_ns"] is None:
            rows.append((kind, "nobody has told of such servers, or what demands take is still learnt"))
            continue
        told = f"up to {text.instant(one['until_ns'])}: {one['servers']:,} servers, {one['lasting']:,} that stand out; since its start {one['windows']:,} hours with {one['jobs']:,} large jobs, {one['findings']:,} findings, in {one['took_s']:.1f} s"
        rows.append((kind, told + (f"; {one['left_out']:,} jobs of which too much would have had to be read" if one["left_out"] else "")))
    for what, one in status["system"].items():
        if one["until_ns"] is None:
            rows.append((what, "nobody has told of such"))
            continue
        told = f"up to {text.instant(one['until_ns'])}: {one['components']:,} {_COMPONENTS.get(what, 'components')}, {one['lasting']:,} findings that last; {_since(one)}"
        rows.append((what, told))
    if status["error"]:
        rows.append(("it cannot go on", status["error"]))
    return _pairs(rows)


_COMPONENTS = {"forwarding": "mounts of forwarding nodes", "metadata": "metadata servers"}


def _since(one: Mapping[str, Any]) -> str:
    told = f"since its start {one['minutes']:,} minutes, {one['findings']:,} findings, in {one['took_s']:.1f} s, the last look {one['last_s']:.2f} s"
    return told + (f"; {one['left_out']:,} samples in which something made no sense" if one["left_out"] else "")


def subject(one: Mapping[str, Any]) -> str:
    """What a finding is about: its component, else its jobs; of a job that a component held up both."""
    component = " ".join(part for part in (one["node"], one["instance"]) if part and one["node"])
    jobs = ", ".join("another job" if job["job"] is None else f"job {job['job']}" for job in one["jobs"] if not component or job["role"] == "subject")
    return ", at ".join(part for part in (jobs, component) if part) or "the system"


def explained(answer: Mapping[str, Any]) -> RenderableType:
    """A finding and what it rests on."""
    one = answer["finding"]
    head = Text(f"{one['id']}  {text.plain(one['kind'])}", "bold")
    head.append(f"  {one['severity']}", STYLES[one["severity"]])
    parts: list[RenderableType] = [head, _pairs(_about(one)), Text("\nwhat it rests on", "bold"), _pairs(_lines(_arithmetic(one["kind"], answer["evidence"])))]
    if answer["annotations"]:
        parts += [Text("\nknown events of its time", "bold"), _pairs((text.instant(event["begin_ns"]), f"{event['kind']} {event['node']} {event['text']}") for event in answer["annotations"])]
    if answer["comments"]:
        parts += [Text("\nwhat was said", "bold"), _pairs((text.instant(said["at_ns"]), f"{said['author']}: {said['text']}") for said in answer["comments"])]
    return Group(*parts)


def _arithmetic(kind: str, evidence: Any) -> Any:
    """Of kinds that rest on sums first these, as they are worked out, in place of their figures."""
    worked, used = _SUMS.get(kind, (None, ()))
    if worked is None or not isinstance(evidence, Mapping) or not set(used) <= evidence.keys():
        return evidence
    return worked(evidence) | {name: value for name, value in evidence.items() if name not in used}


def _of_slow_server(evidence: Mapping[str, Any]) -> dict[str, str]:
    told = {
        f"{row['requests']} requests": f"{_figure(row['number'])} × {_figure(row['operation_s'])} s + {_figure(row['bytes'])} B × {_figure(row['byte_s'])} s = {_figure(row['should_take_s'])} s; "
        f"they took {_figure(row['took_s'])} s"
        for row in evidence["demand"]
    }  # fmt: skip
    told["in all"] = f"{_figure(evidence['took_s'])} s ÷ {_figure(evidence['should_take_s'])} s = {_figure(evidence['times_in_all'])} times"
    return told


def _of_straggler(evidence: Mapping[str, Any]) -> dict[str, str]:
    """A line for each of its jobs, others' without a name."""
    return {
        f"large job {place}": f"{'another job' if row['job'] is None else row['job']}: {_figure(row['took_s'])} s ÷ ({_figure(row['should_take_s'])} s × {_figure(row['peers_times'])} of {_figure(row['peers'])} peers) = {_figure(row['times'])} times, at "
        f"{_figure(row['rate'])} of their rate; it stood out in {row['stood_out_minutes']:,} of {row['minutes']:,} minutes (by {row['told_by']})"
        for place, row in enumerate(evidence["large_jobs"][:ROWS_MAX], 1)
    }  # fmt: skip


def _of_thrashing(evidence: Mapping[str, Any]) -> dict[str, str]:
    hits, misses, discards = (evidence[name] for name in ("hits", "misses", "discards"))
    return {
        "had to be fetched": f"{misses:,} ÷ ({hits:,} + {misses:,}) pages read = {_figure(evidence['miss_share'])}",
        "dropped unread": f"{discards:,} pages × {PAGE_BYTES:,} B = {evidence['discarded_bytes']:,} B",
        "fetched for each missed": f"({misses:,} + {discards:,}) ÷ {misses:,} = {_figure(float(misses + discards) / max(misses, 1))} times",
    }  # fmt: skip


def _of_pressure(evidence: Mapping[str, Any]) -> dict[str, str]:
    per_s, usual = evidence["ops_per_s"], evidence["usual_ops_per_s"]
    return {
        "a second": f"{evidence['requests']:,} requests ÷ ({evidence['minutes']:,} minutes × 60 s) = {_figure(per_s)}",
        "against the usual": f"{_figure(per_s)} ÷ {_figure(usual)} = {_figure(per_s / usual)} times",
        "of all": f"{evidence['requests']:,} ÷ {evidence['requests_of_all']:,} requests = {_figure(evidence['share'])}",
    }  # fmt: skip


def _of_load(evidence: Mapping[str, Any]) -> dict[str, str]:
    return {f"{name} hours": f"{evidence[f'{name}_cells']:,} ÷ {evidence['cells']:,} hours of all nodes = {_figure(evidence[f'{name}_share'])}" for name in BANDS}


# By kind, what shows its sums, and the figures that these hold.
_SUMS: dict[str, tuple[Callable[[Mapping[str, Any]], dict[str, str]], tuple[str, ...]]] = {
    **dict.fromkeys(("slow-ost", "slow-forwarding-node"), (_of_slow_server, ("demand", "took_s", "should_take_s", "times_in_all"))),
    **dict.fromkeys(("straggling-ost", "straggling-forwarding-node"), (_of_straggler, ("large_jobs",))),
    "cache-thrashing": (_of_thrashing, ("hits", "misses", "discards", "miss_share", "discarded_bytes")),
    "metadata-pressure": (_of_pressure, ("requests", "requests_of_all", "minutes", "ops_per_s", "usual_ops_per_s", "share")),
    "forwarding-load": (_of_load, ("cells", *(f"{name}_{what}" for name in BANDS for what in ("cells", "share")))),
}  # fmt: skip


def _about(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "of", subject(one)
    end = "it lasts" if one["end_ns"] is None else f"until {text.instant(one['end_ns'])}"
    yield "time", f"{text.instant(one['begin_ns'])}, {end}"
    if one["times"] is not None:
        yield "times the usual", f"{one['times']:.3g}"
    yield "cause", one["cause"] + (f" (says {one['cause_by']})" if one["cause_by"] else "")
    yield "state", one["state"] + (f" by {one['changed_by']}, {text.instant(one['changed_ns'])}" if one["changed_by"] else "")
    for name in ("verdict", "remedy"):
        if one[name]:
            yield name, one[name]


def _lines(evidence: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """A line for each figure, "a.b" for what lies in an object."""
    if isinstance(evidence, Mapping):
        for key, value in evidence.items():
            yield from _lines(value, f"{name}.{key}" if name else str(key))
    elif isinstance(evidence, list):
        for place, value in enumerate(evidence[:ROWS_MAX]):
            is_flat = isinstance(value, Mapping) and not any(isinstance(part, (Mapping, list)) for part in value.values())
            yield from [(f"{name} {place + 1}", ", ".join(f"{key} {_figure(part, key)}" for key, part in value.items()))] if is_flat else _lines(value, f"{name} {place + 1}")
        if len(evidence) > ROWS_MAX:
            yield name, f"and {len(evidence) - ROWS_MAX} more: --json shows all"
    else:
        yield name, _figure(evidence, name)


def _figure(value: Any, name: str = "") -> str:
    if type(value) is int and name.endswith("_ns") and value > INSTANT_NS:
        return text.instant(value)
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if type(value) is int else "-" if value is None else str(value)


def _pairs(rows: Any) -> Table:
    """Names and what they stand for. Words may be anybody's: nothing of them reaches the terminal but text."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(text.plain(name)), Text(text.plain(value)))
    return table
