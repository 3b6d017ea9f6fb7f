"""Who may be connected at once. A peer's connections are sent away for others' only while it has more than PEER_CONNECTIONS_MAX. Whoever comes
anew finds a place as long as anybody has more; where all have as few, there are more peers than this server has places for."""

import socket
import threading
from collections import Counter
from dataclasses import dataclass, field

from pipeline.listen import shutdown

# Connections that may deliver over TCP. Those that were told to go have as many places again, until their last window is settled.
CONNECTIONS_MAX = 1024
# Of one node, times the nodes that its certificate names; of one user at the Unix socket. One more takes the oldest one's place: an agent that
# comes back must not wait until it is known that its last connection is dead.
PEER_CONNECTIONS_MAX = 4
# Users that may connect to the Unix socket: the server's own and root.
UNIX_USERS = 2
# Connections whose handshake is under way. Those that were told to go have as many places again.
HANDSHAKES_MAX = 64


class NoPlace(Exception):
    """There is no place for a connection; the text says why."""


@dataclass(frozen=True)
class Guest:
    """Whose a connection is. `key` tells one peer from another; None: not known, as on a port without TLS, where only the bound in all holds.
    `share` times PEER_CONNECTIONS_MAX connections may be the peer's, where there is room. `name` is for the log. `within`: it came by the Unix
    socket, and takes no place of TCP's."""

    key: object = None
    share: int = 1
    name: str = ""
    within: bool = False


@dataclass
class _Places:
    """Places of one sort by age. `going` are those that were told to go; they stay here until they are gone."""

    staying: dict[socket.socket, Guest] = field(default_factory=dict)
    going: dict[socket.socket, Guest] = field(default_factory=dict)

    def send_away(self, connection: socket.socket) -> None:
        self.going[connection] = self.staying.pop(connection)
        shutdown(connection, socket.SHUT_RDWR)

    def leave(self, connection: socket.socket) -> None:
        self.staying.pop(connection, None)
        self.going.pop(connection, None)


class Places:
    """The places of one server. Any thread may use it."""

    def __init__(self, connections_max: int, peer_connections_max: int, handshakes_max: int) -> None:
        self._connections_max = connections_max
        self._peer_max = peer_connections_max
        self._handshakes_max = handshakes_max
        self._lock = threading.Lock()  # owner of all below
        self._delivering = _Places()
        self._strangers = _Places()
        self._ended = False

    @property
    def windows_max(self) -> int:
        """How many connections can at most have a window on its way."""
        return 2 * (self._connections_max + UNIX_USERS * self._peer_max)

    def admit(self, connection: socket.socket, guest: Guest) -> str:
        """Gives a connection the place of one that may deliver, and takes its place among the strangers if it has one. Another has to go for
        it where the guest has too many, or where there are too many in all: the guest's oldest, or, if it has none, the oldest of the peer
        that has most. The answer is whose it was and why, or empty. Raises NoPlace."""
        with self._lock:
            was_stranger = connection in self._strangers.going
            self._strangers.leave(connection)
            if was_stranger or self._ended:
                raise NoPlace("others came while its handshake went on" if was_stranger else "ingest ends")
            staying, going = self._delivering.staying, self._delivering.going
            own = [one for one, whose in staying.items() if guest.key is not None and whose.key == guest.key]
            crowded = not guest.within and sum(not whose.within for whose in staying.values()) >= self._connections_max
            bound = guest.share * self._peer_max
            why = ""
            if own and (crowded or len(own) >= bound):
                # Half of those that go are others', whose own oldest must find a place there.
                going_max = min(bound, max(self._peer_max, self.windows_max // 4))
                gone = sum(whose.key == guest.key for whose in going.values())
                if gone >= going_max:
                    raise NoPlace(f"{gone} of its connections had to go, and the store has not yet taken what they delivered")
                oldest, why = own[0], f"its oldest connection: {self._full() if crowded else f'it may have {bound}'}"
            elif crowded:
                oldest, count = self._oldest_of_most()
                why = f"the oldest of {count} connections of {staying[oldest].name}: {self._full()}"
            if why:
                if len(going) >= self.windows_max // 2:
                    raise NoPlace(f"{len(going)} connections had to go, and the store has not yet taken what they delivered")
                self._delivering.send_away(oldest)
            staying[connection] = guest
            return why

    def _full(self) -> str:
        return f"{self._connections_max} connections are open, the bound is {self._connections_max}"

    def _oldest_of_most(self) -> tuple[socket.socket, int]:
        """The oldest connection of the peer that has most, and how many it has. Raises NoPlace where none has more than a node may have."""
        staying = self._delivering.staying
        counts = Counter(guest.key for guest in staying.values() if guest.key is not None and not guest.within)
        key, count = max(counts.items(), key=lambda item: item[1], default=(None, 0))
        if count <= self._peer_max:
            raise NoPlace(f"{self._full()} (ingest.connections_max); raise it, or let nodes that find no place here deliver to a second server")
        return next(one for one, guest in staying.items() if guest.key == key), count

    def shake_hands(self, connection: socket.socket, address: str) -> None:
        """Gives a connection the place of a stranger. Where there are too many, the oldest of the address that has most has to go: whoever
        comes last has the best chance to be in earnest, since a handshake takes milliseconds. Raises NoPlace."""
        with self._lock:
            if self._ended:
                raise NoPlace("ingest ends")
            strangers = self._strangers
            if len(strangers.staying) >= self._handshakes_max:
                if len(strangers.going) >= self._handshakes_max:
                    raise NoPlace(f"{2 * self._handshakes_max} handshakes are under way, the bound is {2 * self._handshakes_max}")
                addresses = [guest.key for guest in strangers.staying.values()]
                busiest = max(addresses, key=addresses.count)
                strangers.send_away(next(one for one, guest in strangers.staying.items() if guest.key == busiest))
            strangers.staying[connection] = Guest(address)

    def was_sent_away(self, connection: socket.socket) -> bool:
        """Whether it had to make room."""
        with self._lock:
            return connection in self._delivering.going or connection in self._strangers.going

    def leave(self, connection: socket.socket) -> None:
        """Gives up the place, of whatever sort."""
        with self._lock:
            self._strangers.leave(connection)
            self._delivering.leave(connection)

    def count(self) -> int:
        """Connections that may deliver."""
        with self._lock:
            return len(self._delivering.staying)

    def end(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Gives out no more places. Who has one: those that may deliver, and strangers."""
        with self._lock:
            self._ended = True
            return [*self._delivering.staying, *self._delivering.going], [*self._strangers.staying, *self._strangers.going]
