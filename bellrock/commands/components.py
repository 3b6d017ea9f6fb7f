"""`bellrock components` and `bellrock component`."""

import time

import click

from bellrock import console, output
from bellrock.commands.jobs import server_for
from bellrock.errors import EXIT_CODES, UsageError

# Steps of a chart in a terminal.
POINTS = 60
# Of whom a server's targets may tell. A day of many clients takes longer to add up than other questions.
BY = ("class", "group", "client", "user", "job")
LOAD_TIMEOUT_S = 120.0


@click.command(
    short_help="List what agents watch besides jobs.",
    help=f"""List the components of nodes (disks, servers of file systems, nodes themselves, agents) that anything was heard of, in the last 24 hours or since a time.

\b
Examples:
  bellrock components
  bellrock components --node fwd1 --component block_device
  bellrock components --component switch_port --search leaf1/
  bellrock components --node oss1 --since 400d --to 390d
  bellrock components --since 2h --json | jq '.[].instance'

{EXIT_CODES}""",
)
@click.option("--node", metavar="NODE", help="Only those of this node.")
@click.option("--component", metavar="KIND", help="Only those of this kind.")
@click.option("--search", metavar="TEXT", help="Only those with TEXT in their node, kind or instance.")
@click.option("--since", metavar="TIME", help="Heard of since then: 90m, 12h, 2d (ago), or a date or time, UTC.")
@click.option("--to", metavar="TIME", help="And until then. Default: now.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def components(node: str | None, component: str | None, search: str | None, since: str | None, to: str | None, limit: int, as_json: bool) -> None:
    from bellrock import report_components
    from bellrock.audit import instant_ns

    from_ns, to_ns = None if since is None else instant_ns(since), None if to is None else instant_ns(to, option="--to")
    with server_for("components") as lease:
        found, total = lease.client.every_component(node=node, component=component, search=search, from_ns=from_ns, to_ns=to_ns, limit=limit)
    if as_json:
        output.show_json(found)
    elif found:
        output.show(report_components.listed(found, time.time_ns()))
    else:
        console.say("no component fits" if node or component or search else "nothing was heard of any component in this time")
    if total > len(found):
        console.say(f"{len(found):,} of {total:,} components are listed: `--limit {total}` lists all, `--node`, `--component` and `--search` some of them")


@click.command(
    short_help="Show one component over time.",
    help=f"""Show the values of one component over time, the last hour unless told otherwise. NODE, COMPONENT and INSTANCE as `bellrock components` lists them.
Where its samples were dropped, or are too many, it is shown by their summaries, of each minute or hour, and says so. With --by for whom it worked, as far as its server counts its clients (by class, group or client) or names of jobs (by user or job).

\b
Examples:
  bellrock component fwd1 block_device sda
  bellrock component fwd1 block_device sda --from 6h --to 2h
  bellrock component fwd1 block_device sda --from 365d
  bellrock component fwd1 node fwd1 --from 2026-11-22T08:00 --step 60 --json
  bellrock component oss1 lustre_ost work-OST0003 --by user --from 24h
  bellrock component oss1 lustre_ost work-OST0003 --by client --json | jq '.by_client.rows[0].name'

{EXIT_CODES}""",
)
@click.argument("node", metavar="NODE")
@click.argument("component", metavar="COMPONENT")
@click.argument("instance", metavar="INSTANCE")
@click.option("--from", "from_", metavar="TIME", default="1h", show_default=True, help="90m, 12h, 2d (ago), or a date or time, UTC.")
@click.option("--to", metavar="TIME", help="The same. Default: now.")
@click.option(
    "--step", "step_s", metavar="SECONDS", type=click.IntRange(1, 366 * 24 * 3600), help=f"Length of a step. Default: such that there are {POINTS} at most."
)
@click.option("--by", type=click.Choice(BY), help="For whom it worked in that time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with the values of each step, or for whom it worked, by all that are counted.")
def component(node: str, component: str, instance: str, from_: str, to: str | None, step_s: int | None, by: str | None, as_json: bool) -> None:
    from bellrock import report_components
    from bellrock.audit import instant_ns

    if by is not None and step_s is not None:
        raise UsageError("--step is for values over time, and --by adds up", "leave one of them out")
    from_ns, to_ns = instant_ns(from_, option="--from"), None if to is None else instant_ns(to, option="--to")
    with server_for("component") as lease:
        if by is None:
            answer = lease.client.component(node, component, instance, from_ns=from_ns, to_ns=to_ns, points=POINTS, step_s=step_s)
        else:
            lease.client.timeout_s = LOAD_TIMEOUT_S
            answer = lease.client.component_load(node, component, instance, from_ns=from_ns, to_ns=to_ns)
    if as_json:
        output.show_json(answer)
    elif by is None:
        output.show(report_components.one(answer))
    else:
        output.show(report_components.load(f"{node} {component} {instance}", answer, by))
