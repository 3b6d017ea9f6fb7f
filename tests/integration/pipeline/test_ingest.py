"""The lumberjack server over real TCP, with a real store behind it."""

import logging
import os
import random
import socket
import stat
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jobdb.repository import JobDB
from pipeline import ingest as ingest_module
from pipeline.ingest import Ingest
from pipeline.listen import BindError, listen_unix
from pipeline.lumberjack import Limits
from pipeline.sink import StoreSink
from pipeline.store import Appended, StoreError
from tests.integration.pipeline.client import Client, deliver_all
from tests.unit.pipeline.events import T0, job_event, run_event, sample_event, take_one_by_one
from tests.unit.pipeline.frames import json_frame, window, window_frame
from tests.wait import until


class Gate:
    """A store in front of a store: it can be told to fail or to wait, and remembers the batches."""

    def __init__(self, store):
        self._store = store
        self.fails_with: BaseException | None = None
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()
        self.batches: list[int] = []

    def append(self, events) -> Appended:
        self.entered.set()
        assert self.open.wait(20)
        if self.fails_with is not None:
            raise self.fails_with
        appended = self._store.append(events)
        self.batches.append(len(events))
        return appended

    take = take_one_by_one


@pytest.fixture
def gate(store) -> Gate:
    return Gate(store)


@pytest.fixture
def job_events() -> list[dict]:
    return []


@pytest.fixture
def start(gate, job_events):
    """A function that starts an ingest on the gated store; all are stopped at the end."""
    started: list[Ingest] = []

    def make(on_job_event: Callable[[dict], None] = job_events.append, **settings) -> Ingest:
        ingest = Ingest(StoreSink(gate, on_job_event), **{"retry_first_s": 0.02, "keepalive_s": 0.05, "drain_timeout_s": 5, **settings})
        ingest.start()
        started.append(ingest)
        return ingest

    yield make
    gate.open.set()
    for ingest in started:
        ingest.stop()


def seqs(store) -> list[int]:
    return sorted(store.runs("local-1", ["seq"])["seq"].to_pylist())


@pytest.mark.parametrize("compress", [True, False])
def test_windows_are_stored_and_acknowledged(start, store, job_events, compress):
    ingest = start()
    with Client(ingest.port) as client:
        client.deliver([run_event(1), sample_event(2), job_event(3)], compress)
        # Durable by now: what was acknowledged can be read.
        assert seqs(store) == [1]
        assert [e["seq"] for e in job_events] == [3]
        client.deliver([run_event(4)], compress)
        client.send(window_frame(0))
        client.wait_for_ack(0)
    assert store.status()["records"] == {"run": 2, "sample": 1, "job": 1, "message": 0}
    status = ingest.status()
    assert (status["windows"], status["events"], status["accepted"], status["error"]) == (2, 4, 1, None)


def test_pipelined_windows_are_acknowledged_one_by_one(start, store):
    ingest = start(keepalive_s=20)
    with Client(ingest.port) as client:
        client.send(b"".join(window([run_event(n * 3 + i) for i in (1, 2, 3)][: n + 1]) for n in range(3)))
        assert [client.read_ack() for _ in range(3)] == [1, 2, 3]
    assert seqs(store) == [1, 4, 5, 7, 8, 9]


def test_sequence_numbers_that_run_on_over_windows_are_acknowledged_as_sent(start):
    ingest = start(keepalive_s=20)
    with Client(ingest.port) as client:
        client.send(window_frame(1) + json_frame(2**32 - 1, b"{}") + window_frame(2) + json_frame(0, b"{}") + json_frame(1, b"{}"))
        assert [client.read_ack(), client.read_ack()] == [2**32 - 1, 1]


def test_connections_cut_at_random_places_lose_and_double_nothing(start, store):
    ingest = start()
    rng = random.Random(3)
    events = [run_event(n) for n in range(1, 601)]
    at = 0
    for _ in range(60):
        part = events[at : at + rng.randint(1, 40)]
        if not part:
            break
        data = window(part, rng.random() < 0.5)
        with Client(ingest.port) as client:
            if rng.random() < 0.6:
                client.send(data[: rng.randrange(len(data))])
            elif rng.random() < 0.5:
                client.send(data)  # stored perhaps, but the client leaves before it hears of it
            else:
                client.send(data)
                client.wait_for_ack(len(part))
                at += len(part)
    deliver_all(ingest.port, events[at:], 50)
    assert seqs(store) == list(range(1, 601))
    assert store.status()["missing"] == 0
    until(lambda: ingest.status()["connections"] == 0, "all connections closed")


def test_many_clients_at_once_are_committed_together(start, store, gate):
    ingest = start()
    clients, windows, size = 12, 8, 25
    gate.open.clear()
    threads = []
    for boot in range(clients):
        events = [run_event(n, boot=f"{boot:x}", job=f"job-{boot}") for n in range(1, windows * size + 1)]
        threads.append(threading.Thread(target=deliver_all, args=(ingest.port, events, size)))
        threads[-1].start()
        # The first window is at the gate before there is another; the first ones of all others wait behind it.
        assert gate.entered.wait(20)
    until(lambda: ingest.status()["queued_windows"] == clients - 1, "a window of each client")
    gate.open.set()
    for thread in threads:
        thread.join()
    assert [store.version(f"job-{boot}") for boot in range(clients)] == [windows * size] * clients
    assert sum(gate.batches) == clients * windows * size
    assert max(gate.batches) >= (clients - 1) * size


def test_nothing_is_acknowledged_before_it_is_durable(start, gate, store):
    ingest = start()
    gate.open.clear()
    with Client(ingest.port) as client:
        client.send(window([run_event(1)]))
        assert gate.entered.wait(20)
        assert [client.read_ack() for _ in range(3)] == [0, 0, 0]  # keepalives while it waits
        gate.open.set()
        client.wait_for_ack(1)
    assert seqs(store) == [1]


def test_a_failing_store_holds_clients_back_until_it_recovers(start, gate, store, caplog):
    ingest = start()
    gate.fails_with = StoreError("cannot append to records.duckdb: No space left on device")
    with Client(ingest.port) as client, caplog.at_level(logging.ERROR):
        client.send(window([run_event(1), job_event(2)]))
        until(lambda: ingest.status()["store_errors"] >= 3, "three tries")
        assert ingest.status()["error"] == "cannot append to records.duckdb: No space left on device"
        assert "2 events wait, next try in" in caplog.text and "No space left" in caplog.text
        gate.fails_with = None
        client.wait_for_ack(2)
        assert client.keepalives > 0
    assert seqs(store) == [1]
    assert ingest.status()["error"] is None


def test_an_unforeseen_error_cuts_the_client_off_and_spares_the_rest(start, gate, store, caplog):
    ingest = start()
    gate.fails_with = RuntimeError("bug")
    with Client(ingest.port) as client:
        client.send(window([run_event(1)]))
        assert client.closed_by_server()
    assert "a batch of 1 windows failed" in ingest.status()["error"] and "bug" in caplog.text
    gate.fails_with = None
    assert deliver_all(ingest.port, [run_event(1)], 1) == 1
    assert seqs(store) == [1]
    assert ingest.status()["error"] is None


def test_a_job_event_that_is_not_taken_is_sent_again(start, store, caplog):
    taken: list[int] = []
    refusals = iter([True, True, False, False])

    def on_job_event(event):
        if next(refusals):
            raise RuntimeError("database is locked")
        taken.append(event["seq"])

    ingest = start(on_job_event)
    assert deliver_all(ingest.port, [run_event(1), job_event(2), run_event(3), job_event(4)], 4) == 3
    assert taken == [2, 4]
    assert ingest.status()["job_event_errors"] == 2
    assert "job event of job 'local-1' was not taken" in caplog.text and "database is locked" in caplog.text
    # The rows were stored the first time; the resends were duplicates.
    assert store.status()["records"] == {"run": 2, "sample": 0, "job": 2, "message": 0}
    assert seqs(store) == [1, 3]


def test_job_events_are_passed_on_again_when_sent_again_but_never_bad_ones(start, job_events):
    ingest = start()
    for _ in range(2):
        deliver_all(ingest.port, [job_event(1), job_event(2, event="paused"), job_event(3, event="end", exit_code=0), job_event(4, time=5)], 4)
    assert [(e["seq"], e["event"]) for e in job_events] == [(1, "start"), (3, "end")] * 2


def test_job_events_that_the_store_refuses_change_no_job(start, job_events):
    ingest = start()
    other = job_event(2, job="local-1", event="end", exit_code=1)
    deliver_all(ingest.port, [run_event(1), job_event(2), other, job_event(2**40), job_event(3), job_event(3)], 6)
    deliver_all(ingest.port, [run_event(4), job_event(4), job_event(2**41)], 1)
    assert [(e["seq"], e["event"]) for e in job_events] == [(2, "start"), (3, "start"), (3, "start")]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (3, 0, 2, 1), (1, 3, 2, 0)])
def test_an_end_that_an_agent_tells_for_a_killed_launcher_never_replaces_the_launchers_own(start, tmp_path, order):
    jobs = JobDB(f"sqlite:///{tmp_path / 'jobs.db'}")
    ingest = start(jobs.apply_event)
    told = [
        {"event": "start", "time": T0 + 1000},
        {"event": "end", "exit_code": None, "time": T0 + 9000},
        {"event": "end", "exit_code": None, "time": T0 + 8000},  # again, by the agent that came after
    ]
    deliver_all(ingest.port, [job_event(number, **event) for number, event in enumerate(told, 1)], 1)
    job = jobs.job("local-1")
    assert (job.state, job.settled, job.exit_code, job.end_ns) == ("failed", True, None, T0 + 8000)
    told.append({"event": "end", "exit_code": 0, "time": T0 + 7000})
    deliver_all(ingest.port, [job_event(number, **told[place]) for number, place in enumerate(order, 4)], 2)
    job = jobs.job("local-1")
    jobs.close()
    assert (job.state, job.exit_code, job.start_ns, job.end_ns) == ("completed", 0, T0 + 1000, T0 + 7000)


def test_bad_payloads_become_dead_letters_and_do_not_block(start, store):
    ingest = start()
    payloads = [b"{not json", b"\xff\xfe", b"[1]", b"null", b"{}", b'{"kind":"run","node":"\\ud800"}', b"[" * 5000]
    with Client(ingest.port) as client:
        client.send(window_frame(len(payloads)) + b"".join(json_frame(n, p) for n, p in enumerate(payloads, 1)))
        client.wait_for_ack(len(payloads))
        client.deliver([run_event(1), run_event(2, size="big"), run_event(3)])
    assert seqs(store) == [1, 3]
    assert store.status()["dead_letters"] == len(payloads) + 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "expected version '2', got 'G'"),
        (b"2D\0\0\0\1\0\0\0\1", "key-value data frame (D) is not supported"),
        (window_frame(1) + b"2C\0\0\0\4abcd", "byte 6: compressed frame is garbled"),
        (window_frame(10**6), "window of 1000000 events; the bound is 1000"),
        (window([run_event(1), run_event(2)])[:-1], "cut within a frame: it began at byte 6"),
    ],
)
def test_what_is_no_lumberjack_is_logged_and_closed(start, store, caplog, data, message):
    ingest = start(limits=Limits(window_events=1000))
    with Client(ingest.port) as client:
        client.send(data)
        client._socket.shutdown(socket.SHUT_WR)
        assert client.closed_by_server()
    until(lambda: ingest.status()["protocol_errors"] == 1, "the error to be counted")
    assert message in caplog.text and "closed 127.0.0.1:" in caplog.text
    assert deliver_all(ingest.port, [run_event(1)], 1) == 1
    assert seqs(store) == [1]


def test_a_window_that_stalls_is_given_up_but_an_idle_connection_is_not(start):
    ingest = start(window_timeout_s=0.2)
    with Client(ingest.port) as idle, Client(ingest.port) as stalled:
        stalled.send(window([run_event(1)])[:10])
        assert stalled.closed_by_server()
        idle.deliver([run_event(1)])


def test_connections_are_bounded(start, caplog):
    ingest = start(connections_max=2)
    with Client(ingest.port) as one, Client(ingest.port) as two:
        one.deliver([run_event(1)])
        two.deliver([run_event(2)])
        with Client(ingest.port) as three:
            with pytest.raises(ConnectionError):
                three.deliver([run_event(3)])
        assert ingest.status()["refused"] == 1
        assert "2 connections are open, the bound is 2" in caplog.text
    until(lambda: ingest.status()["connections"] == 0, "free places")
    assert deliver_all(ingest.port, [run_event(3)], 1) == 1


def test_a_reset_connection_harms_nobody(start, store):
    ingest = start()
    for n in range(1, 11):
        client = Client(ingest.port)
        client.send(b"".join(window([run_event(i)]) for i in range(1, n + 1)))
        client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    deliver_all(ingest.port, [run_event(n) for n in range(1, 11)], 3)
    assert seqs(store) == list(range(1, 11))


def test_stop_writes_and_acknowledges_what_has_come_whole(start, gate, store):
    ingest = start()
    gate.open.clear()
    with Client(ingest.port) as client, Client(ingest.port) as idle:
        client.send(window([run_event(1)]))
        assert gate.entered.wait(20)
        stopper = threading.Thread(target=ingest.stop)
        stopper.start()
        assert idle.closed_by_server()
        gate.open.set()
        client.wait_for_ack(1)
        stopper.join(20)
        assert not stopper.is_alive()
        assert client.closed_by_server()
    assert seqs(store) == [1]
    with pytest.raises(ConnectionError):
        Client(ingest.port)


def test_stop_gives_up_on_a_store_that_fails(start, gate):
    ingest = start(drain_timeout_s=0.2, retry_first_s=0.01)
    gate.fails_with = StoreError("disk full")
    with Client(ingest.port) as client:
        client.send(window([run_event(1)]))
        until(lambda: ingest.status()["store_errors"] > 0, "a failed try")
        ingest.stop()
        assert client.closed_by_server()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.7"])
def test_only_loopback_addresses_are_listened_on(gate, host):
    with pytest.raises(BindError, match="only loopback is allowed; set its host to 127.0.0.1, or"):
        Ingest(StoreSink(gate), host)


def test_an_unknown_host_and_a_taken_port_are_told(gate, start):
    with pytest.raises(BindError, match="cannot listen on 'no host'"):
        Ingest(StoreSink(gate), "no host")
    taken = start()
    with pytest.raises(OSError):
        start(port=taken.port)
    assert Ingest(StoreSink(gate), "localhost").status()["connections"] == 0


class UnixClient(Client):
    """The same client on a Unix socket, by way of the folder, since the path may be longer than an address."""

    def __init__(self, path: Path) -> None:
        folder = os.open(path.parent, os.O_PATH)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        try:
            self._socket.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        self.keepalives = 0


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    """A place for a socket, deeper than an address is long."""
    folder = tmp_path / ("d" * 120)
    folder.mkdir(mode=0o700)
    return folder / "ingest.sock"


def test_a_socket_takes_records_and_no_port_is_open(start, store, socket_path):
    listener = listen_unix(socket_path)
    assert stat.S_IMODE(socket_path.stat().st_mode) == 0o600
    with UnixClient(socket_path) as early:
        early.send(window([run_event(1)]))  # before anybody accepts
        ingest = start(port=None, unix=listener)
        early.wait_for_ack(1)
    with pytest.raises(RuntimeError, match="has no port"):
        _ = ingest.port
    ingest.stop()
    with pytest.raises(ConnectionError):
        UnixClient(socket_path)
    # What a dead server left there is replaced.
    start(port=None, unix=listen_unix(socket_path))
    with UnixClient(socket_path) as client:
        client.deliver([run_event(2)])
    assert seqs(store) == [1, 2]


def test_a_socket_and_a_port_at_once(start, store, socket_path):
    ingest = start(unix=listen_unix(socket_path))
    with UnixClient(socket_path) as one, Client(ingest.port) as two:
        one.deliver([run_event(1)])
        two.deliver([run_event(2)])
    assert seqs(store) == [1, 2]


def test_at_a_socket_the_oldest_connection_makes_room(start, socket_path, caplog):
    start(port=None, unix=listen_unix(socket_path), peer_connections_max=1)
    with UnixClient(socket_path) as old, UnixClient(socket_path) as new:
        new.deliver([run_event(1)])
        assert old.closed_by_server()
    assert "took the place of its oldest connection: it may have 1" in caplog.text and "tls.md" not in caplog.text, "of that page nothing holds here"


def test_another_user_may_not_deliver_to_a_socket(start, store, socket_path, monkeypatch, caplog):
    ingest = start(port=None, unix=listen_unix(socket_path))
    monkeypatch.setattr(ingest_module, "_may_deliver", lambda uid: uid != os.getuid())
    with UnixClient(socket_path) as client:
        assert client.closed_by_server()
    assert ingest.status()["refused"] == 1 and f"refused process {os.getpid()} of user {os.getuid()}" in caplog.text
    monkeypatch.undo()
    with UnixClient(socket_path) as client:
        client.deliver([run_event(1)])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_even_an_open_folder_lets_no_other_user_deliver(start, store, socket_path, caplog):
    start(port=None, unix=listen_unix(socket_path))
    socket_path.parent.chmod(0o711)
    socket_path.chmod(0o666)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(socket_path.parent)
            os.setresuid(65534, 65534, 65534)
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(socket_path.name)
                stranger.settimeout(20)
                code = 0 if stranger.recv(6) == b"" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert f"refused process {child} of user 65534" in caplog.text
