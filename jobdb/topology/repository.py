"""The topology in the job database: its history, changes to it, and questions."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import TypeVar

from sqlalchemy import delete, func, or_, select, tuple_
from sqlalchemy.orm import Session

from jobdb.engine import Transactions
from jobdb.models import PlaceRow

from . import FOREVER_NS, MOVES_MAX, TopologyError, questions
from .diff import Difference, difference, utc
from .facts import KINDS, Failover, Forwarder, Forwarding, Held, Member, Port, Server, Serving, Site, Target
from .history import chunks, held, insert_rows, replace
from .layout_rows import Layouts
from .models import ChangeRow, FailoverRow, MoveRow, ServerRow, ServingRow
from .questions import About, Peers, Way
from .serving import Rule, Told, serving

T = TypeVar("T")

# The row of `places` that everybody locks who writes, and whose version is another one after each change.
PLACE = "topology"


class ChangedMeanwhile(TopologyError):
    """Somebody else changed the topology since it was compared."""


@dataclass(frozen=True)
class Change:
    """That somebody applied files. until_ns: from when on a later change's hold, else FOREVER_NS."""

    id: int
    at_ns: int
    until_ns: int
    applied_ns: int
    applied_by: str
    source: str
    note: str
    digest: str
    added: int
    removed: int


class Topology:
    """The topology in the tables that `JobDB` made. All methods may be called from any thread.

    Of changes the last one at or before an instant says what held then, in whichever order they were made: one for the past holds until the next later one's
    instant. Instants are ns since the epoch; questions tell what held at any time from from_ns up to to_ns, clipped to that. All raise JobDBAway where the
    database does not answer."""

    def __init__(self, transactions: Transactions, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._transactions, self._clock_ns = transactions, clock_ns
        self.layouts = Layouts(transactions)

    # -- changes

    def version(self) -> int:
        """A number that rises with each change and move."""
        return self._transactions.read(lambda session: _version(session.get(PlaceRow, PLACE)))

    def compare(self, site: Site, at_ns: int) -> tuple[Difference, int]:
        """What has to change so that a site's files hold from an instant on, and until when they would."""
        return self._transactions.read(lambda session: _compare(session, site, at_ns))

    def apply(self, site: Site, at_ns: int, by: str, source: str = "", note: str = "", expected: Difference | None = None) -> Change | None:
        """Let a site's files hold from an instant on, in one transaction; None where they do already. expected: what `compare` told; raises ChangedMeanwhile where it
        is something else by now, and TopologyError for an instant to come."""
        now_ns = self._clock_ns()
        if at_ns > now_ns:
            raise TopologyError(f"{utc(at_ns)} is still to come")

        def work(session: Session) -> Change | None:
            _lock(session)
            found, until_ns = _compare(session, site, at_ns)
            if expected is not None and found != expected:
                raise ChangedMeanwhile("somebody else changed the topology in between; look at the difference again")
            if not found:
                return None
            for kind in KINDS:
                replace(session, kind, found.added[kind], found.removed[kind], at_ns, until_ns)
            _replace_failovers(session, found.added[Failover], found.removed[Failover])
            touched = found.added[Server] | found.removed[Server] | found.added[Failover] | found.removed[Failover]
            _serve(session, {(fact.file_system, fact.target) for fact in touched})
            added, removed = found.counts
            row = ChangeRow(at_ns=at_ns, applied_ns=now_ns, applied_by=by, source=source, note=note, digest=site.digest, added=added, removed=removed)
            session.add(row)
            _count_up(session)
            session.flush()
            return _change(row, until_ns)

        return self._transactions.write(work)

    def changes(self, limit: int) -> list[Change]:
        """Who applied files when: the newest by the instant from which they hold."""

        def work(session: Session) -> list[Change]:
            rows = session.scalars(select(ChangeRow).order_by(ChangeRow.at_ns.desc(), ChangeRow.id.desc()).limit(limit)).all()
            until_ns, found = FOREVER_NS, []
            for place, row in enumerate(rows):
                if place and row.at_ns < rows[place - 1].at_ns:
                    until_ns = rows[place - 1].at_ns
                found.append(_change(row, until_ns))
            return found

        return self._transactions.read(work)

    def move(self, file_system: str, target: str, server: str, at_ns: int, source: str) -> None:
        """Take in that a target is served by another server from an instant on, or again by the one that does as a rule (also ""), as a source of records saw
        it: a change, not each sight of it. They may come in any order and twice. Raises TopologyError for a target or server that is not known then."""

        def work(session: Session) -> None:
            _lock(session)
            servers = {one.fact.server for one in questions.of_kind(Server, at_ns, at_ns + 1, file_system=file_system, target=target)(session)}
            if not servers or (server and server not in servers):
                known = f"{server} is none of its servers ({', '.join(sorted(servers))})" if servers else "there is no such target"
                raise TopologyError(f"{file_system}/{target} at {utc(at_ns)}: {known}; say so in the site's files first")
            here = (MoveRow.file_system == file_system, MoveRow.target == target)
            same = session.scalar(select(MoveRow).where(*here, MoveRow.at_ns == at_ns, MoveRow.source == source))
            if same is not None and same.server == server:
                return
            if same is not None:
                same.server = server
            elif session.scalar(select(func.count()).select_from(MoveRow).where(*here)) >= MOVES_MAX:
                raise TopologyError(f"{file_system}/{target} has moved {MOVES_MAX} times, and no more is kept: look at what tells that, {source}")
            else:
                session.add(MoveRow(file_system=file_system, target=target, at_ns=at_ns, server=server, source=source, told_ns=self._clock_ns()))
            session.flush()
            _serve(session, {(file_system, target)})
            _count_up(session)

        self._transactions.write(work)

    # -- questions

    def way(self, nodes: Collection[str], from_ns: int, to_ns: int) -> Way:
        """All that served some nodes: forwarding nodes, targets and their servers, switches; and what the nodes are members of."""
        return self._transactions.read(questions.way(nodes, from_ns, to_ns))

    def forwarding(self, nodes: Collection[str], from_ns: int, to_ns: int) -> list[Held]:
        """`Forwarding` of nodes: through which forwarding node each reached which file system."""
        return self._transactions.read(questions.of_nodes(Forwarding, nodes, from_ns, to_ns))

    def clients(self, forwarder: str, from_ns: int, to_ns: int, file_system: str | None = None) -> list[Held]:
        """`Forwarding` of a forwarding node: which nodes it served."""
        return self._transactions.read(questions.of_kind(Forwarding, from_ns, to_ns, forwarder=forwarder, file_system=file_system))

    def forwarders(self, from_ns: int, to_ns: int) -> list[Held]:
        """`Forwarder`: all forwarding nodes."""
        return self._transactions.read(questions.of_kind(Forwarder, from_ns, to_ns))

    def forwarders_in_use(self, from_ns: int, to_ns: int) -> list[str]:
        """The forwarding nodes that served any node, by name: not those that wait to."""
        return self._transactions.read(questions.forwarders_in_use(from_ns, to_ns))

    def targets(self, from_ns: int, to_ns: int, file_system: str | None = None) -> list[Held]:
        """`Target`s of a file system, or of all."""
        return self._transactions.read(questions.of_kind(Target, from_ns, to_ns, file_system=file_system))

    def serving(self, from_ns: int, to_ns: int, file_system: str | None = None, target: str | None = None, server: str | None = None) -> list[Held]:
        """`Serving`: who really served targets, failovers heeded."""
        return self._transactions.read(questions.of_kind(Serving, from_ns, to_ns, file_system=file_system, target=target, server=server))

    def ports(self, nodes: Collection[str], from_ns: int, to_ns: int) -> list[Held]:
        """`Port`s that led to nodes."""
        return self._transactions.read(questions.of_nodes(Port, nodes, from_ns, to_ns))

    def connected(self, switch: str, from_ns: int, to_ns: int) -> list[Held]:
        """`Port`s of a switch."""
        return self._transactions.read(questions.of_kind(Port, from_ns, to_ns, switch=switch))

    def memberships(self, nodes: Collection[str], from_ns: int, to_ns: int) -> list[Held]:
        """`Member`: cabinet, group, class and enclosure of nodes."""
        return self._transactions.read(questions.of_nodes(Member, nodes, from_ns, to_ns))

    def members(self, kind: str, name: str | None, from_ns: int, to_ns: int) -> list[Held]:
        """`Member`s of a cabinet, group, class or enclosure, or of all of a kind."""
        return self._transactions.read(questions.of_kind(Member, from_ns, to_ns, kind=kind, name=name))

    def members_called(self, kinds: Collection[str], names: Collection[str], from_ns: int, to_ns: int) -> list[Held]:
        """`Member`s of some kinds and names: of addresses, whose these are."""
        return self._transactions.read(questions.members_called(kinds, names, from_ns, to_ns))

    def peers(self, name: str, from_ns: int, to_ns: int) -> list[Peers]:
        """Those that serve alike work as a forwarding node, a server, a node, or a target ("online1/OST0003")."""
        return self._transactions.read(questions.peers(name, from_ns, to_ns))

    def target_of(self, node: str, component: str, instance: str, at_ns: int) -> Target | None:
        """The target that a sample tells of."""
        return self._transactions.read(questions.target_of(node, component, instance, at_ns))

    def file_system_of(self, path: str, at_ns: int) -> str | None:
        """The file system that an absolute path lies in."""
        return self._transactions.read(questions.mounts(at_ns))(path)

    def mounts(self, at_ns: int) -> Callable[[str], str | None]:
        """The same of many paths."""
        return self._transactions.read(questions.mounts(at_ns))

    def about(self, name: str, at_ns: int) -> About:
        """All that is known of a name at an instant."""
        return self._transactions.read(questions.about(name, at_ns))

    def site(self, at_ns: int) -> Site:
        """All facts of an instant, and the failovers of all times that files told."""
        return self._transactions.read(lambda session: Site({kind: frozenset(held(session, kind, at_ns)) for kind in KINDS}, frozenset(_failovers(session))))


def _compare(session: Session, site: Site, at_ns: int) -> tuple[Difference, int]:
    until_ns = session.scalar(select(func.min(ChangeRow.at_ns)).where(ChangeRow.at_ns > at_ns)) or FOREVER_NS
    before = {kind: frozenset(held(session, kind, at_ns)) for kind in KINDS}
    # A failover that the files list no longer stays: only what they say of the same beginning takes its place.
    named = {failover[:3] for failover in site.failovers} | site.withdrawn
    known = _failovers(session)
    found = difference(Site(before, frozenset(failover for failover in known if failover[:3] in named)), site)
    stand = sorted((known - found.removed[Failover]) | found.added[Failover])
    for first, second in pairwise(stand):
        if first[:2] == second[:2] and second.from_ns < first.to_ns:
            hint = "one of them was applied before: list it with another `to`, or `withdrawn = true`"
            raise TopologyError(f"{_told(first)} and {_told(second)} overlap; {hint}")
    return found, until_ns


def _told(failover: Failover) -> str:
    return f"{failover.file_system}/{failover.target} at {failover.server} from {utc(failover.from_ns)}"


def _failovers(session: Session) -> set[Failover]:
    return {Failover(*row) for row in session.execute(select(*(getattr(FailoverRow, name) for name in Failover._fields)))}


def _replace_failovers(session: Session, added: Iterable[Failover], removed: Iterable[Failover]) -> None:
    for some in chunks([failover[:3] for failover in removed]):
        session.execute(delete(FailoverRow).where(tuple_(FailoverRow.file_system, FailoverRow.target, FailoverRow.from_ns).in_(some)))
    insert_rows(session, FailoverRow, [failover._asdict() for failover in added])


def _serve(session: Session, targets: Collection[tuple[str, str]]) -> None:
    """Works out anew who served these targets."""
    for some in chunks(sorted(targets)):
        rules, failovers, moves = defaultdict(list), defaultdict(list), defaultdict(list)
        for of, model, names in (
            (rules, ServerRow, ("place", "server", "from_ns", "to_ns")), (failovers, FailoverRow, ("from_ns", "to_ns", "server")), (moves, MoveRow, ("at_ns", "server")),
        ):  # fmt: skip
            query = select(model.file_system, model.target, *(getattr(model, name) for name in names)).where(_is_one_of(model, some))
            # Where several sources tell of an instant the last one's word stands, always the same one's.
            for row in session.execute(query.order_by(model.id)):
                of[row[0], row[1]].append(tuple(row[2:]))
        session.execute(delete(ServingRow).where(_is_one_of(ServingRow, some)))
        rows = [
            {"file_system": target[0], "target": target[1], **span._asdict()}
            for target in some
            for span in serving(starmap(Rule, rules[target]), starmap(Told, failovers[target]), moves[target])
        ]
        insert_rows(session, ServingRow, rows)


def _is_one_of(model, targets: Collection[tuple[str, str]]):
    of: dict[str, list[str]] = {}
    for file_system, target in targets:
        of.setdefault(file_system, []).append(target)
    return or_(*((model.file_system == file_system) & model.target.in_(names) for file_system, names in of.items()))


def _lock(session: Session) -> None:
    """Nobody else writes until the transaction ends."""
    if session.get(PlaceRow, PLACE, with_for_update=True) is None:
        session.add(PlaceRow(name=PLACE, json=json.dumps({"version": 0})))
        session.flush()


def _count_up(session: Session) -> None:
    row = session.get(PlaceRow, PLACE)
    row.json = json.dumps({"version": _version(row) + 1})


def _version(row: PlaceRow | None) -> int:
    return 0 if row is None else json.loads(row.json)["version"]


def _change(row: ChangeRow, until_ns: int) -> Change:
    return Change(
        id=row.id, at_ns=row.at_ns, until_ns=until_ns, applied_ns=row.applied_ns, applied_by=row.applied_by, source=row.source, note=row.note,
        digest=row.digest, added=row.added, removed=row.removed,
    )  # fmt: skip
