"""What batch systems tell of jobs, of which several may have one id, when a job has settled, and by how much nodes' clocks are off."""

import sqlalchemy as sa
from alembic import op

from jobdb.migrations import steps
from jobdb.types import Exact

revision = "0005"
down_revision = "0004"

NAME = 255
ONE, SEVERAL = ("uq_jobs_job_id_uid", ["job_id", "uid"]), ("uq_jobs_job_id_uid_origin", ["job_id", "uid", "origin"])
TABLES = ("clocks", "queue_steps", "queue_nodes", "queue_jobs")


def upgrade() -> None:
    if "origin" not in steps.columns("jobs"):
        op.add_column("jobs", sa.Column("origin", sa.BigInteger(), nullable=False, server_default="0"))
    steps.add_column("jobs", sa.Column("settled_ns", sa.BigInteger()))
    steps.add_column("jobs", sa.Column("unheard", sa.BigInteger()))
    op.execute("UPDATE jobs SET settled_ns = end_ns WHERE settled_ns IS NULL AND end_ns IS NOT NULL")
    steps.change_unique("jobs", SEVERAL, ONE)
    steps.create_table(
        "queue_jobs",
        sa.Column("job", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("cluster", Exact(NAME), nullable=False),
        sa.Column("queue_id", Exact(NAME), nullable=False),
        sa.Column("submit_ns", sa.BigInteger(), nullable=False),
        *(sa.Column(name, Exact(NAME), nullable=False) for name in ("user", "project", "name", "queue")),
        sa.Column("state", Exact(16), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.BigInteger()) for name in ("end_ns", "exit_code", "cores", "tasks")),
        *(sa.Column(name, Exact(NAME), nullable=False) for name in ("array", "het")),
        sa.Column("suspended_s", sa.Double(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_queue_jobs"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_queue_jobs_job_jobs", ondelete="CASCADE"),
        sa.UniqueConstraint("cluster", "queue_id", "submit_ns", name="uq_queue_jobs_cluster_queue_id_submit_ns"),
    )
    steps.create_table(
        "queue_nodes",
        sa.Column("job", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("node", Exact(NAME), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", "node", name="pk_queue_nodes"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_queue_nodes_job_jobs", ondelete="CASCADE"),
    )
    steps.create_index("ix_queue_nodes_node_end_ns", "queue_nodes", ["node", "end_ns"])
    steps.create_index("ix_queue_jobs_end_ns", "queue_jobs", ["end_ns"])
    steps.create_index("ix_jobs_settled_ns", "jobs", ["settled_ns"])
    steps.create_table(
        "queue_steps",
        sa.Column("job", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("step", Exact(64), nullable=False),
        sa.Column("name", Exact(NAME), nullable=False),
        *(sa.Column(name, sa.BigInteger()) for name in ("start_ns", "end_ns")),
        sa.Column("nodes", Exact(), nullable=False),
        sa.Column("tasks", sa.BigInteger()),
        sa.PrimaryKeyConstraint("job", "step", name="pk_queue_steps"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_queue_steps_job_jobs", ondelete="CASCADE"),
    )
    steps.create_table(
        "clocks",
        sa.Column("node", Exact(NAME), nullable=False),
        sa.Column("from_ns", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("offset_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node", "from_ns", name="pk_clocks"),
    )


def downgrade() -> None:
    for table in TABLES:
        steps.drop_table(table)
    if "origin" in steps.columns("jobs"):
        # An older version knows one job of an id alone.
        for table in ("launches", "profiles", "profile_texts"):
            op.execute(f"DELETE FROM {table} WHERE job IN (SELECT id FROM jobs WHERE origin <> 0)")
        op.execute("DELETE FROM jobs WHERE origin <> 0")
    steps.change_unique("jobs", ONE, SEVERAL)
    steps.drop_index("ix_jobs_settled_ns", "jobs")
    steps.drop_columns("jobs", ["origin", "settled_ns", "unheard"])
