"""The text by which a job is found. It is folded here and not in SQL: databases differ in what they take for the same letter."""

from .types import clean

# Between the parts: nobody types it.
_SEPARATOR = "\x1f"


def fold(text: str) -> str:
    """Text as it is compared: whatever its case, in any alphabet. NUL, at which SQLite's LIKE would stop, becomes U+FFFD."""
    return clean(text).casefold().replace("\0", "\ufffd")


def search_text(*parts: str) -> str:
    """What stands in `JobRow.search`: key, ids, user, program, command, and what else a job is called by."""
    return _SEPARATOR.join(map(fold, parts))
