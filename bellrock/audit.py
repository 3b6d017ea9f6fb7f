"""`bellrock audit`: asks the running server what is missing, and prints its report."""

import datetime
import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bellrock import text
from bellrock.client import Client
from bellrock.errors import Unavailable, UsageError
from bellrock.state import find
from bellrock.text import of

# Of an answer, or of one line of a deep one: the server tells after each part how far it is, and works out the report at both ends.
TIMEOUT_S = 60.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def ask(
    client: Client,
    *,
    node: str | None,
    since_ns: int | None,
    silent_s: int | None,
    limit: int | None,
    deep: bool,
    raw: bool = False,
    told: Callable[[int, int], None] = lambda rows, of: None,
) -> dict[str, Any]:
    """A server's report. `told` hears how many rows a deep audit has read, of how many. Raises Unavailable where the server ends meanwhile."""
    query = {"node": node, "since_ns": since_ns, "silent_s": silent_s, "limit": limit, "raw": 1 if raw else None}
    if not deep:
        return client.get("/api/v1/audit", **query, fresh=1)
    with closing(client.lines("/api/v1/audit", **query, deep=1)) as lines:
        for line in lines:
            if "report" in line:
                return line["report"]
            if "error" in line:
                raise Unavailable(line["error"]["message"], line["error"]["hint"])
            told(line["progress"]["rows"], line["progress"]["of"])
    raise Unavailable("the server ended before it had counted all rows", "see the server's messages, then ask again")


def local_client(state: Path) -> Client:
    """A client of the server that runs on a state. Raises Unavailable where none does: only a server can look into its records."""
    found = find(state)
    if found is None:
        raise Unavailable(f"no server runs on {state}, and only a running one knows what has come", "start it with `bellrock server`, then ask again")
    return Client(found.url, TIMEOUT_S, found.key)


def instant_ns(given: str, now_ns: int | None = None, option: str = "--since") -> int:
    """The instant that an option means: "90m", "2d" (ago), or a date or time in ISO 8601, UTC where it bears no zone. Raises UsageError."""
    ago = re.fullmatch(r"(\d{1,9})([smhdw])", given, re.ASCII)
    if ago is not None:
        return max(0, (time.time_ns() if now_ns is None else now_ns) - int(ago[1]) * _UNITS[ago[2]] * 10**9)
    try:
        when = datetime.datetime.fromisoformat(given)
        if when.tzinfo is None:
            when = when.replace(tzinfo=datetime.UTC)
        return max(0, int(when.timestamp()) * 10**9)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{option} {given}: neither a span nor a time", "write 90m, 12h, 2d, 2026-11-21 or 2026-11-21T08:00") from error


def shown(report: dict[str, Any]) -> RenderableType:
    """The report for a person."""
    missing = [flaw for flaw in report["flaws"] if flaw["severity"] == "missing"]
    parts: list[RenderableType] = [_verdict(report, len(missing))]
    for title, flaws, style in (("Missing", missing, "red"), ("To know", report["flaws"][len(missing) :], "yellow")):
        if flaws:
            parts += [Text(f"\n{title}", "bold"), _flaws(flaws, style)]
    if report["boots"]:
        more = f" (the first {len(report['boots'])} of {text.number(report['boots_total'])})" if len(report["boots"]) < report["boots_total"] else ""
        parts += [Text.assemble("\n", ("Spools", "bold"), (more, "dim")), _boots(report["boots"], report["now_ns"])]
    if report.get("dropped"):
        parts += [Text("\nDropped on purpose (`bellrock retention`)", "bold"), _dropped(report["dropped"])]
    proof = report["proof"]
    if proof is not None:
        parts += [Text("\nRows", "bold"), Text(f"{text.number(proof['rows'])} counted, of {of(proof['boots'], 'spool')}"), _days(proof["days"])]
    return Group(*parts)


def _verdict(report: dict[str, Any], missing: int) -> Text:
    of_spools = of(report["boots_total"], "spool")
    if not report["clean"]:
        more = f"; the first {len(report['flaws'])} of {text.number(report['flaws_total'])} are listed" if report["flaws_total"] > len(report["flaws"]) else ""
        return Text(f"not clean: {of(missing, 'flaw')} by which something is or may be missing, of {of_spools}{more}", "bold red")
    if not report["boots_total"]:
        return Text("no record has come yet")
    return Text(f"clean: nothing is missing, of {of_spools}", "bold green")


def _flaws(flaws: Sequence[dict[str, Any]], style: str) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold", ratio=1)
    for flaw in flaws:
        said = Text(text.plain(flaw["text"]))
        if flaw["hint"]:
            said.append(f"\n{text.plain(flaw['hint'])}", "dim")
        table.add_row(text.plain(flaw["node"] or "-"), said)
    return table


def _boots(boots: Sequence[dict[str, Any]], now_ns: int) -> Table:
    """A line for each spool. Of the counts, those that are 0 everywhere are left out."""
    counts = {
        "MISSING": [boot["missing"] for boot in boots],
        "REFUSED": [boot["dead_letters"] for boot in boots],
        "AGAIN": [boot["duplicates"] for boot in boots],
        "LATE": [boot["late"] for boot in boots],
        "LOST": [boot["lost"] for boot in boots],
        "FOLDED": [boot["told"].get("folded", 0) for boot in boots],
    }
    full_s = [boot["told"].get("spool_full_seconds", 0) for boot in boots]
    chosen = [name for name, values in counts.items() if any(values)]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("NODE", "BOOT", "AGENT"):
        table.add_column(name, no_wrap=True)
    for name in ("HEARD", "CLOCK", "LAST RECORD", *chosen, *(["SPOOL FULL"] if any(full_s) else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for place, boot in enumerate(boots):
        table.add_row(
            text.plain(boot["node"]),
            boot["boot"],
            boot["state"],
            f"{text.duration((now_ns - boot['last_append_ns']) / 1e9)} ago",
            "" if boot["clock_offset_s"] is None else f"{boot['clock_offset_s']:+.1f} s",
            text.number(boot["seq"]),
            *(text.number(counts[name][place]) if counts[name][place] else "" for name in chosen),
            *([text.duration(full_s[place])] if full_s[place] else []),
        )
    return table


def _dropped(dropped: Sequence[dict[str, Any]]) -> Text:
    """A line for each class: how much, and when last."""
    lines = []
    for name in sorted({part["data"] for part in dropped}):
        of_class = [part for part in dropped if part["data"] == name]
        when = datetime.datetime.fromtimestamp(max(part["dropped_ns"] for part in of_class) // 10**9, datetime.UTC)
        lines.append(f"{name.replace('_', ' ')}: {of(sum(part['records'] for part in of_class), 'record')}, the last on {when:%Y-%m-%d %H:%M} UTC")
    return Text("\n".join(lines))


def _days(days: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("DAY", no_wrap=True)
    table.add_column("ROWS", justify="right", no_wrap=True)
    for row in days:
        table.add_row(row["day"], text.number(row["rows"]))
    return table
