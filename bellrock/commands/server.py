"""`bellrock server`."""

from pathlib import Path

import click

from bellrock import console
from bellrock.commands.options import CONFIG
from bellrock.errors import EXIT_CODES


@click.command(
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
@CONFIG
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
