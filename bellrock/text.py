"""Figures as a person reads them. Bytes in powers of 1024, times in UTC's local form."""

import math
import time
import unicodedata
from collections.abc import Sequence

BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
BARS = "▁▂▃▄▅▆▇█"


def data(value: float | None) -> str:
    """Bytes: 1536 → "1.5 KiB"; None → "-"."""
    if value is None:
        return "-"
    amount, unit = float(value), 0
    while abs(amount) >= 1024 and unit < len(BINARY_UNITS) - 1:
        amount /= 1024
        unit += 1
    digits = 0 if unit == 0 or abs(amount) >= 100 else 1
    # 1023.96 KiB must not print as 1024 KiB.
    if unit and round(abs(amount), digits) >= 1024 and unit < len(BINARY_UNITS) - 1:
        amount, unit, digits = amount / 1024, unit + 1, 1
    return f"{amount:.{digits}f} {BINARY_UNITS[unit]}"


def rate(value: float | None) -> str:
    """Bytes a second; None → "-"."""
    return "-" if value is None else f"{data(value)}/s"


def number(value: float | None) -> str:
    """A count or a rate of counts: 1234567 → "1,234,567", 12.34 → "12.3"; None → "-"."""
    if value is None:
        return "-"
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def of(count: int | None, noun: str) -> str:
    """ "1 file", "3 files", "2 processes"."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number(count)} {noun if count == 1 else plural}"


def duration(seconds: float | None) -> str:
    """0.0123 → "12.3 ms", 75 → "1 min 15 s"; None → "-"."""
    if seconds is None:
        return "-"
    for below, factor, unit in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (60, 1, "s")):
        # Compared after rounding: 59.96 s is 1 min.
        if round(seconds * factor, 1) < round(below * factor, 1):
            return f"{seconds * factor:.1f} {unit}"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    hours = whole // 3600
    return f"{hours} h {whole % 3600 // 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def instant(ns: int | None) -> str:
    """ns since the epoch as local date and time, "2026-11-21 12:08:01"; None → "-"."""
    return "-" if ns is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ns / 1e9))


def plain(text: object) -> str:
    """Text of a program or a path, harmless on a terminal: control and format characters become "?"."""
    return "".join("?" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in str(text))


def sparkline(values: Sequence[float | None], width: int = 60) -> str:
    """Values as bars from 0 to their largest, at most `width` of them (the mean of what falls in one); None is a blank."""
    if not values:
        return ""
    columns = min(width, len(values))
    means: list[float | None] = []
    for column in range(columns):
        part = [v for v in values[column * len(values) // columns : (column + 1) * len(values) // columns] if v is not None]
        means.append(sum(part) / len(part) if part else None)
    top = max((m for m in means if m is not None), default=0.0)
    # Whatever is not nothing gets the lowest bar at least; nothing gets a dot.
    return "".join(" " if m is None else "·" if m <= 0 else BARS[min(math.ceil(m / top * len(BARS)) - 1, len(BARS) - 1)] for m in means)


def bar(share: float, width: int = 24) -> str:
    """A bar of `share` (0 to 1) of `width`; whatever is not nothing shows."""
    return "█" * max(round(share * width), 1 if share > 0 else 0)
