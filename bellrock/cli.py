"""The command `bellrock`. Every verb is thin: parse, call, print. Errors become a line, a hint and an exit code here."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bellrock import __version__, console, entry, output
from bellrock.cli_accounts import account, token
from bellrock.cli_login import login, logout
from bellrock.errors import ApiError, BellrockError, EXIT_CODES, EXIT_FAILED
from bellrock.jobdb_command import jobdb, sql
from bellrock.retention_command import retention
from bellrock.stack.command import stack

if TYPE_CHECKING:
    from bellrock.client import Client
    from bellrock.embedded import Lease

# How long an agent that was just started may take to deliver what lies there.
FIRST_DELIVERY_S = 3.0
# Verbs that can ask a server elsewhere.
REMOTE = ("jobs", "show", "audit", "login", "logout")
STATES = ("running", "completed", "failed")
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(
    context_settings=CONTEXT,
    help=f"""Watch what programs do to the I/O system, job by job.

\b
Examples:
  bellrock run -- ./simulation input.dat     watch a program, and show what it did
  bellrock jobs                              the jobs that were seen
  bellrock show JOB                          one job's report
  bellrock server                            collect and serve the pages until Ctrl-C
  bellrock ingest --port 5044                a log server of a site: records in, into a store
  bellrock audit                             is anything missing?
  bellrock retention                         what is older than it is to be kept
  bellrock sql "SELECT * FROM job_summary"   ask the job database
  bellrock account add NAME --admin          who may sign in
  bellrock --server URL login NAME           sign in to a server elsewhere
  bellrock --server URL jobs                 the jobs that it shows you
  bellrock demo                              real programs, watched live in the browser
  bellrock simulate --state DIR              records of jobs that never ran, for trials and benchmarks
  bellrock stack up                          a miniature site's servers on this machine

{EXIT_CODES}""",
)
@click.version_option(__version__, prog_name="bellrock", message="%(prog)s %(version)s")
@click.option(
    "--server", "server_url", metavar="URL", envvar="BELLROCK_SERVER", help="Ask the server at this address: for jobs, show, audit, login and logout. Default: $BELLROCK_SERVER, else this machine's."
)
@click.pass_context
def cli(context: click.Context, server_url: str | None) -> None:
    context.obj = server_url
    given = context.get_parameter_source("server_url") is click.core.ParameterSource.COMMANDLINE
    if given and context.invoked_subcommand not in REMOTE:
        raise click.UsageError(f"--server is for {', '.join(REMOTE)}; {context.invoked_subcommand} works on this machine")


cli.add_command(account)
cli.add_command(login)
cli.add_command(logout)
cli.add_command(token)
cli.add_command(retention)


@cli.command(
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


@cli.command(
    short_help="Collect records and serve the pages.",
    help=f"""Run the embedded server until Ctrl-C: it collects what watched programs do, and serves pages and API.

It keeps everything in $BELLROCK_STATE (default ~/.local/share/bellrock), and runs the agent of this machine. Both may be
killed at any instant: what was seen is kept. Where the default port is taken, a free one is used; the address is printed.

\b
Examples:
  bellrock server
  bellrock server --port 8080
  bellrock server --sample-config > ~/.local/share/bellrock/server.toml

{EXIT_CODES}""",
)
@click.option(
    "--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), help="Settings; default server.toml in the state directory."
)
@click.option("--host", help="Address of pages and API; loopback only.")
@click.option("--port", type=int, help="Port of pages and API (default 8425).")
@click.option(
    "--ingest-port", type=int, help="Also take records at this TCP port, from agents that it does not run itself (default: none)."
)
@click.option("--sample-config", is_flag=True, help="Print the commented sample of server.toml and end.")
def server(config_file: Path | None, host: str | None, port: int | None, ingest_port: int | None, sample_config: bool) -> None:
    from bellrock import config, paths, program
    from bellrock.embedded import faults
    from bellrock.server import Server

    if sample_config:
        click.echo(config.sample(), nl=False)
        return
    state = paths.state_dir()
    settings = config.load(config_file, state, {"http.host": host, "http.port": port, "ingest.port": ingest_port})
    console.log_for_service()
    with program.signals_held():
        running = Server(settings, state)
        with faults(state):
            running.start()
        try:
            records = f" · records at {settings.ingest.host}:{running.ingest_port}" if running.ingest_port else ""
            click.echo(f"pages at {running.url}{records} · state in {state}")
            while not program.pause(3600):
                pass
            console.say("ending: the agent delivers its last records")
        finally:
            running.stop()


@cli.command(
    short_help="A log server: records in, into a store.",
    help=f"""Take records from agents and store them, until SIGTERM or Ctrl-C: a log server of a site, without pages.

It has two halves. One takes what agents deliver (lumberjack v2, at ingest.port) and with --queue redis pushes it to a Redis list; the other takes it
from there and appends it to the store. Either may end, be killed, or be Logstash (docs/logstash.md): what was acknowledged is kept. While Redis
or the store fails, agents hold back. Options come before the configuration's settings of [queue], [store], [group] and [ingest].

\b
Examples:
  bellrock ingest --port 5044
  bellrock ingest --queue redis --store elasticsearch --group g1 --config /etc/bellrock/server.toml
  bellrock ingest --queue redis --only receive --port 5044
  bellrock ingest --queue redis --only store

{EXIT_CODES}""",
)
@click.option("--queue", type=click.Choice(["none", "redis"]), help="What lies between receiving and storing (default: none).")
@click.option("--store", type=click.Choice(["duckdb", "elasticsearch"]), help="Where records go (default: duckdb, records.duckdb in the state directory).")
@click.option("--group", metavar="NAME", help="The group of nodes whose records these are.")
@click.option("--only", type=click.Choice(["receive", "store"]), help="Run one half; the other is another process, or Logstash.")
@click.option("--port", type=int, help="Where agents deliver (default: ingest.port).")
@click.option(
    "--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), help="Settings; default server.toml in the state directory."
)
def ingest(queue: str | None, store: str | None, group: str | None, only: str | None, port: int | None, config_file: Path | None) -> None:
    from bellrock import config, paths, program
    from bellrock.logserver import PROGRESS_S, LogServer

    state = paths.state_dir()
    settings = config.load(config_file, state, {"queue.kind": queue, "store.kind": store, "group.name": group, "ingest.port": port})
    console.log_for_service()
    with program.signals_held():
        running = LogServer(settings, state, only)
        running.start()
        try:
            click.echo(running.introduction())
            while not program.pause(PROGRESS_S):
                running.tell_progress()
            console.say("ending: what has come whole is still written")
        finally:
            running.stop()


@cli.command(
    short_help="List jobs.",
    help=f"""List jobs, newest first.

\b
Examples:
  bellrock jobs
  bellrock jobs --search patterns --state failed
  bellrock jobs --limit 1000 --json | jq '.[].job_id'

{EXIT_CODES}""",
)
@click.option("--search", metavar="TEXT", help="Only jobs with TEXT in their id, user, program or command.")
@click.option("--state", "job_state", type=click.Choice(STATES), help="Only jobs in this state.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def jobs(search: str | None, job_state: str | None, limit: int, as_json: bool) -> None:
    from bellrock import report_tables

    with _server("jobs") as lease:
        found = list(lease.client.every_job(search=search, state=job_state, limit=limit))
    if as_json:
        output.show_json(found)
    elif found:
        output.show(report_tables.jobs_table(found))
    else:
        console.say("no job yet; begin with `bellrock run -- CMD`" if not (search or job_state) else "no job fits")


@cli.command(
    short_help="Report on one job.",
    help=f"""Show what a job did: traffic, modes, bandwidth over time, request sizes, files and processes.

\b
Examples:
  bellrock show 4711
  bellrock show 4711 --files 50
  bellrock show 4711 --json | jq .profile.write_bytes

{EXIT_CODES}""",
)
@click.argument("job", metavar="JOB")
@click.option("--files", "file_limit", type=click.IntRange(0, 1000), default=10, show_default=True, help="Files to list, by bytes.")
@click.option(
    "--processes", "process_limit", type=click.IntRange(0, 1000), default=10, show_default=True, help="Processes to list, by bytes."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object: job, profile, series, files, processes.")
def show(job: str, file_limit: int, process_limit: int, as_json: bool) -> None:
    from bellrock import report_tables

    with _server("show") as lease:
        client = lease.client
        answer = _find(lease, job)
        series = client.series(job, points=200)
        files = client.files(job, limit=max(file_limit, 1))
        processes = client.processes(job, limit=max(process_limit, 1))
        # A server of our own ends with this command, and its pages with it.
        page = "" if lease.own else client.page(answer["job"]["job_id"])
    files["files"], processes["processes"] = files["files"][:file_limit], processes["processes"][:process_limit]
    if as_json:
        output.show_json({**answer, "series": series, "files": files["files"], "processes": processes["processes"]})
    else:
        output.show(report_tables.show(answer, series, files, processes, page, output.stdout().width))


@cli.command(
    short_help="Find what is missing.",
    help="""Find every gap in what agents have sent, and what else is not there.

It tells, for each node and each of its spools ("boots"): records that never came, by their numbers; records that were refused (dead letters),
and why; what the agent itself counts as lost; agents that fell silent without saying that they end; two agents that take each other's place.
And what costs no sum: late records, clocks that are off, spools that were full, records that came twice and were dropped.
The running server answers; without one there is no audit.

\b
Examples:
  bellrock audit
  bellrock audit --node n17 --since 2d
  bellrock audit --deep
  bellrock audit --since 2026-11-21 --json | jq '.flaws[] | select(.severity == "missing")'

\b
Exit codes:
  0  nothing is missing
  1  something is, or there was too much to look at all of it, or the node is not known
  2  the command line is wrong
  3  no server answers""",
)
@click.option("--node", metavar="NAME", help="Only this node.")
@click.option("--since", metavar="WHEN", help="Gaps, refusals and losses only since then: 90m, 12h, 2d (ago), or a date or time in UTC. Who is silent is always told. Default: ever.")
@click.option("--silent", "silent_s", type=click.IntRange(1, 10**9), metavar="SECONDS", help="An agent is silent after so long. Default: 300.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Spools to list, those with a flaw first.")
@click.option("--deep", is_flag=True, help="Also count all rows, number by number: are those there that came, and each once? With --since those of the spools that were heard of since, each whole. Takes long; Ctrl-C ends it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as /api/v1/audit answers it.")
def audit(node: str | None, since: str | None, silent_s: int | None, limit: int, deep: bool, as_json: bool) -> None:
    from bellrock import audit as auditing
    from bellrock import paths

    since_ns = None if since is None else auditing.instant_ns(since)
    with console.waiting("counting all rows" if deep else "asking the server") as wait:

        def told(rows: int, of: int) -> None:
            wait.tell(f"counting all rows: {rows:,} of {of:,} ({rows / max(of, 1):.0%})")

        options = {"node": node, "since_ns": since_ns, "silent_s": silent_s, "limit": limit, "deep": deep, "raw": as_json}
        client = _remote(auditing.TIMEOUT_S) or auditing.local_client(paths.state_dir())
        report = auditing.ask(client, **options, told=told)
    if as_json:
        output.show_json(report)
    else:
        output.show(auditing.shown(report))
    if not report["clean"]:
        sys.exit(EXIT_FAILED)


@cli.command(
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


@cli.command(
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


cli.add_command(stack)
cli.add_command(sql)
cli.add_command(jobdb)


@contextmanager
def _server(kind: str) -> "Iterator[Lease]":
    """The server that was named, else the running one, or one for the time of this command, whose start is shown if it takes long."""
    from bellrock.embedded import Lease, obtain

    client = _remote()
    if client is not None:
        yield Lease(client, None)
        return
    console.log_warnings()
    with console.waiting("starting a server for this command"):
        lease = obtain(kind)
    try:
        yield lease
    finally:
        lease.release()


def _remote(timeout_s: float = 15.0) -> "Client | None":
    """The server that --server or $BELLROCK_SERVER names, if any."""
    from bellrock import remote

    url = click.get_current_context().find_root().obj
    return remote.client(url, timeout_s) if url else None


def _find(lease: "Lease", job: str) -> dict[str, Any]:
    """The API's answer for a job. A server of our own may just be getting it from what an earlier command left."""
    until = time.monotonic() + (FIRST_DELIVERY_S if lease.own else 0.0)
    while True:
        try:
            return lease.client.job(job)
        except ApiError as error:
            if error.status != 404:
                raise
            if time.monotonic() > until:
                raise BellrockError(f"no job {job!r} is known at {lease.client.url}", "see which there are with `bellrock jobs`") from error
        time.sleep(0.1)


def main() -> None:
    """Runs the command line and exits with its code."""
    try:
        entry.raise_at_interrupt()
        output.prepare()
        # click would print a traceback for what it does not know, and its own words for Ctrl-C.
        code = cli.main(prog_name="bellrock", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as wish:
        code = wish.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = entry.INTERRUPTED
    except (output.ReaderGone, BrokenPipeError):
        output.abandon()
        code = 0
    except BellrockError as error:
        console.fail(error.what, error.hint, error.detail)
        code = error.exit_code
    except Exception as error:
        if os.environ.get("BELLROCK_DEBUG"):
            raise
        console.fail(f"{type(error).__name__}: {error}", "this is a fault of Bellrock; set BELLROCK_DEBUG=1 to see where")
        code = EXIT_FAILED
    entry.end_at_interrupt()  # all is said; Python's own end takes a moment too
    sys.exit(code if isinstance(code, int) else 0)
