"""Tables of findings: what the system noticed, what people made of it, and events that are known."""

from sqlalchemy import BigInteger, Boolean, Double, ForeignKey, Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .models import Base
from .types import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, Exact

KEY_LENGTH_MAX = 512


class FindingRow(Base):
    """See `jobdb.findings.Found` and `Finding`. key: names it among those of its kind. node, component, instance: "" where it is of none. last_ns: `end_ns`, of one that lasts
    `FOREVER_NS`, to ask for a time. evidence: JSON."""

    __tablename__ = "findings"
    __table_args__ = (
        UniqueConstraint("kind", "key"), Index("ix_findings_begin_ns", "begin_ns"), Index("ix_findings_last_ns", "last_ns"), Index("ix_findings_node", "node"),
    )  # fmt: skip

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(Exact(64))
    key: Mapped[str] = mapped_column(Exact(KEY_LENGTH_MAX))
    node: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    component: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    instance: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    severity: Mapped[int] = mapped_column(BigInteger)
    is_reported: Mapped[bool] = mapped_column(Boolean)
    begin_ns: Mapped[int] = mapped_column(BigInteger)
    last_ns: Mapped[int] = mapped_column(BigInteger)
    found_ns: Mapped[int] = mapped_column(BigInteger)
    seen_ns: Mapped[int] = mapped_column(BigInteger)
    times: Mapped[float | None] = mapped_column(Double)
    evidence: Mapped[str] = mapped_column(Exact())
    state: Mapped[str] = mapped_column(Exact(16), server_default="open", default="open")
    verdict: Mapped[str] = mapped_column(Exact(16), server_default="", default="")
    cause: Mapped[str] = mapped_column(Exact(TEXT_LENGTH_MAX))
    cause_by: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    remedy: Mapped[str] = mapped_column(Exact(TEXT_LENGTH_MAX))
    changed_by: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX), server_default="", default="")
    changed_ns: Mapped[int | None] = mapped_column(BigInteger)


class FindingJobRow(Base):
    """A job that a finding is about. role: see `jobdb.findings.ROLES`; place: of those of a role, the first is the likeliest."""

    __tablename__ = "finding_jobs"
    __table_args__ = (Index("ix_finding_jobs_job", "job"),)

    finding: Mapped[int] = mapped_column(ForeignKey("findings.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    role: Mapped[str] = mapped_column(Exact(16))
    place: Mapped[int] = mapped_column(BigInteger)


class UnexplainedRow(Base):
    """A finding of which it was not asked yet who caused it."""

    __tablename__ = "unexplained"

    finding: Mapped[int] = mapped_column(ForeignKey("findings.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)


class UnlookedRow(Base):
    """A settled job whose profile, of this version, no detector has looked at."""

    __tablename__ = "unlooked"

    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    version: Mapped[int] = mapped_column(BigInteger)


class PastRunRow(Base):
    """A run that later ones of its program are held against; see `jobdb.findings.PastRun`."""

    __tablename__ = "past_runs"
    # All of what a question for runs of a program at a scale looks at, so that it reads rows of those alone.
    __table_args__ = (Index("ix_past_runs_program", "program", "end_ns", "nodes", "processes"),)

    job: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    program: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    end_ns: Mapped[int] = mapped_column(BigInteger)
    nodes: Mapped[int] = mapped_column(BigInteger)
    processes: Mapped[int] = mapped_column(BigInteger)
    status: Mapped[str] = mapped_column(Exact(32))
    sorts: Mapped[bytes] = mapped_column(LargeBinary)


class FindingCommentRow(Base):
    """What somebody said of a finding."""

    __tablename__ = "finding_comments"
    __table_args__ = (Index("ix_finding_comments_finding", "finding"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    finding: Mapped[int] = mapped_column(ForeignKey("findings.id", ondelete="CASCADE"))
    at_ns: Mapped[int] = mapped_column(BigInteger)
    author: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    text: Mapped[str] = mapped_column(Exact(TEXT_LENGTH_MAX))


class AnnotationRow(Base):
    """A known event; see `jobdb.findings.Annotation`. source: "log" or "hand"; key: of one from a log what names it there, so that it is kept once."""

    __tablename__ = "annotations"
    __table_args__ = (UniqueConstraint("source", "key"), Index("ix_annotations_last_ns", "last_ns"))

    id: Mapped[int] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(Exact(16))
    key: Mapped[str] = mapped_column(Exact(KEY_LENGTH_MAX))
    kind: Mapped[str] = mapped_column(Exact(64))
    node: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    begin_ns: Mapped[int] = mapped_column(BigInteger)
    last_ns: Mapped[int] = mapped_column(BigInteger)
    told_ns: Mapped[int] = mapped_column(BigInteger)
    told_by: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    text: Mapped[str] = mapped_column(Exact(TEXT_LENGTH_MAX))
