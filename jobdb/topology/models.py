"""Tables of the topology. Rows of facts bear [from_ns, to_ns), to_ns being FOREVER_NS while it lasts; of the same key there are no two at an instant."""

from sqlalchemy import BigInteger, Boolean, ForeignKey, Index, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from jobdb.models import Base
from jobdb.types import ID_LENGTH_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX, Exact

from .facts import FileSystem, Forwarder, Forwarding, Member, Port, Server, Target

WORD_LENGTH_MAX = 64


class ChangeRow(Base):
    """That somebody applied files: from at_ns on they hold, until the next change's. added, removed: facts."""

    __tablename__ = "topology_changes"

    id: Mapped[int] = mapped_column(primary_key=True)
    at_ns: Mapped[int] = mapped_column(BigInteger)
    applied_ns: Mapped[int] = mapped_column(BigInteger)
    applied_by: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    source: Mapped[str] = mapped_column(Exact(TEXT_LENGTH_MAX))
    note: Mapped[str] = mapped_column(Exact(TEXT_LENGTH_MAX))
    digest: Mapped[str] = mapped_column(Exact(WORD_LENGTH_MAX))
    added: Mapped[int] = mapped_column(BigInteger)
    removed: Mapped[int] = mapped_column(BigInteger)


class Valid:
    """Columns of all facts."""

    id: Mapped[int] = mapped_column(primary_key=True)
    from_ns: Mapped[int] = mapped_column(BigInteger)
    to_ns: Mapped[int] = mapped_column(BigInteger)


class FileSystemRow(Valid, Base):
    """See `facts.FileSystem`."""

    __tablename__ = "topology_file_systems"
    __table_args__ = (UniqueConstraint("file_system", "from_ns"),)

    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    kind: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    mounts: Mapped[str] = mapped_column(Exact())
    names_jobs: Mapped[bool] = mapped_column(Boolean, server_default=false())


class ForwarderRow(Valid, Base):
    """See `facts.Forwarder`."""

    __tablename__ = "topology_forwarders"
    __table_args__ = (UniqueConstraint("node", "file_system", "from_ns"),)

    node: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))


class ForwardingRow(Valid, Base):
    """See `facts.Forwarding`."""

    __tablename__ = "topology_forwarding"
    __table_args__ = (UniqueConstraint("node", "file_system", "from_ns"),)

    node: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    forwarder: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX), index=True)


class TargetRow(Valid, Base):
    """See `facts.Target`."""

    __tablename__ = "topology_targets"
    __table_args__ = (UniqueConstraint("file_system", "target", "from_ns"),)

    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    target: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    kind: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    number: Mapped[int | None] = mapped_column(BigInteger)
    component: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    instance: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))


class ServerRow(Valid, Base):
    """See `facts.Server`."""

    __tablename__ = "topology_servers"
    __table_args__ = (UniqueConstraint("file_system", "target", "place", "from_ns"),)

    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    target: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    place: Mapped[int] = mapped_column(BigInteger)
    server: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX), index=True)


class PortRow(Valid, Base):
    """See `facts.Port`."""

    __tablename__ = "topology_ports"
    __table_args__ = (UniqueConstraint("peer", "switch", "port", "from_ns"),)

    peer: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    switch: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX), index=True)
    port: Mapped[str] = mapped_column(Exact(WORD_LENGTH_MAX))
    is_switch: Mapped[bool] = mapped_column(Boolean)


class MemberRow(Valid, Base):
    """See `facts.Member`."""

    __tablename__ = "topology_members"
    __table_args__ = (UniqueConstraint("node", "kind", "from_ns"), Index("ix_topology_members_name", "name", "kind"))

    node: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    kind: Mapped[str] = mapped_column(Exact(WORD_LENGTH_MAX))
    name: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))


class FailoverRow(Valid, Base):
    """See `facts.Failover`: what files told, and did not withdraw."""

    __tablename__ = "topology_failovers"
    __table_args__ = (UniqueConstraint("file_system", "target", "from_ns"),)

    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    target: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    server: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))


class MoveRow(Base):
    """That records told: from an instant on another server served the target; server is "" where it is the usual one again. source: what told it."""

    __tablename__ = "topology_moves"
    __table_args__ = (UniqueConstraint("file_system", "target", "at_ns", "source"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    target: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    at_ns: Mapped[int] = mapped_column(BigInteger)
    server: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    source: Mapped[str] = mapped_column(Exact(WORD_LENGTH_MAX))
    told_ns: Mapped[int] = mapped_column(BigInteger)


class ServingRow(Valid, Base):
    """Who really served a target: follows from servers, failovers and moves, and is worked out whenever one of these changes (`serving`)."""

    __tablename__ = "topology_serving"
    __table_args__ = (UniqueConstraint("file_system", "target", "from_ns"),)

    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    target: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    server: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX), index=True)
    is_failover: Mapped[bool] = mapped_column(Boolean)


class LayoutRow(Valid, Base):
    """That a file lay on certain targets. file_id: that of records, 16 hex digits; path is None where the id alone was told."""

    __tablename__ = "topology_layouts"

    file_system: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    file_id: Mapped[str] = mapped_column(Exact(WORD_LENGTH_MAX), index=True)
    path: Mapped[str | None] = mapped_column(Exact(TEXT_LENGTH_MAX))


class StripeRow(Base):
    """One target of a layout: it bears every so-manieth piece of stripe_bytes of the part of the file from first_byte up to end_byte (FOREVER_NS: its end)."""

    __tablename__ = "topology_stripes"

    layout: Mapped[int] = mapped_column(ForeignKey("topology_layouts.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    part: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    place: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    first_byte: Mapped[int] = mapped_column(BigInteger)
    end_byte: Mapped[int] = mapped_column(BigInteger)
    stripe_bytes: Mapped[int] = mapped_column(BigInteger)
    target: Mapped[str] = mapped_column(Exact(ID_LENGTH_MAX))


# By kind of fact.
MODELS: dict[type, type[Valid]] = {
    FileSystem: FileSystemRow, Forwarder: ForwarderRow, Forwarding: ForwardingRow, Target: TargetRow, Server: ServerRow, Port: PortRow, Member: MemberRow,
}  # fmt: skip
