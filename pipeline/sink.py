"""Where a batch of records goes: what a sink is, and the one that is a store."""

import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol

from pipeline import schema
from pipeline.lumberjack import Window
from pipeline.schema import native
from pipeline.store import Store, decoded
from pipeline.throttle import Throttle
from pipeline.tls import Peer, quoted

log = logging.getLogger(__name__)

_ANY_NS = (1 << 63) - 1


class ForeignNode(Exception):
    """A record claims a node that its client's certificate does not name. `node` is that node."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class Sink(Protocol):
    """Used by one thread, but for `status`."""

    def prepare(self, window: Window, client: Peer | None) -> list[Any]:
        """A window's events as `put` takes them. `client`: whose they are, None: one that may write for any node. Raises ForeignNode."""
        ...

    def put(self, windows: Sequence[list[Any]]) -> list[bool]:
        """Takes prepared windows, in their order: on return they are durable. The answer says of each whether it may be acknowledged; if not, its
        client has to send it again. Raises StoreError or QueueError, and then nothing may be taken as stored; to put the same again is safe."""
        ...

    def status(self) -> dict[str, Any]:
        """Counters and state of its own, for the status of who uses it. Asks nobody."""
        ...

    def flush(self) -> None:
        """Tells what its log holds back."""
        ...


class StoreSink:
    """Appends to `store`, then hands well-formed job events to `on_job_event`, duplicates included: perhaps one was not taken when it
    came first. Where that raises, the window is not to be acknowledged."""

    def __init__(self, store: Store, on_job_event: Callable[[dict], None] | None = None) -> None:
        self._store = store
        self._on_job_event = on_job_event
        self._throttle = Throttle(log)
        self._job_event_errors = 0

    def begin_anew(self) -> None:
        """See `Store.begin_anew`."""
        self._store.begin_anew()

    def prepare(self, window: Window, client: Peer | None) -> list[Any]:
        """See `Sink.prepare`."""
        if client is not None:
            for place in unusual(window.payloads, client):
                check_node(decoded(window.payloads[place]), client)
        return window.payloads

    def put(self, windows: Sequence[list[Any]], decode: Callable[[bytes], Any] = decoded) -> list[bool]:
        """See `Sink.put`. decode: as `Store.take` has it."""
        # One alone stays what it is: perhaps it was looked through ahead (`Looked`).
        appended = self._store.take(windows[0] if len(windows) == 1 else [payload for payloads in windows for payload in payloads], decode)
        if appended.dead_letters:
            self._throttle.say("dead letters", "agents", f"ingest: {appended.dead_letters} records were refused; `bellrock audit` tells why")
        if appended.missing:
            text = f"ingest: {appended.missing} records are missing: their agents jumped over their numbers; `bellrock audit` tells which"
            self._throttle.say("missing", "agents", text)
        if self._on_job_event is None:
            return [True] * len(windows)
        # Runs that the store did not look at one by one are no job events.
        events = [(place, event) for place, event in sorted(appended.events.items()) if place not in appended.refused and _is_job_event(event)]
        ends = list(accumulate(map(len, windows)))
        taken = [True] * len(windows)
        for place, event in events:
            window = bisect_right(ends, place)
            taken[window] = taken[window] and self._pass_on(event)
        return taken

    def status(self) -> dict[str, Any]:
        """`job_event_errors`."""
        return {"job_event_errors": self._job_event_errors}

    def flush(self) -> None:
        """See `Sink.flush`."""
        self._throttle.flush()

    def _pass_on(self, event: dict) -> bool:
        assert self._on_job_event is not None
        try:
            self._on_job_event(event)
        except Exception:
            self._job_event_errors += 1
            text = f"ingest: job event of job {quoted(event['job'])} was not taken; it comes again"
            self._throttle.say("job event", quoted(event["node"]), text, logging.ERROR, exc_info=True)
            return False
        return True


def unusual(payloads: Sequence[bytes], client: Peer) -> list[int]:
    """Places of the payloads that have to be decoded to know what node they name: all but good runs. Raises ForeignNode for one of these of a node
    that `client` may not write for."""
    places, done = [], 0
    # Whatever their times are.
    for first, count, node, *_ in native.runs().read(payloads, 0, _ANY_NS, _ANY_NS, 0).spans():
        if node not in client.nodes:
            raise ForeignNode(node)
        places += range(done, first)
        done = first + count
    places += range(done, len(payloads))
    return places


def check_node(event: Any, client: Peer) -> None:
    """Raises ForeignNode where an event names a node that `client` may not write for. One that names none is never more than a dead letter."""
    node = event.get("node") if type(event) is dict else None
    if type(node) is str and node not in client.nodes:
        raise ForeignNode(node)


def _is_job_event(event: Any) -> bool:
    """Whether it is a well-formed one; another became a dead letter when it came first."""
    if type(event) is not dict or event.get("kind") != "job":
        return False
    try:
        schema.check(event, time.time_ns())
    except schema.RecordError:
        return False
    return True
