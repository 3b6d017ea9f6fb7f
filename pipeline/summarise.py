"""Summarises the samples of each hour once it is over, and again where more come: what stays when samples go (`pipeline.summary`).

An hour at a time, in pieces of bounded size. That it is done is noted after all of its rows are durable, and its rows take the place of those
before: so it may be killed at any moment, and what it does again has the same result.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.steps import MARGIN_NS
from pipeline.store import Store, StoreError, TooManySamples
from pipeline.store.summaries import Due, Told
from pipeline.summary import EVERY, MINUTE_NS, Minutes, minutes_of, rows_of, rows_table, together

log = logging.getLogger(__name__)

# An hour is summarised so long after its end: most of what agents send has come by then, and what comes later makes it due again.
SETTLED_NS = 10 * 60 * 10**9
# The thread first looks so long after its start, then so often.
FIRST_AFTER_S = 60.0
EVERY_S = 300.0
# Samples that are read at once, instances that they are of, and instances that one question tells of.
SAMPLES_AT_ONCE, INSTANCES_AT_ONCE, TOLD_AT_ONCE = 30_000, 500, 10_000
NICE = 19
JOIN_S = 10.0


class Summariser:
    """One thread at a time may `look`. Everything but `_stop` belongs to it; `status` only reads."""

    def __init__(self, store: Store, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._store, self._clock_ns = store, clock_ns
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="summaries", daemon=True)
        self._hours = self._left_out = 0
        self._error: str | None = None

    def start(self) -> None:
        """Summarises from now on, in a thread of its own at the lowest priority."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it after the piece in hand; the rest is done by the next one."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    def status(self) -> dict[str, Any]:
        """Since the start: `hours` summarised (one that was again counts again), and `left_out`, minutes of instances that had too many samples; `error`: why it cannot go on, else None."""
        return {"hours": self._hours, "left_out": self._left_out, "error": self._error}

    def look(self) -> None:
        """Summarises all that is due, or until `stop`. Of a group that fails the rest comes with the next look; raises its StoreError after the others' turn."""
        failed: StoreError | None = None
        for group in self._store.summary_groups():
            try:
                while not self._stop.is_set():
                    due = self._store.due(group, self._clock_ns() - SETTLED_NS)
                    if due is None or not self._summarise(due):
                        break
            except StoreError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _run(self) -> None:
        # Threads have a priority of their own on Linux.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        wait_s = FIRST_AFTER_S
        while not self._stop.wait(wait_s):
            wait_s = EVERY_S
            try:
                self.look()
                self._error = None
            except StoreError as error:
                self._say(str(error))
            except Exception as error:
                self._say(f"{error!r}; this is a fault of Bellrock, see the log")
                log.debug("samples cannot be summarised", exc_info=True)

    def _summarise(self, due: Due) -> bool:
        """False where it was stopped before the end."""
        for piece in self._pieces(due):
            if self._stop.is_set():
                return False
            minutes, hours = [], []
            for one, found in self._read(due, piece):
                of_minutes, of_hour = rows_of(found, (one.node, one.component, one.instance), due.hour_ns)
                minutes.append(of_minutes)
                hours.append(of_hour)
            if minutes:
                self._store.put_summaries(due, rows_table(minutes), rows_table(hours))
        self._store.done(due)
        self._hours += 1
        return True

    def _pieces(self, due: Due) -> Iterator[list[Told]]:
        """Instances of one kind, so many that their samples can be held."""
        after: Told | None = None
        piece: list[Told] = []
        while True:
            page = self._store.told(due, after, TOLD_AT_ONCE)
            for one in page:
                is_full = len(piece) >= INSTANCES_AT_ONCE or sum(other.samples for other in piece) + one.samples > SAMPLES_AT_ONCE
                if piece and (is_full or one.component != piece[0].component):
                    yield piece
                    piece = []
                piece.append(one)
            if len(page) < TOLD_AT_ONCE:
                break
            after = page[-1]
        if piece:
            yield piece

    def _read(self, due: Due, piece: Sequence[Told], minutes: range = EVERY) -> Iterator[tuple[Told, Minutes]]:
        """Of each instance of which anything is known, what is known of some minutes of the hour."""
        try:
            samples = self._samples(due, piece, minutes)
        except TooManySamples:
            yield from self._in_parts(due, piece, minutes)
            return
        keys = pc.binary_join_element_wise(samples["node"], samples["instance"], "\0")
        for one in piece:
            found = minutes_of(samples.filter(pc.equal(keys, f"{one.node}\0{one.instance}")), one.component, due.hour_ns, minutes)
            if not found.is_empty:
                yield one, found

    def _samples(self, due: Due, piece: Sequence[Told], minutes: range) -> pa.Table:
        from_ns, to_ns = (due.hour_ns + minute * MINUTE_NS for minute in (minutes.start, minutes.stop))
        return self._store.samples(piece[0].component, [(one.node, one.instance) for one in piece], max(from_ns - MARGIN_NS, 0), to_ns + MARGIN_NS)

    def _in_parts(self, due: Due, piece: Sequence[Told], minutes: range) -> Iterator[tuple[Told, Minutes]]:
        """Where they are too many: some instances, then some minutes at a time. One minute that alone has too many is left out, and told."""
        if len(piece) > 1:
            half = len(piece) // 2
            yield from self._read(due, piece[:half], minutes)
            yield from self._read(due, piece[half:], minutes)
        elif len(minutes) > 1:
            middle = minutes.start + len(minutes) // 2
            halves = range(minutes.start, middle), range(middle, minutes.stop)
            parts = [found for half in halves for _, found in self._read(due, piece, half)]
            if parts:
                yield piece[0], together(parts)
        else:
            self._left_out += 1
            log.warning("summaries: %r has too many samples in a minute of %d, which is left out", piece[0], due.hour_ns)

    def _say(self, error: str) -> None:
        # What is closed meanwhile fails, and is no news.
        if error != self._error and not self._stop.is_set():
            log.warning("samples cannot be summarised: %s", error)
        self._error = error
