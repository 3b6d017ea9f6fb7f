"""What each cache must do, in this process and in a real Redis; and what befalls the one in Redis."""

import logging

import pytest
import redis

from bellrock.stack.redis import Redis
from tests.servers import PASSWORD, started
from webapp.api import cache
from webapp.api.cache import NearCache, ProcessCache, RedisCache, open_cache


def ANY(value: bytes) -> bool:
    return True


@pytest.fixture
def password_file(tmp_path):
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    path.chmod(0o600)
    return path


@pytest.fixture(params=["process", "redis", "near"])
def made(request, password_file):
    if request.param == "process":
        yield ProcessCache()
        return
    server = request.getfixturevalue("redis_server")
    with redis.Redis.from_url(server.url, password=PASSWORD) as client:
        client.flushall()
    opened = RedisCache(server.url, password_file) if request.param == "redis" else open_cache(server.url, str(password_file))
    yield opened
    opened.close()


def test_what_was_put_is_there_and_counted(made):
    assert made.get("a", ANY) is None
    made.put("a", b"\x00one")
    made.put("b", b"")
    made.put("a", b"\x00two")
    assert (made.get("a", ANY), made.get("b", ANY), made.get("\ud800", ANY)) == (b"\x00two", b"", None)
    assert made.status() | {"kind": ""} == {"kind": "", "hits": 2, "misses": 2, "error": None}


def test_what_is_too_large_is_not_kept(made, monkeypatch):
    monkeypatch.setattr(cache, "VALUE_BYTES_MAX", 10)
    made.put("a", b"x" * 10)
    made.put("b", b"x" * 11)
    assert (made.get("a", ANY), made.get("b", ANY)) == (b"x" * 10, None)


def test_there_are_never_more_than_places_and_each_key_has_its_own_value(made, monkeypatch):
    monkeypatch.setattr(cache, "PLACES", 3)
    for number in range(20):
        made.put(str(number), str(number).encode())
    found = [made.get(str(number), ANY) for number in range(20)]
    assert all(value in (None, str(number).encode()) for number, value in enumerate(found)) and found[19] == b"19"
    if isinstance(made, RedisCache):
        assert sum(value is not None for value in found) <= 3


def test_in_this_process_those_used_last_stay_within_the_bound_and_none_too_long():
    now = [0.0]
    made = ProcessCache(bytes_max=30, clock=lambda: now[0])
    for key in "abc":
        made.put(key, b"x" * 9)
    assert made.get("a", ANY) is not None
    made.put("d", b"x" * 9)
    assert [made.get(key, ANY) is not None for key in "abcd"] == [True, False, True, True]
    now[0] = cache.AGE_S + 1
    assert made.get("a", ANY) is None


def test_a_redis_that_is_gone_is_told_once_not_asked_for_a_while_and_used_again(server_folder, caplog):
    server = started(Redis(server_folder()))
    now = [0.0]
    made = RedisCache(server.url, clock=lambda: now[0])
    made.put("a", b"1")
    assert made.get("a", ANY) == b"1"
    server.stop()
    with caplog.at_level(logging.INFO):
        assert made.get("a", ANY) is None
        assert "does not answer" in made.status()["error"]
        asked = []
        send = made._client.getrange
        made._client.getrange = lambda *given: (asked.append(given), send(*given))[1]
        for _ in range(5):
            made.get("a", ANY)
            made.put("a", b"2")
        assert not asked
        now[0] += cache.AWAY_S
        assert made.get("a", ANY) is None and len(asked) == 1
        assert [record.levelname for record in caplog.records] == ["WARNING"] and "pages are slower" in caplog.text
        server.start()
        now[0] += cache.AWAY_S
        made.put("a", b"3")
        assert made.get("a", ANY) == b"3" and made.status()["error"] is None
        assert "answers again" in caplog.text
    made.close()


def test_a_password_is_no_part_of_an_address():
    with pytest.raises(ValueError, match="bears a password"):
        RedisCache("redis://:secret@127.0.0.1:1/0")
    with pytest.raises(ValueError, match="is not this machine"):
        RedisCache("redis://10.0.0.1:6379/0")


def test_what_another_wrote_is_checked_once_and_then_near(redis_server, password_file):
    made, other = open_cache(redis_server.url, str(password_file)), RedisCache(redis_server.url, password_file)
    assert isinstance(made, NearCache)
    other.put("shared", b"good")
    other.put("forged", b"bad")
    asked = []

    def is_answer(value: bytes) -> bool:
        asked.append(value)
        return value == b"good"

    before = made.status()
    assert [made.get("shared", is_answer) for _ in range(3)] == [b"good"] * 3 and asked == [b"good"]
    assert [made.get("forged", is_answer) for _ in range(2)] == [None, None]
    after = made.status()
    assert (after["hits"] - before["hits"], after["misses"] - before["misses"], after["kind"]) == (3, 2, "redis")
    made.put("mine", b"x")
    assert other.get("mine", ANY) == b"x"
    made.close()
    other.close()
