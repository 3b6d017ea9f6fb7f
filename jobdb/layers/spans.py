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
    """Time that is in both; each is in order, none of it over another, as `joined` gives it. A mapping that changes each minute makes thousands of a job's time."""
    found, here, there = [], 0, 0
    while here < len(one) and there < len(other):
        low, high = max(one[here][0], other[there][0]), min(one[here][1], other[there][1])
        if low < high:
            found.append((low, high))
        if one[here][1] < other[there][1]:
            here += 1
        else:
            there += 1
    return joined(found)


def without(one: Sequence[Span], other: Sequence[Span]) -> tuple[Span, ...]:
    """Time of the first that is not in the other; each as of `common`."""
    if not one or not other:
        return joined(one)
    ends = [one[0][0], *(edge for span in other for edge in span), max(one[-1][1], other[-1][1])]
    return common(one, joined(zip(ends[::2], ends[1::2], strict=True)))
