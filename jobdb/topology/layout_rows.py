"""Which targets files lie on, in the job database, with its history."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from jobdb.engine import Transactions

from . import FOREVER_NS, TopologyError, questions
from .facts import Held, Target
from .history import between, chunks, insert_rows
from .layouts import LAYOUTS_MAX, PARTS_MAX, STRIPES_MAX, Layout, Part
from .models import LayoutRow, StripeRow

# Of all files; beyond it those that were told first go.
ROWS_MAX = 1_000_000


class Layouts:
    """Layouts of files in the tables that `JobDB` made. All methods may be called from any thread, and raise JobDBAway where the database does not answer."""

    def __init__(self, transactions: Transactions, rows_max: int = ROWS_MAX) -> None:
        self._transactions, self._rows_max = transactions, rows_max

    def put(self, layouts: Iterable[Layout], at_ns: int, file_system: str | None = None) -> int:
        """Take in that files lay so at an instant, LAYOUTS_MAX at most, each thousand in a transaction; how many of them were news. file_system: that of all;
        None: as their paths say. What was told of a file before or after holds until the next instant told. Raises TopologyError for a file in no file system
        that is known then."""
        layouts = list(layouts)
        if len(layouts) > LAYOUTS_MAX:
            raise TopologyError(f"{len(layouts)} layouts at once, and {LAYOUTS_MAX} at most are taken")
        for layout in layouts:
            if len(layout.parts) > PARTS_MAX or sum(len(part.targets) for part in layout.parts) > STRIPES_MAX:
                raise TopologyError(f"{ascii(layout.path)[:80]}: more than {PARTS_MAX} parts or {STRIPES_MAX} stripes")
        return sum(self._transactions.write(partial(self._put, some, at_ns, file_system)) for some in chunks(layouts))

    def _put(self, layouts: Sequence[Layout], at_ns: int, file_system: str | None, session: Session) -> int:
        system_of, names = questions.mounts(at_ns)(session), _target_names(session, at_ns)
        known, news = _Known(session, [layout.id for layout in layouts]), 0
        for layout in layouts:
            where = file_system or (system_of(layout.path) if layout.path is not None else None)
            if where is None:
                raise TopologyError(f"{ascii(layout.path)[:80]} is in no file system that is known then: give mounts to a [[file_system]]")
            news += known.put(where, _named(layout, names.get(where, {})), at_ns)
        session.flush()
        last = session.scalar(select(func.max(LayoutRow.id))) or 0
        session.execute(delete(LayoutRow).where(LayoutRow.id <= last - self._rows_max))
        return news

    def of(self, files: Sequence[Layout | str], from_ns: int, to_ns: int) -> list[Held]:
        """`Layout`s of files, by paths or by layouts that bear an id, that held at any time between, clipped to that; targets are names. Of files that were not told there are none."""
        wanted = {(layout.id, layout.path) for layout in (Layout(file, ()) if isinstance(file, str) else file for file in files)}
        ids = {number for number, _ in wanted}

        def work(session: Session) -> list[Held]:
            rows = [
                row
                for some in chunks(sorted(ids))
                for row in session.scalars(select(LayoutRow).where(LayoutRow.file_id.in_(some), *between(LayoutRow, from_ns, to_ns)))
                # Two paths may have one id.
                if row.path is None or (row.file_id, None) in wanted or (row.file_id, row.path) in wanted
            ]
            parts = _parts(session, [row.id for row in rows])
            held: list[Held] = []
            for row in sorted(rows, key=lambda row: (row.path or "", row.file_id, row.file_system, row.from_ns)):
                layout, begin_ns, end_ns = Layout(row.path, parts[row.id], int(row.file_id, 16)), max(row.from_ns, from_ns), min(row.to_ns, to_ns)
                if held and held[-1].fact == layout and held[-1].to_ns == begin_ns:
                    held[-1] = held[-1]._replace(to_ns=end_ns)
                else:
                    held.append(Held(layout, begin_ns, end_ns))
            return held

        return self._transactions.read(work)


class _Known:
    """What was told of some files, and is told now."""

    def __init__(self, session: Session, ids: Sequence[str]) -> None:
        self._session = session
        self._rows: dict[tuple[str, str, str | None], list[LayoutRow]] = defaultdict(list)
        for row in session.scalars(select(LayoutRow).where(LayoutRow.file_id.in_(ids)).order_by(LayoutRow.from_ns)):
            self._rows[row.file_system, row.file_id, row.path].append(row)
        self._told = _parts(session, [row.id for rows in self._rows.values() for row in rows])

    def put(self, file_system: str, layout: Layout, at_ns: int) -> bool:
        """Whether it is news: what was told of that instant was something else, or nothing."""
        rows = self._rows[file_system, layout.id, layout.path]
        here = next((row for row in rows if row.from_ns <= at_ns < row.to_ns), None)
        if here is not None and self._told[here.id] == layout.parts:
            return False
        if here is not None and here.from_ns == at_ns:
            rows.remove(here)
            self._session.delete(here)
        elif here is not None:
            here.to_ns = at_ns
        # A row for each instant told, though its neighbours say the same: one of them may be told anew.
        to_ns = next((row.from_ns for row in rows if row.from_ns > at_ns), FOREVER_NS)
        row = LayoutRow(file_system=file_system, file_id=layout.id, path=layout.path, from_ns=at_ns, to_ns=to_ns)
        self._session.add(row)
        self._session.flush()
        rows.append(row)
        rows.sort(key=lambda one: one.from_ns)
        self._told[row.id] = layout.parts
        stripes = [
            {"layout": row.id, "part": number, "place": place, "first_byte": part.first_byte, "end_byte": part.end_byte, "stripe_bytes": part.stripe_bytes, "target": target}
            for number, part in enumerate(layout.parts)
            for place, target in enumerate(part.targets)
        ]  # fmt: skip
        insert_rows(self._session, StripeRow, stripes)
        return True


def _parts(session: Session, layouts: Sequence[int]) -> dict[int, tuple[Part, ...]]:
    """By row of a layout, its parts."""
    found: dict[int, dict[int, Part]] = {number: {} for number in layouts}
    for some in chunks(layouts):
        for row in session.execute(select(StripeRow.__table__).where(StripeRow.layout.in_(some)).order_by(StripeRow.layout, StripeRow.part, StripeRow.place)):
            part = found[row.layout].get(row.part, Part(row.first_byte, row.end_byte, row.stripe_bytes))
            found[row.layout][row.part] = replace(part, targets=(*part.targets, row.target))
    return {number: tuple(parts.values()) for number, parts in found.items()}


def _target_names(session: Session, at_ns: int) -> dict[str, dict[int, str]]:
    """By file system and number, the names of its OSTs."""
    names: dict[str, dict[int, str]] = {}
    for one in questions.of_kind(Target, at_ns, at_ns + 1, kind="ost")(session):
        if one.fact.number is not None:
            names.setdefault(one.fact.file_system, {})[one.fact.number] = one.fact.target
    return names


def _named(layout: Layout, names: dict[int, str]) -> Layout:
    """With names of targets, as Lustre calls those that the topology does not know; parts on no target say nothing."""

    def name(target: int | str) -> str:
        return target if isinstance(target, str) else names.get(target, f"OST{target:04x}")

    parts = tuple(replace(part, targets=tuple(map(name, part.targets))) for part in layout.parts if part.targets)
    return replace(layout, parts=parts)
