"""Known events out of messages of system logs: what began and ended when, by rules.

Messages come in any order and again. What counts is when they were written: the events of a time are those that its messages tell in that order, whenever they came within `LATE_NS`. All that
anybody can write into a log is bounded here, and of a message's words none gets into an event but what it is about (`Rule.subject`)."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobdb.findings import LOG, MAINTENANCE, Annotation

from .log_rules import BEGIN, END, Rule, Rules

S_NS, DAY_NS = 10**9, 86_400 * 10**9
# What was written longer ago when it comes is too late, and what was written so far ahead of the server's clock is of a wrong clock.
LATE_NS, AHEAD_NS = DAY_NS, 3600 * S_NS
# What begins again so soon after its end goes on.
AGAIN_NS = 60 * S_NS
# An end that is told so long after the beginning is another's.
LONGEST_NS = 30 * DAY_NS
# Marks that are kept of one subject, and subjects of which any are: 2,000 x 16 x 60 bytes of JSON.
MARKS_MAX, GROUPS_MAX = 16, 2000
# New events in a day, of one node and in all.
NODE_DAY_MAX, DAY_MAX = 100, 5000
# Whose word a message may be. The log of another user's program tells of no event.
VOUCHED, CLAIMED = ("kernel", "root"), "claimed"


@dataclass(frozen=True, order=True)
class Mark:
    """That something began, or ended (is_end): the message was written from begin_ns to until_ns. is_sure: its log vouches for who wrote it."""

    begin_ns: int
    until_ns: int
    is_end: bool
    is_sure: bool


@dataclass(frozen=True)
class Interval:
    """That something was going on. is_ended: an end was told; else until_ns is when it is taken to have ended at the latest."""

    begin_ns: int
    until_ns: int
    is_ended: bool
    is_sure: bool


@dataclass(frozen=True)
class Group:
    """What is known of one subject of a rule on a node: the last of what lies before from_ns, if anything, and marks later than that, in order."""

    rule: str
    node: str
    subject: str
    last: Interval | None = None
    from_ns: int = -1
    marks: tuple[Mark, ...] = ()

    @property
    def name(self) -> tuple[str, str, str]:
        return self.rule, self.node, self.subject


@dataclass(frozen=True)
class State:
    """What is to be known when more messages come. made: by node, new events of this day. left_out: marks that were beyond a bound, too late or ahead, since the beginning."""

    groups: Mapping[tuple[str, str, str], Group] = field(default_factory=dict)
    day: int = 0
    made: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """Fit for JSON; `from_json` reads it."""
        groups = [[*one.name, None if one.last is None else _row(one.last), one.from_ns, [_row(mark) for mark in one.marks]] for one in self.groups.values()]
        return {"groups": groups, "day": self.day, "made": dict(self.made), "left_out": self.left_out}

    @classmethod
    def from_json(cls, given: Any) -> "State":
        """The state that was kept; an empty one for what is none, as where there was none yet."""
        try:
            groups = [Group(*names, None if last is None else Interval(*last), from_ns, tuple(Mark(*mark) for mark in marks)) for *names, last, from_ns, marks in given["groups"]]
            return cls({one.name: one for one in groups}, given["day"], dict(given["made"]), given["left_out"])
        except (KeyError, TypeError, ValueError):
            return cls()


@dataclass(frozen=True)
class Step:
    """What some messages change: events that are new or other than before, keys of those that are none any more, and the state to go on with."""

    state: State
    events: tuple[Annotation, ...] = ()
    gone: tuple[str, ...] = ()


def step(rules: Rules, state: State, messages: Iterable[Mapping[str, Any]], now_ns: int) -> Step:
    """messages: rows of `pipeline.schema`'s kind "message", in any order, some of them perhaps a second time: that changes nothing."""
    today = now_ns // DAY_NS
    made = dict(state.made) if today == state.day else {}
    all_made = sum(made.values())
    groups, events, gone, left_out = dict(state.groups), [], [], state.left_out
    new, unfit = _by_group(rules, messages, now_ns)
    left_out += unfit
    for name, marks in new.items():
        rule, before = rules.by_name[name[0]], groups.get(name, Group(*name))
        marks = marks - set(before.marks)
        timely = sorted(mark for mark in marks if mark.begin_ns > before.from_ns)
        left_out += len(marks) - len(timely)
        was = intervals(rule, before.last, before.marks)
        known, known_begins = set(was), {one.begin_ns for one in was}
        may_be = max(0, min(NODE_DAY_MAX - made.get(name[1], 0), DAY_MAX - all_made))
        after, refused = _with(rule, before, timely, known_begins, may_be)
        left_out += refused
        told = intervals(rule, after.last, after.marks)
        begins = {one.begin_ns for one in told}
        fresh = len(begins - known_begins)
        if fresh:
            made[name[1]] = made.get(name[1], 0) + fresh
            all_made += fresh
        events += [_annotation(rule, after, one) for one in told if one not in known]
        gone += [_key(after, one) for one in was if one.begin_ns not in begins]
        groups[name] = after
    kept = _kept(rules, groups.values(), now_ns - LATE_NS)
    return Step(State(kept, today, made, left_out), tuple(events), tuple(gone))


def intervals(rule: Rule, last: Interval | None, marks: Sequence[Mark]) -> list[Interval]:
    """What went on when, in order, by marks in order, after what went on before these.

    A beginning goes on for `rule.lasts_s`, and longer where another comes meanwhile; the first end after it ends it, also where that comes later than it was taken to last. An end of nothing
    is none. Of an end and a beginning in the same instant, as logs by the second have them, that comes first which makes sense: what goes on ends before it begins again."""
    found = [] if last is None else [last]
    lasts_ns = rule.lasts_s * S_NS
    for _, same in itertools.groupby(marks, key=lambda mark: mark.begin_ns):
        is_on = bool(found) and not found[-1].is_ended
        for mark in sorted(same, key=lambda mark: mark.is_end != is_on):
            current = found[-1] if found else None
            if mark.is_end:
                if current is not None and not current.is_ended and mark.begin_ns - current.begin_ns <= LONGEST_NS:
                    found[-1] = replace(current, until_ns=mark.begin_ns, is_ended=True)
            elif current is not None and mark.begin_ns <= current.until_ns + AGAIN_NS:
                found[-1] = replace(current, until_ns=max(current.until_ns, mark.until_ns + lasts_ns), is_ended=False)
            else:
                found.append(Interval(mark.begin_ns, mark.until_ns + lasts_ns, False, mark.is_sure))
    return found


def _by_group(rules: Rules, messages: Iterable[Mapping[str, Any]], now_ns: int) -> tuple[dict[tuple[str, str, str], set[Mark]], int]:
    """Marks of messages, and how many of these are too late, or ahead."""
    found: dict[tuple[str, str, str], set[Mark]] = {}
    unfit = 0
    for one in messages:
        if one["origin"] not in (*VOUCHED, CLAIMED):
            continue
        is_sure = one["origin"] in VOUCHED
        for rule in rules.by_name.values():
            phase = rule.phase(one["program"], one["event"], one["text"])
            # What makes findings less severe is not for everybody to say.
            if phase is None or (rule.kind == MAINTENANCE and not is_sure):
                continue
            if not max(0, now_ns - LATE_NS) <= one["start"] <= now_ns + AHEAD_NS:
                unfit += 1
                continue
            until_ns = min(max(one["start"], one["end"]), now_ns + AHEAD_NS)
            name = (rule.name, one["node"], rule.subject(one["text"]))
            found.setdefault(name, set()).add(Mark(one["start"], until_ns if phase == BEGIN else one["start"], phase == END, is_sure))
    return found, unfit


def _with(rule: Rule, group: Group, marks: Sequence[Mark], known: set[int], may_be: int) -> tuple[Group, int]:
    """A group with more marks, of which those are refused, and counted, that would make more new events than there may be."""
    refused = 0
    every = tuple(sorted({*group.marks, *marks}))
    fresh = [one.begin_ns for one in intervals(rule, group.last, every) if one.begin_ns not in known]
    if len(fresh) > may_be:
        fits = [mark for mark in marks if mark.begin_ns < fresh[may_be]]
        refused, every = len(marks) - len(fits), tuple(sorted({*group.marks, *fits}))
    return replace(group, marks=every), refused


def _kept(rules: Rules, groups: Iterable[Group], since_ns: int) -> dict[tuple[str, str, str], Group]:
    """What is to be kept of groups: marks since then, MARKS_MAX of each, and of those before only what they came to. GROUPS_MAX groups, those with the latest marks."""
    kept = []
    for group in groups:
        if group.rule not in rules.by_name:
            continue
        first = next((place for place, mark in enumerate(group.marks) if mark.begin_ns >= since_ns), len(group.marks))
        first = max(first, len(group.marks) - MARKS_MAX)
        if first:
            # What was written in one instant stays together.
            first = next((place for place in range(first, len(group.marks)) if group.marks[place].begin_ns > group.marks[place - 1].begin_ns), len(group.marks))
            past = intervals(rules.by_name[group.rule], group.last, group.marks[:first])
            group = replace(group, last=past[-1] if past else None, from_ns=group.marks[first - 1].begin_ns, marks=group.marks[first:])
        if group.marks or (group.last is not None and group.last.until_ns >= since_ns):
            kept.append(group)
    if len(kept) > GROUPS_MAX:
        kept = sorted(kept, key=lambda one: one.marks[-1].begin_ns if one.marks else one.from_ns)[-GROUPS_MAX:]
    return {one.name: one for one in kept}


def _annotation(rule: Rule, group: Group, interval: Interval) -> Annotation:
    text = f"{rule.what}: {group.subject}" if group.subject else rule.what
    if rule.ends and not interval.is_ended:
        text += "; no end was told, and it is taken to last no longer"
    if not interval.is_sure:
        text += "; the log does not vouch for who wrote this"
    return Annotation(rule.kind, interval.begin_ns, interval.until_ns, text, group.node, LOG, _key(group, interval))


def _key(group: Group, interval: Interval) -> str:
    return hashlib.sha256(json.dumps([*group.name, interval.begin_ns]).encode()).hexdigest()


def _row(of: Mark | Interval) -> list[Any]:
    return [of.begin_ns, of.until_ns, of.is_end, of.is_sure] if isinstance(of, Mark) else [of.begin_ns, of.until_ns, of.is_ended, of.is_sure]
