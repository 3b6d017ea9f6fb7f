"""What can befall a log server's servers, on the whole way: agents' windows, Redis, Elasticsearch, and what the administrator reads of it."""

import struct
import threading
import time

import pytest

from bellrock.config import parse
from bellrock.logserver import LogServer
from bellrock.ports import free_port
from bellrock.stack.elasticsearch import Elasticsearch
from pipeline.store.elastic.client import Settings
from pipeline.store.elastic.store import ElasticsearchStore
from tests.integration.pipeline.client import Client, deliver_all
from tests.servers import PASSWORD, started
from tests.unit.pipeline.events import run_event
from webapp.api.groups import with_troubles
from tests.wait import until

# More room than there is on any disk is asked for, and looked for as often as can be.
FULL = {"cluster.routing.allocation.disk.threshold_enabled": True, "cluster.info.update.interval": "10s"} | {
    f"cluster.routing.allocation.disk.watermark.{name}": f"{size}pb" for name, size in (("low", 900), ("high", 800), ("flood_stage", 700))
}
ITEMS_MAX = 1000


class Site:
    """A log server of group g1, and a reader as the central server has one."""

    def __init__(self, folder, elastic_url: str, redis) -> None:
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o600)
        self.port = free_port("127.0.0.1")
        self.redis = redis
        settings = {
            "ingest": {"port": self.port},
            "store": {"kind": "elasticsearch"},
            "elasticsearch": {"urls": [elastic_url]},
            "queue": {"kind": "redis", "url": redis.url, "password_file": str(folder / "password"), "list": "bad", "items_max": ITEMS_MAX, "piece_items": 200},
            "group": {"name": "g1"},
        }
        self.log_server = LogServer(parse(settings, "test"), folder / "state", None)
        self.log_server.start()
        self.central = ElasticsearchStore(Settings([elastic_url]), None)
        self.sent = 0
        self._threads: list[threading.Thread] = []

    def send(self, runs: int) -> threading.Thread:
        """As an agent of its own, on until all is acknowledged."""
        self.sent += runs
        events = [run_event(n, node=f"cn{len(self._threads)}") for n in range(1, runs + 1)]
        self._threads.append(threading.Thread(target=deliver_all, args=(self.port, events, 100)))
        self._threads[-1].start()
        return self._threads[-1]

    def troubles(self) -> str:
        """But for the disk of the machine that runs the tests."""
        told = [trouble["text"] for group in with_troubles(self.central.status()["groups"], time.time_ns()) for trouble in group["troubles"]]
        return "; ".join(text for text in told if not text.startswith("the disk of "))

    def watermarks(self, given: dict[str, object] | None) -> None:
        self.central.client.ask("PUT", "/_cluster/settings", {"persistent": given or dict.fromkeys(FULL)})

    def is_exact(self) -> None:
        """All that was sent is there, and once."""
        for thread in self._threads:
            thread.join(180)
            assert not thread.is_alive()
        until(lambda: self.central.status()["records"]["run"] >= self.sent, f"{self.sent} runs")
        *_, proof = self.central.proof()
        counts = list(proof.boots.values())
        assert sum(rows for rows, _, _ in counts) == self.sent and all(len(set(of_boot)) == 1 for of_boot in counts), counts
        status = self.central.status()
        assert (status["records"]["run"], status["missing"], status["dead_letters"]) == (self.sent, 0, 0)

    def stop(self) -> None:
        self.log_server.stop()
        self.central.close()


@pytest.fixture
def site(tmp_path, server_folder, redis_server):
    node = started(Elasticsearch(server_folder(), name="g1", group="g1"))
    made = Site(tmp_path, node.url, redis_server)
    yield made
    made.stop()
    node.stop()


def test_each_is_told_agents_hold_back_and_nothing_is_lost(site):
    site.send(300).join(180)
    until(lambda: site.central.status()["records"]["run"] == 300, "the first records")
    assert until(lambda: site.central.status()["groups"][0]["log_servers"], "the log server's word")[0]["halves"] == ["receive", "store"]

    # The disk is over the flood stage: the queue fills up to its bound, then agents wait.
    site.watermarks(FULL)
    until(lambda: "take nothing" in site.troubles(), "Elasticsearch to block its indices")
    waiting = site.send(3 * ITEMS_MAX)
    error = until(lambda: site.log_server.status()["consumer"]["error"], "the storing half to tell")
    assert "disk over the flood stage" in error and "_settings" in error
    until(lambda: site.log_server.status()["queue"]["waiting"] >= ITEMS_MAX, "a full queue")
    assert waiting.is_alive() and site.central.status()["records"]["run"] == 300
    site.watermarks(None)
    site.is_exact()
    until(lambda: site.troubles() == "", "all to be well")

    # Redis has no memory left.
    assert site.redis.ask("CONFIG SET maxmemory 1") == "+OK"
    held = site.send(500)
    until(lambda: "out of memory" in site.troubles(), "the log server to tell of Redis")
    assert held.is_alive()
    assert site.redis.ask(f"CONFIG SET maxmemory {site.redis.memory_mib}mb") == "+OK"
    site.is_exact()

    # A frame of a gigabyte is refused unread, and others go on.
    with Client(site.port) as peer:
        peer.send(b"2W" + struct.pack(">I", 1) + b"2C" + struct.pack(">I", 1 << 30))
        assert peer.closed_by_server()
    site.send(100)
    site.is_exact()
