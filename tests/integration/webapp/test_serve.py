"""Connections of many users to the server of the pages: none can take the place of another's."""

import http.client
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from webapp import serve
from webapp.serve import HttpServer
from tests.wait import until

TIMEOUT_S = 30
OTHER_UID = 54321
THREADS = 2
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Users:
    """Says whose a connection is: another user's if it comes from one of `others`."""

    def __init__(self) -> None:
        self.others: set[int] = set()

    def __call__(self, client, server) -> int | None:
        return OTHER_UID if client[1] in self.others else os.geteuid()


@pytest.fixture
def users(monkeypatch) -> Users:
    known = Users()
    monkeypatch.setattr(serve, "owner", known)
    return known


@pytest.fixture
def start(users) -> Iterator[Callable[..., HttpServer]]:
    started: list[HttpServer] = []

    def make(app) -> HttpServer:
        started.append(HttpServer(app, "127.0.0.1", 0, THREADS))
        started[-1].start()
        return started[-1]

    yield make
    for server in started:
        server.stop()


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"hello"]


def connect(port: int, other: Users | None = None) -> socket.socket:
    """A connection; `other`: of another user."""
    client = socket.socket()
    client.settimeout(TIMEOUT_S)
    client.bind(("127.0.0.1", 0))
    if other is not None:
        other.others.add(client.getsockname()[1])
    client.connect(("127.0.0.1", port))
    return client


def ask(client: socket.socket) -> bytes:
    client.sendall(REQUEST)
    answer = http.client.HTTPResponse(client)
    answer.begin()
    return answer.read()


def open_still(clients: list[socket.socket]) -> int:
    def is_open(client: socket.socket) -> bool:
        client.setblocking(False)
        try:
            return client.recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    return sum(is_open(client) for client in clients)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"])
def test_what_another_user_holds_open_blocks_nobody(start, users, sent):
    server = start(hello)
    mine = connect(server.port)
    assert ask(mine) == b"hello"
    held = []
    for _ in range(300):
        held.append(connect(server.port, users))
        held[-1].sendall(sent)
    new = connect(server.port)
    assert ask(new) == b"hello" and ask(mine) == b"hello"
    third = connect(server.port, users)
    assert ask(third) == b"hello"
    until(lambda: open_still(held) < serve.OTHERS_MAX, "those that are too many to be closed")
    for client in (*held, mine, new, third):
        client.close()


def test_of_ones_own_the_idle_ones_go_and_one_that_is_answered_stays(start):
    begun, go_on = threading.Event(), threading.Event()

    def slow(environ, start_response):
        begun.set()
        assert go_on.wait(TIMEOUT_S)
        return hello(environ, start_response)

    server = start(slow)
    busy = connect(server.port)
    busy.sendall(REQUEST)
    assert begun.wait(TIMEOUT_S)
    idle = [connect(server.port) for _ in range(serve.OURS_MAX + 10)]
    until(lambda: open_still(idle) == serve.OURS_MAX - 1, "the idle ones to go")
    go_on.set()
    assert busy.recv(12) == b"HTTP/1.1 200"
    for client in (*idle, busy):
        client.close()


def test_requests_of_closed_connections_do_not_wait_for_a_thread(start, users):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(environ, start_response):
        begun.release()
        assert go_on.wait(TIMEOUT_S)
        return hello(environ, start_response)

    server = start(slow)
    busy = [connect(server.port) for _ in range(THREADS)]
    for client in busy:
        client.sendall(REQUEST)
        assert begun.acquire(timeout=TIMEOUT_S)
    held = []
    for _ in range(300):
        held.append(connect(server.port, users))
        held[-1].sendall(REQUEST)
    until(lambda: open_still(held) <= serve.OTHERS_MAX, "those that are too many to be closed")
    waiting = server._server.task_dispatcher.queue
    until(lambda: len(waiting) <= serve.OTHERS_MAX, "what they asked to be forgotten")
    assert waiting, "what the others asked is not"
    go_on.set()
    held[-1].settimeout(TIMEOUT_S)
    assert [client.recv(12) for client in (*busy, held[-1])] == [b"HTTP/1.1 200"] * (THREADS + 1)
    for client in (*busy, *held):
        client.close()


def test_another_user_gets_one_answer_a_connection(start, users):
    server = start(hello)
    with connect(server.port, users) as client:
        client.sendall(REQUEST * 100)
        said = b""
        while part := client.recv(65536):
            said += part
    assert said.count(b"HTTP/1.1 200 OK") == 1 and b"Connection: close" in said
    with connect(server.port) as client:
        assert [ask(client) for _ in range(3)] == [b"hello"] * 3


def test_large_bodies_and_headers_are_refused(start, users):
    server = start(hello)
    for text in (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000 + b"\r\n\r\n"):
        with connect(server.port) as client:
            client.sendall(text)
            try:
                assert client.recv(12)[9:] in (b"413", b"431")
            except ConnectionResetError:
                pass  # it was closed before all was read; else the server would wait for the rest


def test_an_idle_connection_ends(start, monkeypatch):
    monkeypatch.setattr(serve, "IDLE_S", 1)
    monkeypatch.setattr(serve, "LOOK_EVERY_S", 1)
    server = start(hello)
    with connect(server.port) as client:
        assert ask(client) == b"hello"
        assert client.recv(1) == b""
