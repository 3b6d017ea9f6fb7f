"""Every test with `url` runs on each of the three databases: on MySQL in `make test-site`, since it takes MariaDB's time again."""

import itertools

import pymysql
import pytest

from jobdb.address import Access
from tests.servers import ACCOUNT

KINDS = ("sqlite", "mariadb", pytest.param("mysql", marks=pytest.mark.long))
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def password_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("password") / "bellrock.password"
    path.touch(0o600)
    path.write_text(f"{ACCOUNT.password}\n")
    return str(path)


@pytest.fixture
def ask():
    """A function that runs statements on a server of the stack as ACCOUNT, and gives the rows of the last."""

    def run(server, *statements):
        connection = pymysql.connect(unix_socket=str(server.socket), user=ACCOUNT.name, password=ACCOUNT.password, autocommit=True)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    return run


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def server(kind, request):
    """The server of `kind`; None for SQLite."""
    return None if kind == "sqlite" else request.getfixturevalue(f"{kind}_server")


@pytest.fixture
def new_url(server, ask, password_file, tmp_path_factory):
    """A function that gives the way to an empty database, each time another."""
    made = []

    def make():
        if server is None:
            return Access(f"sqlite:///{tmp_path_factory.mktemp('db') / 'jobs 100%.db'}")
        name = f"t{next(_numbers)}"
        made.append(name)
        # A default collation that would take "A" for "a" and "a " for "a".
        ask(server, f"CREATE DATABASE {name} CHARACTER SET latin1")
        return Access(server.url(ACCOUNT.name, name), password_file, str(server.ca))

    yield make
    for name in made:
        ask(server, f"DROP DATABASE {name}")


@pytest.fixture
def url(new_url):
    return new_url()
