"""What several verbs share: options, and the server that --server names."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bellrock.client import Client

CONFIG = click.option(
    "--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), help="Settings; default server.toml in the state directory."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def named_server() -> str | None:
    """The address that --server or $BELLROCK_SERVER names, if any."""
    return click.get_current_context().find_root().obj


def named_client(timeout_s: float = 15.0) -> "Client | None":
    """A client of that server, if any is named."""
    from bellrock import remote

    url = named_server()
    return remote.client(url, timeout_s) if url else None
