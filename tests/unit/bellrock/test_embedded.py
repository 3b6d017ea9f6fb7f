import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import DatabaseError

from bellrock import embedded
from bellrock.errors import EXIT_UNAVAILABLE, BellrockError, ServerFault, Unavailable, UsageError
from bellrock.state import StateHeld
from jobdb.repository import JobDBError
from pipeline.store import StoreError
from tests.wait import until


class FakeServer:
    """Stands for bellrock.server.Server; what start() does is the test's."""

    begin = staticmethod(lambda: None)

    def __init__(self, config: object, state: Path, kind: str) -> None:
        self.config, self.state, self.url = config, state, "http://127.0.0.1:1"
        self.stopped = False

    def start(self) -> None:
        self.begin()

    def stop(self) -> None:
        self.stopped = True

    def status(self) -> dict:
        return {"agent": None}


@pytest.fixture
def server(state, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeServer]]:
    (state.state_dir / "server.toml").write_text("[agent]\nrun = false\n")
    kind = type("Fake", (FakeServer,), {})
    monkeypatch.setattr(embedded, "Server", kind)
    yield kind


def raising(error: Exception):
    def begin() -> None:
        raise error

    return staticmethod(begin)


@pytest.mark.parametrize(
    ("error", "what", "hint"),
    [
        (StoreError("cannot open /s/records.duckdb: not a database"), "/s/records.duckdb", "records.duckdb.damaged"),
        (StoreError("cannot open /s/records.duckdb: lock. Another process owns it: ask"), "/s/records.duckdb", "end that process"),
        (JobDBError("sqlite:////s/jobs.db: a newer Bellrock made it"), "jobs.db", ""),
        (DatabaseError("SELECT", {}, Exception("file is not a database")), "jobs.db: file is not a database", "jobs.db.damaged"),
        (OSError(28, "No space left on device", "/s/agent.toml"), "/s/agent.toml: No space", "df "),
        (OSError(98, "Address already in use"), "port", "again"),
        (BellrockError("/dev/shm/bellrock-7 is not yours", "set BELLROCK_RINGS"), "/dev/shm/bellrock-7", "BELLROCK_RINGS"),
    ],
)
def test_a_server_that_cannot_start_says_what_where_and_what_next(server, error: Exception, what: str, hint: str) -> None:
    server.begin = raising(error)
    with pytest.raises(ServerFault) as fault:
        embedded.obtain("jobs")
    assert what in fault.value.what and hint in fault.value.hint and fault.value.exit_code == EXIT_UNAVAILABLE


def test_an_error_of_ours_and_one_that_nobody_knows_stay_what_they_are(server) -> None:
    for error in (UsageError("x"), ZeroDivisionError()):
        server.begin = raising(error)
        with pytest.raises(type(error)):
            embedded.obtain("jobs")


def test_nothing_is_started_that_is_not_wanted_any_more(server) -> None:
    server.begin = raising(AssertionError("started"))
    answers = iter([True, False])
    with pytest.raises(Unavailable):
        embedded.obtain("run", wanted=lambda: next(answers))
    # Nor is a state that another command holds waited for.
    server.begin = raising(StateHeld("held"))
    answers = iter([True, True, False])
    with pytest.raises(Unavailable, match="not needed"):
        embedded.obtain("run", wanted=lambda: next(answers))


def test_a_start_that_hangs_holds_nobody_up(server) -> None:
    hangs, reached = threading.Event(), threading.Event()

    def begin() -> None:
        reached.set()
        hangs.wait()

    server.begin = staticmethod(begin)
    keeper = embedded.Keeper("run")
    keeper.start()
    try:
        assert reached.wait(10)
        began = time.monotonic()
        with pytest.raises(Unavailable):
            keeper.client()
        keeper.leave()
        assert time.monotonic() - began < embedded.LEAVE_S + 1
    finally:
        hangs.set()


def test_a_keeper_tells_what_went_wrong_and_what_was_put_right(server) -> None:
    server.begin = raising(StoreError("cannot open /s/records.duckdb: not a database"))
    keeper = embedded.Keeper("run")
    keeper.start()

    until(lambda: keeper._fault)
    with pytest.raises(Unavailable):  # sought anew, since whoever asks now may have put it right
        keeper.client()
    until(lambda: keeper._fault)
    with pytest.raises(ServerFault, match="records.duckdb"):
        keeper.client()
    server.begin = staticmethod(lambda: None)
    keeper._wake.set()
    until(lambda: keeper.is_own)
    own = keeper._lease.own
    assert keeper.client().url == own.url
    keeper.stop()
    assert own.stopped and not keeper.is_own


def test_a_keeper_whose_thread_never_began_can_be_ended(server) -> None:
    keeper = embedded.Keeper("run")
    with pytest.raises(ServerFault):
        keeper.client()
    keeper.leave()
    keeper.stop()
