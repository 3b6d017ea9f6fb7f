"""`bellrock ingest` as processes: both halves, killed and ended, and what it refuses."""

import re
import resource
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.store.duckdb import DuckDBStore
from tests.integration.pipeline.client import Client, deliver_all

from tests.integration.pipeline.queue.redis_server import RedisServer
from tests.servers import started
from tests.unit.pipeline.events import job_event, run_event
from tests.wait import until

ROOT = Path(__file__).resolve().parents[3]


class LogServer:
    """A process of `bellrock ingest`; `log` is what it has said."""

    def __init__(self, log: Path, env: dict[str, str], *options: str) -> None:
        self._log = log
        with log.open("a") as out:
            self.process = subprocess.Popen([sys.executable, "-m", "bellrock", "ingest", *options], cwd=ROOT, env=env, stdout=out, stderr=out)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str) -> None:
        until(lambda: re.search(text, self.log) or self.process.poll() is not None, f"{text!r} in the log")
        assert re.search(text, self.log), self.log

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(60)


@pytest.fixture
def redis_server(server_folder: Callable[[], Path]) -> Iterator[RedisServer]:
    server = RedisServer(server_folder())
    started(server)
    yield server
    server.client.close()
    server.stop()


@pytest.fixture
def begin(state, tmp_path: Path) -> Iterator[Callable[..., LogServer]]:
    begun: list[LogServer] = []

    def make(*options: str) -> LogServer:
        begun.append(LogServer(tmp_path / f"log{len(begun)}", state.env, *options))
        return begun[-1]

    yield make
    for one in begun:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def counts(state) -> tuple[int, int, int]:
    store = DuckDBStore(state.state_dir / "records.duckdb")
    status = store.status()
    store.close()
    return status["records"]["run"], status["records"]["job"], status["missing"]


def test_without_a_queue(state, begin, free_port):
    port = free_port()
    server = begin("--port", str(port))
    server.wait_for(f"records at 127.0.0.1:{port}")
    deliver_all(port, [run_event(n) for n in range(1, 101)], 30)
    assert server.end() == 0
    assert counts(state) == (100, 0, 0)


def test_its_threads_keep_nothing_that_they_have_freed(begin, free_port):
    server = begin("--port", str(free_port()))
    server.wait_for("records at")
    environment = Path(f"/proc/{server.process.pid}/environ").read_bytes().split(b"\0")
    assert b"GLIBC_TUNABLES=glibc.malloc.tcache_count=0" in environment
    assert server.end() == 0


def test_as_many_agents_are_connected_at_once_as_are_set(state, begin, free_port):
    """Each delivers, also where fewer files may be open than there are connections, until that limit is raised; one more is told what to do."""
    port, many = free_port(), 300
    (state.state_dir / "server.toml").write_text(f"[ingest]\nconnections_max = {many}\n")
    server = begin("--port", str(port))
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    server.wait_for(f"records at 127.0.0.1:{port}")
    with ExitStack() as connected:
        clients = [connected.enter_context(Client(port)) for _ in range(many)]
        for number, client in enumerate(clients):
            client.deliver([run_event(number + 1)])
        assert connected.enter_context(Client(port)).closed_by_server()
    assert f"the bound is {many} (ingest.connections_max); raise it" in server.log
    assert server.end() == 0
    assert counts(state) == (many, 0, 0)


def test_both_halves_apart_and_the_storing_one_killed(state, begin, free_port, redis_server):
    port = free_port()
    (state.state_dir / "server.toml").write_text(f'[queue]\nkind = "redis"\nurl = "{redis_server.url}"\nlease_s = 3\n[group]\nname = "g1"\n')
    receiving = begin("--only", "receive", "--port", str(port))
    receiving.wait_for(f"records at 127.0.0.1:{port}")
    events = [run_event(n) if n % 50 else job_event(n) for n in range(1, 2001)]
    deliver_all(port, events[:1000], 100)
    storing = begin("--only", "store")
    storing.wait_for("group g1 · list bellrock")
    until(lambda: redis_server.client.llen("bellrock") == 0, "the list to be taken")
    storing.end(signal.SIGKILL)
    deliver_all(port, events[1000:], 100)
    assert redis_server.client.llen("bellrock") == 1000
    heir = begin("--only", "store")
    until(lambda: not redis_server.client.keys("bellrock") and not redis_server.client.keys("bellrock:taken:*"), "the queue to be empty")
    assert heir.end() == 0 and receiving.end() == 0
    assert redis_server.client.keys() == []
    assert counts(state) == (1960, 40, 0)


def test_a_second_storing_half_waits(state, begin, tmp_path, redis_server):
    (state.state_dir / "server.toml").write_text(f'[queue]\nkind = "redis"\nurl = "{redis_server.url}"\n')
    begin("--only", "store").wait_for("list bellrock")
    until(lambda: redis_server.client.exists("bellrock:lease"), "the first to hold the queue")
    other = tmp_path / "other"
    other.mkdir()
    state.env["BELLROCK_STATE"] = str(other)
    second = begin("--queue", "redis", "--only", "store", "--config", str(state.state_dir / "server.toml"))
    second.wait_for("waits: .* consumes this queue")
    assert second.end() == 0


def test_figures_for_a_prometheus(state, begin, free_port):
    """What is told at the metrics' port: the counters of the status, in a format that Prometheus's own parser reads."""
    port = free_port()
    (state.state_dir / "server.toml").write_text(f"[metrics]\nport = {port}\n")
    server = begin("--port", str(free_port()))
    server.wait_for("records at")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    assert found["bellrock_build_info"] == 1 and found["bellrock_ingest_events_total"] == 0 and found["bellrock_ingest_failing"] == 0
    assert server.end() == 0


def test_without_elasticsearch_it_waits_and_says_so_in_lines(begin, free_port):
    server = begin("--port", str(free_port()), "--store", "elasticsearch", "--group", "g1")
    server.wait_for("elasticsearch at http://127.0.0.1:9200")
    server.wait_for("cannot be reached")
    assert server.end() == 0 and "Traceback" not in server.log


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--only", "store"], "--queue redis"),
        ([], "--port 5044"),
        (["--queue", "redis", "--port", "5044", "--group", "No Good"], "a-z, 0-9 and _"),
        (["--port", "70000"], "take 0 to 65535"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_do(begin, options, hint):
    server = begin(*options)
    assert server.process.wait(60) == 2
    assert hint in server.log
