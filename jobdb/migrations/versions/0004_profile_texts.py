"""The JSON of profiles in a table of its own, so that the rows that sorted lists read are narrow."""

import sqlalchemy as sa
from alembic import op

from jobdb.migrations import steps
from jobdb.types import Exact

revision = "0004"
down_revision = "0003"

# Profiles that are moved in one transaction, some KB each.
MOVED_AT_ONCE = 500
SPAN = "job > :after AND job <= :last"


def upgrade() -> None:
    steps.create_table(
        "profile_texts",
        sa.Column("job", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("json", Exact(), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_profile_texts"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_profile_texts_job_jobs", ondelete="CASCADE"),
    )
    if "json" in steps.columns("profiles"):
        # What was moved is emptied, so that a run after one that was killed knows it.
        copy = f"REPLACE INTO profile_texts (job, json) SELECT job, json FROM profiles WHERE {SPAN} AND json <> ''"
        _move(copy, *(_narrower() if _is_sqlite() else (f"UPDATE profiles SET json = '' WHERE {SPAN}",)))
        steps.drop_columns("profiles", ["json"])


def _narrower() -> tuple[str, ...]:
    """Empties the JSON in SQLite by writing rows anew: a row that is changed keeps its page, however little is left in it, and the file would grow to
    twice its size."""
    names = ", ".join(sorted(steps.columns("profiles") - {"json"}))
    return (
        f"CREATE TEMPORARY TABLE moved AS SELECT {names} FROM profiles WHERE {SPAN}",
        f"DELETE FROM profiles WHERE {SPAN}",
        f"INSERT INTO profiles ({names}, json) SELECT {names}, '' FROM moved",
        "DROP TABLE moved",
    )


def _move(*statements: str) -> None:
    """Runs statements for all profiles, MOVED_AT_ONCE at a time. SQLite does all of a migration in one transaction."""
    connection = op.get_bind()
    jobs = sa.table("profiles", sa.column("job")).c.job
    after = 0
    while True:
        some = sa.select(jobs).where(jobs > after).order_by(jobs).limit(MOVED_AT_ONCE).subquery()
        last = connection.scalar(sa.select(sa.func.max(some.c.job)))
        if last is None:
            return
        for statement in statements:
            connection.execute(sa.text(statement), {"after": after, "last": last} if SPAN in statement else None)
        if not _is_sqlite():
            connection.commit()
        after = last


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"


def downgrade() -> None:
    steps.add_column("profiles", sa.Column("json", Exact()))
    if "profile_texts" in steps.tables():
        _move(f"UPDATE profiles SET json = (SELECT t.json FROM profile_texts AS t WHERE t.job = profiles.job) WHERE {SPAN}")
        steps.drop_table("profile_texts")
    with op.batch_alter_table("profiles") as batch:
        batch.alter_column("json", existing_type=Exact(), nullable=False)
