"""The real agent and the real server with certificates of openssl: what each refuses and says, and renewal while records flow."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.ingest import Ingest
from pipeline.tls import TlsFiles
from tests.integration.pipeline.certificates import Authority, Pair, needs_openssl

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BELLROCK_BUILD", ROOT / "build"))
MISSING = [name for name in ("bellrock-agent", "libbellrock.so", "patterns") if not (BUILD / name).is_file()]
pytestmark = [needs_openssl, pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not in {BUILD}. Run: make build")]

KIB = 1 << 10


def until(condition: Callable[[], object], what: str, limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.01)


class Books:
    """A store in front of a store that remembers which numbers came as new, by whom, and how often again."""

    def __init__(self, store) -> None:
        self._store = store
        self.stored = self.duplicates = 0

    def append(self, events):
        appended = self._store.append(events)
        self.stored += appended.runs + appended.samples + appended.jobs
        self.duplicates += appended.duplicates
        assert appended.missing == 0 and appended.dead_letters == 0, appended
        return appended


class Machine:
    """One node: an agent with its settings and files, and programs under its watch."""

    def __init__(self, folder: Path, rings: Path, port: int, authority: Path, pair: Pair | None) -> None:
        self.folder, self.rings, self.port = folder, rings, port
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(authority.read_bytes())
        self.pair = None
        if pair is not None:
            self.pair = Pair(folder / "node.crt", folder / "node.key")
            self.pair.replace(pair)
        self.log_file = folder / "agent.log"
        self.process: subprocess.Popen | None = None
        self.settings = {"node": "cn1", "server": f"localhost:{port}"}
        self.tls = {} if pair is None else {"ca": str(self.ca), "cert": str(self.pair.cert), "key": str(self.pair.key)}

    def command(self) -> list[str]:
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        lines += [f'rings = "{self.rings}"', f'spool = "{self.folder}/spool"', "sample_period_s = 1", "reconnect_min_ms = 20", "reconnect_max_ms = 500"]
        lines += ["[tls]", *(f"{key} = {json.dumps(value)}" for key, value in self.tls.items())]
        (self.folder / "agent.toml").write_text("\n".join(lines))
        return [str(BUILD / "bellrock-agent"), "--config", str(self.folder / "agent.toml")]

    def start(self) -> None:
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log)

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def says(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in self.log() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert text in self.log(), self.log()

    def write(self, kib: int) -> None:
        """Has a program under watch write so many KiB in requests of 1 KiB."""
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("BELLROCK_")}
        env |= {"LD_PRELOAD": str(BUILD / "libbellrock.so"), "BELLROCK_RINGS": str(self.rings), "BELLROCK_WATCH": str(data), "BELLROCK_JOB": "local-1"}
        words = ["--dir", str(data), "--mode", "nn", "--op", "write", "--processes", "1", "--bytes-per-process", str(kib * KIB), "--request", "1024"]
        subprocess.run([BUILD / "patterns", *words], env=env, check=True, stdout=subprocess.DEVNULL)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture
def books(store) -> Books:
    return Books(store)


@pytest.fixture
def files(site: Authority, tmp_path: Path) -> TlsFiles:
    ours = Pair(tmp_path / "server.crt", tmp_path / "server.key")
    ours.replace(site.issue("server", "localhost"))
    (tmp_path / "client_ca.crt").write_bytes(site.certificate.read_bytes())
    return TlsFiles(ours.cert, ours.key, tmp_path / "client_ca.crt")


@pytest.fixture
def start(books, files: TlsFiles, caplog) -> Iterator[Callable[..., Ingest]]:
    caplog.set_level("INFO")
    started: list[Ingest] = []

    def make(**settings) -> Ingest:
        ingest = Ingest(books, lambda event: None, **{"tls": files, "look_every_s": 0.1, **settings})
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


def written(store) -> tuple[int, int]:
    """Bytes and operations of all writes."""
    rows = store.runs("local-1", ["op", "bytes", "count"]).to_pylist()
    writes = [row for row in rows if row["op"] == "write"]
    return sum(row["bytes"] for row in writes), sum(row["count"] for row in writes)


def test_records_arrive_whole(start, machine, store, books):
    ingest = start()
    node = machine(ingest.port)
    node.start()
    node.write(300)
    until(lambda: written(store)[0] >= 300 * KIB, "all that was written")
    node.end()
    assert written(store) == (300 * KIB, 300) and books.duplicates == 0
    assert ingest.status()["handshake_failures"] == 0
    assert "warning" not in node.log(), node.log()


def test_a_server_that_cannot_prove_itself_gets_nothing(start, machine, site, stranger, files, store, books):
    """Each of its faults is told, with what to do; when it is put right all arrives."""
    ours = Pair(files.cert, files.key)
    end = time.time() - 5
    faults = [
        (stranger.issue("server", "localhost"), "of an authority that is not in"),
        (site.issue("server", "elsewhere.example"), 'not for localhost but for [DnsName("elsewhere.example")]'),
        (site.issue("server", "late", "localhost", end=end), f"ended at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(int(end)))}"),
        (site.issue("node", "posing", "localhost"), "the server's certificate is not taken: "),
    ]
    ours.replace(faults[0][0])
    ingest = start()
    node = machine(ingest.port)
    node.start()
    node.write(8)
    for pair, message in faults:
        # Anew, since lines that repeat are held back for a while.
        node.end()
        node.log_file.unlink()
        before = ingest._certificates.now
        ours.replace(pair)
        until(lambda: pair is faults[0][0] or ingest._certificates.now is not before, "the server to take its files over")  # noqa: B023
        node.start()
        node.says(message)
        assert "records wait in the spool" in node.log()
    assert books.stored == 0 and ingest.status()["accepted"] == 0
    ours.replace(site.issue("server", "localhost"))
    until(lambda: written(store) == (8 * KIB, 8), "all that was written")
    node.says("takes records again")


def test_a_node_that_is_not_let_in_is_told_why(start, machine, site, stranger, store, books, caplog):
    ingest = start()
    end = int(time.time()) - 5
    faults = [
        (site.issue("node", "old", "cn1", end=end), f"node.crt expired: it ends at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(end))}"),
        (stranger.issue("node", "cn1"), "the server does not know the authority of the certificate"),
        (site.issue("node", "cn2"), "is for [cn2], and this node's records are of node cn1: the server will refuse them"),
    ]
    node = machine(ingest.port, faults[0][0])
    for pair, message in faults:
        node.end()
        node.log_file.unlink(missing_ok=True)
        node.pair.replace(pair)
        node.start()
        node.write(1)
        node.says(message)
        node.says("warning: server localhost:")
    until(lambda: ingest.status()["node_mismatches"] > 0, "a window of another node")
    assert "certificate of 'cn2': a record of node 'cn1' was among the" in caplog.text
    assert books.stored == 0
    node.pair.replace(site.issue("node", "cn1", "cn2"))
    until(lambda: written(store) == (3 * KIB, 3), "all that was written")


def test_plain_text_and_tls_do_not_meet(start, machine, books, caplog):
    ingest = start()
    node = machine(ingest.port)
    tls, node.tls = node.tls, {}
    node.start()
    node.write(1)
    node.says("check that `bellrock server` runs, and whether it wants TLS")
    until(lambda: "it does not speak TLS; set [tls] in its agent.toml" in caplog.text, "the server's word")
    node.end()
    plain = start(tls=None)
    node.tls, node.settings["server"] = tls, f"127.0.0.1:{plain.port}"
    node.log_file.unlink()
    node.start()
    node.says("the server closed the connection")
    until(lambda: "the client speaks TLS, and there is none here" in caplog.text, "the server's word")
    assert books.stored == 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS"),
        (b"\x16\x03\x03\x00\x04\x02\x00\x00\x00", "TLS: "),
        (b"\x15\x03\x03\x00\x02\x02\x28", "does not take the certificate"),
        (b"", "the server closed the connection"),
        (b"\xff" * 4096, "does not speak TLS"),
    ],
)
def test_a_server_of_another_kind_is_left(machine, answer, message):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        node = machine(listener.getsockname()[1])
        node.settings["server"] = f"127.0.0.1:{listener.getsockname()[1]}"
        node.start()
        with listener.accept()[0] as peer:
            assert peer.recv(5)[:2] == b"\x16\x03"
            peer.sendall(answer)
            peer.shutdown(socket.SHUT_WR)
            node.says(message)


def test_a_silent_server_holds_no_agent_up_at_its_end(machine):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        node = machine(listener.getsockname()[1])
        node.settings["server"] = f"127.0.0.1:{listener.getsockname()[1]}"
        node.start()
        with listener.accept()[0] as peer:
            assert peer.recv(1) == b"\x16"
            node.process.send_signal(signal.SIGTERM)
            assert node.process.wait(timeout=30) == 0


def test_a_certificate_that_ends_while_records_flow_is_renewed_and_nothing_is_lost_or_double(start, machine, site, store, books, caplog):
    """The records go on before, without and with the new certificate; the server stays up, and so does the agent."""
    ingest = start()
    end = int(time.time()) + 4
    node = machine(ingest.port, site.issue("node", "brief", "cn1", end=end))
    node.start()
    total, stop = 0, threading.Event()

    def flow() -> None:
        nonlocal total
        while not stop.is_set():
            node.write(20)
            total += 20

    writer = threading.Thread(target=flow)
    writer.start()
    try:
        until(lambda: written(store)[0] > 0, "records with the first certificate")
        until(lambda: "its certificate ended at" in caplog.text or ingest.status()["handshake_failures"], "the first one's end")
        assert time.time() >= end
        node.says("own certificate")
        node.says(f"node.crt ended at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(end))}")
        before = written(store)[0]
        again = total
        until(lambda: total > again + 40, "records without a certificate that holds")
        assert written(store)[0] == before
        # A renewal that is torn: the certificate comes after its key.
        renewed = site.issue("node", "cn1")
        node.pair.key.write_bytes(renewed.key.read_bytes())
        node.says("is not the key of")
        node.pair.cert.write_bytes(renewed.cert.read_bytes())
        until(lambda: written(store)[0] > before, "records with the new certificate")
    finally:
        stop.set()
        writer.join()
    until(lambda: written(store)[0] >= total * KIB, "all that was written")
    node.end()
    assert written(store) == (total * KIB, total)
    assert "takes records again" in node.log()
    # Whatever was sent again is known: no more than was open when the certificate ended.
    assert books.duplicates == 0


def test_a_connection_is_made_anew_soon_after_new_files_come(start, machine, site, store, books):
    """Nothing fails on the way: not a record is sent twice, and no loss of the server is told."""
    ingest = start()
    node = machine(ingest.port)
    node.start()
    for round_ in range(1, 4):
        node.write(50)
        until(lambda: written(store)[0] >= round_ * 50 * KIB, "what was written so far")  # noqa: B023
        accepted = ingest.status()["accepted"]
        node.pair.replace(site.issue("node", "cn1"))
        until(lambda: ingest.status()["accepted"] > accepted, "another connection")  # noqa: B023
    until(lambda: ingest.status()["connections"] == 1, "the old ones' end")
    assert written(store) == (150 * KIB, 150) and books.duplicates == 0
    node.end()
    assert "warning" not in node.log(), node.log()
    assert ingest.status()["handshake_failures"] == 0


def test_a_site_changes_its_authority_without_a_gap(start, machine, site, stranger, files, store, books):
    """Both in a bundle everywhere, then new certificates, then the old authority goes."""
    ingest = start()
    node = machine(ingest.port)
    node.start()
    written_kib = 0

    def goes_on() -> None:
        nonlocal written_kib
        node.write(10)
        written_kib += 10
        until(lambda: written(store)[0] >= written_kib * KIB, "what was written so far")

    goes_on()
    both = site.certificate.read_bytes() + stranger.certificate.read_bytes()
    for path in (node.ca, files.client_ca):
        path.write_bytes(both)
        goes_on()
    node.pair.replace(stranger.issue("node", "cn1"))
    goes_on()
    Pair(files.cert, files.key).replace(stranger.issue("server", "localhost"))
    goes_on()
    for path in (node.ca, files.client_ca):
        path.write_bytes(stranger.certificate.read_bytes())
        goes_on()
    assert written(store) == (written_kib * KIB, written_kib) and books.duplicates == 0


def test_the_settings_of_a_server_are_enough(machine, files, tmp_path, free_port, state):
    """`bellrock server` with nothing but its file, on every address; nothing is delivered without TLS."""
    port, http = free_port(), free_port()
    ingest = {"host": "0.0.0.0", "port": port, "tls_cert": str(files.cert), "tls_key": str(files.key), "tls_client_ca": str(files.client_ca)}
    lines = ["[ingest]", *(f"{key} = {json.dumps(value)}" for key, value in ingest.items()), "[agent]", "run = false", "[http]", f"port = {http}"]
    (tmp_path / "server.toml").write_text("\n".join(lines))
    command = [sys.executable, "-m", "bellrock", "server", "--config", str(tmp_path / "server.toml")]
    with open(tmp_path / "server.log", "wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=state.env, stdout=log, stderr=log)
    try:
        node = machine(port)
        node.start()
        node.write(7)

        def status() -> dict:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{http}/api/v1/status", timeout=30) as answer:
                    return json.loads(answer.read())["ingest"]
            except OSError:
                assert server.poll() is None, (tmp_path / "server.log").read_text()
                return {"events": 0}

        until(lambda: status()["events"] > 0, "records")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
            plain.sendall(b"2W\0\0\0\1")
            until(lambda: status()["handshake_failures"] == 1, "plain text to be refused")
        node.end()
        assert (status()["accepted"], status()["node_mismatches"], status()["error"]) == (1, 0, None)
    finally:
        server.terminate()
        assert server.wait(timeout=60) == 0


def test_settings_that_cannot_work_are_told_at_the_start(machine, site, stranger, tmp_path):
    node = machine(5044)

    def refused(message: str, **tls: object) -> None:
        node.tls |= {key: str(value) for key, value in tls.items()}
        for words in ([], ["--check"]):
            done = subprocess.run([*node.command(), *words], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 2 and message in done.stderr, done

    assert subprocess.run([*node.command(), "--check"], check=False).returncode == 0
    node.pair.key.chmod(0o644)
    refused(f"chmod 600 {node.pair.key}")
    node.pair.key.chmod(0o640)
    refused("is not the key of", cert=site.issue("node", "another").cert)
    refused("not a client's certificate", cert=site.issue("server", "localhost").cert, key=site.folder / "localhost.key")
    refused("tls.ca: /none/ca.crt: No such file", ca="/none/ca.crt")
    refused("tls.server_name", ca=node.ca, server_name="not a name", cert=node.pair.cert, key=node.pair.key)
