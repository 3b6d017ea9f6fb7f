"""What each log server says of itself: a small document in its group's books, written over every few seconds. The central server reads it there, so
that neither a port nor a secret more is needed. Where Elasticsearch takes nothing, the document grows old, and the central server sees why for itself."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.store import StoreError
from pipeline.store.elastic.client import Client, in_path
from pipeline.store.elastic.names import books
from pipeline.store.elastic.reader import GROUPS_MAX, Reader

log = logging.getLogger(__name__)

EVERY_S = 5.0
# Processes of a group that are told of: the two halves, and such as were there before.
SERVERS_MAX = 10 * GROUPS_MAX
JOIN_S = 5.0
# Who has said nothing for so long is not told of any more.
FORGOTTEN_NS = 7 * 24 * 3600 * 10**9


class Reporter:
    """Writes what `look` gives for group `group` until it is stopped. halves: "receive", "store". look: `ingest`, `consumer` and `queue` as in
    `bellrock.logserver.LogServer.status`."""

    def __init__(self, client: Client, group: str, halves: list[str], version: str, look: Callable[[], dict[str, Any]], every_s: float = EVERY_S) -> None:
        self._client, self._group, self._halves, self._version, self._look, self._every_s = client, group, halves, version, look, every_s
        self._then: tuple[float, int, int] | None = None
        self._error: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-server-status", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends it; the last document says that the process ended as asked."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        if not self._thread.is_alive():
            self._try({"ended": True})
            self._client.close()

    def _run(self) -> None:
        while True:
            self._try({"ended": False})
            if self._stop.wait(self._every_s):
                return

    def _try(self, more: Mapping[str, Any]) -> None:
        try:
            self.write(more)
            error = None
        except StoreError as failed:
            error = str(failed)
        except Exception as failed:
            error = f"{failed!r}; this is a fault of Bellrock"
        if error is not None and error != self._error:
            log.warning("the state of this log server cannot be told to the central server: %s", error)
        self._error = error

    def write(self, more: Mapping[str, Any]) -> None:
        """Writes the document once, where the group has books. Raises StoreError."""
        if self._client.answer("HEAD", f"/{books(self._group)}", fine=(404,))[0] == 404:
            return
        host = socket.gethostname()
        document = {"type": "logserver", "group": self._group, "halves": self._halves, "host": host, "pid": os.getpid(), "version": self._version}
        document |= {"time_ns": time.time_ns(), "every_s": self._every_s, **self._shown(self._look()), **more}
        self._client.ask("PUT", f"/{books(self._group)}/_doc/{in_path(f'logserver/{host}/' + '+'.join(self._halves))}", document)

    def _shown(self, found: Mapping[str, Any]) -> dict[str, Any]:
        now = time.monotonic()
        halves = {"receive": found.get("ingest"), "store": found.get("consumer")}
        events = [(half or {}).get("events", 0) for half in halves.values()]
        then, self._then = self._then, (now, *events)
        rates = [None, None] if then is None else [max(0, events[at] - then[at + 1]) / max(0.001, now - then[0]) for at in (0, 1)]
        shown: dict[str, Any] = {"queue": found.get("queue")}
        for (name, half), rate in zip(halves.items(), rates, strict=True):
            if half is not None:
                kept = {key: half.get(key) for key in ("events", "connections", "last_commit_ns", "waits_for", "error") if key in half}
                certificate = half.get("certificate") or {}
                shown[name] = kept | {"per_s": rate, "certificate_ends_ns": certificate.get("ends_ns")}
            else:
                shown[name] = None
        return shown


def read(reader: Reader) -> dict[str, list[dict[str, Any]]]:
    """By group, what its log servers said last, the newest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    oldest = time.time_ns() - FORGOTTEN_NS
    for page in reader.hits("bellrock-books-*", {"term": {"type": "logserver"}}, limit=SERVERS_MAX):
        for hit in page:
            source = hit["_source"]
            if source["time_ns"] >= oldest:
                found.setdefault(source["group"], []).append({name: value for name, value in source.items() if name not in ("type", "group")})
    for servers in found.values():
        servers.sort(key=lambda server: -server["time_ns"])
    return found
