"""`bellrock run`."""

import sys

import click

from bellrock import console


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    short_help="Run a program as a watched job.",
    help="""Run CMD as a job under watch, then show what it did.

The job's id is --name, else $SLURM_JOB_ID, $PBS_JOBID, $LSB_JOBID or $BELLROCK_JOB, else a new one. Several runs may
share one id: they are launches of one job. The program's input, output, signals and exit code are its own; whatever
goes wrong in Bellrock is a warning. Where no server is running, one runs as long as the program.

\b
Examples:
  bellrock run -- make -j8
  bellrock run --name test-17 -- mpirun -n 4 ./solver
  bellrock run --watch /scratch --ignore /scratch/cache -- python3 train.py
  bellrock run --watch-fs lustre -- ./solver
  bellrock run --quiet -- ./solver > out.txt

Exit code: the program's (128 + n if signal n ended it; 127 if it was not found, 126 if it cannot be executed).""",
)
@click.option("--name", metavar="ID", help="The job's id.")
@click.option(
    "--watch",
    "watch_prefixes",
    metavar="PREFIX",
    multiple=True,
    help="Watch only paths below PREFIX; a trailing * ends it inside a name. May be given more than once.",
)
@click.option(
    "--ignore", "ignore_prefixes", metavar="PREFIX", multiple=True, help="Leave paths below PREFIX out. May be given more than once."
)
@click.option(
    "--watch-fs", "file_systems", metavar="TYPE", multiple=True, help="Watch only mounted file systems of this type, such as lustre."
)
@click.option("--quiet", is_flag=True, help="Say nothing at the end, and do not wait for the job's records.")
@click.option(
    "--json", "as_json", is_flag=True, help="The summary as one JSON object, on standard error: standard output is the program's."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def run(
    name: str | None,
    watch_prefixes: tuple[str, ...],
    ignore_prefixes: tuple[str, ...],
    file_systems: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    from bellrock import ids, program, watch
    from bellrock.run import run_and_tell

    job = ids.job_id(name)
    watched, warnings = watch.make_watch(watch_prefixes, ignore_prefixes, file_systems)
    for line in warnings:
        console.warn(line)
    console.log_warnings()
    try:
        run_and_tell(command, job, watched, quiet=quiet, as_json=as_json)
    except program.CannotStart as error:
        console.fail(str(error))
        sys.exit(error.exit_code)
