"""Documents in bulk: bodies by a few threads, and what becomes of a document that Elasticsearch does not take."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pipeline.store import StoreError
from pipeline.store.elastic.client import BUSY_TRIES_MAX, BUSY_WAIT_FIRST_S, Client, dumps, is_blocked, is_of_index, reason_of

# A body ends with the document that takes it over this; several are under way at once. No document is larger than a frame of the
# protocol (1 MiB), or a commit's marks.
BODY_BYTES = 1 << 20

# A line of what is to be done, and where it is no removal one of the document, both with their ends: b'{"index":…}\n{…}\n'.
Lines = Sequence[bytes]


@dataclass(frozen=True)
class Body:
    """What goes in one request. places: what the sender calls its documents, in their order. path: of the index that all are for whose lines name none.
    parts: `data`, one element a document; None where each is of two lines, to be told apart when that is needed."""

    data: bytes
    places: Sequence[int]
    path: str = ""
    parts: Lines | None = None

    def lines(self) -> Lines:
        if self.parts is not None:
            return self.parts
        ends = self.data.split(b"\n")
        return [b"%b\n%b\n" % (ends[at], ends[at + 1]) for at in range(0, len(ends) - 1, 2)]


def bodies_of(lines: Lines, places: Sequence[int]) -> list[Body]:
    """Lines as bodies, told by `places`."""
    return [Body(b"".join(lines[begin:end]), places[begin:end], "", lines[begin:end]) for begin, end in _slices(lines)]


class Bulk:
    """Sends documents. Raises StoreError where Elasticsearch cannot take them now; what it never will take is returned: place in the list → why."""

    def __init__(self, client: Client, threads: int) -> None:
        self._client = client
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="elastic-bulk")

    def send(self, lines: Lines) -> dict[int, str]:
        """Sends documents one line, or two, an element."""
        return self.send_bodies(bodies_of(lines, range(len(lines))))

    def send_bodies(self, bodies: Iterable[Body], plain: Callable[[int], bytes] | None = None) -> dict[int, str]:
        """Each is sent as soon as it is there, so that the next may be made meanwhile. plain: the document at a place once more, in our own words, for where
        the sender's were not understood."""
        tasks: list[Future] = []
        refused: dict[int, str] = {}
        error: BaseException | None = None
        try:
            tasks += (self._threads.submit(self._body, body, plain) for body in bodies)
        except BaseException as failed:
            error = failed
        for task in tasks:  # all, so that nothing is under way any more when this ends
            try:
                refused |= task.result()
            except BaseException as failed:
                error = error or failed
        if error is not None:
            raise error
        return refused

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    def _body(self, body: Body, plain: Callable[[int], bytes] | None) -> dict[int, str]:
        # A lean answer first: to tell of each document costs more than to take it.
        if not self._client.ask("POST", f"{body.path}/_bulk?filter_path=errors", body.data)["errors"]:
            return {}
        refused: dict[int, str] = {}
        todo = dict(zip(body.places, body.lines(), strict=True))
        reworded: set[int] = set()
        wait_s = BUSY_WAIT_FIRST_S
        for left in range(BUSY_TRIES_MAX, -1, -1):
            found = self._client.ask("POST", f"{body.path}/_bulk?filter_path=items.*.status,items.*.error", b"".join(todo.values()))
            again: dict[int, bytes] = {}
            busy: Any = None
            for (place, line), answer in zip(todo.items(), found["items"], strict=True):
                ((what, told),) = answer.items()
                status, error = told["status"], {"error": told.get("error")}
                # To remove what is gone or was written again since, or to write what a later commit has written, is done with.
                if status < 300 or status == 409 or (status == 404 and what == "delete"):
                    continue
                if status == 400 and is_of_index(told.get("error")):
                    raise StoreError(self._client.explain(status, error, "POST /_bulk"))
                if status == 400 and plain is not None and place not in reworded:
                    reworded.add(place)
                    again[place] = line[: line.index(b"\n") + 1] + plain(place) + b"\n"
                elif status == 400:
                    refused[place] = reason_of(error)
                elif (status == 429 or status >= 500) and not is_blocked(status, error):
                    busy = error
                    again[place] = line
                else:
                    raise StoreError(self._client.explain(status, error, "POST /_bulk"))
            if not again:
                return refused
            todo = again
            if busy and left:
                time.sleep(wait_s)
                wait_s *= 2
        raise StoreError(self._client.explain(429, busy, f"POST /_bulk: {len(todo)} documents, {BUSY_TRIES_MAX + 1} times"))


def _slices(lines: Lines) -> Iterator[tuple[int, int]]:
    begin = size = 0
    for place, length in enumerate(map(len, lines)):
        size += length
        if size >= BODY_BYTES:
            yield begin, place + 1
            begin, size = place + 1, 0
    if begin < len(lines):
        yield begin, len(lines)


def action(index: str, identity: str, kind: str = "index", **more: object) -> bytes:
    """A line that says what is to be done with a document."""
    return dumps({kind: {"_index": index, "_id": identity, **more}}) + b"\n"


def removals(hits: Sequence[dict]) -> list[bytes]:
    """Lines that remove what was found; where `_seq_no` is told, only what nobody has written again since."""
    return [action(hit["_index"], hit["_id"], "delete", **_unless_changed(hit)) for hit in hits]


def _unless_changed(hit: dict) -> dict[str, int]:
    return {"if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"]} if "_seq_no" in hit else {}
