"""`bellrock events`."""

import re
import time
from collections.abc import Sequence
from typing import Any

import click

from bellrock import console, output
from bellrock.commands.jobs import server_for
from bellrock.errors import EXIT_CODES

KINDS = ("failover", "raid-rebuild", "maintenance", "other")
# What the API gives out at most.
LIMIT = 10_000
PATH = "/api/v1/annotations"


@click.group(
    invoke_without_command=True,
    short_help="List known events, and tell of one.",
    help=f"""Known events: failovers, RAID rebuilds, maintenance. The server reads them from messages of system logs, and administrators tell of others. A finding about a component says which there were in its time,
and one that lies in maintenance is but info. Without a verb those of the last 30 days are listed.

\b
Examples:
  bellrock events
  bellrock events list --node oss4 --since 7d --json
  bellrock events add maintenance --begin 2026-11-24T08:00 --for 4h --text "new firmware"
  bellrock events end 12

{EXIT_CODES}""",
)
@click.pass_context
def events(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        context.invoke(list_events)


@events.command(
    "list",
    short_help="List known events.",
    help=f"""List known events of a time, the first begun first. SOURCE says whether a log or a person told of one.

\b
Examples:
  bellrock events list
  bellrock events list --node oss4 --since 7d
  bellrock events list --kind maintenance --json | jq '.[].text'

{EXIT_CODES}""",
)
@click.option("--node", metavar="NODE", help="Only those of this node, and of the whole system.")
@click.option("--kind", type=click.Choice(KINDS), help="Only of this kind.")
@click.option("--since", metavar="TIME", default="30d", show_default=True, help="That were there since: 90m, 12h, 2d (ago), or a date or time, UTC.")
@click.option("--to", metavar="TIME", help="The same. Default: whenever.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def list_events(node: str | None, kind: str | None, since: str, to: str | None, as_json: bool) -> None:
    from bellrock.audit import instant_ns

    sought = {"node": node, "from_ns": instant_ns(since), "to_ns": None if to is None else instant_ns(to, option="--to")}
    with server_for("events") as lease:
        found = lease.client.get(PATH, **sought)["annotations"]
    is_whole = len(found) < LIMIT
    found = [one for one in found if kind in (None, one["kind"])]
    if not found and not as_json:
        console.say("no event is known of this time")
    else:
        _show(found, as_json)
    if not is_whole:
        console.say(f"these are of the first {LIMIT:,}: --since, --to or --node shows others")


@events.command(
    "add",
    short_help="Tell of an event.",
    help=f"""Tell of an event of KIND ({", ".join(KINDS)}): on a node, or the whole system; it lasts until `bellrock events end`, or --end or --for says how long.

\b
Examples:
  bellrock events add maintenance --text "new firmware on all controllers"
  bellrock events add failover --node oss4 --begin 20m --end 5m
  bellrock events add maintenance --begin 2026-11-24T08:00 --for 4h --json

{EXIT_CODES}""",
)
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@click.option("--node", metavar="NODE", default="", help="Where; without it on the whole system.")
@click.option("--begin", metavar="TIME", help="90m, 12h, 2d (ago), or a date or time, UTC. Default: now.")
@click.option("--end", metavar="TIME", help="The same. Default: it lasts.")
@click.option("--for", "lasts", metavar="SPAN", help="How long, in place of --end: 30m, 4h, 2d.")
@click.option("--text", metavar="TEXT", default="", help="What it is; for administrators.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array: the event.")
def add(kind: str, node: str, begin: str | None, end: str | None, lasts: str | None, text: str, as_json: bool) -> None:
    from bellrock.audit import instant_ns

    if end is not None and lasts is not None:
        raise click.UsageError("--end says when it ended, --for how long it lasts: give one of the two")
    now_ns = time.time_ns()
    begin_ns = now_ns if begin is None else instant_ns(begin, now_ns, "--begin")
    end_ns = None if end is None else instant_ns(end, now_ns, "--end")
    if lasts is not None:
        if re.fullmatch(r"\d{1,9}[smhdw]", lasts, re.ASCII) is None:
            raise click.UsageError(f"--for {lasts[:80]}: no span; write 30m, 4h or 2d")
        end_ns = begin_ns + now_ns - instant_ns(lasts, now_ns, "--for")
    if end_ns is not None and end_ns < begin_ns:
        raise click.UsageError("it would end before it begins")
    told = {"kind": kind, "begin_ns": begin_ns, "node": node, "text": text} | ({} if end_ns is None else {"end_ns": end_ns})
    with server_for("events") as lease:
        lease.client.send("POST", PATH, told)
        found = lease.client.get(PATH, from_ns=begin_ns, to_ns=begin_ns, node=node or None)["annotations"]
    same = [one for one in found if (one["kind"], one["node"], one["begin_ns"], one["source"]) == (kind, node, begin_ns, "hand")]
    _show(sorted(same, key=lambda one: one["told_ns"])[-1:], as_json)


@events.command(
    "end",
    short_help="Say that an event is over.",
    help=f"""Say when an event that was told by hand, ID in the list, ended.

\b
Examples:
  bellrock events end 12
  bellrock events end 12 --at 2026-11-24T11:30 --json

{EXIT_CODES}""",
)
@click.argument("number", metavar="ID", type=click.IntRange(1))
@click.option("--at", "at", metavar="TIME", help="90m, 12h, 2d (ago), or a date or time, UTC. Default: now.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array: the event.")
def end(number: int, at: str | None, as_json: bool) -> None:
    from bellrock.audit import instant_ns

    end_ns = time.time_ns() if at is None else instant_ns(at, option="--at")
    with server_for("events") as lease:
        lease.client.send("PATCH", f"{PATH}/{number}", {"end_ns": end_ns})
        found = lease.client.get(PATH, from_ns=end_ns, to_ns=end_ns)["annotations"]
    _show([one for one in found if one["id"] == number], as_json)


@events.command(
    "remove",
    short_help="Remove events that were told by mistake.",
    help=f"""Remove events that were told by hand, IDs in the list. What a log told of stays.

\b
Examples:
  bellrock events remove 12 13

{EXIT_CODES}""",
)
@click.argument("numbers", metavar="ID…", nargs=-1, required=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="One JSON array: the IDs.")
def remove(numbers: tuple[int, ...], as_json: bool) -> None:
    with server_for("events") as lease:
        for number in numbers:
            lease.client.send("DELETE", f"{PATH}/{number}")
    if as_json:
        output.show_json(list(numbers))
    else:
        console.say(f"removed: {', '.join(map(str, numbers))}")


def _show(found: Sequence[dict[str, Any]], as_json: bool) -> None:
    from bellrock import report_events

    if as_json:
        output.show_json(list(found))
    else:
        output.show(report_events.listed(found))
