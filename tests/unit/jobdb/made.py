"""A job database for each test, of which the tables are made once: to bring a new file through all migrations takes longer than most tests."""

import tempfile
from functools import cache
from pathlib import Path

from jobdb.repository import JobDB


@cache
def _tables() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.db"
        JobDB(f"sqlite:///{path}").close()
        return path.read_bytes()


def made(path: Path) -> str:
    """The address of a new file with the tables and views of the last migration, and nothing in them."""
    path.write_bytes(_tables())
    return f"sqlite:///{path}"
