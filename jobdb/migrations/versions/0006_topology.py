"""Which server served a node: facts with the times in which they held, who changed them, and which targets files lie on."""

import sqlalchemy as sa

from jobdb.migrations import steps
from jobdb.types import Exact

revision = "0006"
down_revision = "0005"

# By table of facts: its fields, those that tell two facts of an instant apart, and those of an index besides.
FACTS = {
    "topology_file_systems": ({"file_system": Exact(255), "kind": Exact(255), "mounts": Exact()}, ["file_system"], []),
    "topology_forwarders": ({"node": Exact(255), "file_system": Exact(255)}, ["node", "file_system"], []),
    "topology_forwarding": ({"node": Exact(255), "file_system": Exact(255), "forwarder": Exact(255)}, ["node", "file_system"], ["forwarder"]),
    "topology_targets": (
        {"file_system": Exact(255), "target": Exact(255), "kind": Exact(255), "number": None, "component": Exact(255), "instance": Exact(255)},
        ["file_system", "target"], [],
    ),
    "topology_servers": (
        {"file_system": Exact(255), "target": Exact(255), "place": sa.BigInteger(), "server": Exact(255)}, ["file_system", "target", "place"], ["server"],
    ),
    "topology_ports": (
        {"peer": Exact(255), "switch": Exact(255), "port": Exact(64), "is_switch": sa.Boolean()}, ["peer", "switch", "port"], ["switch"],
    ),
    "topology_members": ({"node": Exact(255), "kind": Exact(64), "name": Exact(255)}, ["node", "kind"], ["name", "kind"]),
    "topology_failovers": ({"file_system": Exact(255), "target": Exact(255), "server": Exact(255)}, ["file_system", "target"], []),
    "topology_serving": (
        {"file_system": Exact(255), "target": Exact(255), "server": Exact(255), "is_failover": sa.Boolean()}, ["file_system", "target"], ["server"],
    ),
}  # fmt: skip


def upgrade() -> None:
    steps.create_table(
        "topology_changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("applied_ns", sa.BigInteger(), nullable=False),
        sa.Column("applied_by", Exact(255), nullable=False),
        sa.Column("source", Exact(4096), nullable=False),
        sa.Column("note", Exact(4096), nullable=False),
        sa.Column("digest", Exact(64), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("removed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_topology_changes"),
    )
    for table, (fields, key, index) in FACTS.items():
        columns = [sa.Column(name, kind or sa.BigInteger(), nullable=kind is None) for name, kind in fields.items()]
        steps.create_table(
            table, *_valid(), *columns, sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
            sa.UniqueConstraint(*key, "from_ns", name=f"uq_{table}_{'_'.join([*key, 'from_ns'])}"),
        )  # fmt: skip
        if index:
            steps.create_index(f"ix_{table}_{index[0]}", table, index)
    steps.create_table(
        "topology_moves",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("file_system", Exact(255), nullable=False),
        sa.Column("target", Exact(255), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("server", Exact(255), nullable=False),
        sa.Column("source", Exact(64), nullable=False),
        sa.Column("told_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_topology_moves"),
        sa.UniqueConstraint("file_system", "target", "at_ns", "source", name="uq_topology_moves_file_system_target_at_ns_source"),
    )
    steps.create_table(
        "topology_layouts",
        *_valid(),
        sa.Column("file_system", Exact(255), nullable=False),
        sa.Column("file_id", Exact(64), nullable=False),
        sa.Column("path", Exact(4096)),
        sa.PrimaryKeyConstraint("id", name="pk_topology_layouts"),
    )
    steps.create_index("ix_topology_layouts_file_id", "topology_layouts", ["file_id"])
    steps.create_table(
        "topology_stripes",
        sa.Column("layout", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("part", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("place", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("first_byte", sa.BigInteger(), nullable=False),
        sa.Column("end_byte", sa.BigInteger(), nullable=False),
        sa.Column("stripe_bytes", sa.BigInteger(), nullable=False),
        sa.Column("target", Exact(512), nullable=False),
        sa.PrimaryKeyConstraint("layout", "part", "place", name="pk_topology_stripes"),
        sa.ForeignKeyConstraint(["layout"], ["topology_layouts.id"], name="fk_topology_stripes_layout_topology_layouts", ondelete="CASCADE"),
    )


def _valid() -> tuple[sa.Column, ...]:
    id = sa.Column("id", sa.Integer(), nullable=False)
    return id, *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("from_ns", "to_ns"))


def downgrade() -> None:
    for table in ("topology_stripes", "topology_layouts", "topology_moves", *FACTS, "topology_changes"):
        steps.drop_table(table)
