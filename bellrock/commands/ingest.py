"""`bellrock ingest`."""

from pathlib import Path

import click

from bellrock import console
from bellrock.commands.options import CONFIG
from bellrock.errors import EXIT_CODES


@click.command(
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
@CONFIG
def ingest(queue: str | None, store: str | None, group: str | None, only: str | None, port: int | None, config_file: Path | None) -> None:
    from bellrock import config, paths, program
    from bellrock.allocator import begin_without_thread_caches

    console.log_for_service()
    begin_without_thread_caches()
    from bellrock.logserver import PROGRESS_S, LogServer

    state = paths.state_dir()
    settings = config.load(config_file, state, {"queue.kind": queue, "store.kind": store, "group.name": group, "ingest.port": port})
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
