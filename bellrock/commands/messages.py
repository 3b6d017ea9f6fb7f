"""`bellrock messages`."""

import click

from bellrock import console, output
from bellrock.commands.jobs import server_for
from bellrock.errors import EXIT_CODES

# The gravest first.
SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")


@click.command(
    short_help="Show what a node's system log said.",
    help=f"""Show messages of the system log of NODE, the last first, of the last hour or since a time, where its agent reads that log (docs/agent.md).
A ? after an event says that the log does not vouch for who wrote it: anyone who may write to the log can.

\b
Examples:
  bellrock messages oss4
  bellrock messages oss4 --since 2d --events
  bellrock messages oss4 --since 2026-11-22T08:00 --severity error --json

{EXIT_CODES}""",
)
@click.argument("node", metavar="NODE")
@click.option("--since", metavar="TIME", default="1h", show_default=True, help="90m, 12h, 2d (ago), or a date or time, UTC.")
@click.option("--to", metavar="TIME", help="The same. Default: now.")
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only those as grave as this or graver.")
@click.option("--event", metavar="NAME", help="Only those that tell of this event.")
@click.option("--events", is_flag=True, help="Only those that tell of any known event.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def messages(node: str, since: str, to: str | None, severity: str | None, event: str | None, events: bool, limit: int, as_json: bool) -> None:
    from bellrock import report_messages
    from bellrock.audit import instant_ns

    if event and events:
        raise click.UsageError("--event names one event, --events stands for any: give one of the two")
    from_ns, to_ns = instant_ns(since), None if to is None else instant_ns(to, option="--to")
    asked = {"severity": None if severity is None else SEVERITIES.index(severity), "event": "*" if events else event}
    with server_for("messages") as lease:
        found = list(lease.client.every_message(node, from_ns=from_ns, to_ns=to_ns, limit=limit, **asked))
    if as_json:
        output.show_json(found)
    elif found:
        output.show(report_messages.listed(found, SEVERITIES))
        if len(found) == limit:
            console.say(f"these are the last {limit}: --limit, --to or --severity shows others")
    else:
        console.say("no message fits; an agent reads system logs where syslog_logs or syslog_journal_period_s is set")
