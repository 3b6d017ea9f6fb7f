"""Who really served a target: from who should have, and from what was told of failovers."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from . import FOREVER_NS


class Rule(NamedTuple):
    """A server of the target at a place, and when."""

    place: int
    server: str
    from_ns: int
    to_ns: int


class Told(NamedTuple):
    """Files say that this server did."""

    from_ns: int
    to_ns: int
    server: str


class Span(NamedTuple):
    """server served it then; is_failover: another than the rule says."""

    server: str
    is_failover: bool
    from_ns: int
    to_ns: int


def serving(rules: Iterable[Rule], failovers: Iterable[Told] = (), moves: Iterable[tuple[int, str]] = ()) -> list[Span]:
    """The spans in order, as long as they can be. failovers: that do not overlap. moves: (instant, server), as records told; "" is back to the rule.

    A move holds until the next one, but where a failover says something else; either of them only while the server that it names is one of the target's."""
    events: dict[int, list[tuple[str, bool, NamedTuple | str]]] = defaultdict(list)
    for kind, spans in (("rule", rules), ("failover", failovers)):
        for span in spans:
            events[span.from_ns].append((kind, True, span))
            events[span.to_ns].append((kind, False, span))
    for at_ns, server in moves:
        events[at_ns].append(("move", True, server))
    held: dict[str, set] = {"rule": set(), "failover": set()}
    moved, found = "", list[Span]()
    instants = sorted(events)
    for place, at_ns in enumerate(instants):
        for kind, begins, what in sorted(events[at_ns], key=lambda event: event[1]):
            if kind == "move":
                moved = what
            elif begins:
                held[kind].add(what)
            else:
                held[kind].discard(what)
        if not held["rule"] or at_ns == FOREVER_NS:
            continue
        usual, may = min(held["rule"]).server, {rule.server for rule in held["rule"]}
        told = [failover.server for failover in held["failover"]] + [moved]
        server = next((name for name in told if name in may), usual)
        _extend(found, Span(server, server != usual, at_ns, instants[place + 1] if place + 1 < len(instants) else FOREVER_NS))
    return found


def _extend(spans: list[Span], span: Span) -> None:
    """Adds a span, to the last one where that goes on in it."""
    if spans and spans[-1].to_ns == span.from_ns and spans[-1][:2] == span[:2]:
        spans[-1] = spans[-1]._replace(to_ns=span.to_ns)
    else:
        spans.append(span)
