"""`bellrock stack`: thin, as all verbs are."""

import click

from bellrock import console, output, text

COLUMNS = ("name", "serves", "state", "pid", "address", "memory")


@click.group(
    short_help="A miniature site's servers on this machine.",
    help="""A miniature site on this machine: three Elasticsearch nodes (log servers g1 and g2, archive), a Redis for each log server, one
as cache, MySQL, `bellrock ingest` for each log server and the central server, on loopback, with TLS, users and passwords of their own. docs/stack.md tells how to look into each.

\b
Examples:
  bellrock stack up                start what does not run yet (about 3.2 GB of memory)
  bellrock stack status            what runs, where, and how large it is
  bellrock stack down              end it; what was stored is kept
  bellrock stack down --wipe       end it, and remove all that it stored

\b
It lies in $BELLROCK_STACK (default: `stack` in the state directory; root's /var/lib/bellrock/stack).

\b
Exit codes:
  0  done; for status: all parts are ready
  1  failed; for status: a part is not ready
  2  the command line is wrong
  3  a server cannot be started, or another command is at work""",
)
def stack() -> None:
    pass


@stack.command(
    short_help="Start it.",
    help="""Start every server of the site that does not run yet, and wait until all answer. What is missing is fetched first, once.

\b
Examples:
  bellrock stack up
  bellrock stack up --json | jq -r '.[] | .name + " " + .address'""",
)
@click.option("--json", "as_json", is_flag=True, help="What runs, as one JSON array.")
def up(as_json: bool) -> None:
    from bellrock.stack import site

    found = site.Site(site.site_dir())
    with console.waiting("starting the stack") as wait:
        found.up(wait.tell)
    _show(found.status(), as_json)


@stack.command(
    short_help="End it.",
    help="""End every server of the site. What they stored is kept for the next start.

\b
Examples:
  bellrock stack down
  bellrock stack down --wipe""",
)
@click.option("--wipe", is_flag=True, help="Remove what the servers stored, their passwords and certificates, too.")
@click.option("--json", "as_json", is_flag=True, help="The names of those that ran, as one JSON array.")
def down(wipe: bool, as_json: bool) -> None:
    from bellrock.stack import site

    with console.waiting("ending the stack") as wait:
        ended = site.Site(site.site_dir()).down(wait.tell, wipe=wipe)
    if as_json:
        output.show_json(ended)
    else:
        console.say(f"ended: {', '.join(ended)}" if ended else "nothing of the stack was running")


@stack.command(
    short_help="What runs.",
    help="""Show each server of the site: whether it is ready, its process, address, memory, and with --json its folder and log.

\b
Examples:
  bellrock stack status
  bellrock stack status --json | jq '.[] | select(.state != "ready") | .log'""",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def status(as_json: bool) -> None:
    from bellrock.stack import site

    rows = site.Site(site.site_dir()).status()
    _show(rows, as_json)
    if not rows or any(row["state"] != "ready" for row in rows):
        raise click.exceptions.Exit(1)


@stack.command(
    short_help="Fetch what it needs.",
    help="""Fetch and unpack the servers that no distribution has, Elasticsearch and MySQL, and start nothing.

\b
Examples:
  bellrock stack fetch
  BELLROCK_CACHE=/scratch/cache bellrock stack fetch""",
)
@click.option("--json", "as_json", is_flag=True, help="Where each lies, as one JSON object.")
def fetch(as_json: bool) -> None:
    from bellrock.stack import artifacts

    found = {artifact.folder: str(artifacts.unpacked(artifact)) for artifact in (artifacts.ELASTICSEARCH, artifacts.MYSQL)}
    if as_json:
        output.show_json(found)


def _show(rows: list[dict], as_json: bool) -> None:
    from rich.table import Table

    if as_json:
        output.show_json(rows)
        return
    if not rows:
        console.say("there is no stack yet; begin with `bellrock stack up`")
        return
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("pid", "memory") else "left")
    for row in rows:
        memory = None if row["memory_mib"] is None else row["memory_mib"] << 20
        table.add_row(row["name"], row["serves"], row["state"], "-" if row["pid"] is None else str(row["pid"]), row["address"], text.data(memory))
    output.show(table)
