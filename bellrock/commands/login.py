"""`bellrock login` and `logout`: a token of a server elsewhere for this user."""

from pathlib import Path

import click

from bellrock import console, output
from bellrock.commands.accounts import PASSWORD_FILE, day, read_password
from bellrock.commands.options import JSON, named_server
from bellrock.errors import UsageError

EXIT_CODES = """\b
Exit codes:
  0  done
  1  the server refused
  2  the command line is wrong, or there is no server named
  3  the server does not answer
"""


@click.command(
    short_help="Sign in to a server elsewhere.",
    help=f"""Sign in to the server that --server names, and keep a token of it for this user: `bellrock --server URL jobs` then works, until the token
expires. It lies in ~/.config/bellrock/tokens.json, which nobody else can read, and is sent to no other server.

\b
Examples:
  bellrock --server https://bellrock.example.org login ada
  export BELLROCK_SERVER=https://bellrock.example.org; bellrock login ada; bellrock jobs
  bellrock --server https://bellrock.example.org login ada --password-file ada.password --expires 7

{EXIT_CODES}""",
)
@click.argument("name")
@PASSWORD_FILE
@click.option("--expires", "days", type=click.IntRange(1, 366), default=90, show_default=True, metavar="DAYS", help="Keep the token for so many days.")
@JSON
def login(name: str, password_file: Path | None, days: int, as_json: bool) -> None:
    from bellrock import remote

    url = remote.address(_named())
    made = remote.login(url, name, read_password(password_file, again=False), days)
    if as_json:
        output.show_json({"server": url, **made})
    else:
        console.say(f"{name} is signed in to {url} until {day(made['expires_ns'])}")


@click.command(
    short_help="Sign out of a server elsewhere.",
    help=f"""Revoke this user's token of the server that --server names, and forget it.

\b
Examples:
  bellrock --server https://bellrock.example.org logout

{EXIT_CODES}""",
)
@JSON
def logout(as_json: bool) -> None:
    from bellrock import remote

    url = remote.address(_named())
    remote.logout(url)
    if as_json:
        output.show_json({"server": url, "done": "logout"})
    else:
        console.say(f"signed out of {url}")


def _named() -> str:
    url = named_server()
    if not url:
        raise UsageError("there is no server to sign in to", "`bellrock --server https://bellrock.example.org login NAME`; on its own machine its user needs none")
    return url
