"""Elastic's own client against our receiving end, and its server against the agent's sending end (go-lumber, built here)."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.pipeline.tls.certificates import Pair, needs_openssl

from tests.integration.pipeline.tls.machine import KIB, needs_agent
from tests.unit.pipeline.events import run_event
from tests.wait import until

EVENTS = 600


@pytest.fixture(scope="module")
def go_lumber(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of elastic/main.go."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("no Go on this machine, so Elastic's client and server were not tried. Run: apt-get install golang-go")
    program = tmp_path_factory.mktemp("elastic") / "elastic"
    env = os.environ | {"GOTOOLCHAIN": "local"}
    done = subprocess.run([go, "build", "-o", program, "."], cwd=Path(__file__).with_name("elastic"), env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return program


def send(go_lumber: Path, port: int, *options: object, pair: Pair | None = None, ca: Path | None = None, first: int = 1) -> subprocess.CompletedProcess:
    words = ["-address", f"127.0.0.1:{port}", *options]
    words += ["-ca", ca] if ca else []
    words += ["-cert", pair.cert, "-key", pair.key] if pair else []
    lines = "".join(json.dumps(run_event(n)) + "\n" for n in range(first, first + EVENTS))
    return subprocess.run([go_lumber, "send", *map(str, words)], input=lines, capture_output=True, text=True, timeout=120, check=False)


def test_every_compression_level_in_the_clear(go_lumber, start, books):
    ingest = start(tls=None)
    for level in range(10):
        done = send(go_lumber, ingest.port, "-level", level, first=1 + level * EVENTS)
        assert done.returncode == 0, done.stderr
    assert (books.stored, books.duplicates, books.missing) == (10 * EVENTS, 0, 0)


@needs_openssl
@pytest.mark.parametrize(
    "options",
    [["-window", 1], ["-window", 7, "-level", 0], ["-window", EVENTS], ["-window", 50, "-async", 4], ["-window", 20, "-reconnect", 3], ["-window", 20, "-async", 2, "-reconnect", 5]],
)
def test_windows_connections_and_both_clients_over_tls(go_lumber, start, books, node, site, options):
    ingest = start()
    done = send(go_lumber, ingest.port, *options, pair=node, ca=site.certificate)
    assert done.returncode == 0, done.stderr
    assert (books.stored, books.duplicates, books.missing) == (EVENTS, 0, 0)
    assert ingest.status()["protocol_errors"] == 0


@needs_openssl
def test_without_a_certificate_or_with_anothers_nothing_gets_in(go_lumber, start, books, site):
    ingest = start()
    assert send(go_lumber, ingest.port, ca=site.certificate).returncode == 1
    assert send(go_lumber, ingest.port, pair=site.issue("node", "cn9"), ca=site.certificate).returncode == 1
    until(lambda: ingest.status()["handshake_failures"] == 1 and ingest.status()["node_mismatches"] == 1, "both to be counted")
    assert books.stored == 0


class Receiver:
    """Elastic's server; `events` is what it has acknowledged or was about to."""

    def __init__(self, go_lumber: Path, port: int, out: Path, *options: object) -> None:
        self._out = out
        with out.open("ab") as file:
            self.process = subprocess.Popen([go_lumber, "receive", "-address", f"127.0.0.1:{port}", *map(str, options)], stdout=file)

    def events(self) -> dict[tuple, dict]:
        """By id; a line that a kill cut is left out."""
        whole = self._out.read_text().rpartition("\n")[0].splitlines()
        found = [json.loads(line) for line in whole if line.startswith("{") and line.endswith("}")]
        return {(event["node"], event["boot"], event["seq"]): event for event in found}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def receive(go_lumber, site, tmp_path: Path) -> Iterator[Callable[[int], Receiver]]:
    pair = site.issue("server", "localhost", "127.0.0.1")
    begun: list[Receiver] = []

    def make(port: int) -> Receiver:
        begun.append(Receiver(go_lumber, port, tmp_path / "received", "-ca", site.certificate, "-cert", pair.cert, "-key", pair.key))
        return begun[-1]

    yield make
    for one in begun:
        one.kill()


class TestAgent:
    pytestmark = needs_agent

    def test_the_agent_delivers_to_elastics_server_also_after_it_was_killed(self, receive, machine, free_port):
        port = free_port()
        receiver = receive(port)
        agent = machine(port)
        agent.start()
        for round_ in (1, 2):
            agent.write(300)
            until(lambda receiver=receiver, round_=round_: _written(receiver) == round_ * 300 * KIB, "all that was written")
            receiver.kill()
            receiver = receive(port)
        agent.write(300)
        until(lambda: _written(receiver) == 3 * 300 * KIB, "all that was written")
        agent.end()
        seqs = sorted(seq for _, _, seq in receiver.events())
        assert seqs == list(range(1, len(seqs) + 1))


def _written(receiver: Receiver) -> int:
    return sum(event["bytes"] for event in receiver.events().values() if event["kind"] == "run" and event["op"] == "write")
