"""The receiving half: windows go into the queue as they came."""

from collections.abc import Sequence
from typing import Any

from pipeline.lumberjack import Window
from pipeline.queue import Inlet
from pipeline.queue.items import items_of
from pipeline.tls import Peer


class QueueSink:
    """A `pipeline.sink.Sink` that puts into a queue."""

    def __init__(self, inlet: Inlet) -> None:
        self._inlet = inlet

    def prepare(self, window: Window, client: Peer | None) -> list[Any]:
        """See `Sink.prepare`."""
        return items_of(window, client)

    def put(self, windows: Sequence[list[Any]]) -> list[bool]:
        """See `Sink.put`."""
        self._inlet.put([item for items in windows for item in items])
        return [True] * len(windows)

    def status(self) -> dict[str, Any]:
        """`queue`: see `Inlet.status`."""
        return {"queue": self._inlet.status()}

    def flush(self) -> None:
        """See `Sink.flush`: it has no log."""
