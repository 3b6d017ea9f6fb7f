"""`bellrock simulate`."""

from pathlib import Path

import click
from click.core import ParameterSource

from bellrock import output
from bellrock.errors import EXIT_CODES, UsageError

# Of either way to say what is simulated.
OF_KINDS = ("job_count", "nodes", "records", "kinds")
OF_MACHINE = ("machine", "scale", "hours", "intensity", "faults", "noise", "trees")
# Of --trees alone.
OF_TREES = ("look_every", "job_names")
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command(
    short_help="Jobs that never ran, and a machine that never was.",
    help=f"""Write what simulated jobs would have left, with the truth that their profiles must show beside it. All follows from --seed.

Either a mix of kinds of job that take turns: n-n, n-m, n-1 and 1-1 (files of one's own, of groups, of all, of the first process alone), checkpoint,
random-read, metadata-storm. Or, with any of --machine, --scale, --hours, --intensity, --faults, --noise, --trees, a virtual machine: a queue of applications
on compute nodes, forwarding nodes, storage and metadata servers that they share (docs/simulate.md). truth.jsonl has a line for each job.

\b
Examples:
  bellrock simulate --state /tmp/sim && BELLROCK_STATE=/tmp/sim bellrock jobs
  bellrock simulate --out /tmp/runs --records 10000000 --jobs 200 --nodes 512
  bellrock simulate --lwfs-logs /tmp/logs --records 20000 --kinds n-n,metadata-storm --garbage 0.1
  bellrock simulate --trees /tmp/machine --scale 0.025 --hours 1 --faults slow-ost,metadata-storm

{EXIT_CODES}""",
)
@click.option("--state", "state_dir", type=_FOLDER, metavar="DIR", help="Make DIR a state that holds the jobs and their records.")
@click.option("--add", is_flag=True, help="Write into --state also where it holds records already.")
@click.option("--out", type=_FOLDER, metavar="DIR", help="Write the records to DIR as Parquet files.")
@click.option("--lwfs-logs", type=_FOLDER, metavar="DIR", help="Write what an LWFS client would have logged, a file a node.")
@click.option(
    "--garbage", type=click.FloatRange(0, 0.9), default=0.0, show_default=True, help="Share of the LWFS lines that are cut, garbled or foreign; and file names like log lines."
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=1, show_default=True, help="What everything follows from.")
@click.option("--start", default="2026-01-01", show_default=True, metavar="TIME", help="When the machine begins to work, UTC.")
@click.option("--jobs", "job_count", type=click.IntRange(1, 1_000_000), default=28, show_default=True, help="Mix: how many jobs.")
@click.option("--nodes", type=click.IntRange(1, 100_000), default=64, show_default=True, help="Mix: how many nodes the machine has.")
@click.option("--records", type=click.IntRange(1, 10**10), default=1_000_000, show_default=True, help="Mix: about how many records in all.")
@click.option("--kinds", metavar="KIND,…", help="Mix: only these kinds of job.")
@click.option("--machine", default="taihulight", show_default=True, metavar="NAME", help="Virtual machine: its name, or a file that describes one.")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=0.025, show_default=True, help="Virtual machine: its size, as a part of that described.")
@click.option("--hours", type=click.FloatRange(0, 1000, min_open=True), default=1.0, show_default=True, help="Virtual machine: for so long jobs begin; those that run then go on to their end.")
@click.option("--intensity", type=click.FloatRange(0.01, 100), default=1.0, show_default=True, help="Virtual machine: so many times as much I/O in the same time.")
@click.option("--faults", metavar="KIND,…", help="Virtual machine: what goes wrong: slow-ost, slow-forwarding, n-1-aggressor, metadata-storm, cache-thrashing, login-storm; slow-ost:20 is twenty of them.")
@click.option("--noise", is_flag=True, help="Virtual machine: components differ, are scrubbed and worked at, and take now more and now less time.")
@click.option("--trees", type=_FOLDER, metavar="DIR", help="Virtual machine: write what its nodes' sources would have left, a tree a node for bellrock-agent --root, with its topology and accounting.")
@click.option("--look-every", type=click.IntRange(1, 3600), default=10, show_default=True, metavar="SECONDS", help="With --trees: how often servers' files are looked at.")
@click.option("--job-names/--no-job-names", default=True, show_default=True, help="With --trees: whether jobs' names reach the servers, as with Lustre's jobid_var.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as one JSON object.")
@click.pass_context
def simulate(
    context: click.Context,
    state_dir: Path | None,
    add: bool,
    out: Path | None,
    lwfs_logs: Path | None,
    garbage: float,
    seed: int,
    start: str,
    job_count: int,
    nodes: int,
    records: int,
    kinds: str | None,
    machine: str,
    scale: float,
    hours: float,
    intensity: float,
    faults: str | None,
    noise: bool,
    trees: Path | None,
    look_every: int,
    job_names: bool,
    as_json: bool,
) -> None:
    from bellrock.simulate import command
    from bellrock.simulate.kinds import KINDS
    from bellrock.simulate.volume import Plan, check_kinds

    of_kinds, of_machine, of_trees = ([_flag(name) for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE] for names in (OF_KINDS, OF_MACHINE, OF_TREES))
    if of_kinds and of_machine:
        raise UsageError(f"{of_kinds[0]} is for a mix of kinds, {of_machine[0]} for a virtual machine", "leave one of them out")
    if of_trees and trees is None:
        raise UsageError(f"{of_trees[0]} is for --trees", "give --trees DIR, too, or leave it out")
    start_ns = command.read_start(start)
    if of_machine:
        source = command.virtual_machine(machine, scale, hours, intensity, _words(faults), seed, start_ns, noise=noise)
    else:
        source = Plan(seed, job_count, nodes, records, check_kinds(_words(kinds) if kinds is not None else list(KINDS)), start_ns)
    where = {"state": state_dir, "out": out, "lwfs_logs": lwfs_logs, "trees": trees}
    done = command.run_simulate(source, add=add, garbage=garbage, look_every_s=look_every, job_names=job_names, **{name: path and path.absolute() for name, path in where.items()})
    if as_json:
        output.show_json(done)


def _flag(name: str) -> str:
    return f"--{name.replace('job_count', 'jobs').replace('_', '-')}"


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",")] if text else []
