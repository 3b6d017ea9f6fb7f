"""Times in which minutes of a component are marked, followed minute by minute. All of it fits JSON (`Spans.to_list`) and goes on from there: cut anywhere, into pieces of any length, it comes to the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

# A span has so many marked minutes, and goes on over so many others that tell of it, or as long as this where nothing does.
SPAN_MINUTES, PAUSE_MINUTES, QUIET_MINUTES = 3, 10, 4 * 60
# Minutes of which the first figure is kept one by one.
LISTED_MAX = 240

# What names a component, and what of it.
Name = tuple[str, ...]


@dataclass
class Span:
    """Minutes [begin, last], since the epoch, of which the first and the last are marked, and so are `minutes` in all. sums: of each figure, over all minutes of the span where it is known. note: what was given when it began. listed: the first
    figure, minute by minute, LISTED_MAX at most; None where it is not known. others, since, later: unmarked minutes that told something after `last`, and of all minutes after it the sums and the first figure: they count once another is marked."""

    name: Name
    begin: int
    last: int
    minutes: int
    note: float
    sums: list[float]
    listed: list[float | None] = field(default_factory=list)
    others: int = 0
    since: list[float] = field(default_factory=list)
    later: list[float | None] = field(default_factory=list)


class Spans:
    """Those that are not over, one a component at most."""

    def __init__(self, kept: Iterable[Mapping[str, Any]] = ()) -> None:
        """kept: of `to_list`."""
        found = (Span(**{**one, "name": tuple(one["name"])}) for one in kept)
        self._open = {one.name: one for one in found}

    def advance(self, first: int, names: Sequence[Name], is_so: np.ndarray, is_told: np.ndarray, figures: np.ndarray, notes: Sequence[float] | None = None) -> list[Span]:
        """The next minutes, from `first` on: which are marked, and of which anything is known, shape (minutes, components); figures: shape (minutes, components, figures), NaN: not known. notes: of each component, for a span that begins
        here. Returns the spans that are over by now: of components that are not named here, too."""
        over = []
        for column, name in enumerate(names):
            if name in self._open or is_so[:, column].any():
                over += self._follow(first, name, is_so[:, column].tolist(), is_told[:, column].tolist(), figures[:, column], 0.0 if notes is None else float(notes[column]))
        over += [self._open.pop(one.name) for one in list(self._open.values()) if first + len(is_so) - 1 - one.last > QUIET_MINUTES]
        return [one for one in over if one.minutes >= SPAN_MINUTES]

    def names(self) -> list[Name]:
        """Of all that are not over, also those that are no spans yet."""
        return list(self._open)

    def lasting(self) -> list[Span]:
        """Those that are spans by now, and may go on."""
        return [one for one in self._open.values() if one.minutes >= SPAN_MINUTES]

    def to_list(self) -> list[dict[str, Any]]:
        """All of it, fit for JSON."""
        return [asdict(one) for one in self._open.values()]

    def _follow(self, first: int, name: Name, is_so: Sequence[bool], is_told: Sequence[bool], figures: np.ndarray, note: float) -> list[Span]:
        over = []
        for minute, is_marked, tells, values in zip(range(first, first + len(is_so)), is_so, is_told, figures.tolist(), strict=True):
            one = self._open.get(name)
            if one is not None and minute - one.last > QUIET_MINUTES:
                over.append(self._open.pop(name))
                one = None
            if one is None:
                if is_marked:
                    self._open[name] = Span(name, minute, minute, 1, note, [_number(value) for value in values], [_or_none(values[0])], 0, [0.0] * len(values))
                continue
            one.since = [so_far + _number(value) for so_far, value in zip(one.since, values, strict=True)]
            # Minutes that were not given are not known.
            gap = minute - one.last - 1 - len(one.later)
            room = LISTED_MAX - len(one.listed) - len(one.later)
            one.later += [*[None] * gap, _or_none(values[0])][: max(room, 0)]
            if is_marked:
                one.last, one.minutes, one.others = minute, one.minutes + 1, 0
                one.sums = [so_far + more for so_far, more in zip(one.sums, one.since, strict=True)]
                one.since, one.listed, one.later = [0.0] * len(values), one.listed + one.later, []
            elif tells:
                one.others += 1
                if one.others > PAUSE_MINUTES:
                    over.append(self._open.pop(name))
        return over


def _number(value: float) -> float:
    return value if value == value else 0.0


def _or_none(value: float) -> float | None:
    return value if value == value else None
