"""`bellrock archive`."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from bellrock import console, output, text
from bellrock.errors import EXIT_CODES, EXIT_FAILED

if TYPE_CHECKING:
    from bellrock.client import Client

# How often it is looked how far the server is.
LOOK_EVERY_S = 0.5
# A block is read and decoded in some milliseconds, a request checks 32.
TIMEOUT_S = 300.0


@click.command(
    short_help="Pack jobs' records, or show what is packed.",
    help=f"""Pack the records of JOBs into the archive, where they stay when retention drops them, and show what it holds of them.

The server does it by itself, some minutes after a job's records have settled ([archive] in server.toml); this has it done now, where it is not done already. A job is packed
anew when records of it came late: each time is a generation. What belongs to no job is packed by days before it is dropped: --rest DAY shows that.
The running server does it; without one nothing is packed or shown.

\b
Examples:
  bellrock archive 4711
  bellrock archive 4711 4712 --show --json | jq '.[].archive.ratio'
  bellrock archive 4711 --verify
  bellrock archive --rest 2026-11-22 --group g1

{EXIT_CODES}""",
)
@click.argument("jobs", metavar="JOB…", nargs=-1)
@click.option("--rest", "day", metavar="DAY", help="What began on this day (UTC) and no archived job holds, in place of jobs.")
@click.option("--group", metavar="NAME", default="", help="With --rest: the group of nodes, where there are groups.")
@click.option("--show", "only_shows", is_flag=True, help="Pack nothing.")
@click.option("--verify", is_flag=True, help="Read and decode all blocks, and tell which are damaged; exit 1 where any is.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array, an object a job.")
def archive(jobs: tuple[str, ...], day: str | None, group: str, only_shows: bool, verify: bool, as_json: bool) -> None:
    from bellrock import audit as auditing
    from bellrock import paths

    if bool(jobs) == bool(day):
        raise click.UsageError("name jobs, or a day with --rest")
    if group and not day:
        raise click.UsageError("--group is for --rest")
    client = auditing.local_client(paths.state_dir())
    client.timeout_s = TIMEOUT_S
    found = []
    for subject in [f"job {job}" for job in jobs] if jobs else [f"rest {day} {group}".rstrip()]:
        with console.waiting(f"{subject}: asking the server") as wait:
            told = client.get("/api/v1/archives", subject=subject) if only_shows or verify or day else _packed(client, subject, wait)
            if verify and told["archive"] is not None:
                told["damaged"] = _checked(client, subject, wait)
        found.append(told)
    if as_json:
        output.show_json(found)
    else:
        _table(found)
        for told in found:
            _tell(told, verify)
    if any(told["archive"] is None or told["error"] or told.get("damaged") for told in found):
        sys.exit(EXIT_FAILED)


def _packed(client: "Client", subject: str, wait: console.Wait) -> dict[str, Any]:
    """What is known of a job once the server has packed it, or could not."""
    from urllib.parse import quote

    told, _ = client.send("POST", f"/api/v1/archives?subject={quote(subject, safe='')}")
    while told["waits"] or told["at_work"] is not None:
        work = told["at_work"]
        if work is not None and work["of"]:
            wait.tell(f"{subject}: packing {text.number(work['rows'])} of {text.number(work['of'])} records ({work['rows'] / work['of']:.0%})")
        else:
            wait.tell(f"{subject}: waiting for its turn")
        time.sleep(LOOK_EVERY_S)
        told = client.get("/api/v1/archives", subject=subject)
    return told


def _checked(client: "Client", subject: str, wait: console.Wait) -> list[dict[str, Any]]:
    """The damaged blocks."""
    damaged: list[dict[str, Any]] = []
    begin: int | None = 0
    while begin is not None:
        part = client.get("/api/v1/archives/check", subject=subject, **{"from": begin})
        damaged += part["damaged"]
        begin = part["next"]
        wait.tell(f"{subject}: read {text.number(begin or part['blocks'])} of {text.number(part['blocks'])} blocks")
    return damaged


def _tell(told: dict[str, Any], verify: bool) -> None:
    if told["error"]:
        console.warn(f"{told['subject']}: {told['error']}")
    elif told["archive"] is None:
        console.warn(f"{told['subject']}: is not in the archive")
    elif verify:
        damaged = told["damaged"]
        for block in damaged[:20]:
            console.warn(f"{told['subject']}: block {block['block']}: {block['error']}")
        console.say(f"{told['subject']}: {text.of(len(damaged), 'damaged block') if damaged else 'all blocks can be read'}")


def _table(found: Sequence[dict[str, Any]]) -> None:
    states = [told["archive"] for told in found if told["archive"] is not None]
    if not states:
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, side in (("ARCHIVE OF", "left"), ("GENERATION", "right"), ("RECORDS", "right"), ("BLOCKS", "right"), ("BEFORE", "right"), ("AFTER", "right"), ("RATIO", "right"), ("PACKED", "left")):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for state in states:
        ratio = "-" if state["ratio"] is None else f"{state['ratio']:.1f}"
        row = (text.number(state["generation"]), text.number(state["rows"]), text.number(state["blocks"]), text.data(state["record_bytes"]), text.data(state["bytes"]))
        table.add_row(text.plain(state["subject"]), *row, ratio, text.instant(state["made_ns"]))
    output.show(table)
