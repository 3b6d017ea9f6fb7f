"""What is foretold of values and names, and where they differ from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.unit.compression.reference.wire import Bytes, wrap

NAMES = ("file", "job", "program", "node", "process", "layer", "source")
FIELDS = (
    "offset", "count", "size", "bytes", "stride", "code", "busy", "slow", "handle", "slot", "kind", "file_id", "latency", "uid", "parent", "rank", "boot",
    *(name + what for name in NAMES for what in ("", "_numbers")),
)  # fmt: skip
DRAWN = ("file_id", "boot")
NUMBERS_MAX = 12


class Trend:
    def __init__(self) -> None:
        self.base = self.step = self.beside = 0
        self.misses = 0

    def foretold(self) -> int:
        return wrap(self.base + self.step)

    def learn(self, value: int) -> None:
        if value == self.foretold():
            if self.misses == 2:
                self.step = 0
            self.base, self.misses = value, 0
        elif self.misses == 0:
            if self.step != 0:
                self.base = self.foretold()
            self.beside, self.misses = value, 1
        else:
            step = wrap(value - self.beside)
            if step in (wrap(self.beside - self.base), self.step):
                self.base, self.misses = value, 1
            else:
                self.base, self.misses = self.beside, 2
            self.step, self.beside = step, value

    def skip(self, processes: int) -> None:
        self.base = wrap(self.base + self.step * processes)


class Differences:
    """What is not as foretold, row by row."""

    def __init__(self, gaps: Bytes, masks: Bytes, values: dict[str, Bytes]) -> None:
        self.gaps, self.masks, self.values = gaps, masks, values
        self.mask = 0
        self._ahead()

    def _ahead(self) -> None:
        """To the next row that differs."""
        self.gap = None if self.gaps.is_empty else self.gaps.number()

    def row(self) -> None:
        self.mask = 0
        if self.gap is None:
            return
        if self.gap > 0:
            self.gap -= 1
            return
        self.mask = self.masks.number()
        self._ahead()

    def of(self, name: str) -> Bytes | None:
        return self.values[name] if self.mask >> FIELDS.index(name) & 1 else None

    def drawn(self, name: str, foretold: int | None) -> int:
        if foretold is not None and self.of(name) is None:
            return foretold
        return wrap(int.from_bytes(self.values[name].take(8), "little"))

    def value(self, name: str, foretold: int, other: int | None = None) -> int:
        stream = self.of(name)
        if stream is None:
            return foretold
        zeros = stream.byte()
        if zeros == 0:
            assert other is not None
            return other
        return wrap(foretold + ((stream.signed() << 1 | 1) << zeros - 1))

    def trend(self, name: str, trend: Trend) -> int:
        value = self.value(name, trend.foretold())
        trend.learn(value)
        return value

    def numbers(self, name: str, trends: list[Trend], before: list[int]) -> list[int]:
        """before: what each goes on from."""
        stream = self.of(name)
        told = stream.number() if stream else 0
        values = []
        for place, (trend, base) in enumerate(zip(trends, before, strict=False)):
            value = wrap(base + trend.foretold() + (stream.signed() if stream and told >> place & 1 else 0))
            trend.learn(wrap(value - base))
            values.append(value)
        return values


@dataclass
class NameTrend:
    template: Trend = field(default_factory=Trend)
    numbers: list[Trend] = field(default_factory=list)

    def read(self, differences: Differences, templates: list[Template], name: str) -> bytes | None:
        return self.name(differences, templates, name, Name()).text(templates)

    def name(self, differences: Differences, templates: list[Template], name: str, before: Name) -> Name:
        number = differences.value(name, wrap(before.template + self.template.foretold()))
        self.template.learn(wrap(number - before.template))
        count = len(templates[number - 1].digits) if number else 0
        while len(self.numbers) < count:
            self.numbers.append(Trend())
        told = differences.numbers(name + "_numbers", self.numbers[:count], before.numbers) if count else []
        return Name(number, told + [0] * (NUMBERS_MAX - count))

    def skip(self, processes: int) -> None:
        for trend in self.numbers:
            trend.skip(processes)


@dataclass
class Name:
    template: int = 0
    # 0 behind the template's last one.
    numbers: list[int] = field(default_factory=lambda: [0] * NUMBERS_MAX)

    def text(self, templates: list[Template]) -> bytes | None:
        if self.template == 0:
            return None
        template = templates[self.template - 1]
        return template.text(self.numbers[: len(template.digits)])


@dataclass
class Template:
    before: list[bytes]
    digits: list[int]
    behind: bytes

    def text(self, numbers: list[int]) -> bytes:
        return b"".join(before + b"%0*d" % (digits, number) for before, digits, number in zip(self.before, self.digits, numbers, strict=True)) + self.behind


def read_template(stream: Bytes) -> Template:
    count = stream.byte()
    assert count <= NUMBERS_MAX
    before, digits = [], []
    for _ in range(count):
        before.append(stream.bytes())
        digits.append(stream.byte())
    assert max(digits, default=0) <= 18
    return Template(before, digits, stream.rest())
