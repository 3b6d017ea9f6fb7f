"""What processes are called."""

from __future__ import annotations

import copy

from tests.unit.compression.reference.foretold import NUMBERS_MAX, Differences, Name, NameTrend, Template
from tests.unit.compression.reference.wire import wrap

NAMES = ("node", "process", "layer", "source")
PLACES_MAX = 256


class Callings:
    def __init__(self) -> None:
        self.places: list[dict[str, NameTrend]] = []
        # Of the process before.
        self.names = {name: Name() for name in NAMES}
        self.boot = 0
        # Processes of its node so far, and of the node before that.
        self.count = self.width = 0

    def read(self, differences: Differences, templates: list[Template]) -> dict:
        differences.row()
        place = 0 if self.count == self.width else min(self.count, PLACES_MAX - 1)
        while len(self.places) <= place:
            self.places.append(copy.deepcopy(self.places[-1]) if self.places else {name: NameTrend() for name in NAMES})
        trends, before = self.places[place], self.names
        node = trends["node"].name(differences, templates, "node", before["node"])
        is_new = node != before["node"]
        self.boot = differences.drawn("boot", None if is_new else self.boot)
        self.names = {"node": node, **{name: trends[name].name(differences, templates, name, before[name]) for name in NAMES[1:]}}
        if is_new:
            self.width, self.count = self.count, 0
        self.count += 1
        texts = {name: self.names[name].text(templates) for name in NAMES}
        return {name: None if text is None else text.decode() for name, text in texts.items()} | {"boot": self.boot & ((1 << 64) - 1)}

    def skip(self, processes: int) -> None:
        if self.width == 0:
            self.width = self.count
        if self.width == 0:
            return
        at = min(self.count, self.width)
        # Back by whole nodes, as many as are needed to go on from there.
        back = max(0, -(processes // self.width))
        for name, last in self.names.items():
            trends = [self.places[min(place, len(self.places) - 1)][name].numbers for place in range(self.width)]
            by = [[trend.foretold() for trend in numbers] + [0] * (NUMBERS_MAX - len(numbers)) for numbers in trends]
            numbers = [number - back * sum(column) for number, column in zip(last.numbers, zip(*by, strict=True), strict=True)]
            for process in range(at, at + processes + back * self.width):
                numbers = [sum(pair) for pair in zip(numbers, by[process % self.width], strict=True)]
            last.numbers = [wrap(number) for number in numbers]
        self.count = (at + processes) % self.width or self.width
