"""`bellrock simulate`."""

from pathlib import Path

import click

from bellrock import output
from bellrock.errors import EXIT_CODES


@click.command(
    short_help="Records of jobs that never ran.",
    help=f"""Write records of simulated jobs, many on many nodes, with the truth that their profiles must show beside them.

All follows from --seed. The kinds of job take turns: n-n, n-m, n-1 and 1-1 (files of one's own, of groups, of all, of the first
process alone), checkpoint, random-read, metadata-storm. A job's id is sim-SEED-NUMBER; truth.jsonl has a line for each.

\b
Examples:
  bellrock simulate --state /tmp/sim && BELLROCK_STATE=/tmp/sim bellrock jobs
  bellrock simulate --out /tmp/runs --records 10000000 --jobs 200 --nodes 512
  bellrock simulate --lwfs-logs /tmp/logs --records 20000 --kinds n-n,metadata-storm --garbage 0.1

{EXIT_CODES}""",
)
@click.option(
    "--state", "state_dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Make DIR a state that holds the jobs and their records."
)
@click.option("--add", is_flag=True, help="Write into --state also where it holds records already.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write the records to DIR as Parquet files.")
@click.option(
    "--lwfs-logs", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write what an LWFS client would have logged, a file a node."
)
@click.option(
    "--garbage", type=click.FloatRange(0, 0.9), default=0.0, show_default=True, help="Share of the LWFS lines that are cut, garbled or foreign; and file names like log lines."
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=1, show_default=True, help="What everything follows from.")
@click.option("--jobs", "job_count", type=click.IntRange(1, 1_000_000), default=28, show_default=True, help="How many jobs.")
@click.option("--nodes", type=click.IntRange(1, 100_000), default=64, show_default=True, help="How many nodes the machine has.")
@click.option("--records", type=click.IntRange(1, 10**10), default=1_000_000, show_default=True, help="About how many records in all.")
@click.option("--kinds", metavar="KIND,…", help="Only these kinds of job.")
@click.option("--start", default="2026-01-01", show_default=True, metavar="TIME", help="When the machine begins to work, UTC.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as one JSON object.")
def simulate(
    state_dir: Path | None,
    add: bool,
    out: Path | None,
    lwfs_logs: Path | None,
    garbage: float,
    seed: int,
    job_count: int,
    nodes: int,
    records: int,
    kinds: str | None,
    start: str,
    as_json: bool,
) -> None:
    from bellrock.simulate import command
    from bellrock.simulate.kinds import KINDS
    from bellrock.simulate.volume import Plan, check_kinds

    chosen = check_kinds([name.strip() for name in kinds.split(",")] if kinds is not None else list(KINDS))
    plan = Plan(seed, job_count, nodes, records, chosen, command.read_start(start))
    done = command.run_simulate(
        plan, state=state_dir and state_dir.absolute(), add=add, out=out and out.absolute(), lwfs_logs=lwfs_logs and lwfs_logs.absolute(), garbage=garbage
    )
    if as_json:
        output.show_json(done)
