"""`bellrock topology`: which server serves which node, kept with its history in the job database, which the state's owner alone can open."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bellrock import console, output, paths
from bellrock.commands.options import CONFIG, JSON
from bellrock.commands.topology_text import about_json, instant, lines_of, show_about, show_changes, when
from bellrock.errors import BellrockError, Unavailable, UsageError

if TYPE_CHECKING:
    from jobdb.topology.diff import Difference
    from jobdb.topology.facts import Site
    from jobdb.topology.repository import Topology

EXIT_CODES = """\b
Exit codes:
  0  done
  1  the files have mistakes, or there is no such name, or it was not applied
  2  the command line or the configuration is wrong
  3  the job database cannot be opened
"""
FOLDER = click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
AT = click.option("--at", "at", metavar="TIME", help="2026-03-01T12:00:00Z, or seconds since the epoch; UTC where it names no zone. Default: now.")
LINES_SHOWN = 200
CHANGES_SHOWN = 20


@click.group(
    short_help="Which server serves which node.",
    help=f"""Which forwarding nodes, targets, servers and switches serve which nodes, as it is and as it was.

A site writes it as TOML files in a folder that it keeps in git (docs/topology.md). Run these on the server's machine as the user that the server runs as;
`check` runs anywhere.

\b
Examples:
  bellrock topology check site/
  bellrock topology diff site/
  bellrock topology apply site/ --note "$(git -C site rev-parse HEAD)"
  bellrock topology show cn17 --at 2026-03-01T12:00:00Z

{EXIT_CODES}""",
)
def topology() -> None:
    pass


@topology.command(
    "check",
    short_help="Look for mistakes in the files.",
    help=f"""Read the files *.toml in DIR and tell all mistakes, each with file and line. Needs no job database.

\b
Examples:
  bellrock topology check site/
  bellrock topology check site/ --json | jq '.mistakes[].what'

{EXIT_CODES}""",
)
@FOLDER
@JSON
def check(folder: Path, as_json: bool) -> None:
    from jobdb.topology import BadTopology
    from jobdb.topology.site import load

    try:
        site = load(folder)
    except BadTopology as bad:
        if not as_json:
            raise _mistakes(folder, bad) from bad
        output.show_json({"mistakes": [{"where": one.where, "what": one.what} for one in bad.mistakes], "more": bad.more})
        raise click.exceptions.Exit(1) from None
    if as_json:
        output.show_json({"mistakes": [], "more": 0, "counts": site.names(), "digest": site.digest})
    else:
        console.say(f"{folder}: no mistakes; {_counts(site)}")


@topology.command(
    "diff",
    short_help="Show what the files would change.",
    help=f"""Check the files in DIR and show what `apply` would change; nothing is changed.

\b
Examples:
  bellrock topology diff site/
  bellrock topology diff site/ --at 2026-03-01T12:00:00Z
  bellrock topology diff site/ --json | jq '.added, .removed'

{EXIT_CODES}""",
)
@FOLDER
@AT
@CONFIG
@JSON
def diff(folder: Path, at: str | None, config_file: Path | None, as_json: bool) -> None:
    at_ns, site = instant(at), _loaded(folder)
    with opened(config_file) as held:
        found, until_ns = held.compare(site, at_ns)
    if as_json:
        output.show_json(_difference_json(found, at_ns, until_ns))
    else:
        _show(found, at_ns, until_ns)


@topology.command(
    "apply",
    short_help="Let the files hold.",
    help=f"""Check the files in DIR, show what differs, ask, and let them hold from now on, or from --at on.

It is one transaction, and who did it is kept. For a time in the past they hold until the next later change's time. Files that hold already change nothing.
Without a terminal to ask at, --yes is needed.

\b
Examples:
  bellrock topology apply site/
  bellrock topology apply site/ --yes --note "$(git -C site rev-parse HEAD)"
  bellrock topology apply site/ --at 2026-03-01T12:00:00Z

{EXIT_CODES}""",
)
@FOLDER
@AT
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--note", default="", metavar="TEXT", help="Kept with it, such as the commit that the files are of.")
@CONFIG
@JSON
def apply(folder: Path, at: str | None, yes: bool, note: str, config_file: Path | None, as_json: bool) -> None:
    at_ns, site = instant(at), _loaded(folder)
    if as_json and not yes:
        raise UsageError("--json asks nobody", "look with `bellrock topology diff`, then give --yes")
    if not yes and not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask at", "look with `bellrock topology diff`, then give --yes")
    with opened(config_file) as held:
        found, until_ns = held.compare(site, at_ns)
        if not as_json:
            _show(found, at_ns, until_ns)
        if found and not yes and not click.confirm("Apply this?", err=True):
            raise BellrockError("nothing was applied", "`bellrock topology diff` shows it again")
        change = held.apply(site, at_ns, _who(), str(folder.absolute()), note, expected=found)
    if as_json:
        output.show_json({"is_applied": change is not None, **_difference_json(found, at_ns, until_ns)})
    elif change is not None:
        console.say(f"applied: {_counts(site)}")


@topology.command(
    "show",
    short_help="Show what is known of a node or server.",
    help=f"""Show what is known of NAME at a time: a node, a forwarding node, a server, a target (online1/OST0003), a file system, a switch, a cabinet, a group …

Without NAME: how many there are of what, and who changed them last.

\b
Examples:
  bellrock topology show
  bellrock topology show cn17
  bellrock topology show online1/OST0003 --at 2026-03-01T12:00:00Z
  bellrock topology show fwd3 --json | jq -r '.clients[].node'

{EXIT_CODES}""",
)
@click.argument("name", required=False)
@AT
@CONFIG
@JSON
def show(name: str | None, at: str | None, config_file: Path | None, as_json: bool) -> None:
    at_ns = instant(at)
    with opened(config_file) as held:
        if name is None:
            site, changes = held.site(at_ns), held.changes(CHANGES_SHOWN)
        else:
            about = held.about(name, at_ns)
    if name is None:
        show_changes(site, changes, as_json)
    elif not about:
        raise BellrockError(f"nothing is known of {name!r} at {when(at_ns)}", "`bellrock topology show` tells what there is, and since when")
    elif as_json:
        output.show_json(about_json(about))
    else:
        show_about(about)


@topology.command(
    "layouts",
    short_help="Keep on which OSTs files lie.",
    help=f"""Take in what `lfs getstripe` wrote of files, by their absolute paths, from FILE or from standard input (-).

They hold from now on, or from --at on, until something else is told of a file. Of over a million files those that were told first go.

\b
Examples:
  lfs getstripe -r /scratch/project | bellrock topology layouts -
  bellrock topology layouts stripes.txt --file-system scratch --at 2026-03-01T12:00:00Z

{EXIT_CODES}""",
)
@click.argument("file", type=click.File("rb"))
@click.option("--file-system", metavar="NAME", help="That the files are of. Default: by their paths, and the mounts of file systems.")
@AT
@CONFIG
@JSON
def layouts(file, file_system: str | None, at: str | None, config_file: Path | None, as_json: bool) -> None:
    from jobdb.topology.layouts import TEXT_BYTES_MAX, BadLayout, getstripe

    at_ns = instant(at)
    data = file.read(TEXT_BYTES_MAX + 1)
    if len(data) > TEXT_BYTES_MAX:
        raise BellrockError(f"{file.name}: more than {TEXT_BYTES_MAX >> 20} MiB", "give fewer files at once")
    try:
        found = getstripe(data.decode("utf-8", "surrogateescape"))
    except BadLayout as bad:
        raise BellrockError(f"{file.name}: {bad}") from bad
    with opened(config_file) as held:
        news = held.layouts.put(found, at_ns, file_system)
    if as_json:
        output.show_json({"files": len(found), "news": news})
    else:
        console.say(f"{len(found)} files, of which {news} lay elsewhere or were not known")


@contextmanager
def opened(config_file: Path | None) -> "Iterator[Topology]":
    """The topology of this state. Raises Unavailable where the job database cannot be opened or asked, BellrockError for what cannot be done."""
    from bellrock import config
    from bellrock.embedded import faults
    from bellrock.opening import open_jobdb
    from jobdb.engine import JobDBError
    from jobdb.topology import TopologyError

    state = paths.private_dir(paths.state_dir())
    settings = config.load(config_file, state)
    with faults(state):
        database = open_jobdb(settings, state)
    try:
        yield database.topology
    except JobDBError as error:
        raise Unavailable(str(error)) from error
    except TopologyError as error:
        raise BellrockError(str(error), "see `bellrock topology show`") from error
    finally:
        database.close()


def _who() -> str:
    from jobdb.repository import system_user_name

    uid = os.geteuid()
    return f"{system_user_name(uid) or uid}@{socket.gethostname()}"


def _loaded(folder: Path) -> "Site":
    from jobdb.topology import BadTopology
    from jobdb.topology.site import load

    try:
        with console.waiting(f"reading {folder}"):
            return load(folder)
    except BadTopology as bad:
        raise _mistakes(folder, bad) from bad


def _mistakes(folder: Path, bad) -> BellrockError:
    count = len(bad.mistakes) + bad.more
    more = [f"… and {bad.more} more"] if bad.more else []
    hint = "set them right, then look again with `bellrock topology check`; docs/topology.md tells what may stand there"
    return BellrockError(f"{folder}: {count} mistake{'' if count == 1 else 's'}", hint, [*map(str, bad.mistakes), *more])


def _counts(site: "Site") -> str:
    return ", ".join(f"{count} {name}" for name, count in site.names().items() if count)


def _show(found: "Difference", at_ns: int, until_ns: int) -> None:
    from jobdb.topology import FOREVER_NS

    lines = found.lines()
    lines_of(lines[:LINES_SHOWN])
    if len(lines) > LINES_SHOWN:
        console.say(f"and {len(lines) - LINES_SHOWN} lines more; `bellrock topology diff --json` shows all")
    until = f", until {when(until_ns)}, when another change begins to hold" if until_ns != FOREVER_NS else ""
    added, removed = found.counts
    console.say(f"from {when(at_ns)} on{until}: {added} facts more, {removed} less" if found else f"the files hold already at {when(at_ns)}")


def _difference_json(found: "Difference", at_ns: int, until_ns: int) -> dict:
    from jobdb.topology import FOREVER_NS

    added, removed = found.counts
    until = None if until_ns == FOREVER_NS else until_ns
    return {"at_ns": at_ns, "until_ns": until, "added": added, "removed": removed, "lines": [line._asdict() for line in found.lines()]}
