"""Figures of profiles as columns, what searches and calendars look into as columns of jobs, and readers' places.

Stored profiles are dropped: they are worked out again from the records."""

import importlib

import sqlalchemy as sa
from alembic import op

from jobdb.migrations import steps
from jobdb.search import search_text
from jobdb.summing import utc
from jobdb.types import Exact

revision = "0002"
down_revision = "0001"

# Jobs that are filled in one statement.
FILLED_AT_ONCE = 1000
COUNTS = (
    "nodes", "io_nodes", "processes", "io_processes", "files", "phases", "read_bytes", "write_bytes", "mapped_bytes", "read_ops", "write_ops",
    "metadata_ops", "folded_ops", "errors", "unseen_programs",
)  # fmt: skip
RATES = ("bandwidth_avg_read", "bandwidth_avg_write", "bandwidth_peak_read", "bandwidth_peak_write", "iops_avg", "mdops_avg")


def upgrade() -> None:
    for name, length in (("start_utc", 19), ("end_utc", 19), ("search", None)):
        steps.add_column("jobs", sa.Column(name, Exact(length)))
    _fill()
    if "headline" in steps.columns("profiles"):
        steps.drop_table("profiles")
    steps.create_table(
        "profiles",
        sa.Column("job", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("format", sa.BigInteger(), nullable=False),
        sa.Column("json", Exact(), nullable=False),
        sa.Column("granularity", Exact(16)),
        *(sa.Column(name, sa.BigInteger()) for name in COUNTS),
        *(sa.Column(name, sa.Double()) for name in RATES),
        sa.Column("io_mode_read", Exact(8)),
        sa.Column("io_mode_write", Exact(8)),
        sa.Column("slowest_op_s", sa.Double()),
        sa.PrimaryKeyConstraint("job", name="pk_profiles"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_profiles_job_jobs", ondelete="CASCADE"),
    )
    steps.create_table(
        "places",
        sa.Column("name", Exact(64), nullable=False),
        sa.Column("json", Exact(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_places"),
    )


def _fill() -> None:
    texts = {name: sa.column(name, Exact()) for name in ("key", "job_id", "user", "program", "command", "start_utc", "end_utc", "search")}
    numbers = {name: sa.column(name, sa.BigInteger()) for name in ("id", "start_ns", "end_ns")}
    jobs = sa.table("jobs", *texts.values(), *numbers.values())
    todo = sa.select(jobs).where(jobs.c.search.is_(None)).order_by(jobs.c.id).limit(FILLED_AT_ONCE)
    change = sa.update(jobs).where(jobs.c.id == sa.bindparam("job"))
    change = change.values(start_utc=sa.bindparam("begin"), end_utc=sa.bindparam("end"), search=sa.bindparam("words"))
    while rows := op.get_bind().execute(todo).all():
        filled = [
            {
                "job": row.id, "begin": utc(row.start_ns), "end": utc(row.end_ns),
                "words": search_text(row.key, row.job_id, row.user, row.program, row.command),
            }
            for row in rows
        ]  # fmt: skip
        op.get_bind().execute(change, filled)


def downgrade() -> None:
    steps.drop_table("places")
    if "headline" not in steps.columns("profiles"):
        steps.drop_table("profiles")
    importlib.import_module("jobdb.migrations.versions.0001_jobs").create_profiles()
    steps.drop_columns("jobs", ["start_utc", "end_utc", "search"])
