"""What known events say of findings: a pure function, by which `jobdb.findings` writes findings of components."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .findings import Annotation, Found

S_NS = 10**9
# What maintenance upsets is upset a little before it is told to begin, and after it is told to end.
SLACK_NS = 600 * S_NS
# Under this name evidence holds the events that were there, and what the detector said without them.
EVIDENCE = "known_events"
# Events that evidence names, and that a cause does.
EVENTS_MAX, NAMED_MAX = 10, 3
MAINTENANCE, INFO = "maintenance", "info"


def weigh(found: "Found", events: Iterable["Annotation"], now_ns: int) -> "Found":
    """A finding as it is to be written, in the light of events that are known: it is unchanged where it is of no node, or none of them was there, on its node or the whole system, in its time.

    Else its cause names their kinds, and its evidence says what they are, in "known_events"; and it is "info" where all of it, up to now_ns while it lasts, lies in maintenance (and ten minutes before and after). What people
    wrote of events is not taken over: causes and evidence are read by users. A finding that was weighed before is weighed anew."""
    found = bare(found)
    until_ns = max(found.begin_ns, now_ns) if found.end_ns is None else found.end_ns
    of_it = [one for one in events if found.node and one.node in ("", found.node) and one.begin_ns <= until_ns and (one.end_ns is None or one.end_ns >= found.begin_ns)]
    if not of_it:
        return found
    # Those that began last before it are the likeliest to have to do with it.
    of_it.sort(key=lambda one: (one.begin_ns > found.begin_ns, abs(one.begin_ns - found.begin_ns), one.key))
    kinds = list(dict.fromkeys(one.kind for one in of_it))
    named = ", ".join(kinds[:NAMED_MAX]) + (f" and {len(kinds) - NAMED_MAX} more" if len(kinds) > NAMED_MAX else "")
    is_expected = _covers([one for one in of_it if one.kind == MAINTENANCE], found.begin_ns, until_ns)
    told: dict[str, Any] = {
        "events": [{"kind": one.kind, "begin_ns": one.begin_ns, "end_ns": one.end_ns, "source": one.source, "whole_system": not one.node} for one in of_it[:EVENTS_MAX]],
        "events_in_all": len(of_it), "without_them": {"severity": found.severity, "cause": found.cause},
    }  # fmt: skip
    severity = INFO if is_expected else found.severity
    cause = f"{found.cause}; during a known event: {named}" if found.cause else f"during a known event: {named}"
    return replace(found, severity=severity, cause=cause, evidence={**found.evidence, EVIDENCE: told})


def bare(found: "Found") -> "Found":
    """A finding as its detector told it, before `weigh`."""
    told = found.evidence.get(EVIDENCE)
    if not isinstance(told, dict):
        return found
    evidence = {name: value for name, value in found.evidence.items() if name != EVIDENCE}
    return replace(found, evidence=evidence, severity=told["without_them"]["severity"], cause=told["without_them"]["cause"])


def _covers(events: Iterable["Annotation"], begin_ns: int, end_ns: int) -> bool:
    """Whether some events, one after the other, cover all of a time, but for SLACK_NS at their begins and ends."""
    reached_ns = None
    for one in sorted(events, key=lambda one: one.begin_ns):
        if one.begin_ns - SLACK_NS > (begin_ns if reached_ns is None else reached_ns):
            break
        last_ns = end_ns if one.end_ns is None else one.end_ns + SLACK_NS
        reached_ns = last_ns if reached_ns is None else max(reached_ns, last_ns)
    return reached_ns is not None and reached_ns >= end_ns
