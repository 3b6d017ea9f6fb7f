"""`bellrock account`: who may sign in. It works on the job database itself, which the state's owner alone can open, be a server running or not."""

import datetime
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bellrock import console, output, paths
from bellrock.commands.options import CONFIG, JSON
from bellrock.errors import BellrockError, UsageError

if TYPE_CHECKING:
    from jobdb.accounts import Account, Accounts

EXIT_CODES = """\b
Exit codes:
  0  done
  1  there is no such account or token, or it is there already
  2  the command line, the configuration or the password is wrong
  3  the job database cannot be opened
"""
PASSWORD_FILE_BYTES_MAX = 4096
PASSWORD_FILE = click.option(
    "--password-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Its first line is the password; a file that you alone can read. Default: ask for it."
)


@click.group(
    short_help="Who may sign in.",
    help=f"""Accounts of those who may sign in on the pages, and use the API with a token.

An account owns the jobs of the cluster's user of the same name and uid, and sees no others; an administrator sees all.
Run these on the server's machine as the user that the server runs as. docs/rights.md tells all.

\b
Examples:
  bellrock account add boss --admin
  bellrock account add ada --uid 1042 --password-file ada.password
  bellrock account list
  bellrock account disable ada

{EXIT_CODES}""",
)
def account() -> None:
    pass


@account.command(
    "add",
    short_help="Make an account.",
    help=f"""Make an account NAME, which is the cluster's user name. The password is asked for, or read from a file; it has 12 characters or more.

The uid is this machine's for that name; where it has none, --uid says it. An administrator needs none.

\b
Examples:
  bellrock account add boss --admin
  bellrock account add ada
  bellrock account add ada --uid 1042 --password-file ada.password --json

{EXIT_CODES}""",
)
@click.argument("name")
@click.option("--admin", is_flag=True, help="An administrator, who sees everything.")
@click.option("--uid", type=click.IntRange(0, 2**32 - 2), help="The user's number on the cluster. Default: this machine's for NAME.")
@PASSWORD_FILE
@CONFIG
@JSON
def add(name: str, admin: bool, uid: int | None, password_file: Path | None, config_file: Path | None, as_json: bool) -> None:
    uid = _system_uid(name) if uid is None else uid
    if uid is None and not admin:
        raise UsageError(f"this machine knows no user {name!r}, and an account without a uid owns no jobs", "say which it is on the cluster: --uid N (there: `id -u NAME`)")
    with open_accounts(config_file) as accounts:
        made = accounts.add(name, _hashed(password_file), "admin" if admin else "user", uid)
    if as_json:
        output.show_json(_account_json(made))
    else:
        console.say(f"{name} may sign in" + ("" if uid is None else f", and owns the jobs of {name}, uid {uid}"))


@account.command("list", short_help="List accounts.", help=f"List all accounts.\n\n\b\nExamples:\n  bellrock account list\n  bellrock account list --json | jq '.[].name'\n\n{EXIT_CODES}")
@CONFIG
@JSON
def list_accounts(config_file: Path | None, as_json: bool) -> None:
    with open_accounts(config_file) as accounts:
        found = accounts.every()
    if as_json:
        output.show_json([_account_json(one) for one in found])
    elif found:
        rows = [[one.name, one.role, "" if one.uid is None else str(one.uid), "disabled" if one.disabled else "", day(one.created_ns)] for one in found]
        show_table(["name", "role", "uid", "state", "made"], rows)
    else:
        console.say("there is no account; make one with `bellrock account add NAME --admin`")


def _deed(name: str, short: str, more: str, done: str):
    """A command that does one thing to one account."""

    def command(account_name: str, config_file: Path | None, as_json: bool) -> None:
        with open_accounts(config_file) as accounts:
            {
                "disable": lambda: accounts.set_disabled(account_name, True),
                "enable": lambda: accounts.set_disabled(account_name, False),
                "remove": lambda: accounts.remove(account_name),
            }[name]()
        tell(as_json, {"name": account_name, "done": name}, done.format(account_name))

    text = f"{short} {more}\n\n\b\nExamples:\n  bellrock account {name} ada\n\n{EXIT_CODES}"
    return account.command(name, short_help=short, help=text)(click.argument("account_name", metavar="NAME")(CONFIG(JSON(command))))


disable = _deed("disable", "Let an account in no longer.", "Its sessions and tokens end at once, for good.", "{0} may sign in no longer")
enable = _deed("enable", "Let a disabled account in again.", "It has to sign in anew.", "{0} may sign in again")
remove = _deed("remove", "Remove an account.", "Its tokens and sessions go with it; jobs stay.", "{0} has no account any more")


@account.command(
    "password",
    short_help="Set another password.",
    help=f"""Set another password. All sessions and tokens of the account end.

\b
Examples:
  bellrock account password ada
  bellrock account password ada --password-file ada.password

{EXIT_CODES}""",
)
@click.argument("name")
@PASSWORD_FILE
@CONFIG
@JSON
def password(name: str, password_file: Path | None, config_file: Path | None, as_json: bool) -> None:
    with open_accounts(config_file) as accounts:
        accounts.set_password(name, _hashed(password_file))
    tell(as_json, {"name": name, "done": "password"}, f"{name} has another password; sessions and tokens have ended")


@contextmanager
def open_accounts(config_file: Path | None) -> "Iterator[Accounts]":
    """The accounts of this state. Raises ServerFault where the job database cannot be opened, BellrockError for what cannot be done."""
    from bellrock import config
    from bellrock.embedded import faults
    from bellrock.opening import open_jobdb
    from jobdb.accounts import AccountError

    state = paths.private_dir(paths.state_dir())
    settings = config.load(config_file, state)
    with faults(state):
        database = open_jobdb(settings, state)
    try:
        yield database.accounts
    except AccountError as error:
        raise BellrockError(str(error), "see `bellrock account list`") from error
    finally:
        database.close()


def read_password(file: Path | None, *, again: bool) -> str:
    """The password from the first line of a file, or from a person; `again`: who has to type it twice. Raises UsageError."""
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal to ask for a password at", "give a file with --password-file")
        return click.prompt("Password", hide_input=True, confirmation_prompt=again, err=True)
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
                raise UsageError(f"{file}: others may read it (mode {stat.filemode(found.st_mode)})", f"`chmod 600 {file}`")
            text = opened.read(PASSWORD_FILE_BYTES_MAX).decode()
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}", "give a file that holds the password") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8", "give a file that holds the password") from error
    return text.split("\n", 1)[0].removesuffix("\r")


def _hashed(file: Path | None) -> str:
    from jobdb.passwords import hash_password

    try:
        return hash_password(read_password(file, again=True))
    except ValueError as error:
        raise UsageError(str(error), "take a longer one; several words are easy to keep in mind") from error


def _system_uid(name: str) -> int | None:
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return None


def tell(as_json: bool, result: dict, line: str) -> None:
    """What was done: as JSON, or a line for a person."""
    if as_json:
        output.show_json(result)
    else:
        console.say(line)


def _account_json(one: "Account") -> dict:
    return {"name": one.name, "role": one.role, "uid": one.uid, "disabled": one.disabled, "created_ns": one.created_ns}


def day(ns: int) -> str:
    """An instant for a person, in UTC."""
    return datetime.datetime.fromtimestamp(ns // 10**9, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def show_table(heads: list[str], rows: list[list[str]]) -> None:
    """Rows for a person; what they hold is not ours."""
    from rich.table import Table

    from bellrock.text import plain

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head)
    for row in rows:
        table.add_row(*map(plain, row))
    output.show(table)
