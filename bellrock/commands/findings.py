"""`bellrock findings`, `bellrock explain` and `bellrock detect`."""

from typing import Any

import click

from bellrock import console, output
from bellrock.commands.jobs import server_for
from bellrock.errors import EXIT_CODES

STATES, SEVERITIES, VERDICTS = ("open", "acknowledged", "closed"), ("info", "warning", "critical"), ("confirmed", "false")
WHATEVER = "none"


@click.command(
    short_help="List what is wrong, or say what you make of it.",
    help=f"""List findings, the last begun first: those that nobody has closed and people are to hear of.

With the numbers of findings (ID) and an option that changes them, such as --close, it writes down what you make of them; the detector does not undo that.

\b
Examples:
  bellrock findings
  bellrock findings --severity warning --since 7d
  bellrock findings --job 4711 --all --json | jq '.[].cause'
  bellrock findings 12 13 --close --verdict confirmed --remedy "controller replaced"

{EXIT_CODES}""",
)
@click.argument("ids", metavar="[ID…]", nargs=-1, type=click.IntRange(1))
@click.option("--kind", metavar="KIND", help="Only of this kind, such as metadata-storm.")
@click.option("--state", "state", type=click.Choice(STATES), help="Only in this state.")
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only so severe or more.")
@click.option("--job", metavar="JOB", help="Only those about this job.")
@click.option("--node", metavar="NODE", help="Only those about components of this node.")
@click.option("--since", metavar="TIME", help="Only those that were there since: 90m, 12h, 2d (ago), or a date or time, UTC.")
@click.option("--all", "shows_all", is_flag=True, help="Closed ones, too, and those that are only on record.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@click.option("--acknowledge", "to_state", flag_value="acknowledged", help="You have seen it.")
@click.option("--close", "to_state", flag_value="closed", help="It is over, or is none.")
@click.option("--reopen", "to_state", flag_value="open", help="It is not over.")
@click.option("--verdict", type=click.Choice((*VERDICTS, WHATEVER)), help="Whether it is so; none takes it back.")
@click.option("--cause", metavar="TEXT", help="Why it was, in place of what the detector says.")
@click.option("--remedy", metavar="TEXT", help="What helped.")
@click.option("--comment", metavar="TEXT", help="Whatever else is to be said.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def findings(
    ids: tuple[int, ...], kind: str | None, state: str | None, severity: str | None, job: str | None, node: str | None, since: str | None, shows_all: bool, limit: int,
    to_state: str | None, verdict: str | None, cause: str | None, remedy: str | None, comment: str | None, as_json: bool,
) -> None:  # fmt: skip
    from bellrock import report_findings
    from bellrock.audit import instant_ns

    changes = {"state": to_state, "verdict": "" if verdict == WHATEVER else verdict, "cause": cause, "remedy": remedy, "comment": comment}
    changes = {name: value for name, value in changes.items() if value is not None}
    if bool(ids) != bool(changes):
        raise click.UsageError("name findings by their numbers" if changes else "say what is to change, such as --close; `bellrock explain ID` shows one")
    from_ns = None if since is None else instant_ns(since)
    with server_for("findings") as lease:
        if ids:
            found = [lease.client.send("PATCH", f"/api/v1/findings/{number}", changes)[0] for number in ids]
        else:
            sought = {"kind": kind, "state": state or ("any" if shows_all else None), "severity": severity, "job": job, "node": node, "from_ns": from_ns}
            found = list(lease.client.every_finding(limit=limit, **sought, reported="any" if shows_all else None))
    if as_json:
        output.show_json(found)
    elif found:
        output.show(report_findings.listed(found))
        if not ids:
            console.say("`bellrock explain ID` shows what one rests on")
    else:
        console.say("no finding fits" if any((kind, state, severity, job, node, since)) or shows_all else "nothing is wrong that was noticed; --all shows what is closed, too")


@click.command(
    short_help="Show what a finding rests on.",
    help=f"""Show a finding with the figures that it rests on, the bounds that they are beyond, what was said of it, and known events of its time.

\b
Examples:
  bellrock explain 12
  bellrock explain 12 --json | jq .evidence

{EXIT_CODES}""",
)
@click.argument("number", metavar="ID", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="One JSON object: finding, evidence, comments, annotations.")
def explain(number: int, as_json: bool) -> None:
    from bellrock import report_findings

    with server_for("findings") as lease:
        answer = lease.client.get(f"/api/v1/findings/{number}")
    if as_json:
        output.show_json(answer)
    else:
        output.show(report_findings.explained(answer))


@click.command(
    short_help="Look for findings in jobs now.",
    help=f"""Look for findings in JOBs that have ended, now, as the server does by itself once a job has settled. Without any JOB, tell how far it is with what it looks at.

\b
Examples:
  bellrock detect 4711
  bellrock detect                            how far the server is

{EXIT_CODES}""",
)
@click.argument("jobs", metavar="JOB…", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON array of findings; without any JOB an object.")
def detect(jobs: tuple[str, ...], as_json: bool) -> None:
    from bellrock import report_findings

    found: list[dict[str, Any]] = []
    if not jobs:
        with server_for("findings") as lease:
            status = lease.client.get("/api/v1/status")["detection"]
        if as_json:
            output.show_json(status)
        else:
            output.show(report_findings.looked(status))
        return
    looks: dict[str, dict[str, Any] | None] = {}
    with server_for("findings") as lease, console.waiting("looking") as wait:
        for job in jobs:
            wait.tell(f"job {job}: looking")
            answer = lease.client.send("POST", "/api/v1/findings", {"job": job})[0]
            found += answer["findings"]
            looks[job] = answer["run"]
    if as_json:
        output.show_json(found)
    elif found:
        output.show(report_findings.listed(found))
    else:
        console.say("nothing was found in it" if len(jobs) == 1 else "nothing was found in them")
    for job, run in looks.items():
        console.say(report_findings.held_against(job, run))
