"""The numbered steps; Alembic finds them by their files."""
