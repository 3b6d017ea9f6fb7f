"""What `bellrock components` and `bellrock component` print: pure functions from the API's answers to what rich renders."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bellrock import text

# Who has said nothing for so long: what does not change is told once a minute, and a record may be on its way for a while.
SILENT_S = 180
SPARKS = 30
BY_NAME = "by what programs call their job (job_stats), which they may say of others' I/O, too"
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def listed(found: Sequence[dict[str, Any]], now_ns: int) -> Table:
    """A line for each component."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE", "COMPONENT", "INSTANCE"):
        table.add_column(name, overflow="fold")
    table.add_column("HEARD", justify="right", no_wrap=True)
    for one in found:
        silent_s = max(0.0, (now_ns - one["last_ns"]) / 1e9)
        ago = Text("just now" if silent_s < 5 else f"{text.duration(silent_s)} ago", "red" if silent_s > SILENT_S else "")
        table.add_row(*(Text(text.plain(one[name]) or '""') for name in ("node", "component", "instance")), ago)
    return table


def one(answer: dict[str, Any]) -> RenderableType:
    """The values of one component: a line each, of a histogram one for each bucket."""
    name = " ".join(text.plain(answer[part]) for part in ("node", "component", "instance"))
    span = f"{text.instant(answer['from_ns'])} to {text.instant(answer['to_ns'])}, in steps of {text.duration(answer['step_s'])}"
    if answer["resolution_s"] is not None:
        span += f", of summaries by the {'minute' if answer['resolution_s'] == 60 else 'hour'}"
    parts: list[RenderableType] = [Text(name, "bold"), Text(span, "dim")]
    if not answer["values"]:
        return Group(*parts, Text("nothing was heard of it in this time; `bellrock components` lists what there is"))
    levels = [_level(value) for value in answer["values"] if value["kind"] in ("gauge", "unknown")]
    rates = [row for value in answer["values"] for row in _rates(value)]
    parts += [
        _table(title, columns, rows)
        for title, columns, rows in (("Rates", ("TOTAL", "MEAN", "HIGHEST"), rates), ("Levels", ("LAST", "LOWEST", "HIGHEST"), levels))
        if rows
    ]
    if answer["values_left_out"]:
        parts.append(Text(f"{text.number(answer['values_left_out'])} values more are too many to show", "yellow"))
    return Group(*parts)


def load(name: str, answer: dict[str, Any], by: str) -> RenderableType:
    """For whom the component `name` worked, a line each; what else is counted, where that is not."""
    span = f"{text.instant(answer['from_ns'])} to {text.instant(answer['to_ns'])}"
    if answer["resolution_s"] is not None:
        span += ", of summaries by the hour, which count whole"
    parts: list[RenderableType] = [Text(text.plain(name), "bold"), Text(span, "dim")]
    told = answer[f"by_{by}"]
    if told is None:
        counted = [key.removeprefix("by_") for key, of in answer.items() if key.startswith("by_") and of is not None]
        hint = f"; it is by {', '.join(counted)}" if counted else ""
        return Group(*parts, Text(f"nothing was counted by {by} in this time{hint}"))
    has_members = by != "client"
    members = ("CLIENTS" if by in ("class", "group") else "NAMES",) if has_members else ()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(by.upper(), overflow="fold")
    for column in (*members, "READ", "WRITTEN", "READS", "WRITES", "METADATA"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in told["rows"]:
        figures = (text.data(row["read_bytes"]), text.data(row["write_bytes"]), *(text.number(row[f"{kind}_ops"]) for kind in ("read", "write", "metadata")))
        table.add_row(Text(text.plain(row["name"])), *((text.number(row["members"]),) if has_members else ()), *figures)
    parts.append(table)
    if told["total"] > len(told["rows"]):
        parts.append(Text(f"{text.number(told['total'] - len(told['rows']))} more did less"))
    if by in ("user", "job"):
        parts.append(Text(BY_NAME, "dim"))
    return Group(*parts)


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("VALUE", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return Group(Text(f"\n{title}", "bold"), table)


def _rates(value: dict[str, Any]) -> list[tuple[str, ...]]:
    name = text.plain(value["name"])
    if value["kind"] == "counter":
        return [_rate(name, value["unit"], value["total"], value["per_s"], value["max_per_s"])]
    if value["kind"] == "histogram":
        return [
            _rate(f"{name} {'above' if bound is None else 'to'} {_bound(value, place)}", None, total, per_s, per_s)
            for place, (bound, total, per_s) in enumerate(zip(value["bounds"], value["totals"], value["per_s"], strict=True))
        ]
    return []


def _rate(name: str, unit: str | None, total: float, per_s: Sequence[float | None], max_per_s: Sequence[float | None]) -> tuple[str, ...]:
    amount = _written(unit)
    known, tops = ([rate for rate in rates if rate is not None] for rates in (per_s, max_per_s))
    # Seconds a second are a share.
    mean, highest = (f"{one:.1%}" if unit == "s" else f"{amount(one)}/s" for one in (sum(known) / len(known), max(tops))) if known else ("-", "-")
    return name, amount(total), mean, highest, text.sparkline(per_s, SPARKS)


def _bound(value: dict[str, Any], place: int) -> str:
    bound = value["bounds"][place]
    if bound is None:
        bound = value["bounds"][place - 1] if place else None
    return _written(value["unit"])(bound)


def _level(value: dict[str, Any]) -> tuple[str, ...]:
    written = _written(value["unit"])
    last = next((one for one in reversed(value["last"]) if one is not None), None)
    lowest, highest = (choose((one for one in value[name] if one is not None), default=None) for choose, name in ((min, "min"), (max, "max")))
    return text.plain(value["name"]), *(written(one) for one in (last, lowest, highest)), text.sparkline(value["mean"], SPARKS)


def _written(unit: str | None) -> Callable[[float | None], str]:
    if unit == "bytes":
        return text.data
    if unit == "bytes/s":
        return lambda value: text.data(value) if value is None else f"{text.data(value)}/s"
    if unit in _SECONDS:
        return lambda value: text.duration(None if value is None else value * _SECONDS[unit])
    return text.number
