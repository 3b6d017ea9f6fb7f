"""`bellrock queue`."""

import dataclasses
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bellrock import console, output, text
from bellrock.errors import EXIT_CODES, BellrockError, UsageError

if TYPE_CHECKING:
    from jobdb.queue import QueueJob

# Names of nodes that a line shows.
NODES_SHOWN = 3
PROBLEMS_SHOWN = 10


@click.command(
    short_help="What the batch system tells of its jobs.",
    help=f"""Show the jobs that a batch system tells of, as Bellrock understands them: to see that it does before it goes by them.

It asks Slurm, PBS or LSF by their own commands, as the user who calls it; or it reads what one of these wrote into a file, or a table with Beacon's
columns (docs/queue.md). Nothing is kept and nothing changed. Jobs that have not begun are left out.

\b
Examples:
  bellrock queue slurm --since 24
  squeue --json > now.json; bellrock queue slurm --file now.json
  bellrock queue csv --file JOB_log.csv --prefix vn --json

{EXIT_CODES}""",
)
@click.argument("kind", type=click.Choice(("slurm", "pbs", "lsf", "csv")))
@click.option("--file", "-f", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Read this instead of asking: of Slurm `squeue --json`, `sacct --json` or `sacct --parsable`; a table for csv.")
@click.option("--since", "hours", type=click.FloatRange(0, 100_000), default=1.0, show_default=True, metavar="HOURS", help="Of so long; what ended earlier is left out.")
@click.option("--cluster", default="", metavar="NAME", help="The cluster's name where the batch system does not tell it.")
@click.option("--prefix", default="", metavar="TEXT", help="Of csv: what comes before each node's number in its name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: jobs, and problems.")
def queue(kind: str, file: Path | None, hours: float, cluster: str, prefix: str, as_json: bool) -> None:
    from jobdb.queue import QueueTrouble
    from jobdb.queue.ask import KINDS, from_file

    if not math.isfinite(hours):
        raise UsageError("--since is a number of hours", f"bellrock queue {kind} --since 24")
    ask = KINDS[kind]
    if file is None and ask is None:
        raise UsageError("a table is read from a file", f"bellrock queue {kind} --file FILE")
    if prefix and kind != "csv":
        raise UsageError("--prefix is for csv: batch systems tell whole names", f"bellrock queue {kind}")
    try:
        if file is not None:
            jobs, problems = from_file(kind, file, cluster, prefix)
        else:
            with console.waiting(f"asking {kind}"):
                jobs, problems = ask(time.time() - hours * 3600, cluster)
    except QueueTrouble as trouble:
        raise BellrockError(str(trouble), "" if file is not None else f"or let it read a file: bellrock queue {kind} --file FILE") from None
    if as_json:
        output.show_json({"jobs": [dataclasses.asdict(job) for job in jobs], "problems": [dataclasses.asdict(problem) for problem in problems]})
    else:
        _table(jobs)
    for problem in problems[:PROBLEMS_SHOWN]:
        console.warn(f"not understood: {problem}")
    if len(problems) > PROBLEMS_SHOWN:
        console.warn(f"and {len(problems) - PROBLEMS_SHOWN} more; --json tells all")
    if problems and not jobs:
        raise BellrockError("no entry was understood", "compare it with docs/queue.md")


def _table(jobs: "list[QueueJob]") -> None:
    from rich.table import Table

    if not jobs:
        console.say("no job has begun in that time")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("job", "user", "queue", "state", "begun (UTC)", "ended (UTC)", "nodes", "name"):
        table.add_column(name, overflow="fold")
    for job in sorted(jobs, key=lambda job: (job.start_ns or 0, job.job_id)):
        table.add_row(*map(text.plain, (job.job_id, job.user, job.queue, job.state, _when(job.start_ns), _when(job.end_ns), _nodes(job.nodes), job.name)))
    output.show(table)


def _when(instant_ns: int | None) -> str:
    return "" if instant_ns is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(instant_ns // 10**9))


def _nodes(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:NODES_SHOWN])
    return f"{len(names)}: {shown}{' …' if len(names) > NODES_SHOWN else ''}"
