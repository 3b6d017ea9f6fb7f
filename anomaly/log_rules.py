"""Rules by which messages of system logs tell of known events: read from TOML and checked, so that a wrong one is told by its file and line."""

import fnmatch
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobdb.findings import EVENT_KINDS

SHIPPED = Path(__file__).with_name("log_rules.toml")
# Of a file, and of each list in a rule.
RULES_MAX, PATTERNS_MAX, FILE_BYTES_MAX = 100, 50, 1 << 20
PATTERN_LENGTH_MAX, WHAT_LENGTH_MAX, SUBJECT_LENGTH_MAX = 200, 200, 64
LASTS_S_MAX = 30 * 86_400
# Of a message no more is looked at: more than the schema lets it have.
TEXT_LENGTH_MAX = 1024
BEGIN, END = "begin", "end"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_EVENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Words of a message that may say what it is about: letters that no terminal, page or database takes for anything else.
_WORD = re.compile(r"[A-Za-z0-9_.-]+")


class RuleError(ValueError):
    """A file of rules cannot be used; the text begins with its name and line."""


@dataclass(frozen=True)
class Rule:
    """See log_rules.toml. programs: (): begins and ends are names of events; else texts of these programs."""

    name: str
    what: str
    kind: str
    begins: tuple[str, ...]
    lasts_s: int
    ends: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    of: tuple[str, ...] = ()

    def phase(self, program: str | None, event: str | None, text: str) -> str | None:
        """BEGIN or END where a message tells of that, else None."""
        if self.programs:
            if program not in self.programs:
                return None
            text = text[:TEXT_LENGTH_MAX]
            return BEGIN if any(fits(one, text) for one in self.begins) else END if any(fits(one, text) for one in self.ends) else None
        return None if event is None else BEGIN if event in self.begins else END if event in self.ends else None

    def subject(self, text: str) -> str:
        """What a message is about, such as a target or an array; "" where no word of it fits."""
        if not self.of:
            return ""
        words = (word.rstrip(".-") for word in _WORD.findall(text[:TEXT_LENGTH_MAX]))
        return next((word for word in words if len(word) <= SUBJECT_LENGTH_MAX and any(fnmatch.fnmatchcase(word, one) for one in self.of)), "")


def fits(pattern: str, text: str) -> bool:
    """Whether a text begins as a pattern says; `*` stands for any text. In time that grows with the text's length times the pattern's, whatever both are."""
    first, *others = pattern.split("*")
    if not text.startswith(first):
        return False
    place = len(first)
    for part in others:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


@dataclass(frozen=True)
class Rules:
    """Rules by name."""

    by_name: Mapping[str, Rule] = field(default_factory=dict)

    @property
    def events(self) -> tuple[str, ...] | None:
        """Names of the events by which messages are to be sought; None: all messages are."""
        rules = self.by_name.values()
        return None if any(rule.programs for rule in rules) else tuple(sorted({name for rule in rules for name in (*rule.begins, *rule.ends)}))


def load(own: Path | None = None) -> Rules:
    """The shipped rules, and a site's own. Raises RuleError."""
    shipped = parse(SHIPPED.read_text(), str(SHIPPED))
    if own is None:
        return Rules(shipped)
    try:
        with own.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{own}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(text) > FILE_BYTES_MAX:
        raise RuleError(f"{own}: has more than {FILE_BYTES_MAX} bytes")
    both = shipped | parse(text, str(own))
    return Rules({name: rule for name, rule in both.items() if rule.begins})


def parse(text: str, where: str) -> dict[str, Rule]:
    """Rules of a file's text, by name; `where` names it in errors. Raises RuleError."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RuleError(f"{where}: not TOML: {error}") from error
    given = table.get("rule", [])
    if set(table) - {"rule"} or not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise RuleError(f"{where}: holds [[rule]] and nothing else")
    if len(given) > RULES_MAX:
        raise RuleError(f"{where}: has {len(given)} rules, more than {RULES_MAX}")
    found: dict[str, Rule] = {}
    lines = _Lines(text, len(given))
    for number, one in enumerate(given):
        rule = _rule(one, lambda key, number=number: f"{where}:{lines.of(number, key)}")
        if rule.name in found:
            raise RuleError(f"{where}:{lines.of(number, 'name')}: a second rule {rule.name}")
        found[rule.name] = rule
    return found


class _Lines:
    """Where things stand in a file, for errors: TOML's reader does not tell."""

    def __init__(self, text: str, count: int) -> None:
        self._lines = text.splitlines()
        begins = [number for number, line in enumerate(self._lines) if re.match(r"\s*\[\[\s*\"?rule\"?\s*\]\]", line)]
        # What looks like a rule within a text of several lines is none: then only the file is known.
        self._begins = begins if len(begins) == count else []

    def of(self, number: int, key: str) -> int:
        if not self._begins:
            return 1
        begin = self._begins[number]
        end = self._begins[number + 1] if number + 1 < len(self._begins) else len(self._lines)
        return 1 + next((line for line in range(begin, end) if re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", self._lines[line])), begin)


def _rule(given: Mapping[str, Any], at: Callable[[str], str]) -> Rule:
    lists, texts = ("begins", "ends", "programs", "of"), ("name", "what", "kind")
    for key in given:
        if key not in (*lists, *texts, "lasts_s"):
            raise RuleError(f"{at(key)}: unknown setting {key[:80]!r}; known: {', '.join((*texts, *lists, 'lasts_s'))}")
    for key in (*texts, "begins", "lasts_s"):
        if key not in given:
            raise RuleError(f"{at('name')}: {key} is missing")
    for key in texts:
        if not isinstance(given[key], str):
            raise RuleError(f"{at(key)}: {key} is no text")
    if not _NAME.fullmatch(given["name"]):
        raise RuleError(f"{at('name')}: name = {given['name'][:80]!r}: take up to 64 of a-z, 0-9, _ and -")
    if not 0 < len(given["what"]) <= WHAT_LENGTH_MAX or not given["what"].isprintable():
        raise RuleError(f"{at('what')}: what is for people: 1 to {WHAT_LENGTH_MAX} characters that can be printed")
    if given["kind"] not in EVENT_KINDS:
        raise RuleError(f"{at('kind')}: kind = {given['kind'][:80]!r}: take {', '.join(EVENT_KINDS)}")
    if type(given["lasts_s"]) is not int or not 1 <= given["lasts_s"] <= LASTS_S_MAX:
        raise RuleError(f"{at('lasts_s')}: lasts_s is a number of 1 to {LASTS_S_MAX}")
    found = {key: _texts(key, given.get(key, []), at(key)) for key in lists}
    if not found["programs"]:
        for key in ("begins", "ends"):
            for one in found[key]:
                if not _EVENT.fullmatch(one):
                    raise RuleError(f"{at(key)}: {one[:80]!r} is no name of an event: texts of messages want programs, those that write them")
    return Rule(**{key: given[key] for key in texts}, lasts_s=given["lasts_s"], **found)


def _texts(key: str, given: Any, at: str) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > PATTERNS_MAX or not all(isinstance(one, str) and 0 < len(one) <= PATTERN_LENGTH_MAX for one in given):
        raise RuleError(f"{at}: {key} is a list of at most {PATTERNS_MAX} texts of 1 to {PATTERN_LENGTH_MAX} characters")
    if key != "programs" and any(not one.strip("*? ") for one in given):
        raise RuleError(f"{at}: {key} has a text that fits everything")
    return tuple(given)


def group(rules: Sequence[Rule]) -> Rules:
    """Rules that are at hand, by name."""
    return Rules({rule.name: rule for rule in rules})
