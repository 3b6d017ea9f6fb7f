"""Summaries the slow and obvious way: second by second, from the one rule of what is known when. Times of samples are whole seconds."""

from dataclasses import dataclass

UNCHANGED_S, HOUR_S = 60, 3600


@dataclass(frozen=True)
class Sample:
    """In s since the epoch."""

    start: int
    end: int
    values: dict
    boot: int = 1


def told(samples: list[Sample]) -> list[Sample]:
    """Of each sample only the last hour, in the order in which they have the time."""
    cut = [Sample(max(one.start, one.end - HOUR_S), one.end, one.values, one.boot) for one in samples]
    return sorted(cut, key=lambda one: (one.start, one.end, one.boot, repr(sorted(one.values.items()))))


def owners(samples: list[Sample]) -> dict[int, tuple[Sample, bool]]:
    """By second of which anything is known, the sample that has it, and whether it is of the time after it."""
    found: dict[int, tuple[Sample, bool]] = {}
    until, last = None, None
    for one in samples:
        if until is not None and last.boot == one.boot and 0 < one.start - until <= UNCHANGED_S + min(60, last.end - last.start, one.end - one.start):
            found |= {second: (last, True) for second in range(until, one.start)}
        for second in range(one.start, one.end):
            found.setdefault(second, (one, False))
        if until is None or one.end >= until:
            until, last = one.end, one
    return found


def summary(samples: list[Sample], owned: dict[int, tuple[Sample, bool]], counters: set[str], gauges: set[str], from_s: int, length_s: int) -> dict | None:
    """Of the time from `from_s` on: count, known_s, and by name min, max, mean and sum, those that there are. samples: `told`; owned: their `owners`."""
    seconds = {second: owned[second] for second in range(from_s, from_s + length_s) if second in owned}
    found = {"count": sum(from_s <= one.start < from_s + length_s for one in samples), "known_s": len(seconds)}
    for name in counters | gauges:
        # Values that samples do not bear are as if these were not there, but the time is theirs.
        mine = [(one.values[name], one, is_still) for one, is_still in seconds.values() if name in one.values]
        if name in gauges:
            if mine:
                levels = [value for value, *_ in mine]
                found[name] = {"min": min(levels), "max": max(levels), "mean": sum(levels) / len(levels)}
            continue
        moved = sum(one.values[name] * max(0, min(one.end, from_s + length_s) - max(one.start, from_s)) / (one.end - one.start) for one in samples if name in one.values)
        rates = [0.0 if is_still else value / (one.end - one.start) for value, one, is_still in mine]
        if rates:
            mean = moved / len(rates)
            found[name] = {"min": min([*rates, mean]), "max": max([*rates, mean]), "sum": moved}
        elif moved:
            found[name] = {"sum": moved}
    return found if found["count"] or seconds else None
