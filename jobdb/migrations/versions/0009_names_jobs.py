"""Whether a file system's forwarding nodes hand the names of jobs on to its servers."""

import sqlalchemy as sa

from jobdb.migrations import steps

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    steps.add_column("topology_file_systems", sa.Column("names_jobs", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    steps.drop_columns("topology_file_systems", ["names_jobs"])
