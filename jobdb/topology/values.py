"""The values of one block, each checked; what is wrong is told, and the rest read all the same."""

import datetime
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jobdb.queue.nodelist import beacon
from jobdb.queue.nodelist import slurm as hostlist
from jobdb.types import NAME_LENGTH_MAX
from pipeline.schema.times import EARLIEST_NS

from . import FOREVER_NS, NAMES_MAX
from .files import Block, Mistakes


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class TooMany(Exception):
    """The lists of all files make more names than are read."""


class Budget:
    """How many names may still be made."""

    def __init__(self) -> None:
        self.left = NAMES_MAX

    def take(self, count: int) -> None:
        """Raises TooMany."""
        self.left -= count
        if self.left < 0:
            raise TooMany


class Values:
    """Reads the keys of a block. `is_whole`: nothing was wrong so far."""

    def __init__(self, block: Block, mistakes: Mistakes, budget: Budget) -> None:
        self.where, self.is_whole = block.where, True
        self._table, self._mistakes, self._budget = block.table, mistakes, budget
        self._asked: set[str] = set()

    def wrong(self, what: str) -> None:
        """Tells a mistake of this block."""
        self.is_whole = False
        self._mistakes.add(self.where, what)

    def has(self, key: str) -> bool:
        return key in self._table

    def make(self, count: int) -> None:
        """To be called before so many facts are made of few names. Raises TooMany."""
        self._budget.take(count)

    def end(self) -> None:
        """To be called after the last key was asked for: all others are none."""
        for key in self._table:
            if key not in self._asked:
                self.wrong(f"{ascii(key)[1:-1][:60]}: not known; there are {', '.join(sorted(self._asked))}")

    def text(self, key: str, default: str | None = "") -> str:
        """A text without control characters, NAME_LENGTH_MAX characters at most. default: None where one is needed."""
        value = self._value(key, default)
        if value is default:
            return default or ""
        if not isinstance(value, str) or not value or len(value) > NAME_LENGTH_MAX or not value.isprintable():
            self.wrong(f"{key}: expected a text of 1 to {NAME_LENGTH_MAX} characters that can be printed, got {ascii(value)[:80]}")
            return ""
        return value

    def name(self, key: str) -> str:
        """A text as names of nodes are: letters, digits, '.', '_' and '-'. One is needed."""
        value = self.text(key, None)
        if value and not _NAME.fullmatch(value):
            self.wrong(f"{key}: {ascii(value)[:80]} is no name: letters, digits, '.', '_' and '-', a letter or digit first")
            return ""
        return value

    def flag(self, key: str) -> bool:
        value = self._value(key, False)
        if not isinstance(value, bool):
            self.wrong(f"{key}: expected true or false, got {ascii(value)[:80]}")
        return value is True

    def count(self, key: str, most: int) -> int | None:
        """A whole number from 1 on, or None."""
        value = self._value(key, 0)
        if value == 0 and not self.has(key):
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            self.wrong(f"{key}: expected a number from 1 to {most}, got {ascii(value)[:80]}")
            return None
        return value

    def nodes(self, key: str, *, needed: bool = True, may_repeat: bool = False) -> list[str]:
        """The names of one list or of a list of lists, "cn[0-511,600],login1", in their order."""
        return self._listed(key, hostlist, needed, may_repeat)

    def numbers(self, key: str) -> list[int]:
        """Numbers and ranges of them, "0-287", or a list of such."""
        return [int(number) for number in self._listed(key, beacon, False, False)]

    def paths(self, key: str) -> list[str]:
        """Absolute paths."""
        value = self._value(key, [])
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(
            isinstance(path, str) and path.startswith("/") and path.isprintable() and len(path) <= NAME_LENGTH_MAX for path in found
        ):
            self.wrong(f"{key}: expected absolute paths of at most {NAME_LENGTH_MAX} characters, got {ascii(value)[:80]}")
            return []
        return [path.rstrip("/") or "/" for path in found]

    def table(self, key: str) -> dict[str, Any]:
        value = self._value(key, {})
        if not isinstance(value, dict):
            self.wrong(f"{key}: expected a table, got {ascii(value)[:80]}")
            return {}
        return value

    def instant(self, key: str, default: int | None = None) -> int:
        """ns since the epoch of a date and time, UTC where it names no zone. default: None where one is needed."""
        value = self._value(key, default)
        if value is default:
            return default or 0
        if not isinstance(value, datetime.datetime):
            self.wrong(f"{key}: expected a time such as 2026-03-01T12:00:00Z, without quotes, got {ascii(value)[:80]}")
            return 0
        try:
            instant_ns = to_ns(value)
        except (ValueError, OverflowError) as error:
            self.wrong(f"{key}: {error}")
            return 0
        return instant_ns

    def names_of(self, text: str, what: str) -> list[str]:
        """The names of a list that stands elsewhere than under a key of its own."""
        return self._expanded([text], what, hostlist, False)

    def numbers_of(self, text: str, what: str) -> list[str]:
        """As `names_of`, of numbers as they are written."""
        return self._expanded([text], what, beacon, False)

    def _value(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        if key not in self._table:
            if default is None:
                self.wrong(f"{key} is missing")
            return default
        return self._table[key]

    def _listed(self, key: str, read: Callable[[str], Sequence[str]], needed: bool, may_repeat: bool) -> list[str]:
        value = self._value(key, None if needed else [])
        if value is None or (value == [] and not self.has(key)):
            return []
        found = self._expanded([value] if isinstance(value, str) else value, key, read, may_repeat)
        if not found and self.is_whole:
            self.wrong(f"{key} names nothing")
        return found

    def _expanded(self, texts: Any, what: str, read: Callable[[str], Sequence[str]], may_repeat: bool) -> list[str]:
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            self.wrong(f'{what}: expected a list of names such as "cn[0-511,600]", got {ascii(texts)[:80]}')
            return []
        found: list[str] = []
        for text in texts:
            # What is read costs by the character, what it makes by the name.
            self._budget.take(1 + len(text) // 100)
            try:
                made = read(text)
            except ValueError as error:
                self.wrong(f"{what}: {ascii(str(error))[1:-1][:200]}")
            else:
                self._budget.take(len(made))
                found += made
        if not may_repeat and len(set(found)) != len(found):
            twice = Counter(found).most_common(1)[0][0]
            self.wrong(f"{what}: {twice} stands there more than once")
            return list(dict.fromkeys(found))
        return found


def to_ns(when: datetime.datetime) -> int:
    """An instant, UTC where it names no zone. Raises ValueError for one before the year 2000."""
    instant = when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
    seconds = math.floor(instant.timestamp())
    found = seconds * 10**9 + instant.microsecond * 1000
    if not EARLIEST_NS <= found < FOREVER_NS:
        raise ValueError(f"{when.isoformat()} is no time of a machine that is watched")
    return found


def dealt(values: Values, key: str, to: Sequence[str], nodes: Sequence[str], each: int | None) -> list[tuple[str, Sequence[str]]]:
    """The nodes in their order, `each` to the first of `to`, as many to the next, and so on; key: what `to` stands under."""
    if not to or not nodes:
        return []
    if each is None:
        if len(to) > 1:
            values.wrong(f"{key} names {len(to)}: say with `each` how many go to each of them")
            return []
        each = len(nodes)
    parts = math.ceil(len(nodes) / each)
    if parts != len(to):
        values.wrong(f"{len(nodes)} in parts of {each} are {parts} parts, and {key} names {len(to)}")
        return []
    return [(name, nodes[place * each : (place + 1) * each]) for place, name in enumerate(to)]
