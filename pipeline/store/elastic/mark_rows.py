"""Marks as they stand in the books: rows of a commit, and documents of the table."""

import re
from typing import Any

from pipeline.store.elastic import names
from pipeline.store.mark import Gap, Key, Mark

_BOOT = re.compile("[0-9a-f]{16}")
_GAP = 6
_FIELDS = ("seq", "jobs", "letters", "duplicates", "conflicts", "late", "first_ns", "last_ns", "fingerprint", "clock_offset_ns", "ended")


def mark_id(key: Key) -> str:
    return f"mark/{names.record_id(*key, 0)}"


def mark_document(group: str, key: Key, mark: Mark) -> dict[str, Any]:
    columns = {"node": key[0], "boot": f"{key[1]:016x}", "missing": mark.missing, "last_ns": mark.last_ns}
    return {"type": "mark", "group": group, **columns, "mark": row_of(key, mark)}


def row_of(key: Key, mark: Mark) -> list:
    gaps = [[gap.first, gap.last, gap.missing, gap.since_ns, gap.until_ns, gap.is_old] for gap in mark.gaps]
    return [key[0], f"{key[1]:016x}", gaps, [getattr(mark, name) for name in _FIELDS]]


def is_row(value: object) -> bool:
    """Whether it is a row as `row_of` writes it: who may write into one group's books may write anything there."""
    if type(value) is not list or len(value) != 4:
        return False
    node, boot, gaps, values = value
    numbers = [*gaps, values] if type(gaps) is list else [None]
    return (
        type(node) is str
        and type(boot) is str
        and _BOOT.fullmatch(boot) is not None
        and all(type(row) is list and all(one is None or type(one) in (int, bool) for one in row) for row in numbers)
        and all(len(gap) == _GAP for gap in gaps)
        and len(values) == len(_FIELDS)
    )


def mark_of(row: list) -> tuple[Key, Mark]:
    node, boot, gaps, values = row
    return (node, int(boot, 16)), Mark(gaps=tuple(Gap(*gap) for gap in gaps), **dict(zip(_FIELDS, values, strict=True)))


def is_older(mark: Mark, known: Mark) -> bool:
    """Whether a mark of the same boot was moved before the known one: none of these counts ever falls."""
    return (mark.seq, mark.jobs + mark.letters + mark.duplicates + mark.conflicts + mark.late, -mark.missing) < (
        known.seq,
        known.jobs + known.letters + known.duplicates + known.conflicts + known.late,
        -known.missing,
    )
