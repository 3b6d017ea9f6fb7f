"""The API behind real sockets: whose process is at the other end, and who is answered."""

import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from tests.unit.webapp.fakes import Site
from webapp.api import sockets
from webapp.serve import HttpServer

OTHER_UID = 54321
# Asks as another user, who may be unable to read Python's files; a line of JSON for each path: status and answer.
CHILD = """
import encodings.idna, http.client, json, os, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for path in sys.argv[3:]:
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=10)
    connection.request("GET", path, headers={"Remote-Port": "1"})
    answer = connection.getresponse()
    print(json.dumps([answer.status, answer.read().decode()]))
"""


@pytest.fixture
def port(tmp_path):
    """The port of a server on the site's app as `bellrock server` runs it."""
    site = Site(tmp_path, PEER_UID=sockets.peer_uid)
    server = HttpServer(site.app, "127.0.0.1", 0, threads=2)
    server.start()
    yield server.port
    server.stop()
    site.close()


def test_the_servers_own_user_is_answered(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/jobs", timeout=10) as answer:
        assert json.loads(answer.read())["jobs"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_is_refused(port):
    paths = ["/api/v1/jobs", "/api/v1/status", "/", "/healthz"]
    asked = subprocess.run([sys.executable, "-I", "-S", "-c", CHILD, str(OTHER_UID), str(port), *paths], cwd="/", capture_output=True, text=True, timeout=60)
    if "PermissionError" in asked.stderr:
        pytest.skip("cannot become another user here")
    *answers, health = [json.loads(line) for line in asked.stdout.splitlines()] or pytest.fail(asked.stderr)
    for status, text in answers:
        assert status == 403, text
        error = json.loads(text)["error"]
        assert error["code"] == "not_your_server" and "ssh -L" in error["hint"]
    assert health == [200, '{"status":"ok"}\n']


def connected(host="127.0.0.1", family=socket.AF_INET, client_family=None):
    """Both ends of a connection: client, server."""
    with socket.create_server((host, 0), family=family) as listener:
        client = socket.socket(client_family or family)
        client.connect(("::ffff:127.0.0.1" if client_family else host, listener.getsockname()[1]))
        server, _ = listener.accept()
    return client, server


def with_uid(uid, make):
    """What `make` gives when this thread is another user; the socket bears the uid that made it."""
    os.seteuid(uid)
    try:
        return make()
    finally:
        os.seteuid(0)


def no_service(*_):
    raise OSError("the kernel has no such service")


@pytest.fixture(params=["netlink", "tables"])
def owner(request, monkeypatch):
    """Both ways of finding the owner."""
    if request.param == "tables":
        monkeypatch.setattr(sockets, "_ask", no_service)
    else:
        monkeypatch.setattr(sockets, "_look_up", lambda *_: None)
        client, server = connected()
        if sockets.owner(client.getsockname(), server.getsockname()) is None:
            pytest.skip("this kernel does not tell of single sockets")
    return sockets.owner


@pytest.mark.parametrize(
    "ends", [{}, {"host": "127.0.0.7"}, {"host": "::1", "family": socket.AF_INET6}, {"client_family": socket.AF_INET6}], ids=["v4", "alias", "v6", "mapped"]
)  # fmt: skip
def test_the_owner_of_a_connection_is_found(owner, ends):
    uid = OTHER_UID if os.geteuid() == 0 else os.geteuid()
    try:
        client, server = with_uid(uid, lambda: connected(**ends)) if os.geteuid() == 0 else connected(**ends)
    except OSError as error:
        pytest.skip(f"no such address here: {error}")
    with client, server:
        peer, own = server.getpeername()[:2], server.getsockname()[:2]
        assert owner(peer, own) == uid
        assert owner((peer[0], peer[1] ^ 1), own) is None
        assert owner(peer, (own[0], own[1] ^ 1)) is None


def test_the_same_port_of_another_connection_does_not_count(owner):
    """A stranger who has root's port on a connection of his own to elsewhere, or root's closed socket, is not root."""
    client, server = connected()
    with server:
        peer, own = server.getpeername(), server.getsockname()
        assert owner(peer, own) == os.geteuid()
        assert owner(peer, ("127.0.0.9", own[1])) is None
        client.close()
        assert owner(peer, own) is None


@pytest.mark.parametrize("leave", [lambda client: client.close(), lambda client: client.shutdown(socket.SHUT_WR)], ids=["gone", "half closed"])
def test_no_table_is_read_for_who_has_gone_where_the_kernel_tells_of_sockets(monkeypatch, leave):
    monkeypatch.setattr(sockets, "_kernel_tells", threading.Event())
    tables = []
    monkeypatch.setattr(sockets, "_look_up", lambda *_: tables.append(1))
    client, server = connected()
    with server, client:
        peer, own = server.getpeername(), server.getsockname()
        if sockets.owner(peer, own) is None:
            pytest.skip("this kernel does not tell of single sockets")
        leave(client)
        assert sockets.owner(peer, own) is None and not tables
        # A kernel that has told of none so far may not know how.
        sockets._kernel_tells.clear()
        assert sockets.owner(peer, own) is None and tables == [1]


class Cut:
    """A question that is too short to be one."""

    def pack(self, *_):
        return b""


def test_tables_are_read_where_the_kernel_refuses_the_question(monkeypatch):
    monkeypatch.setattr(sockets, "_kernel_tells", threading.Event())
    sockets._kernel_tells.set()
    client, server = connected()
    with server, client:
        monkeypatch.setattr(sockets, "_REQUEST", Cut())
        assert sockets.owner(client.getsockname(), server.getsockname()) == os.geteuid()


@pytest.mark.parametrize("address", ["10.1.2.3", "::2", "0.0.0.0", "::ffff:10.0.0.1"])
def test_peers_beyond_this_machine_own_nothing(address):
    assert sockets.owner((address, 80), ("127.0.0.1", 80)) is None


def test_what_cannot_be_read_owns_nothing(monkeypatch, tmp_path):
    client, server = connected()
    monkeypatch.setattr(sockets, "PROC_NET", tmp_path)
    monkeypatch.setattr(sockets, "_ask", no_service)

    class Channel:
        socket = server

        def disconnected(self):
            return False

    environ = {"REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": str(client.getsockname()[1]), "waitress.client_disconnected": Channel().disconnected}
    assert sockets.peer_uid(environ) is None
    monkeypatch.undo()
    assert sockets.peer_uid(environ) == os.geteuid()
    assert sockets.peer_uid(environ | {"REMOTE_PORT": "None"}) is None
    client.close()
    server.close()


def test_many_sockets_do_not_make_it_slow(capsys):
    """No time is asserted; it is printed, with -s."""
    pairs = [connected() for _ in range(400)]
    client, server = pairs[0]
    times_s = []
    for _ in range(50):
        began_s = time.perf_counter()
        assert sockets.owner(client.getsockname(), server.getsockname()) == os.geteuid()
        times_s.append(time.perf_counter() - began_s)
    for pair in pairs:
        for end in pair:
            end.close()
    print(f"owner of one of {2 * len(pairs)} sockets: {statistics.median(times_s) * 1e3:.3f} ms")
