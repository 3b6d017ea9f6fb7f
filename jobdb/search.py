"""The text by which a job is found. It is folded here and not in SQL: databases differ in what they take for the same letter."""

from .types import clean

# Between the parts: nobody types it.
_SEPARATOR = "\x1f"


def fold(text: str) -> str:
    """Text as it is compared: whatever its case, in any alphabet. NUL, at which SQLite's LIKE would stop, becomes U+FFFD."""
    return clean(text).casefold().replace("\0", "\ufffd")


def search_text(key: str, job_id: str, user: str, program: str, command: str) -> str:
    """What stands in `JobRow.search`."""
    return _SEPARATOR.join(fold(part) for part in (key, job_id, user, program, command))
