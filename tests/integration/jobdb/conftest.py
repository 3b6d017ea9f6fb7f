"""Every test with `url` runs on each of the three databases."""

import itertools

import pytest

from tests.databases import serving

KINDS = ("sqlite", "mariadb", "mysql")
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def mariadb(free_port):
    with serving("mariadb", free_port()) as server:
        yield server


@pytest.fixture(scope="session")
def mysql(free_port):
    with serving("mysql", free_port()) as server:
        yield server


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def new_url(kind, request, tmp_path_factory):
    """A function that gives the address of an empty database, each time another."""
    made = []

    def make():
        if kind == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('db') / 'jobs 100%.db'}"
        name = f"t{next(_numbers)}"
        made.append(name)
        # A default collation that would take "A" for "a" and "a " for "a".
        request.getfixturevalue(kind).ask(f"CREATE DATABASE {name} CHARACTER SET latin1")
        return request.getfixturevalue(kind).url(name)

    yield make
    for name in made:
        request.getfixturevalue(kind).ask(f"DROP DATABASE {name}")


@pytest.fixture
def url(new_url):
    return new_url()
