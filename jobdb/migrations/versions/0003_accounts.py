"""Who may sign in: accounts, their tokens and sessions; and an index by which a user's own jobs are found."""

import sqlalchemy as sa

from jobdb.migrations import steps
from jobdb.types import Exact

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    steps.create_index("ix_jobs_uid_start_ns", "jobs", ["uid", "start_ns"])
    steps.create_table(
        "accounts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", Exact(64), nullable=False),
        sa.Column("uid", sa.BigInteger()),
        sa.Column("password", Exact(255), nullable=False),
        sa.Column("role", Exact(16), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("disabled_ns", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("name", name="uq_accounts_name"),
    )
    _create_secrets("tokens", sa.Column("label", Exact(100), nullable=False), used_is_nullable=True)
    _create_secrets("sessions", sa.Column("door", Exact(64), nullable=False), used_is_nullable=False)


def _create_secrets(table: str, own: sa.Column, *, used_is_nullable: bool) -> None:
    steps.create_table(
        table,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("account", sa.Integer(), sa.ForeignKey("accounts.id", name=f"fk_{table}_account_accounts", ondelete="CASCADE"), nullable=False),
        own,
        sa.Column("hash", Exact(64), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=False),
        sa.Column("used_ns", sa.BigInteger(), nullable=used_is_nullable),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("hash", name=f"uq_{table}_hash"),
    )
    steps.create_index(f"ix_{table}_account", table, ["account"])


def downgrade() -> None:
    for table in ("sessions", "tokens", "accounts"):
        steps.drop_table(table)
    steps.drop_index("ix_jobs_uid_start_ns", "jobs")
