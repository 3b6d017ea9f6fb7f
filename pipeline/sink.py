"""Where a batch of records goes: what a sink is, and the one that is a store."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import orjson

from pipeline import schema
from pipeline.lumberjack import Window
from pipeline.store import Store, Undecodable
from pipeline.throttle import Throttle
from pipeline.tls import Peer, quoted

log = logging.getLogger(__name__)

# Of what is no JSON, so much is kept.
UNDECODABLE_CHARACTERS_MAX = 4096


class ForeignNode(Exception):
    """A record claims a node that its client's certificate does not name. `node` is that node."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class Events(list[Any]):
    """Events of a window, and in `raw` the text that each was decoded from, which a store may take as it is."""

    def __init__(self, raw: Sequence[bytes], decode: Callable[[bytes], Any]) -> None:
        super().__init__(map(decode, raw))
        self.raw = raw


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
    """Decodes and appends to `store`, then hands well-formed job events to `on_job_event`, duplicates included: perhaps one was not taken when it
    came first. Where that raises, the window is not to be acknowledged."""

    def __init__(self, store: Store, on_job_event: Callable[[dict], None] | None = None) -> None:
        self._store = store
        self._on_job_event = on_job_event
        self._throttle = Throttle(log)
        self._job_event_errors = 0

    def prepare(self, window: Window, client: Peer | None) -> list[Any]:
        """See `Sink.prepare`."""
        events = Events(window.payloads, decoded)
        if client is not None:
            for event in events:
                check_node(event, client)
        return events

    def put(self, windows: Sequence[list[Any]]) -> list[bool]:
        """See `Sink.put`."""
        raw = [text for events in windows for text in (events.raw if isinstance(events, Events) else [None] * len(events))]
        appended = self._store.append([event for events in windows for event in events], raw)
        if appended.dead_letters:
            self._throttle.say("dead letters", "agents", f"ingest: {appended.dead_letters} records were refused; `bellrock audit` tells why")
        if appended.missing:
            text = f"ingest: {appended.missing} records are missing: their agents jumped over their numbers; `bellrock audit` tells which"
            self._throttle.say("missing", "agents", text)
        taken, at = [], 0
        for events in windows:
            taken.append(self._pass_on([event for place, event in enumerate(events, at) if place not in appended.refused]))
            at += len(events)
        return taken

    def status(self) -> dict[str, Any]:
        """`job_event_errors`."""
        return {"job_event_errors": self._job_event_errors}

    def flush(self) -> None:
        """See `Sink.flush`."""
        self._throttle.flush()

    def _pass_on(self, events: list[Any]) -> bool:
        if self._on_job_event is None:
            return True
        for event in events:
            if type(event) is dict and event.get("kind") == "job" and _well_formed(event):
                try:
                    self._on_job_event(event)
                except Exception:
                    self._job_event_errors += 1
                    text = f"ingest: job event of job {quoted(event['job'])} was not taken; it comes again"
                    self._throttle.say("job event", quoted(event["node"]), text, logging.ERROR, exc_info=True)
                    return False
        return True


def decoded(payload: bytes) -> Any:
    """The event that a payload is the JSON of; Undecodable where it is none."""
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        return Undecodable(as_text(payload), str(error))


def as_text(payload: bytes) -> str:
    """The beginning of what is no JSON, as it is kept."""
    return payload[:UNDECODABLE_CHARACTERS_MAX].decode("utf-8", "backslashreplace")


def check_node(event: Any, client: Peer) -> None:
    """Raises ForeignNode where an event names a node that `client` may not write for. One that names none is never more than a dead letter."""
    node = event.get("node") if type(event) is dict else None
    if type(node) is str and node not in client.nodes:
        raise ForeignNode(node)


def _well_formed(event: dict) -> bool:
    try:
        schema.check(event, time.time_ns())
    except schema.RecordError:
        return False  # it became a dead letter when it came first
    return True
