"""`bellrock audit`."""

import sys

import click

from bellrock import console, output
from bellrock.commands.options import named_client
from bellrock.errors import EXIT_FAILED


@click.command(
    short_help="Find what is missing.",
    help="""Find every gap in what agents have sent, and what else is not there.

It tells, for each node and each of its spools ("boots"): records that never came, by their numbers; records that were refused (dead letters),
and why; what the agent itself counts as lost; agents that fell silent without saying that they end; two agents that take each other's place.
And what costs no sum: late records, clocks that are off, spools that were full, records that came twice and were dropped.
The running server answers; without one there is no audit.

\b
Examples:
  bellrock audit
  bellrock audit --node n17 --since 2d
  bellrock audit --deep
  bellrock audit --since 2026-11-21 --json | jq '.flaws[] | select(.severity == "missing")'

\b
Exit codes:
  0  nothing is missing
  1  something is, or there was too much to look at all of it, or the node is not known
  2  the command line is wrong
  3  no server answers""",
)
@click.option("--node", metavar="NAME", help="Only this node.")
@click.option("--since", metavar="WHEN", help="Gaps, refusals and losses only since then: 90m, 12h, 2d (ago), or a date or time in UTC. Who is silent is always told. Default: ever.")
@click.option("--silent", "silent_s", type=click.IntRange(1, 10**9), metavar="SECONDS", help="An agent is silent after so long. Default: 300.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Spools to list, those with a flaw first.")
@click.option("--deep", is_flag=True, help="Also count all rows, number by number: are those there that came, and each once? With --since those of the spools that were heard of since, each whole. Takes long; Ctrl-C ends it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as /api/v1/audit answers it.")
def audit(node: str | None, since: str | None, silent_s: int | None, limit: int, deep: bool, as_json: bool) -> None:
    from bellrock import audit as auditing
    from bellrock import paths

    since_ns = None if since is None else auditing.instant_ns(since)
    with console.waiting("counting all rows" if deep else "asking the server") as wait:

        def told(rows: int, of: int) -> None:
            wait.tell(f"counting all rows: {rows:,} of {of:,} ({rows / max(of, 1):.0%})")

        options = {"node": node, "since_ns": since_ns, "silent_s": silent_s, "limit": limit, "deep": deep, "raw": as_json}
        client = named_client(auditing.TIMEOUT_S) or auditing.local_client(paths.state_dir())
        report = auditing.ask(client, **options, told=told)
    if as_json:
        output.show_json(report)
    else:
        output.show(auditing.shown(report))
    if not report["clean"]:
        sys.exit(EXIT_FAILED)
