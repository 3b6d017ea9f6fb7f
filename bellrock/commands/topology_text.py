"""What `bellrock topology` shows, and the times that it is given."""

import datetime
import time
from typing import TYPE_CHECKING

from bellrock import console, output
from bellrock.commands.accounts import show_table
from bellrock.errors import UsageError
from bellrock.text import plain

if TYPE_CHECKING:
    from jobdb.topology.diff import Line
    from jobdb.topology.facts import Held, Site
    from jobdb.topology.questions import About
    from jobdb.topology.repository import Change


def instant(text: str | None) -> int:
    """ns since the epoch of a time as it is typed; None: now. Raises UsageError."""
    if text is None:
        return time.time_ns()
    from jobdb.topology.values import to_ns

    try:
        if text.isascii() and text.isdecimal() and len(text) < 12:
            return to_ns(datetime.datetime.fromtimestamp(int(text), datetime.UTC))
        return to_ns(datetime.datetime.fromisoformat(text))
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"--at {text[:60]!r}: {error}", "write --at 2026-03-01T12:00:00Z, or seconds since the epoch") from error


def when(instant_ns: int) -> str:
    """An instant that may be given to --at again."""
    from jobdb.topology.diff import utc

    return utc(instant_ns)


def lines_of(lines: "list[Line]") -> None:
    """Differences, a line each."""
    from rich.text import Text

    for line in lines:
        output.show(Text(plain(line), style="green" if line.sign == "+" else "red", overflow="fold"))


def show_changes(site: "Site", changes: "list[Change]", as_json: bool) -> None:
    """How many there are of what, and who changed it."""
    from jobdb.topology import FOREVER_NS

    if as_json:
        told = [{**vars(change), "until_ns": None if change.until_ns == FOREVER_NS else change.until_ns} for change in changes]
        output.show_json({"counts": site.names(), "changes": told})
        return
    if not changes:
        console.say("nothing is known yet; write files as docs/topology.md tells, then: bellrock topology apply DIR")
        return
    rows = [[name, str(count)] for name, count in site.names().items() if name != "moves"]
    show_table(["", "at that time"], rows)
    heads = ["holds from", "applied", "by", "more", "less", "from", "note"]
    show_table(heads, [[when(one.at_ns), when(one.applied_ns), one.applied_by, str(one.added), str(one.removed), one.source, one.note] for one in changes])


def about_json(about: "About") -> dict:
    """All that is known of a name, fit for JSON."""

    def told(held: "list[Held]") -> list[dict]:
        return [one.fact._asdict() for one in held]

    peers = [{"role": peers.role, "of": peers.of, "names": peers.names} for peers in about.peers]
    return {name: told(held) for name, held in vars(about).items() if name != "peers"} | {"peers": peers}


def show_about(about: "About") -> None:
    """All that is known of a name, a line each."""
    from rich.text import Text

    for head, text in _about_lines(about):
        output.show(Text.assemble((f"{head}: ", "bold"), plain(text)))


def _about_lines(about: "About") -> "list[tuple[str, str]]":
    from jobdb.topology.fold import shown

    found = []
    of = {}
    for one in about.members:
        of.setdefault((one.fact.kind, one.fact.name), []).append(one.fact.node)
    found += [(f"{kind} {name}", shown(nodes)) for (kind, name), nodes in of.items()]
    found += [(f"reaches {one.fact.file_system} through", one.fact.forwarder) for one in about.forwarding]
    for one in about.forwarder:
        clients = [client.fact.node for client in about.clients if client.fact.file_system == one.fact.file_system]
        found.append((f"forwarding node of {one.fact.file_system} for", shown(clients) if clients else "nobody"))
    found += [(f"{one.fact.file_system}/{one.fact.target}", f"{one.fact.kind}; in samples {one.fact.component} {one.fact.instance}") for one in about.targets]
    of = {}
    for one in about.serving:
        of.setdefault((one.fact.server, one.fact.is_failover), []).append(f"{one.fact.file_system}/{one.fact.target}")
    found += [(f"{server} serves{' (failover)' if is_failover else ''}", ", ".join(targets)) for (server, is_failover), targets in of.items()]
    serving = {(one.fact.file_system, one.fact.target, one.fact.server) for one in about.serving}
    waiting = [one.fact for one in about.may_serve if (one.fact.file_system, one.fact.target, one.fact.server) not in serving]
    found += [(f"{fact.server} may serve", f"{fact.file_system}/{fact.target}{', as a rule' if fact.place == 0 else ''}") for fact in waiting]
    of = {}
    for one in about.ports:
        of.setdefault(one.fact.switch, []).append(one.fact)
    for switch, ports in of.items():
        numbers = [port.port for port in ports if port.port]
        found.append((f"switch {switch}", shown(port.peer for port in ports) + (f" at ports {shown(numbers)}" if numbers else "")))
    found += [(f"peers, {peers.role} of {peers.of}", shown(peers.names) if peers.names else "none") for peers in about.peers]
    return found
