"""Where in a query its fault lies, from what the database says of it."""

import re
from collections.abc import Callable

# Of a token that stands in the query more often than this, the place is not sought.
PLACES_MAX = 200
_NEAR_SQLITE = re.compile(r'near "(.*)": syntax error', re.DOTALL)
_NEAR_MYSQL = re.compile(r"near '(.*)' at line (\d+)", re.DOTALL)
_NAMED = re.compile(r"(?:no such (?:column|table|function): |Unknown column ')([\w.]+)|FUNCTION ([\w.]+) does not exist|Table '([\w.]+)' doesn't exist")


def position(sql: str, message: str, says: Callable[[str], str] | None = None) -> tuple[int, int] | None:
    """Line and column, from 1, of the fault that `message` names in `sql`; None where that cannot be told.

    says: what the database says of a text. SQLite names a token only: of several places the right one is where the query up to it
    has the same fault already."""
    found = _NEAR_MYSQL.search(message)
    if found:
        # The text from the fault on, or the first characters of it.
        at = sql.find(found[1], _line_start(sql, int(found[2]))) if found[1] else len(sql)
        return _place(sql, at) if at >= 0 else None
    found = _NEAR_SQLITE.search(message)
    if found and says:
        places = [at.start() for at in re.finditer(re.escape(found[1]), sql)][:PLACES_MAX]
        for at in places:
            if says(sql[: at + len(found[1])]) == message:
                return _place(sql, at)
        return None
    if "incomplete input" in message:
        return _place(sql, len(sql.rstrip()))
    found = _NAMED.search(message)
    if found:
        name = next(part for part in found.groups() if part).rpartition(".")[2]
        at = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE)
        return _place(sql, at.start()) if at else None
    return None


def _line_start(sql: str, line: int) -> int:
    return sum(len(text) for text in sql.splitlines(keepends=True)[: line - 1])


def _place(sql: str, at: int) -> tuple[int, int]:
    return sql.count("\n", 0, at) + 1, at - (sql.rfind("\n", 0, at) + 1) + 1
