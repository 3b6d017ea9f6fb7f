"""The files of the metadata server in use."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bellrock.simulate import names
from bellrock.simulate.model import OPS
from bellrock.simulate.trees import queueing
from bellrock.simulate.trees.activity import NO_JOB, Moved, Sight, look_by_look, others_first, summed
from bellrock.simulate.trees.lustre_files import File, Service, metadata_service, metadata_target
from bellrock.simulate.trees.lustre_text import PROC
from bellrock.simulate.trees.server import Files, files, nid

# What the metadata server calls what clients ask for. A listing is of attributes.
NAME = {
    "open": "open", "close": "close", "stat": "getattr", "access": "getattr", "readdir": "getattr", "unlink": "unlink", "rename": "rename", "mkdir": "mkdir",
    "rmdir": "rmdir", "link": "link", "truncate": "setattr", "sync": "sync",
}  # fmt: skip
# Threads of its service, so that one serves a request in so many of `operations_s` (ours).
THREADS, THREADS_MIN = 64, 3
MDT_KIB, MDT_FILES = 8 << 30, 1 << 31
FULL_SHARE = (1, 4)


class Queue:
    """How long requests wait for the metadata server, look by look, and are served there."""

    def __init__(self, sight: Sight) -> None:
        machine, rows = sight.machine, sight.activity.metadata.of(0)
        busy = queueing.busy(rows.begin_ms, rows.end_ms, rows.operations / machine.metadata.operations_s, sight.seconds)
        slow = sight.slowness("metadata", 0)
        self._service_s = THREADS / machine.metadata.operations_s * queueing.over(slow, np.ones(len(slow)), sight.every_s)
        self._waits = queueing.over(queueing.waits(busy * slow, THREADS, others_first(machine)[-1]), busy, sight.every_s)

    def times(self, look: int | np.ndarray) -> tuple[Any, Any]:
        """How long a request waited, and was served, between a look and that before, s; of several, one element each."""
        service_s = self._service_s[look - 1]
        return service_s * self._waits[look - 1], service_s


class Target:
    """The metadata target: its loads, and its counters as they stand, by job and by client."""

    def __init__(self, sight: Sight) -> None:
        machine, rows = sight.machine, sight.activity.metadata.of(0)
        self.name = f"{machine.file_system}-{names.metadata_target(0)}"
        self._rows, self._every_ms, self._looks = rows, sight.every_s * 1000, sight.looks
        clients = others_first(machine)
        self._queue = Queue(sight)
        self._files = metadata_target(self.name, sight.with_jobs)
        self._clients = [nid(names.FORWARDING_NET, number) for number in range(clients[0])]
        self._clients += [nid(names.OTHERS_NET, number) for number in range(clients[-1] - clients[0])]
        self._job_ids = sight.activity.job_ids

    def first(self, second: int) -> Iterator[File]:
        """All its files, before anything was done."""
        own, disk = self._files.own, self._files.disk
        yield f"{own}/num_exports", f"{len(self._clients)}\n"
        used = MDT_KIB * FULL_SHARE[0] // FULL_SHARE[1]
        for name, value in (("kbytestotal", MDT_KIB), ("kbytesfree", MDT_KIB - used), ("kbytesavail", MDT_KIB - used), ("filestotal", MDT_FILES)):
            yield f"{disk}/{name}", f"{value}\n"
        yield f"{disk}/filesfree", f"{MDT_FILES * (FULL_SHARE[1] - FULL_SHARE[0]) // FULL_SHARE[1]}\n"
        yield self._files.counted(second)
        yield from (self._files.export(client, second) for client in self._clients)
        yield from self._files.job_stats(second)

    def looks(self) -> Iterator[tuple[int, Moved]]:
        """The looks at which it has done something, and what."""
        return look_by_look(self._rows, self._every_ms, self._looks)

    def totals(self) -> dict[str, int]:
        """What it counted."""
        return self._files.counts.requests()

    def changed(self, look: int, done: Moved, second: int, service: Service) -> Iterator[File]:
        """Its files at a look, by which it has done so much more."""
        clients, has_jobs = set(), False
        times_s = self._queue.times(look)
        for client, op, _, count in summed(done, self._rows.source, self._rows.op):
            if count:
                name = NAME[OPS[op]]
                self._files.add_of_client(self._clients[client], name, count)
                self._files.counts.add(name, count)
                clients.add(client)
                service.add(name == "close", count, *times_s)
        yield self._files.counted(second)
        yield from (self._files.export(self._clients[client], second) for client in sorted(clients))
        if self._files.jobs is not None:
            for job, op, _, count in summed(done, self._rows.job, self._rows.op):
                if job != NO_JOB and count:
                    has_jobs = True
                    self._files.jobs.add(self._job_ids[job], second, NAME[OPS[op]], count)
        yield from self._files.job_stats(second) if has_jobs else self._files.stale(second)

    def stale(self, second: int) -> Iterator[File]:
        """What goes while it does nothing."""
        return self._files.stale(second)


def waiting_looks() -> Files:
    """What a server shows that waits to take over: Lustre is there, and nothing is mounted."""
    yield from ((0, f"{PROC}/{name}", f"{text}\n") for name, text in (("version", "lustre: 2.12.9"), ("health_check", "healthy")))


def server_looks(sight: Sight, told: dict[str, dict[str, int]]) -> Files:
    """What changes on the metadata server: look, file, text, in order. told: gets its target's sums by its name, once all is over."""
    target = Target(sight)
    yield from files(sight, [target], metadata_service((THREADS, THREADS_MIN)))
    told[target.name] = target.totals()
