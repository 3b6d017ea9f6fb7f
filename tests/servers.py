"""Real servers for tests, as fixtures. Each starts when the first test asks for it, on free ports, and ends with the session.

A server whose programs are not on this machine skips the tests that ask for it, with the command that gets them; one that fails to
start fails them. For kills use a server of the test's own, in `server_folder`."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bellrock.stack import Missing
from bellrock.stack.elasticsearch import Elasticsearch, Security
from bellrock.stack.mysql import MySql
from bellrock.stack.process import Server, end_below
from bellrock.stack.redis import Redis
from bellrock.stack.sql import Account
from bellrock.stack.tls import Tls, certificate
from tests.mariadb import MariaDb

PREFIX = "bellrock-servers-"
MEMORY, MEMORY_FREE_MIN = Path("/dev/shm"), 8 << 30
# Of the servers that the session shares.
PASSWORD = "test-password"
ACCOUNT = Account("bellrock", PASSWORD, ("ALL PRIVILEGES ON *.*", "GRANT OPTION ON *.*"))


def started(server: Server, *, wait: bool = True) -> Server:
    """Starts a server; skips the test where its programs are missing."""
    try:
        server.start(wait=wait)
    except Missing as missing:
        pytest.skip(str(missing))
    return server


@pytest.fixture(scope="session")
def servers_dir() -> Iterator[Path]:
    """A folder for servers, open enough for the unprivileged user that they run as. What still runs below it at the end is ended, and so is
    what a session left that was killed. It lies in memory where there is room: a database syncs each change of a table, and tests make many."""
    yield from servers_below(MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_FREE_MIN else Path(tempfile.gettempdir()))


def servers_below(parent: Path) -> Iterator[Path]:
    """What `servers_dir` gives, below a folder."""
    for left in parent.glob(f"{PREFIX}*"):
        _clear_if_left(left)
    made = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}", dir=parent))
    made.chmod(0o711)
    lock = os.open(made / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Only now has it the name by which another session, which may begin at once, would clear what nobody holds.
    folder = made.rename(parent / made.name.removeprefix("new-"))
    try:
        yield folder
    finally:
        left_running = end_below(folder)
        os.close(lock)
        shutil.rmtree(folder)
    assert not left_running, f"still running at the end of the tests: {', '.join(left_running)}"


def _clear_if_left(folder: Path) -> None:
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # just being made or removed, or another user's
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end_below(folder)
        shutil.rmtree(folder)
    except BlockingIOError:
        pass  # its session lives
    finally:
        os.close(lock)


@pytest.fixture
def server_folder(servers_dir: Path) -> Iterator[Callable[[], Path]]:
    """A function that gives a new folder for a server of this test's own; what runs there at the test's end is killed."""
    given: list[Path] = []

    def folder() -> Path:
        path = Path(tempfile.mkdtemp(prefix="own-", dir=servers_dir))
        path.chmod(0o711)
        given.append(path)
        return path / "server"

    yield folder
    for path in given:
        end_below(path)
        shutil.rmtree(path)


@pytest.fixture(scope="session")
def server_tls(servers_dir: Path) -> Tls:
    """A certificate for servers on 127.0.0.1 and localhost, and the authority that clients need."""
    return certificate(servers_dir / "ca", "server")


def _shared(server: Server) -> Iterator[Server]:
    yield started(server)
    server.stop()


@pytest.fixture(scope="session")
def redis_server(servers_dir: Path) -> Iterator[Redis]:
    """A Redis with PASSWORD, appendfsync always, 256 MB at most."""
    yield from _shared(Redis(servers_dir / "redis", password=PASSWORD))  # type: ignore[misc]


@pytest.fixture(scope="session")
def mysql_server(servers_dir: Path, server_tls: Tls) -> Iterator[MySql]:
    """A MySQL with ACCOUNT, who may do everything, and an empty database `bellrock`; TLS is asked for over TCP."""
    yield from _shared(MySql(servers_dir / "mysql", accounts=[ACCOUNT], tls=server_tls))  # type: ignore[misc]


@pytest.fixture(scope="session")
def mariadb_server(servers_dir: Path, server_tls: Tls) -> Iterator[MariaDb]:
    """The same with MariaDB."""
    yield from _shared(MariaDb(servers_dir / "mariadb", accounts=[ACCOUNT], tls=server_tls))  # type: ignore[misc]


@pytest.fixture(scope="session")
def elasticsearch_server(servers_dir: Path) -> Iterator[Elasticsearch]:
    """A node alone, in group g1, without security."""
    yield from _shared(Elasticsearch(servers_dir / "elasticsearch", name="g1", group="g1"))  # type: ignore[misc]


@pytest.fixture(scope="session")
def elasticsearch_secured(servers_dir: Path, server_tls: Tls) -> Iterator[Elasticsearch]:
    """A node alone, in group g1, with TLS and the user bellrock_admin, whose password is PASSWORD."""
    security = Security(server_tls, PASSWORD)
    yield from _shared(Elasticsearch(servers_dir / "elasticsearch-secured", name="g1", group="g1", security=security))  # type: ignore[misc]
