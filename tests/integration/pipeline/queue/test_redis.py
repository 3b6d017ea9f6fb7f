"""The Redis queue itself: who holds it, what is taken and done, and what lies there."""

import pytest

from pipeline.queue import NotOurs, QueueError
from pipeline.queue.redis import RedisSettings, look
from pipeline.queue.redis_inlet import PUSH_BYTES, RedisInlet
from pipeline.queue.redis_outlet import RedisOutlet
from tests.wait import until


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last + 1)]


@pytest.fixture
def settings(redis_server) -> RedisSettings:
    return redis_server.queue(piece_items=10)


@pytest.fixture
def inlet(settings) -> RedisInlet:
    return RedisInlet(settings, full_wait_s=0.05)


def test_pieces_are_ordered_and_removed_when_done(redis_server, settings, inlet):
    inlet.put(numbered(1, 15))
    outlet = RedisOutlet(settings)
    assert outlet.hold() is None
    first, second = outlet.take(1), outlet.take(1)
    assert first.items + second.items == numbered(1, 15) and len(first.items) == 10
    assert outlet.take(1) is None
    inlet.put(numbered(16, 18))
    assert outlet.take(4) is None, "fewer than asked for wait"
    third = outlet.take(3)
    assert third.items == numbered(16, 18)
    assert look(settings)["taken"] == 18
    for piece in (first, second, third):
        outlet.done(piece)
    outlet.release()
    assert redis_server.client.keys() == []


def test_a_piece_is_done_while_the_next_one_is_read(redis_server, monkeypatch):
    monkeypatch.setattr("pipeline.queue.redis_outlet.FIRST_CHUNK", 3)
    monkeypatch.setattr("pipeline.queue.redis_outlet.PIECE_CHUNK", 3)
    settings = redis_server.queue(piece_items=10)
    RedisInlet(settings).put(numbered(1, 30))
    outlet = RedisOutlet(settings)
    outlet.hold()
    first = outlet.take(1)
    client, then = outlet._connection.client, []
    read = client.lrange

    def lrange(*asked):
        found = read(*asked)
        if then:
            then.pop()()
        return found

    monkeypatch.setattr(client, "lrange", lrange)
    then.append(lambda: outlet.done(first))
    second = outlet.take(1)
    assert then == [] and look(settings)["taken"] == 20
    third = outlet.take(1)
    assert first.items + second.items + third.items == numbered(1, 30)
    RedisInlet(settings).put(numbered(31, 40))
    then.append(outlet.release)
    with pytest.raises(NotOurs):
        outlet.take(1)
    assert outlet.hold() is None
    again = [outlet.take(1).items for _ in range(3)]
    assert sum(again, []) == numbered(11, 40)


def test_what_was_not_done_comes_again_oldest_first(settings, inlet):
    inlet.put(numbered(1, 25))
    dead = RedisOutlet(settings)
    dead.hold()
    dead.done(dead.take(1))
    dead.take(1), dead.take(1)
    inlet.put(numbered(26, 30))
    assert dead.take(1).items == numbered(26, 30)
    inlet.put(numbered(31, 31))
    dead.release()
    heir = RedisOutlet(settings)
    assert heir.hold() is None
    items = []
    while (piece := heir.take(1)) is not None:
        items += piece.items
        heir.done(piece)
    assert items == numbered(11, 31)


def test_two_consumers_exclude_each_other(settings, inlet):
    inlet.put(numbered(1, 5))
    one, two = RedisOutlet(settings, "one"), RedisOutlet(settings, "two")
    assert one.hold() is None
    assert two.hold().endswith(" one")
    with pytest.raises(NotOurs):
        two.take(1)
    assert look(settings)["lease"] == "one"
    assert one.take(1).items == numbered(1, 5)
    one.release()
    assert two.hold() is None and two.take(1).items == numbered(1, 5)


def test_one_that_was_put_aside_while_it_appended_cannot_trim_its_heirs_list(redis_server, settings, inlet):
    inlet.put(numbered(1, 20))
    paused, heir = RedisOutlet(settings), RedisOutlet(settings)
    paused.hold()
    stale = paused.take(1)
    redis_server.client.delete("bellrock:lease")  # it runs out
    assert heir.hold() is None
    piece = heir.take(1)
    assert piece.items == stale.items and paused.holds(stale)
    heir.done(piece)
    with pytest.raises(NotOurs):
        paused.done(stale)
    assert not paused.holds(stale)
    with pytest.raises(NotOurs):
        paused.done(stale)
    assert heir.take(1).items == numbered(11, 20)
    assert paused.hold() is not None


def test_a_piece_of_an_earlier_hold_is_not_done_under_a_later_one(redis_server, settings, inlet):
    inlet.put(numbered(1, 20))
    outlet = RedisOutlet(settings)
    outlet.hold()
    stale = outlet.take(1)
    assert outlet.hold() is None, "our own hold is taken over at once"
    with pytest.raises(NotOurs):
        outlet.done(stale)
    assert look(settings)["taken"] == 20


def test_a_hold_runs_out_by_itself(redis_server):
    settings = redis_server.queue(lease_s=0.3)
    dead, heir = RedisOutlet(settings), RedisOutlet(settings)
    dead.hold()
    assert heir.hold() is not None
    until(lambda: heir.hold() is None, "the hold to run out")


def test_a_full_queue_takes_no_more_until_some_is_taken(redis_server):
    settings = redis_server.queue(items_max=10)
    inlet, outlet = RedisInlet(settings, full_wait_s=0.05), RedisOutlet(settings)
    inlet.put(numbered(1, 10))
    with pytest.raises(QueueError, match=r"full: 10 items wait, the bound is 10 \(queue.items_max\)"):
        inlet.put(numbered(11, 12))
    outlet.hold()
    assert len(outlet.take(1).items) == 10
    inlet.put(numbered(11, 12))
    assert look(settings)["waiting"] == 2


def test_what_goes_in_several_pushes_keeps_its_order(redis_server):
    settings = redis_server.queue(piece_items=1000)
    items = [b"%03d" % number + b"x" * 20_000 for number in range(200)]
    assert sum(map(len, items)) > 3 * PUSH_BYTES
    RedisInlet(settings).put(items)
    outlet = RedisOutlet(settings)
    outlet.hold()
    assert outlet.take(1).items == items


def test_large_items_make_small_pieces(redis_server):
    settings = redis_server.queue(piece_bytes=1 << 20)
    RedisInlet(settings).put([b"x" * 10_000] * 1000)
    outlet = RedisOutlet(settings)
    outlet.hold()
    assert len(outlet.take(1).items) * 10_000 <= (1 << 20) + 10_000


def test_an_acknowledged_put_survives_a_kill(redis_server, settings, inlet):
    inlet.put(numbered(1, 10))
    redis_server.kill()
    with pytest.raises(QueueError, match="does not answer.*redis-cli"):
        inlet.put(numbered(11, 11))
    redis_server.start()
    inlet.put(numbered(11, 11))
    assert redis_server.client.lrange("bellrock", 0, -1) == numbered(1, 11)


def test_settings_that_lose_records_are_told(redis_server, settings):
    def warnings(**changes) -> list[str]:
        for name, value in changes.items():
            redis_server.client.config_set(name.replace("_", "-"), value)
        inlet = RedisInlet(settings)
        inlet.put([b"{}"])
        return inlet.status()["warnings"]

    assert warnings() == []
    assert "appendfsync is everysec" in warnings(appendfsync="everysec")[0]
    told = warnings(appendonly="no", maxmemory="100mb", maxmemory_policy="allkeys-lru")
    assert "appendonly is off" in told[0] and "noeviction" in told[1]


def test_a_password_comes_from_a_file_of_ours_alone(redis_server, tmp_path):
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    settings = redis_server.queue(password_file=file)
    redis_server.client.config_set("requirepass", "s3cret")
    RedisInlet(settings).put([b"{}"])
    file.chmod(0o644)
    with pytest.raises(QueueError, match="chmod 600"):
        RedisInlet(settings).put([b"{}"])
    file.chmod(0o600)
    file.write_text("wrong\n")
    with pytest.raises(QueueError, match="password"):
        RedisInlet(settings).put([b"{}"])


@pytest.mark.parametrize(
    "changes",
    [{"url": "redis://:secret@127.0.0.1:6379/0"}, {"url": "redis://example.org:6379/0"}, {"url": "http://127.0.0.1"}, {"name": "a:b"}, {"name": "a*"}],
)
def test_addresses_and_names_that_are_not_taken(changes):
    with pytest.raises(ValueError):
        RedisSettings(**changes)
