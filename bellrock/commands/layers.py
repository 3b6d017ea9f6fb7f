"""`bellrock layers`."""

import click

from bellrock import output
from bellrock.commands.jobs import server_for
from bellrock.errors import EXIT_CODES

# A day of 16 servers that tell each second takes 15 s of processor time when it is first asked for.
TIMEOUT_S = 120.0


@click.command(
    short_help="Show what served a job, layer by layer.",
    help=f"""Show what the job's processes asked for in each file system, and what forwarding nodes, storage and metadata servers did meanwhile. What of it was for the
job is told where that is known; docs/layers.md says what the figures mean.

\b
Examples:
  bellrock layers 4711
  bellrock layers 4711 --components
  bellrock layers 4711 --json | jq '.file_systems[0].layers[] | {{layer, amplification}}'

{EXIT_CODES}""",
)
@click.argument("job", metavar="JOB")
@click.option("--components", "of_each", is_flag=True, help="Each component, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def layers(job: str, of_each: bool, as_json: bool) -> None:
    from bellrock import report_layers

    with server_for("layers") as lease:
        lease.client.timeout_s = TIMEOUT_S
        answer = lease.client.layers(job)
    if as_json:
        output.show_json(answer)
    else:
        output.show(report_layers.shown(answer, of_each=of_each))
