"""Names in the short form that `jobdb.queue.nodelist` reads: "cn[0-511,600],login1"."""

import re
from collections import defaultdict
from collections.abc import Iterable

# The last number of a name; longer ones than a range may have are taken for letters.
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,15})([^0-9]*)", re.ASCII | re.DOTALL)
# Of what is shown to a person.
TEXT_CHARACTERS_MAX = 400


def fold(names: Iterable[str]) -> str:
    """The names, each once, sorted by their parts; ranges stand for numbers on end."""
    whole: list[str] = []
    # By what stands before and after the number; by its digits where it has leading zeros, else by 0.
    numbers: dict[tuple[str, str], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for name in set(names):
        match = _LAST_NUMBER.fullmatch(name)
        if match is None:
            whole.append(name)
            continue
        digits = match[2]
        numbers[match[1], match[3]][len(digits) if digits.startswith("0") and len(digits) > 1 else 0].add(int(digits))
    parts = [(name, "", name) for name in whole]
    for (before, after), widths in numbers.items():
        _join_widths(widths)
        parts += [(before, after, f"{before}{_ranges(found, width)}{after}") for width, found in sorted(widths.items()) if found]
    return ",".join(text for _, _, text in sorted(parts))


def shown(names: Iterable[str]) -> str:
    """As `fold`, cut to what a person reads."""
    names = set(names)
    text = fold(names)
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]} … ({len(names)} in all)"


def _join_widths(widths: dict[int, set[int]]) -> None:
    """010 goes with 008: a number without leading zeros that has as many digits as others with them."""
    for width in [width for width in widths if width]:
        fitting = {number for number in widths[0] if len(str(number)) == width}
        widths[width] |= fitting
        widths[0] -= fitting


def _ranges(numbers: set[int], width: int) -> str:
    if len(numbers) == 1:
        return f"{next(iter(numbers)):0{width}d}"
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return f"[{','.join(f'{first:0{width}d}' if first == last else f'{first:0{width}d}-{last:0{width}d}' for first, last in found)}]"
