"""`bellrock trace`."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bellrock import console
from bellrock.commands.jobs import find_job, server_for
from bellrock.errors import EXIT_CODES

if TYPE_CHECKING:
    from bellrock.trace import Row, Trace

# A page by rank or node of a large job is sorted out of millions of records.
TIMEOUT_S = 120.0


class _Schema(click.ParamType):
    """A value that the schema has for a field of runs. It is read once one is asked about: that takes longer than all else at the start."""

    name = "value"

    def __init__(self, field: str) -> None:
        self._field = field

    def _choice(self) -> click.Choice:
        from pipeline.schema import KINDS

        return click.Choice(next(field.values or () for field in KINDS["run"].fields if field.name == self._field))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See ParamType."""
        return self._choice().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """See ParamType."""
        return f"[{'|'.join(map(str, self._choice().choices))}]"


@click.command(
    short_help="Show a job's records one by one.",
    help=f"""Show what a job did run by run: operations of one process on one file that follow each other, as they were recorded. OFFSET is the first one's, STRIDE from one
to the next, COUNT how many, SIZE of each, BYTES of all, TOOK the time in the calls.

In the order of time a trace of any length streams. --by rank and --by node are for up to 200,000 runs that fit.
Of a job of many millions of runs that is archived, all of them are read soonest with --by stored.
--operations tells each run as its operations. Their times are not known one by one: they are spread evenly over the run's.

\b
Examples:
  bellrock trace 4711
  bellrock trace 4711 --rank 0 --op write --since +90s --until +2m
  bellrock trace 4711 --file '*/restart.*' --operations --limit 100
  bellrock trace 4711 --csv > trace.csv
  bellrock trace 4711 --parquet trace.parquet
  bellrock trace 4711 --by rank --json | jq -c '[.rank, .offset]'

{EXIT_CODES}""",
)
@click.argument("job", metavar="JOB")
@click.option("--by", "order", type=click.Choice(("time", "rank", "node", "stored")), default="time", show_default=True, help="The order: by rank, or node, and then by time. stored: as is quickest to read.")
@click.option("--node", metavar="NAME", help="Only of this node.")
@click.option("--rank", type=int, help="Only of processes that claim this rank.")
@click.option("--file", "file", metavar="GLOB", help="Only of files whose whole path fits: * stands for any text, / too, ? for one character.")
@click.option("--op", type=_Schema("op"), help="Only this operation. Without it, what processes only told of themselves (start, unseen) is left out.")
@click.option("--layer", type=_Schema("layer"), help="Only of this layer.")
@click.option("--since", metavar="WHEN", help="Only what began then or later: +90s (after the job's start; ms, s, m, h), 90m (ago), or a date or time in UTC.")
@click.option("--until", metavar="WHEN", help="Only what began before then. The same.")
@click.option("--runs/--operations", "as_runs", default=True, show_default=True, help="A line a run, or an operation.")
@click.option("--limit", type=click.IntRange(1), help="At most so many lines. Default: 1,000 for a person, 100,000,000 into a file.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV, with a head.")
@click.option("--json", "as_json", is_flag=True, help="An object of JSON a line.")
@click.option("--parquet", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Into a Parquet file, whole or not at all.")
def trace(
    job: str, order: str, node: str | None, rank: int | None, file: str | None, op: str | None, layer: str | None, since: str | None, until: str | None, as_runs: bool,
    limit: int | None, as_csv: bool, as_json: bool, parquet: Path | None,
) -> None:  # fmt: skip
    from bellrock import trace as tracing

    if as_csv + as_json + (parquet is not None) > 1:
        raise click.UsageError("--csv, --json and --parquet are three ways to write: give one of them")
    limit = limit or (tracing.FILE_LINES if as_csv or as_json or parquet is not None else tracing.LINES)
    with server_for("trace") as lease:
        told = find_job(lease, job)["job"]
        lease.client.timeout_s = TIMEOUT_S
        span = {name: None if given is None else tracing.instant_ns(given, told["start_ns"], f"--{option}") for name, option, given in (("from_ns", "since", since), ("to_ns", "until", until))}
        if span["from_ns"] is not None and span["to_ns"] is not None and span["to_ns"] <= span["from_ns"]:
            raise click.UsageError("--until lies before --since")
        asked = {"order": order, "node": node, "rank": rank, "file": file, "op": op, "layer": layer} | span
        # On a terminal the lines themselves tell how far it is.
        with console.waiting("reading the trace") if parquet is not None or not sys.stdout.isatty() else console.silent() as wait:

            def tell(found: tracing.Trace) -> None:
                wait.tell(f"reading the trace: {cut.written:,} lines of {found.read:,} records{_how_far(found, told)}")

            runs: Iterable[Row] = tracing.Trace(lease.client, told["job_id"], asked, limit + 1, tell)
            cut = tracing.Cut(runs if as_runs else (one for run in runs for one in tracing.operations(run)), limit)
            if parquet is not None:
                tracing.write_parquet(cut, parquet)
            else:
                (tracing.write_csv if as_csv else tracing.write_json if as_json else tracing.write_lines)(cut)
    if cut.more:
        console.say(f"these are the first {limit:,} lines: --limit gives more, --since, --rank or --file others")
    elif not cut.written:
        console.say("no record fits")


def _how_far(found: "Trace", job: dict[str, Any]) -> str:
    """By the archive, while it is looked through, else by time."""
    if found.sought is not None:
        return f", {found.sought:.0%} of the archive looked through"
    share = (found.at_ns - job["start_ns"]) / max((job["end_ns"] or 0) - job["start_ns"], 1)
    return f", {share:.0%} of the job's time" if job["end_ns"] and 0 < share < 1 else ""
