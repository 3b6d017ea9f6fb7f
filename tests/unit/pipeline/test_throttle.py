import logging

import pytest

from pipeline import throttle
from pipeline.throttle import LINES_MAX, PEER_LINES_MAX, Throttle


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(throttle.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def said(caplog) -> Throttle:
    caplog.set_level(logging.INFO)
    return Throttle(logging.getLogger("test"))


def test_a_peer_that_repeats_itself_is_counted_and_hides_no_other(said, clock, caplog):
    for n in range(100):
        said.say("refused", "cn1", f"refused cn1:{n}")
    said.say("refused", "cn2", "refused cn2")
    said.say("closed", "cn1", "closed cn1")
    assert caplog.messages == [f"refused cn1:{n}" for n in range(PEER_LINES_MAX)] + ["refused cn2", "closed cn1"]
    clock[0] += throttle.PERIOD_S
    caplog.clear()
    said.say("refused", "cn1", "refused again")
    assert caplog.messages == [f"ingest: refused: further lines were held back: {100 - PEER_LINES_MAX} about cn1", "refused again"]


def test_peers_that_change_their_name_share_a_bound(said, clock, caplog):
    for n in range(1000):
        said.say("no TLS", f"10.0.{n}", "no TLS")
    assert len(caplog.messages) == LINES_MAX and len(said._kinds["no TLS"].lines) == LINES_MAX
    said.flush()
    assert caplog.messages[-1].endswith(f"held back: {1000 - LINES_MAX} about others")
    said.flush()
    assert len(caplog.messages) == LINES_MAX + 1


def test_all_that_was_held_back_is_in_the_count(said, clock, caplog):
    for _ in range(10):
        for peer in "abcdef":
            said.say("lost", peer, f"lost {peer}", logging.INFO)
    shown = len(caplog.messages)
    said.flush()
    counts = [int(word) for word in caplog.messages[-1].split() if word.isdecimal()]
    assert shown == LINES_MAX and sum(counts) == 60 - LINES_MAX and "about others" in caplog.messages[-1]


def test_what_the_log_would_not_show_is_not_counted(caplog):
    caplog.set_level(logging.WARNING)
    said = Throttle(logging.getLogger("test"))
    for _ in range(100):
        said.say("lost", "cn1", "lost cn1", logging.INFO)
    said.flush()
    assert caplog.messages == []
