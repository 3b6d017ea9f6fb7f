"""Who gets a place, with sockets that lead nowhere."""

import socket
from collections.abc import Iterator

import pytest

from pipeline.places import Guest, NoPlace, Places


@pytest.fixture
def knock() -> Iterator:
    """A function that makes a connection; `closed` tells whether it was told to go."""
    pairs: list[tuple[socket.socket, socket.socket]] = []

    def make() -> socket.socket:
        pairs.append(socket.socketpair())
        return pairs[-1][0]

    def closed(connection: socket.socket) -> bool:
        other = next(other for ours, other in pairs if ours is connection)
        other.setblocking(False)
        try:
            return other.recv(1) == b""
        except BlockingIOError:
            return False

    make.closed = closed
    yield make
    for pair in pairs:
        for end in pair:
            end.close()


CN1, CN2 = Guest(frozenset({"cn1"})), Guest(frozenset({"cn2"}))


def test_one_peer_takes_no_more_than_its_share_and_its_newest_stay(knock):
    places = Places(100, 2, 4)
    first, second, third = knock(), knock(), knock()
    assert [places.admit(one, CN1) for one in (first, second, third)] == ["", "", "its oldest connection: it may have 2"]
    assert [knock.closed(one) for one in (first, second, third)] == [True, False, False]
    assert places.was_sent_away(first) and not places.was_sent_away(second)
    assert places.admit(knock(), CN2) == "" and places.count() == 3


def test_a_certificate_of_several_nodes_serves_the_agents_of_all(knock):
    places = Places(100, 2, 4)
    group = Guest(frozenset({"cn1", "cn2", "cn3"}), share=3)
    assert [places.admit(knock(), group) for _ in range(7)] == [""] * 6 + ["its oldest connection: it may have 6"]


def test_one_that_keeps_returning_is_refused_while_its_old_connections_are_not_gone(knock):
    places = Places(100, 2, 4)
    connections = [knock() for _ in range(4)]
    for one in connections:
        places.admit(one, CN1)
    with pytest.raises(NoPlace, match="2 of its connections had to go, and the store"):
        places.admit(knock(), CN1)
    places.admit(knock(), CN2)
    places.leave(connections[0])
    assert places.admit(knock(), CN1) == "its oldest connection: it may have 2"


def test_where_all_places_are_taken_who_has_one_gets_in_again_and_others_do_not(knock):
    places = Places(3, 4, 4)
    dead = knock()
    places.admit(dead, CN1)
    for _ in range(2):
        places.admit(knock(), Guest())
    for guest in (CN2, Guest()):
        with pytest.raises(NoPlace, match="3 connections are open, the bound is 3"):
            places.admit(knock(), guest)
    assert places.admit(knock(), CN1) == "its oldest connection: 3 connections are open, the bound is 3" and knock.closed(dead) and places.count() == 3
    # The Unix socket is its own: whatever comes over TCP, this machine's agent finds a place.
    assert places.admit(knock(), Guest(0, within=True)) == ""


def test_who_has_more_than_a_node_may_have_makes_room_for_others_and_nobody_else_does(knock):
    places = Places(6, 2, 4)
    many = Guest(frozenset({"a", "b", "c"}), share=3, name="many")
    held = [knock() for _ in range(6)]
    assert [places.admit(one, many) for one in held] == [""] * 6
    why = "the oldest of {} connections of many: 6 connections are open, the bound is 6"
    others = [Guest(frozenset({f"cn{n}"})) for n in range(5)]
    assert [places.admit(knock(), guest) for guest in others[:4]] == [why.format(count) for count in (6, 5, 4, 3)]
    assert [knock.closed(one) for one in held] == [True] * 4 + [False] * 2
    with pytest.raises(NoPlace, match="the bound is 6 .ingest.connections_max.; raise it, or let nodes that find no place here deliver to a second server"):
        places.admit(knock(), others[4])
    assert places.admit(knock(), many).startswith("its oldest connection: "), "it takes nobody else's place"


def test_what_one_certificate_has_on_its_way_leaves_others_room_to_come(knock):
    """Nothing that had to go leaves, as while the store stands still."""
    places = Places(6, 2, 4)
    assert places.windows_max == 20, "6 connections and 4 of the Unix socket, and as many that had to go"
    many = Guest(frozenset(f"a{n}" for n in range(100)), share=100)
    with pytest.raises(NoPlace, match="5 of its connections had to go"):
        for _ in range(100):
            places.admit(knock(), many)
    for n in range(4):
        assert "the oldest of" in places.admit(knock(), Guest(frozenset({f"cn{n}"})))


def test_those_that_had_to_go_are_bounded_too(knock):
    places = Places(3, 1, 4)
    assert places.windows_max == 2 * (3 + 2)
    names = [Guest(frozenset({f"cn{n}"})) for n in range(8)]
    for guest in names:
        try:
            for connection in (knock(), knock()):
                places.admit(connection, guest)
            places.leave(connection)  # the one that stayed; the one before it hangs
        except NoPlace:
            break
    assert len(places._delivering.going) == 5 and guest is names[5]


def test_a_flood_of_handshakes_from_one_address_sends_its_own_away(knock):
    places = Places(10, 2, 4)
    slow = knock()
    places.shake_hands(slow, "10.0.0.1")
    flood = [knock() for _ in range(6)]
    for one in flood:
        places.shake_hands(one, "10.0.0.2")
    assert not knock.closed(slow) and [knock.closed(one) for one in flood] == [True] * 3 + [False] * 3
    places.shake_hands(knock(), "10.0.0.3")
    with pytest.raises(NoPlace, match="8 handshakes are under way, the bound is 8"):
        places.shake_hands(knock(), "10.0.0.2")
    assert places.admit(slow, CN1) == "" and places.count() == 1
    with pytest.raises(NoPlace, match="others came while its handshake went on"):
        places.admit(flood[0], CN2)


def test_at_the_end_nobody_gets_in_and_all_are_known(knock):
    places = Places(10, 1, 4)
    old, new, stranger = knock(), knock(), knock()
    places.admit(old, CN1)
    places.admit(new, CN1)
    places.shake_hands(stranger, "10.0.0.1")
    assert places.end() == ([new, old], [stranger])
    for enter in (lambda: places.admit(stranger, CN2), lambda: places.shake_hands(knock(), "10.0.0.1")):
        with pytest.raises(NoPlace, match="ingest ends"):
            enter()
