"""Facts in their tables: what held at an instant, and how another topology takes its place from an instant on."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from .facts import Held
from .models import MODELS

# Rows in a statement.
ROWS_AT_ONCE = 1000


def held(session: Session, kind: type, at_ns: int) -> dict[Any, tuple[int, int, int]]:
    """The facts of a kind that hold at an instant, each with its row's id, from_ns and to_ns."""
    model = MODELS[kind]
    return _facts(session, kind, model.from_ns <= at_ns, model.to_ns > at_ns)


def replace(session: Session, kind: type, added: Iterable[Any], removed: Iterable[Any], at_ns: int, until_ns: int) -> None:
    """From at_ns to until_ns let some facts hold that did not, and others not that did. No fact may begin or end between."""
    added, removed = set(added), set(removed)
    if not added and not removed:
        return
    model, changes = MODELS[kind], _Changes(MODELS[kind])
    for fact, (number, from_ns, to_ns) in held(session, kind, at_ns).items():
        if fact not in removed:
            continue
        if from_ns < at_ns:
            changes.set(number, to_ns=at_ns)
            if to_ns > until_ns:
                changes.inserted.append(_row(fact, until_ns, to_ns))
        elif to_ns > until_ns:
            changes.set(number, from_ns=until_ns)
        else:
            changes.deleted.append(number)
    before = _facts(session, kind, model.to_ns == at_ns)
    after = _facts(session, kind, model.from_ns == until_ns)
    for fact in added:
        # One row, however often the same was said.
        (left, from_ns, _), (right, _, to_ns) = before.get(fact, (None, at_ns, 0)), after.get(fact, (None, 0, until_ns))
        if left is not None:
            changes.set(left, to_ns=to_ns)
            if right is not None:
                changes.deleted.append(right)
        elif right is not None:
            changes.set(right, from_ns=from_ns)
        else:
            changes.inserted.append(_row(fact, from_ns, to_ns))
    changes.write(session)


def chunks(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """ROWS_AT_ONCE of them at a time."""
    return (values[begin : begin + ROWS_AT_ONCE] for begin in range(0, len(values), ROWS_AT_ONCE))


def insert_rows(session: Session, model: type, rows: list[dict[str, Any]]) -> None:
    """Adds rows, by the names of the columns."""
    for some in chunks(rows):
        session.connection().execute(insert(model), list(some))


def between(model: type, from_ns: int, to_ns: int) -> Sequence[Any]:
    """That a row holds at any time from from_ns up to to_ns."""
    return model.from_ns < to_ns, model.to_ns > from_ns


def ask(session: Session, kind: type, model: type, from_ns: int, to_ns: int, *where: Any) -> list[Held]:
    """The facts of a table that held at any time between, clipped to it, by their first two fields and times."""
    fields = [getattr(model, name) for name in kind._fields]
    rows = session.connection().execute(select(*fields, model.from_ns, model.to_ns).where(*between(model, from_ns, to_ns), *where))
    found = (Held(kind(*row[:-2]), max(row[-2], from_ns), min(row[-1], to_ns)) for row in rows)
    return sorted(found, key=lambda one: (one.fact[:2], one.from_ns, one.fact[2:3]))


class _Changes:
    """What is to be done to a table, in the order in which no two rows of a key begin at an instant."""

    def __init__(self, model: type) -> None:
        self.model = model
        self.deleted: list[int] = []
        self.inserted: list[dict[str, Any]] = []
        # By the values that they get, the rows: few statements, though many rows.
        self._set: dict[tuple[tuple[str, int], ...], list[int]] = defaultdict(list)

    def set(self, number: int, **values: int) -> None:
        self._set[tuple(values.items())].append(number)

    def write(self, session: Session) -> None:
        connection = session.connection()
        for some in chunks(self.deleted):
            connection.execute(delete(self.model).where(self.model.id.in_(some)))
        for values, numbers in self._set.items():
            for some in chunks(numbers):
                connection.execute(update(self.model).where(self.model.id.in_(some)).values(**dict(values)))
        insert_rows(session, self.model, self.inserted)


def _facts(session: Session, kind: type, *where: Any) -> dict[Any, tuple[int, int, int]]:
    model = MODELS[kind]
    fields = [getattr(model, name) for name in kind._fields]
    rows = session.connection().execute(select(*fields, model.id, model.from_ns, model.to_ns).where(*where))
    return {kind(*row[:-3]): tuple(row[-3:]) for row in rows}


def _row(fact: Any, from_ns: int, to_ns: int) -> dict[str, Any]:
    return {**fact._asdict(), "from_ns": from_ns, "to_ns": to_ns}
