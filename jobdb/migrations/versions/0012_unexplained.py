"""Findings of which it was not asked yet who caused them."""

import sqlalchemy as sa
from alembic import op

from jobdb.migrations import steps

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    steps.create_table(
        "unexplained",
        sa.Column("finding", sa.Integer(), nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("finding", name="pk_unexplained"),
        sa.ForeignKeyConstraint(["finding"], ["findings.id"], name="fk_unexplained_finding_findings", ondelete="CASCADE"),
    )
    # Of the last findings of before it is asked, too: of older ones little is left to read.
    op.execute("INSERT INTO unexplained (finding) SELECT id FROM findings WHERE kind = 'slow-job' AND id NOT IN (SELECT finding FROM unexplained) ORDER BY id DESC LIMIT 200")


def downgrade() -> None:
    steps.drop_table("unexplained")
