"""The list between the half of a log server that receives and the half that stores: what a queue can do.

An item is one event as JSON text, exactly what Logstash's redis output pushes and its redis input pops, so that either half can be Logstash.
The implementation at hand is `pipeline.queue.redis`. Where there is no queue, windows go straight into a `pipeline.sink.StoreSink`.
"""

from dataclasses import dataclass
from typing import Any, Protocol


class QueueError(Exception):
    """The queue could not do what was asked (gone, out of memory, full, another's key under its name). To try again is safe."""


class NotOurs(QueueError):
    """Another consumer has, or had meanwhile, what was taken here: none of it is done, and it comes again to whoever holds the queue."""


@dataclass(frozen=True)
class Piece:
    """Items in their order, as bytes. `source` and `token` say where they lie and under whose hold they were read."""

    items: list[bytes]
    source: str
    token: str


class Inlet(Protocol):
    """The end where items are put. Used by one thread, but for `status`."""

    def put(self, items: list[bytes]) -> None:
        """Puts items, in their order, at the end: on return they are durable. Raises QueueError, also where the queue is full; they may then be there
        all the same: put again they are there twice, which the store's numbers tell."""
        ...

    def status(self) -> dict[str, Any]:
        """`length` (items that waited when it was last seen, None: never) and `warnings` (texts: what of the queue's settings is not safe)."""
        ...


class Outlet(Protocol):
    """The end where items are taken, oldest first. One consumer at a time holds it. Any thread may use it."""

    def hold(self) -> str | None:
        """Holds the queue from here on, for as long as anything is called often enough. Where another consumer has it the answer is who; None: we
        have. Raises QueueError."""
        ...

    def keep(self) -> None:
        """Goes on holding the queue. Raises NotOurs where it is lost, else QueueError."""
        ...

    def take(self, least: int) -> Piece | None:
        """The items after those that were taken and are not done: first what was there when we began to hold it. None where there are none, or of what
        nobody took yet fewer than `least`. Raises NotOurs, else QueueError, after which all that is not done comes again."""
        ...

    def done(self, piece: Piece) -> None:
        """Removes a piece for good. Pieces are done in the order in which they were taken. Raises as `take` does."""
        ...

    def holds(self, piece: Piece) -> bool:
        """Whether a piece that was taken is still ours, as far as is known here."""
        ...

    def release(self) -> None:
        """Holds it no more; what is not done comes again. Raises nothing: who cannot be told learns it when the hold runs out."""
        ...
