"""Alembic migrations of the job database, numbered and reversible; `JobDB` runs them when it opens."""
