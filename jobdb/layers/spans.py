"""Stretches of time, [from, to) in ns since the epoch."""

from collections.abc import Iterable, Sequence

from . import Span


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same time in order, none over or beside another."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if high <= low:
            continue
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def common(one: Sequence[Span], other: Sequence[Span]) -> tuple[Span, ...]:
    """Time that is in both; each is as `joined` gives it."""
    return joined((max(low, begin), min(high, end)) for low, high in one for begin, end in other)


def without(one: Sequence[Span], other: Sequence[Span]) -> tuple[Span, ...]:
    """Time of the first that is not in the other."""
    left = list(one)
    for begin, end in other:
        left = [part for low, high in left for part in ((low, min(high, begin)), (max(low, end), high)) if part[0] < part[1]]
    return joined(left)
