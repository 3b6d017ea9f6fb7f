"""`bellrock demo`."""

import sys
from pathlib import Path

import click

from bellrock import console, output
from bellrock.errors import EXIT_CODES, EXIT_FAILED


@click.command(
    short_help="Watch real programs, live in the browser.",
    help=f"""Run real programs under watch, each as a job, and serve the pages until Ctrl-C.

The programs are one of ours that does N-N, N-1, N-M and 1-1 I/O, a small Python simulation, dd and cp, and, where they are
installed, fio and an MPI program.

\b
Examples:
  bellrock demo
  bellrock demo --once --json > figures.json
  bellrock demo --seconds 15 --keep /tmp/demo
  bellrock demo --stack            on a miniature site: log servers, Elasticsearch, MySQL, central server

{EXIT_CODES}""",
)
@click.option("--once", is_flag=True, help="End when the programs have ended.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array, an object a job with its headline figures.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=40, show_default=True, help="About how long the programs take in all.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Work in DIR, and leave there what the programs wrote and said.",
)
@click.option("--stack", is_flag=True, help="On a miniature site (`bellrock stack`), which is started where it does not run; about 3.2 GB of memory.")
def demo(once: bool, as_json: bool, seconds: float, keep: Path | None, stack: bool) -> None:
    from bellrock.demo.runner import run_demo

    console.log_warnings()
    results = run_demo(once=once, seconds=seconds, keep=keep, show_json=output.show_json if as_json else None, stack=stack)
    if any(result.failed for result in results):
        sys.exit(EXIT_FAILED)
