"""Runs that later ones of their program are held against."""

import sqlalchemy as sa
from alembic import op

from jobdb.migrations import steps
from jobdb.types import Exact

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    steps.create_table(
        "past_runs",
        sa.Column("job", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("program", Exact(255), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("processes", sa.BigInteger(), nullable=False),
        sa.Column("status", Exact(32), nullable=False),
        sa.Column("sorts", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_past_runs"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_past_runs_job_jobs", ondelete="CASCADE"),
    )
    steps.create_index("ix_past_runs_program", "past_runs", ["program", "end_ns", "nodes", "processes"])
    # Jobs of before are looked at once more: they are what others are held against.
    op.execute("INSERT INTO unlooked (job, version) SELECT job, version FROM profiles WHERE job NOT IN (SELECT job FROM unlooked)")


def downgrade() -> None:
    steps.drop_table("past_runs")
