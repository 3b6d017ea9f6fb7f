"""An index over the heterogeneous jobs that components are of: each event of a launch asks for it."""

from jobdb.migrations import steps

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    steps.create_index("ix_queue_jobs_het", "queue_jobs", ["het"])


def downgrade() -> None:
    steps.drop_index("ix_queue_jobs_het", "queue_jobs")
