"""A site with an authority, a server with certificates of it, and what both sides' tests share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from pipeline.tls import TlsFiles
from tests.unit.pipeline.events import take_one_by_one
from tests.integration.pipeline.tls.certificates import Authority, Pair
from tests.integration.pipeline.tls.machine import Machine


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the server does not trust."""
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def node(site: Authority) -> Pair:
    """A certificate for the node of the tests' events and another."""
    return site.issue("node", "cn1", "cn2")


@pytest.fixture
def files(site: Authority, tmp_path: Path) -> TlsFiles:
    """The server's files, in a folder of the test's own."""
    ours = Pair(tmp_path / "server.crt", tmp_path / "server.key")
    ours.replace(site.issue("server", "localhost", "127.0.0.1"))
    authorities = tmp_path / "client_ca.crt"
    authorities.write_bytes(site.certificate.read_bytes())
    return TlsFiles(ours.cert, ours.key, authorities)


class Books:
    """A store in front of a store that counts what came as new, what came again and what never came."""

    def __init__(self, store) -> None:
        self._store = store
        self.stored = self.duplicates = self.missing = 0

    def append(self, events):
        appended = self._store.append(events)
        self.stored += appended.runs + appended.samples + appended.jobs
        self.duplicates += appended.duplicates
        self.missing += appended.missing + appended.dead_letters
        return appended

    take = take_one_by_one


@pytest.fixture
def books(store) -> Books:
    return Books(store)


@pytest.fixture
def start(books: Books, files: TlsFiles, caplog) -> Iterator[Callable[..., Ingest]]:
    """A function that starts an ingest with the site's certificates; all are stopped at the end."""
    caplog.set_level("INFO")
    started: list[Ingest] = []

    def make(**settings) -> Ingest:
        ingest = Ingest(StoreSink(books), **{"tls": files, "drain_timeout_s": 5, "look_every_s": 0.05, **settings})
        ingest.start()
        started.append(ingest)
        return ingest

    yield make
    for ingest in started:
        ingest.stop()


@pytest.fixture
def machine(state, site: Authority, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Makes the node; `pair` and `authority` are the site's own where they are not given."""
    made: list[Machine] = []

    def make(port: int, pair: Pair | None = None, authority: Authority | None = None) -> Machine:
        folder = tmp_path / "node"
        folder.mkdir()
        made.append(Machine(folder, state.rings_dir, port, (authority or site).certificate, pair or site.issue("node", "cn1")))
        return made[-1]

    yield make
    for one in made:
        one.end()
