"""An index that alone tells which jobs ran in a time: their rows are wide, and 30 days of them are looked through."""

from jobdb.migrations import steps

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    steps.create_index("ix_jobs_start_ns_end_ns", "jobs", ["start_ns", "end_ns"])


def downgrade() -> None:
    steps.drop_index("ix_jobs_start_ns_end_ns", "jobs")
