"""Jobs, their launches, and their profiles."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger()),
        sa.Column("exit_code", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("job_id", "uid", name="uq_jobs_job_id_uid"),
        sa.UniqueConstraint("key", name="uq_jobs_key"),
    )
    for column in ("state", "start_ns", "program"):
        op.create_index(f"ix_jobs_{column}", "jobs", [column])
    op.create_table(
        "launches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job", sa.Integer(), sa.ForeignKey("jobs.id", name="fk_launches_job_jobs", ondelete="CASCADE"), nullable=False),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("start_ns", sa.BigInteger()),
        sa.Column("end_ns", sa.BigInteger()),
        sa.Column("exit_code", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_launches"),
        sa.UniqueConstraint("job", "launch", "node", name="uq_launches_job_launch_node"),
    )
    op.create_table(
        "profiles",
        sa.Column("job", sa.Integer(), sa.ForeignKey("jobs.id", name="fk_profiles_job_jobs", ondelete="CASCADE"), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("format", sa.BigInteger(), nullable=False),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_profiles"),
    )


def downgrade() -> None:
    for table in ("profiles", "launches", "jobs"):
        op.drop_table(table)
