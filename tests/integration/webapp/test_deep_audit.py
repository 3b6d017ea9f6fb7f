"""A deep audit over a real socket: its lines come while it counts, and it ends with whoever asked."""

import os
import time

import pytest

from bellrock import audit
from bellrock.client import Client
from bellrock.errors import ApiError, Unavailable
from bellrock.ports import free_port
from pipeline.store import StoreError
from pipeline.store.mark import Mark
from tests.unit.webapp.fakes import Site
from webapp.serve import HttpServer


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path, PEER_UID=lambda environ: os.geteuid())
    made.store.marks = [(("n1", 255), Mark(3, last_ns=time.time_ns()))]
    yield made
    made.close()


@pytest.fixture
def client(site):
    port = free_port("127.0.0.1")
    server = HttpServer(site.app, "127.0.0.1", port, threads=3)
    server.start()
    yield Client(f"http://127.0.0.1:{port}", timeout_s=60)
    server.stop()


def ask(client, **options):
    given = {"node": None, "since_ns": None, "silent_s": None, "limit": None, "deep": True} | options
    return audit.ask(client, **given)


def until_ended(site, times=1):
    give_up = time.monotonic() + 60
    while site.store.proofs_ended < times:
        assert time.monotonic() < give_up, "the server still counts"
        time.sleep(0.02)


def test_how_far_it_is_comes_before_the_report(site, client):
    told = []
    report = ask(client, told=lambda rows, of: told.append((rows, of)))
    assert told == [(0, 2), (1, 2), (2, 2)] and report["clean"] and report["proof"]["rows"] == 3
    with pytest.raises(ApiError, match="no record of a node 'nobody'"):
        ask(client, node="nobody")


def test_who_goes_away_ends_it_and_another_may_ask(site, client):
    site.store.parts = 10**12
    lines = client.lines("/api/v1/audit", deep=1)
    assert [next(lines)["progress"]["rows"] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ApiError, match="counting all rows for another audit"):
        next(client.lines("/api/v1/audit", deep=1))
    lines.close()
    until_ended(site)
    site.store.parts = 2
    assert ask(client)["clean"]


def test_what_goes_wrong_on_the_way_is_told(site, client):
    counted = site.store.proof

    def broken(*question):
        steps = counted(*question)
        yield next(steps)
        raise StoreError("the store is closed")

    site.store.proof = broken
    with pytest.raises(Unavailable, match="the store is closed"):
        ask(client)
    site.store.proof = lambda *question: (step for step in [next(counted(*question))])
    with pytest.raises(Unavailable, match="before it had counted all rows"):
        ask(client)
