"""The wiring, with a small program in the agent's place."""

import dataclasses
import socket
import stat
import time
import tomllib
from pathlib import Path

import pytest

from bellrock import config, paths
from bellrock.embedded import embedded_config
from bellrock.errors import BellrockError, Unavailable, UsageError
from bellrock.server import SOCKET, Server
from bellrock.state import where

SCRIPT = """#!/bin/sh
[ -S "{socket}" ] && echo socket >> {log} || echo none >> {log}
trap 'exit 0' TERM
while :; do sleep 0.02; done
"""


@pytest.fixture
def build(state, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of built things whose agent only writes down whether the socket was there when it started."""
    folder = tmp_path / "build"
    folder.mkdir()
    agent = folder / paths.AGENT
    agent.write_text(SCRIPT.format(socket=state.state_dir / SOCKET, log=tmp_path / "log"))
    agent.chmod(0o755)
    monkeypatch.setenv("BELLROCK_BUILD", str(folder))
    return folder


def settings(**more: object) -> config.Config:
    return config.parse({"http": {"port": 0}, **more}, "test")


def listening_ports() -> set[int]:
    """Every TCP port of this machine's that somebody listens on."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {int(words[1].rsplit(":", 1)[1], 16) for words in lines if words[3] == "0A"}


def test_the_agent_delivers_to_a_socket_that_is_there_before_it_and_no_port_takes_records(state, build, tmp_path) -> None:
    server = Server(settings(), state.state_dir)
    server.start()
    try:
        path = state.state_dir / SOCKET
        written = tomllib.loads((state.state_dir / "agent.toml").read_text())
        assert written["server"] == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert server.ingest_port == 0 and server.status()["ingest"]["connections"] == 0
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
    finally:
        server.stop()
    assert (tmp_path / "log").read_text().split() == ["socket"]
    assert not path.exists() and where(state.state_dir) is None


def test_a_port_for_records_is_open_where_it_is_wished_for(state, build, free_port) -> None:
    port = free_port()
    server = Server(settings(ingest={"port": port}, agent={"run": False}), state.state_dir)
    server.start()
    try:
        assert server.ingest_port == port and port in listening_ports()
        assert (state.state_dir / SOCKET).is_socket()
    finally:
        server.stop()
    assert port not in listening_ports()


def test_certificates_of_the_settings_are_used_and_bad_ones_told(state, build, free_port, tmp_path, caplog) -> None:
    paths_of = {f"tls_{name}": str(tmp_path / name) for name in ("cert", "key", "client_ca")}
    given = settings(ingest={"port": free_port(), "host": "0.0.0.0", **paths_of}, agent={"run": False})
    with pytest.raises(UsageError, match=f"{tmp_path}/client_ca: No such file") as error:
        Server(given, state.state_dir).start()
    assert "server.toml" in error.value.hint and not (state.state_dir / SOCKET).exists()
    # A command that brings a server of its own opens no port, and needs none of them.
    closed = dataclasses.replace(given, ingest=dataclasses.replace(given.ingest, port=0))
    server = Server(closed, state.state_dir)
    server.start()
    server.stop()
    assert "ingest.tls_cert is set and ingest.port is not" in caplog.text


def test_a_command_beside_a_server_whose_port_is_on_its_command_line_reads_the_same_file(state, tmp_path) -> None:
    lines = ["[ingest]", 'host = "0.0.0.0"', *(f'tls_{name} = "/x"' for name in ("cert", "key", "client_ca"))]
    (state.state_dir / "server.toml").write_text("\n".join(lines))
    assert embedded_config(state.state_dir).ingest.port == 0
    assert config.load(None, state.state_dir, {"ingest.port": 5044}).ingest.tls


def test_an_address_of_another_machine_is_told(state, build) -> None:
    given = settings(ingest={"port": 5044, "host": "192.0.2.7", **{f"tls_{name}": "/x" for name in ("cert", "key", "client_ca")}})
    with pytest.raises(Unavailable, match="cannot listen on 192.0.2.7"):
        Server(given, state.state_dir).start()


def test_a_start_that_fails_leaves_nothing_behind(state, build, free_port) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for section in ("http", "ingest"):
            with pytest.raises(Unavailable, match=f"{section}.port"):
                Server(settings(**{section: {"port": taken.getsockname()[1]}}), state.state_dir).start()
    assert not (state.state_dir / SOCKET).exists() and where(state.state_dir) is None
    Server(settings(), state.state_dir)._lock.acquire(patience_s=0)


def test_a_file_system_without_sockets_is_told(state, build) -> None:
    (state.state_dir / SOCKET).mkdir()
    with pytest.raises(BellrockError, match="no socket can be made") as error:
        Server(settings(), state.state_dir).start()
    assert "BELLROCK_STATE" in error.value.hint


def test_a_central_server_takes_no_records_and_follows_the_job_events_of_its_store(state, build, free_port, tmp_path) -> None:
    """Where Elasticsearch is away it waits, and says so."""
    given = {"store": {"kind": "elasticsearch"}, "elasticsearch": {"urls": [f"http://127.0.0.1:{free_port()}"]}}
    server = Server(settings(**given), state.state_dir)
    server.start()
    try:
        until = time.monotonic() + 30
        while (followed := server.status()["job_events"])["errors"] == 0:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert "cannot be reached" in followed["error"] and followed["events"] == 0
        assert server.status()["ingest"] is None and server.status()["agent"] is None
        assert not (state.state_dir / SOCKET).exists() and not (tmp_path / "log").exists()
    finally:
        server.stop()
    assert where(state.state_dir) is None


@pytest.mark.parametrize(("section", "values"), [("ingest", {"port": 5044}), ("queue", {"kind": "redis"}), ("agent", {"run": True})])
def test_a_central_server_is_not_told_to_take_records(section, values) -> None:
    with pytest.raises(UsageError, match=f"{section}.* is set, and group.name is not"):
        settings(store={"kind": "elasticsearch"}, **{section: values})
    settings(store={"kind": "elasticsearch"}, group={"name": "g1"}, **{section: values})
