"""Tables of the job database. A change here needs a migration in migrations/versions; a test compares the two."""

from sqlalchemy import BigInteger, Double, ForeignKey, Index, MetaData, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from .types import ID_LENGTH_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX, Exact


FOREVER_NS = 2**63 - 1


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class JobRow(Base):
    """A job, summed up from its launches and from what the batch system tells of it whenever one of them changes.

    job_id: what its records claim. origin: which run of that id it is: 0 where launches alone tell of it, else a number of the batch system's key
    (`jobdb.queued.origin_of`). settled_ns: None until all that its nodes did for it has come, or was waited for long enough; unheard: of how many nodes it had not
    by then. start_utc, end_utc: "YYYY-MM-DD HH:MM:SS", so that a day or a month is a part of it in any SQL. search: what `jobdb.search` looks into. These two are
    None only while a migration fills them."""

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("job_id", "uid", "origin"), UniqueConstraint("key"), Index("ix_jobs_uid_start_ns", "uid", "start_ns"),
        Index("ix_jobs_settled_ns", "settled_ns"), Index("ix_jobs_start_ns_end_ns", "start_ns", "end_ns"),
    )  # fmt: skip

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    job_id: Mapped[str] = mapped_column(Exact(ID_LENGTH_MAX))
    uid: Mapped[int] = mapped_column(BigInteger)
    origin: Mapped[int] = mapped_column(BigInteger, server_default="0", default=0)
    cluster: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    user: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    program: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX), index=True)
    command: Mapped[str] = mapped_column(Exact(TEXT_LENGTH_MAX))
    state: Mapped[str] = mapped_column(Exact(16), index=True)
    start_ns: Mapped[int] = mapped_column(BigInteger, index=True)
    end_ns: Mapped[int | None] = mapped_column(BigInteger)
    exit_code: Mapped[int | None] = mapped_column(BigInteger)
    settled_ns: Mapped[int | None] = mapped_column(BigInteger)
    unheard: Mapped[int | None] = mapped_column(BigInteger)
    start_utc: Mapped[str | None] = mapped_column(Exact(19))
    end_utc: Mapped[str | None] = mapped_column(Exact(19))
    search: Mapped[str | None] = mapped_column(Exact())


class LaunchRow(Base):
    """One `bellrock run` as one node reported it. Either instant may still be missing."""

    __tablename__ = "launches"
    __table_args__ = (UniqueConstraint("job", "launch", "node"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    launch: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    node: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    cluster: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    user: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    program: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    command: Mapped[str] = mapped_column(Exact(TEXT_LENGTH_MAX))
    start_ns: Mapped[int | None] = mapped_column(BigInteger)
    end_ns: Mapped[int | None] = mapped_column(BigInteger)
    exit_code: Mapped[int | None] = mapped_column(BigInteger)


class QueueRow(Base):
    """What the batch system told last of a job; see `jobdb.queue.QueueJob`."""

    __tablename__ = "queue_jobs"
    __table_args__ = (UniqueConstraint("cluster", "queue_id", "submit_ns"), Index("ix_queue_jobs_end_ns", "end_ns"), Index("ix_queue_jobs_het", "het"))

    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    cluster: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    queue_id: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    submit_ns: Mapped[int] = mapped_column(BigInteger)
    user: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    project: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    name: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    queue: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    state: Mapped[str] = mapped_column(Exact(16))
    start_ns: Mapped[int] = mapped_column(BigInteger)
    end_ns: Mapped[int | None] = mapped_column(BigInteger)
    exit_code: Mapped[int | None] = mapped_column(BigInteger)
    cores: Mapped[int | None] = mapped_column(BigInteger)
    tasks: Mapped[int | None] = mapped_column(BigInteger)
    array: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    het: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    suspended_s: Mapped[float] = mapped_column(Double)
    restarts: Mapped[int] = mapped_column(BigInteger)


class QueueNodeRow(Base):
    """A node that the batch system gave to a job, and when: the job's times once more, so that who else was there need not look at all who ever were. end_ns:
    `FOREVER_NS` while it runs."""

    __tablename__ = "queue_nodes"
    __table_args__ = (Index("ix_queue_nodes_node_end_ns", "node", "end_ns"),)

    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    node: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX), primary_key=True)
    start_ns: Mapped[int] = mapped_column(BigInteger)
    end_ns: Mapped[int] = mapped_column(BigInteger)


class QueueStepRow(Base):
    """A part of a job that was started by itself. nodes: as the batch system lists them, "cn[1-4,9]"."""

    __tablename__ = "queue_steps"

    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    step: Mapped[str] = mapped_column(Exact(64), primary_key=True)
    name: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    start_ns: Mapped[int | None] = mapped_column(BigInteger)
    end_ns: Mapped[int | None] = mapped_column(BigInteger)
    nodes: Mapped[str] = mapped_column(Exact())
    tasks: Mapped[int | None] = mapped_column(BigInteger)


class ClockRow(Base):
    """By how much a node's clock was ahead, since when: a row only where that was a second or more, or is no longer."""

    __tablename__ = "clocks"

    node: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX), primary_key=True)
    from_ns: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    offset_ns: Mapped[int] = mapped_column(BigInteger)


class ProfileRow(Base):
    """The single figures of a settled job's profile, to sort and to add up by: narrow rows, since a sorted list reads all of them.

    `version` is the store's when it was computed, `format` that of the figures. The columns have the figures' names
    (`jobdb.profile.Profile`); None where they are not known. slowest_op_s: of `slowest_op`, seconds."""

    __tablename__ = "profiles"

    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    version: Mapped[int] = mapped_column(BigInteger)
    format: Mapped[int] = mapped_column(BigInteger)
    granularity: Mapped[str | None] = mapped_column(Exact(16))
    nodes: Mapped[int | None] = mapped_column(BigInteger)
    io_nodes: Mapped[int | None] = mapped_column(BigInteger)
    processes: Mapped[int | None] = mapped_column(BigInteger)
    io_processes: Mapped[int | None] = mapped_column(BigInteger)
    files: Mapped[int | None] = mapped_column(BigInteger)
    phases: Mapped[int | None] = mapped_column(BigInteger)
    read_bytes: Mapped[int | None] = mapped_column(BigInteger)
    write_bytes: Mapped[int | None] = mapped_column(BigInteger)
    mapped_bytes: Mapped[int | None] = mapped_column(BigInteger)
    read_ops: Mapped[int | None] = mapped_column(BigInteger)
    write_ops: Mapped[int | None] = mapped_column(BigInteger)
    metadata_ops: Mapped[int | None] = mapped_column(BigInteger)
    folded_ops: Mapped[int | None] = mapped_column(BigInteger)
    errors: Mapped[int | None] = mapped_column(BigInteger)
    unseen_programs: Mapped[int | None] = mapped_column(BigInteger)
    bandwidth_avg_read: Mapped[float | None] = mapped_column(Double)
    bandwidth_avg_write: Mapped[float | None] = mapped_column(Double)
    bandwidth_peak_read: Mapped[float | None] = mapped_column(Double)
    bandwidth_peak_write: Mapped[float | None] = mapped_column(Double)
    iops_avg: Mapped[float | None] = mapped_column(Double)
    mdops_avg: Mapped[float | None] = mapped_column(Double)
    io_mode_read: Mapped[str | None] = mapped_column(Exact(8))
    io_mode_write: Mapped[str | None] = mapped_column(Exact(8))
    slowest_op_s: Mapped[float | None] = mapped_column(Double)


FIGURES = tuple(column.name for column in ProfileRow.__table__.columns if column.name not in ("job", "version", "format", "slowest_op_s"))


class ProfileTextRow(Base):
    """All of a profile as JSON; written and removed together with its figures. It hangs on the job, not on the figures: SQLite alters a table by
    copying it and removing the old one, and with that all that hangs on its rows."""

    __tablename__ = "profile_texts"

    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    json: Mapped[str] = mapped_column(Exact())


class PlaceRow(Base):
    """How far somebody has come who goes on after a restart: JSON text under a name."""

    __tablename__ = "places"

    name: Mapped[str] = mapped_column(Exact(64), primary_key=True)
    json: Mapped[str] = mapped_column(Exact())
