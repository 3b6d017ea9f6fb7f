"""What the system noticed, what people made of it, and events that are known."""

import sqlalchemy as sa
from alembic import op

from jobdb.migrations import steps
from jobdb.types import Exact

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    steps.create_table(
        "findings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", Exact(64), nullable=False),
        sa.Column("key", Exact(512), nullable=False),
        sa.Column("node", Exact(255), nullable=False),
        sa.Column("component", Exact(255), nullable=False),
        sa.Column("instance", Exact(255), nullable=False),
        sa.Column("severity", sa.BigInteger(), nullable=False),
        sa.Column("is_reported", sa.Boolean(), nullable=False),
        sa.Column("begin_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_ns", sa.BigInteger(), nullable=False),
        sa.Column("found_ns", sa.BigInteger(), nullable=False),
        sa.Column("seen_ns", sa.BigInteger(), nullable=False),
        sa.Column("times", sa.Double()),
        sa.Column("evidence", Exact(), nullable=False),
        sa.Column("state", Exact(16), nullable=False, server_default="open"),
        sa.Column("verdict", Exact(16), nullable=False, server_default=""),
        sa.Column("cause", Exact(4096), nullable=False),
        sa.Column("cause_by", Exact(255), nullable=False),
        sa.Column("remedy", Exact(4096), nullable=False),
        sa.Column("changed_by", Exact(255), nullable=False, server_default=""),
        sa.Column("changed_ns", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_findings"),
        sa.UniqueConstraint("kind", "key", name="uq_findings_kind_key"),
    )
    for name in ("begin_ns", "last_ns", "node"):
        steps.create_index(f"ix_findings_{name}", "findings", [name])
    steps.create_table(
        "finding_jobs",
        sa.Column("finding", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("job", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("role", Exact(16), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("finding", "job", name="pk_finding_jobs"),
        sa.ForeignKeyConstraint(["finding"], ["findings.id"], name="fk_finding_jobs_finding_findings", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_finding_jobs_job_jobs", ondelete="CASCADE"),
    )
    steps.create_index("ix_finding_jobs_job", "finding_jobs", ["job"])
    steps.create_table(
        "unlooked",
        sa.Column("job", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_unlooked"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_unlooked_job_jobs", ondelete="CASCADE"),
    )
    steps.create_table(
        "finding_comments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("finding", sa.Integer(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("author", Exact(255), nullable=False),
        sa.Column("text", Exact(4096), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_finding_comments"),
        sa.ForeignKeyConstraint(["finding"], ["findings.id"], name="fk_finding_comments_finding_findings", ondelete="CASCADE"),
    )
    steps.create_index("ix_finding_comments_finding", "finding_comments", ["finding"])
    steps.create_table(
        "annotations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source", Exact(16), nullable=False),
        sa.Column("key", Exact(512), nullable=False),
        sa.Column("kind", Exact(64), nullable=False),
        sa.Column("node", Exact(255), nullable=False),
        sa.Column("begin_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_ns", sa.BigInteger(), nullable=False),
        sa.Column("told_ns", sa.BigInteger(), nullable=False),
        sa.Column("told_by", Exact(255), nullable=False),
        sa.Column("text", Exact(4096), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_annotations"),
        sa.UniqueConstraint("source", "key", name="uq_annotations_source_key"),
    )
    steps.create_index("ix_annotations_last_ns", "annotations", ["last_ns"])
    # Jobs of before are looked at, too.
    op.execute("INSERT INTO unlooked (job, version) SELECT job, version FROM profiles WHERE job NOT IN (SELECT job FROM unlooked)")


def downgrade() -> None:
    for table in ("annotations", "finding_comments", "unlooked", "finding_jobs", "findings"):
        steps.drop_table(table)
