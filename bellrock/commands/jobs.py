"""`bellrock jobs` and `bellrock show`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from bellrock import console, output
from bellrock.commands.options import named_client
from bellrock.errors import EXIT_CODES, ApiError, BellrockError

if TYPE_CHECKING:
    from bellrock.embedded import Lease

# How long an agent that was just started may take to deliver what lies there.
FIRST_DELIVERY_S = 3.0
STATES = ("running", "suspended", "completed", "failed", "cancelled", "timeout", "node_fail", "out_of_memory", "preempted", "requeued", "unknown")


@click.command(
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

    with server_for("jobs") as lease:
        found = list(lease.client.every_job(search=search, state=job_state, limit=limit))
    if as_json:
        output.show_json(found)
    elif found:
        output.show(report_tables.jobs_table(found))
    else:
        console.say("no job yet; begin with `bellrock run -- CMD`" if not (search or job_state) else "no job fits")


@click.command(
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

    with server_for("show") as lease:
        client = lease.client
        answer = find_job(lease, job)
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


@contextmanager
def server_for(kind: str) -> "Iterator[Lease]":
    """The server that was named, else the running one, or one for the time of this command, whose start is shown if it takes long."""
    from bellrock.embedded import Lease, obtain

    client = named_client()
    if client is not None:
        client.on_busy = _tell_busy
        yield Lease(client, None)
        return
    console.log_warnings()
    with console.waiting("starting a server for this command"):
        lease = obtain(kind)
    lease.client.on_busy = _tell_busy
    try:
        yield lease
    finally:
        lease.release()


def _tell_busy(what: str) -> None:
    console.say(f"{what}; waiting for it")


def find_job(lease: "Lease", job: str) -> dict[str, Any]:
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
