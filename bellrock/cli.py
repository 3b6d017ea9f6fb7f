"""The command `bellrock`: its verbs are in bellrock/commands/. Errors become a line, a hint and an exit code here."""

import os
import sys

import click

from bellrock import __version__, console, entry, output
from bellrock.commands.accounts import account
from bellrock.commands.archive import archive
from bellrock.commands.audit import audit
from bellrock.commands.components import component, components
from bellrock.commands.demo import demo
from bellrock.commands.events import events
from bellrock.commands.findings import detect, explain, findings
from bellrock.commands.ingest import ingest
from bellrock.commands.jobs import jobs, show
from bellrock.commands.layers import layers
from bellrock.commands.login import login, logout
from bellrock.commands.messages import messages
from bellrock.commands.queue import queue
from bellrock.commands.replay import replay
from bellrock.commands.retention import retention
from bellrock.commands.run import run
from bellrock.commands.server import server
from bellrock.commands.simulate import simulate
from bellrock.commands.sql import jobdb, sql
from bellrock.commands.stack import stack
from bellrock.commands.tokens import token
from bellrock.commands.topology import topology
from bellrock.commands.trace import trace
from bellrock.errors import EXIT_CODES, EXIT_FAILED, BellrockError

# Verbs that can ask a server elsewhere.
REMOTE = ("jobs", "show", "layers", "trace", "components", "component", "messages", "audit", "findings", "explain", "detect", "events", "login", "logout")
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(
    context_settings=CONTEXT,
    help=f"""Watch what programs do to the I/O system, job by job.

\b
Examples:
  bellrock run -- ./simulation input.dat     watch a program, and show what it did
  bellrock jobs                              the jobs that were seen
  bellrock show JOB                          one job's report
  bellrock layers JOB                        what forwarding nodes and storage did for it
  bellrock trace JOB                         its records one by one
  bellrock server                            collect and serve the pages until Ctrl-C
  bellrock ingest --port 5044                a log server of a site: records in, into a store
  bellrock components                        disks, servers and nodes that agents watch
  bellrock messages NODE                     what a node's system log said
  bellrock findings                          what is wrong, since when, and who did it
  bellrock events                            failovers, rebuilds and maintenance that are known
  bellrock audit                             is anything missing?
  bellrock retention                         what is older than it is to be kept
  bellrock archive JOB                       pack a job's records, to stay for good
  bellrock sql "SELECT * FROM job_summary"   ask the job database
  bellrock queue slurm                       what the batch system tells of its jobs
  bellrock topology show NODE                which servers serve a node
  bellrock account add NAME --admin          who may sign in
  bellrock --server URL login NAME           sign in to a server elsewhere
  bellrock --server URL jobs                 the jobs that it shows you
  bellrock demo                              real programs, watched live in the browser
  bellrock replay DIR                        what a virtual machine's nodes would have shown, by the true agents
  bellrock simulate --state DIR              records of jobs that never ran, for trials and benchmarks
  bellrock stack up                          a miniature site's servers on this machine

{EXIT_CODES}""",
)
@click.version_option(__version__, prog_name="bellrock", message="%(prog)s %(version)s")
@click.option(
    "--server", "server_url", metavar="URL", envvar="BELLROCK_SERVER", help="Ask the server at this address: for jobs, show, layers, trace, components, component, messages, audit, findings, explain, detect, events, login and logout. Default: $BELLROCK_SERVER, else this machine's."
)
@click.pass_context
def cli(context: click.Context, server_url: str | None) -> None:
    context.obj = server_url
    given = context.get_parameter_source("server_url") is click.core.ParameterSource.COMMANDLINE
    if given and context.invoked_subcommand not in REMOTE:
        raise click.UsageError(f"--server is for {', '.join(REMOTE)}; {context.invoked_subcommand} works on this machine")


for verb in (account, archive, audit, component, components, demo, detect, events, explain, findings, ingest, jobdb, jobs, layers, login, logout, messages, queue, replay, retention, run, server, show, simulate, sql, stack, token, topology, trace):
    cli.add_command(verb)


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
