"""`bellrock token`: tokens of accounts, on the job database itself as `bellrock account`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bellrock import console, output
from bellrock.commands.accounts import EXIT_CODES, day, open_accounts, show_table, tell
from bellrock.commands.options import CONFIG, JSON
from bellrock.errors import BellrockError

if TYPE_CHECKING:
    from jobdb.accounts import Token


@click.group(
    short_help="Tokens for API and command line.",
    help=f"""Tokens of accounts, for API and command line. People make their own with `bellrock login`; these are for scripts and services.

\b
Examples:
  (umask 077; bellrock token add ada --label "nightly report" --expires 30 > token)
  bellrock token list
  bellrock token revoke 7

{EXIT_CODES}""",
)
def token() -> None:
    pass


@token.command(
    "add",
    short_help="Make a token.",
    help=f"""Make a token for the account NAME, and print it, this once: only its hash is kept.

\b
Examples:
  (umask 077; bellrock token add ada --label "nightly report" --expires 30 > token)
  BELLROCK_TOKEN=$(cat token) bellrock --server https://bellrock.example jobs

{EXIT_CODES}""",
)
@click.argument("name")
@click.option("--label", required=True, help="What it is for.")
@click.option("--expires", "days", type=click.IntRange(1, 366), default=90, show_default=True, metavar="DAYS", help="For so many days.")
@CONFIG
@JSON
def add_token(name: str, label: str, days: int, config_file: Path | None, as_json: bool) -> None:
    with open_accounts(config_file) as accounts:
        secret, made = accounts.add_token(name, label, days)
    if as_json:
        output.show_json({**_token_json(made), "token": secret})
    else:
        output.show(secret)
        console.say(f"token {made.id} of {name} holds until {day(made.expires_ns)}; it is shown this once")


@token.command("list", short_help="List tokens.", help=f"List tokens, of all or of one account.\n\n\b\nExamples:\n  bellrock token list\n  bellrock token list ada --json\n\n{EXIT_CODES}")
@click.argument("name", required=False)
@CONFIG
@JSON
def list_tokens(name: str | None, config_file: Path | None, as_json: bool) -> None:
    with open_accounts(config_file) as accounts:
        found = accounts.tokens(name)
    if as_json:
        output.show_json([_token_json(one) for one in found])
    elif found:
        rows = [[str(one.id), one.name, one.label, day(one.expires_ns), "never" if one.used_ns is None else day(one.used_ns)] for one in found]
        show_table(["id", "account", "label", "expires", "used"], rows)
    else:
        console.say("there is no token; make one with `bellrock token add NAME --label TEXT`")


@token.command("revoke", short_help="Revoke a token.", help=f"Revoke the token with this id, as `bellrock token list` shows it.\n\n\b\nExamples:\n  bellrock token revoke 7\n\n{EXIT_CODES}")
@click.argument("number", metavar="ID", type=click.IntRange(0, 2**63 - 1))
@CONFIG
@JSON
def revoke(number: int, config_file: Path | None, as_json: bool) -> None:
    with open_accounts(config_file) as accounts:
        if not accounts.revoke_token(number):
            raise BellrockError(f"there is no token {number}", "see `bellrock token list`")
    tell(as_json, {"id": number, "done": "revoke"}, f"token {number} is revoked")


def _token_json(one: "Token") -> dict:
    return {"id": one.id, "account": one.name, "label": one.label, "created_ns": one.created_ns, "expires_ns": one.expires_ns, "used_ns": one.used_ns}
