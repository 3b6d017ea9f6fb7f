"""Jobs, their launches, and their profiles."""

import sqlalchemy as sa

from jobdb.migrations import steps
from jobdb.types import Exact

revision = "0001"
down_revision = None


def upgrade() -> None:
    steps.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", Exact(255), nullable=False),
        sa.Column("job_id", Exact(512), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("cluster", Exact(255), nullable=False),
        sa.Column("user", Exact(255), nullable=False),
        sa.Column("program", Exact(255), nullable=False),
        sa.Column("command", Exact(4096), nullable=False),
        sa.Column("state", Exact(16), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger()),
        sa.Column("exit_code", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("job_id", "uid", name="uq_jobs_job_id_uid"),
        sa.UniqueConstraint("key", name="uq_jobs_key"),
    )
    for column in ("state", "start_ns", "program"):
        steps.create_index(f"ix_jobs_{column}", "jobs", [column])
    steps.create_table(
        "launches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Integer(), nullable=False),
        sa.Column("launch", Exact(255), nullable=False),
        sa.Column("node", Exact(255), nullable=False),
        sa.Column("cluster", Exact(255), nullable=False),
        sa.Column("user", Exact(255), nullable=False),
        sa.Column("program", Exact(255), nullable=False),
        sa.Column("command", Exact(4096), nullable=False),
        sa.Column("start_ns", sa.BigInteger()),
        sa.Column("end_ns", sa.BigInteger()),
        sa.Column("exit_code", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_launches"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_launches_job_jobs", ondelete="CASCADE"),
        sa.UniqueConstraint("job", "launch", "node", name="uq_launches_job_launch_node"),
    )
    create_profiles()


def create_profiles() -> None:
    """The table as it was until 0002."""
    steps.create_table(
        "profiles",
        sa.Column("job", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("format", sa.BigInteger(), nullable=False),
        sa.Column("headline", Exact(), nullable=False),
        sa.Column("json", Exact(), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_profiles"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_profiles_job_jobs", ondelete="CASCADE"),
    )


def downgrade() -> None:
    for table in ("profiles", "launches", "jobs"):
        steps.drop_table(table)
