"""What `bellrock layers` prints: pure functions from the API's answer to what rich renders."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bellrock import text

_COLUMNS = ("READ", "×", "WRITTEN", "×", "READS", "WRITES", "METADATA", "READ TOOK", "WRITE TOOK", "QUEUE")
NO_TOPOLOGY = "what serves the job's nodes is not known: an administrator says so with `bellrock topology apply`"
# Metadata operations that are named, those that there were most of.
NAMED_MAX = 8
NOTHING = "the job did nothing to files that are watched"


def shown(answer: dict[str, Any], of_each: bool) -> RenderableType:
    """A table for each file system. of_each: with a line for each component."""
    parts: list[RenderableType] = []
    for system in answer["file_systems"]:
        parts += [Text(f"{text.plain(system['name'])} ({text.plain(system['kind'])})", "bold"), _table(system["layers"], of_each)]
        parts += [Text(line) for layer in system["layers"] for line in _lines(layer)]
    if answer["elsewhere"] is not None:
        what = "in files of no known file system" if answer["has_topology"] else "by the job's processes"
        parts.append(Text(f"{text.data(answer['elsewhere']['read_bytes'])} read and {text.data(answer['elsewhere']['write_bytes'])} written {what}"))
    elif not parts:
        parts.append(Text(NOTHING))
    if answer["resolution_s"] is not None:
        parts.append(Text(f"samples of this time were dropped: servers' figures are of summaries by the {'minute' if answer['resolution_s'] == 60 else 'hour'}", "yellow"))
    if not answer["has_topology"]:
        parts.append(Text(NO_TOPOLOGY, "yellow"))
    return Group(*parts)


def _table(layers: list[dict[str, Any]], of_each: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("LAYER", overflow="fold")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("FOR", overflow="fold")
    for layer in layers:
        table.add_row(layer["layer"], *_figures(layer["figures"], layer["amplification"]), "" if layer["layer"] == "client" else _whose(layer))
        for one in layer["components"] if of_each else ():
            name = " ".join(text.plain(one[part]) for part in ("node", "component", "instance"))
            told = "sent nothing" if not one["known_s"] else _whose(one)
            sure = "" if one["is_certain"] else "; perhaps not for this job"
            sure += "; beneath, and not added" if one["is_beneath"] else ""
            table.add_row(Text(f"  {name}"), *_figures(one["figures"], None), told + sure)
    return table


def _lines(layer: dict[str, Any]) -> list[str]:
    """What finds no room in a table: metadata operations by name, and caches."""
    own, figures, lines = layer["own"] or {}, layer["figures"], []
    named = figures["metadata"] if own.get("metadata") is None else own["metadata"]
    if named:
        shown = [f"{text.plain(one['name'])} {text.number(one['ops'])}" + ("" if one["mean_s"] is None else f" ({text.duration(one['mean_s'])})") for one in named]
        rest = f" and {len(shown) - NAMED_MAX} more" if len(shown) > NAMED_MAX else ""
        lines.append(f"{layer['layer']} operations: {', '.join(shown[:NAMED_MAX])}{rest}")
    hits, misses, discards = (figures[f"cache_{name}"] for name in ("hits", "misses", "discards"))
    if hits is not None and misses is not None:
        dropped = "" if discards is None else f"; {text.number(discards)} dropped before anybody read them"
        lines.append(f"{layer['layer']} cache: {text.number(hits)} of {text.number(hits + misses)} found{dropped}")
    return lines


def _figures(figures: dict[str, Any], amplification: dict[str, Any] | None) -> tuple[str, ...]:
    times = [(figures[f"{kind}_latency"] or {}).get("mean_s") for kind in ("read", "write")]
    factors = ["" if amplification is None or amplification[kind] is None else f"{amplification[kind]:.2f}" for kind in ("read", "write")]
    return (
        text.data(figures["read_bytes"]), factors[0], text.data(figures["write_bytes"]), factors[1],
        *(text.number(figures[f"{kind}_ops"]) for kind in ("read", "write", "metadata")), *map(text.duration, times), text.number(figures["queue_mean"]),
    )  # fmt: skip


def _whose(told: dict[str, Any]) -> str:
    """For whom it was."""
    if told["how"] == "alone":
        return "this job"
    others = f"{text.of(told['other_jobs'], 'other job')} too"
    if told["own"] is None:
        return others if told["other_jobs"] else "not told"
    by_name = " by its name" if told["how"] == "job_stats" else ""
    return f"{others}; this one {text.data(told['own']['read_bytes'])} read, {text.data(told['own']['write_bytes'])} written{by_name}"
