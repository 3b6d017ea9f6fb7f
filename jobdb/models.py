"""Tables of the job database. A change here needs a migration in migrations/versions; a test compares the two."""

from sqlalchemy import BigInteger, ForeignKey, MetaData, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


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
    """A job, summed up from its launches whenever one of them changes."""

    __tablename__ = "jobs"
    __table_args__ = (UniqueConstraint("job_id", "uid"), UniqueConstraint("key"))

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(Text)
    job_id: Mapped[str] = mapped_column(Text)
    uid: Mapped[int] = mapped_column(BigInteger)
    cluster: Mapped[str] = mapped_column(Text)
    user: Mapped[str] = mapped_column(Text)
    program: Mapped[str] = mapped_column(Text, index=True)
    command: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text, index=True)
    start_ns: Mapped[int] = mapped_column(BigInteger, index=True)
    end_ns: Mapped[int | None] = mapped_column(BigInteger)
    exit_code: Mapped[int | None] = mapped_column(BigInteger)


class LaunchRow(Base):
    """One `bellrock run` as one node reported it. Either instant may still be missing."""

    __tablename__ = "launches"
    __table_args__ = (UniqueConstraint("job", "launch", "node"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    launch: Mapped[str] = mapped_column(Text)
    node: Mapped[str] = mapped_column(Text)
    cluster: Mapped[str] = mapped_column(Text)
    user: Mapped[str] = mapped_column(Text)
    program: Mapped[str] = mapped_column(Text)
    command: Mapped[str] = mapped_column(Text)
    start_ns: Mapped[int | None] = mapped_column(BigInteger)
    end_ns: Mapped[int | None] = mapped_column(BigInteger)
    exit_code: Mapped[int | None] = mapped_column(BigInteger)


class ProfileRow(Base):
    """The profile of a settled job as JSON; `headline` has the few figures that the list of jobs shows and sorts by.

    `version` is the store's when it was computed, `format` that of the figures."""

    __tablename__ = "profiles"

    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int] = mapped_column(BigInteger)
    format: Mapped[int] = mapped_column(BigInteger)
    headline: Mapped[str] = mapped_column(Text)
    json: Mapped[str] = mapped_column(Text)
