"""Steps of migrations that do nothing where they were done already: on MySQL a migration that was killed amid is run again from its start."""

import sqlalchemy as sa
from alembic import op


def tables() -> set[str]:
    """The tables that there are."""
    return set(sa.inspect(op.get_bind()).get_table_names())


def columns(table: str) -> set[str]:
    """The columns of a table; none where it is not there."""
    return {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)} if table in tables() else set()


def create_table(name: str, *parts: sa.Column | sa.Constraint) -> None:
    """Makes a table, with its constraints in the same statement."""
    if name not in tables():
        op.create_table(name, *parts)


def drop_table(name: str) -> None:
    """Removes a table."""
    if name in tables():
        op.drop_table(name)


def create_index(name: str, table: str, names: list[str]) -> None:
    """Makes an index."""
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, names)


def drop_index(name: str, table: str) -> None:
    """Removes an index."""
    if name in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.drop_index(name, table)


def add_column(table: str, column: sa.Column) -> None:
    """Adds a column, which must be nullable or have a default: there may be rows."""
    if column.name not in columns(table):
        op.add_column(table, column)


def change_unique(table: str, new: tuple[str, list[str]], old: tuple[str, list[str]]) -> None:
    """Makes a unique constraint (name, columns) in place of another."""
    there = {constraint["name"] for constraint in sa.inspect(op.get_bind()).get_unique_constraints(table)}
    with op.batch_alter_table(table) as batch:
        if new[0] not in there:
            batch.create_unique_constraint(*new)
        if old[0] in there:
            batch.drop_constraint(old[0], type_="unique")


def drop_columns(table: str, names: list[str]) -> None:
    """Removes columns, and what is in them."""
    there = [name for name in names if name in columns(table)]
    if not there:
        return
    if op.get_context().dialect.name == "sqlite":
        with op.batch_alter_table(table) as batch:
            for name in there:
                batch.drop_column(name)
    else:
        # Without FORCE they would stay in the rows, unseen, until these are written anew.
        op.execute(f"ALTER TABLE {table} {', '.join(f'DROP COLUMN {name}' for name in there)}, FORCE")
