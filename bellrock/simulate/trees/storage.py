"""The files of object storage servers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bellrock.simulate import names
from bellrock.simulate.model import OPS
from bellrock.simulate.trees import queueing
from bellrock.simulate.trees.activity import Moved, Sight, moved, others_first, summed
from bellrock.simulate.trees.lustre_files import OST_BYTES, Disk, File, Service, io_service, object_target
from bellrock.simulate.trees.server import Files, files, nid

KIB = 1024
WRITE = OPS.index("write")
# What a target has, so many KiB and files, and how full it is at first: ours.
TARGET_KIB, TARGET_FILES = 100 << 30, 1 << 28
FULL_SHARE = (2, 5)
FILE_KIB = 1024
# Threads of the I/O service.
THREADS, THREADS_MIN = 512, 3
# Bounds of the rows of I/O times, s: up to 1, 2, 4 … ms.
_TIME_BOUNDS = tuple((1 << row) / 1000 for row in range(20))


class Queue:
    """How long requests wait for a target, and are served there, look by look."""

    def __init__(self, sight: Sight, number: int) -> None:
        storage, rows, seconds = sight.machine.storage, sight.activity.storage.of(number), sight.seconds
        self._bytes_s, self._request_s = storage.bytes_s, storage.request_us / 1e6
        busy = queueing.busy(rows.begin_ms, rows.end_ms, rows.bytes / self._bytes_s + rows.operations * self._request_s, seconds)
        slow = sight.slowness("storage", number)
        # How long a request waits, in times of its service, and how long its service is, in usual times.
        self._waits = queueing.over(queueing.waits(busy * slow, 1, others_first(sight.machine)[-1]), busy, sight.every_s)
        self._slow = queueing.over(slow, busy, sight.every_s)

    def times(self, look: int | np.ndarray, size: int | np.ndarray) -> tuple[Any, Any]:
        """How long a request of so many bytes waited, and was served, between a look and that before, s; of several, one element each."""
        service_s = (size / self._bytes_s + self._request_s) * self._slow[look - 1]
        return service_s * self._waits[look - 1], service_s


class Target:
    """One target: its loads cut at looks, and its counters as they stand."""

    def __init__(self, sight: Sight, number: int, queue: Queue) -> None:
        machine, rows = sight.machine, sight.activity.storage.of(number)
        self.name = f"{machine.file_system}-{names.target(number)}"
        self._queue, self._rng = queue, queueing.drawn(sight.seed, 1, number)
        self._rows, self._job_ids = rows, sight.activity.job_ids
        self._moved = moved(rows, sight.every_s * 1000)
        self._files = object_target(self.name, sight.with_jobs)
        self._disk = Disk()
        self._exports, self._clients = others_first(machine)[-1], [nid(names.FORWARDING_NET, client) for client in range(machine.forwarders)]

    def first(self, second: int) -> Iterator[File]:
        """All its files, before anything was done."""
        yield f"{self._files.own}/num_exports", f"{self._exports}\n"
        for name, value in (("kbytestotal", TARGET_KIB), ("filestotal", TARGET_FILES)):
            yield f"{self._files.disk}/{name}", f"{value}\n"
        yield from self._counted(second)
        yield from (self._files.export(client, second) for client in self._clients)
        yield from self._files.job_stats(second)

    def looks(self) -> Iterator[tuple[int, Moved]]:
        """The looks at which it has done something, and what."""
        return self._moved.looks()

    def totals(self) -> dict[str, int]:
        """What it must have counted."""
        reads, writes = (self._rows.of_ops((op,)) for op in ("read", "write"))
        sums = {"read_bytes": reads.bytes, "write_bytes": writes.bytes, "read_ops": reads.operations, "write_ops": writes.operations}
        return {name: int(values.sum()) for name, values in sums.items()}

    def changed(self, look: int, done: Moved, second: int, service: Service) -> Iterator[File]:
        """Its files at a look, by which it has done so much more."""
        for job, op, bytes_, count in summed(done, self._rows.job, self._rows.op):
            name = OST_BYTES[op == WRITE]
            self._files.counts.add(name, count, bytes_)
            if self._files.jobs is not None:
                self._files.jobs.add(self._job_ids[job], second, name, count, bytes_)
            if count:
                size = -(-bytes_ // count)
                wait_s, service_s = self._queue.times(look, size)
                self._tell(op == WRITE, size, count, service_s, wait_s)
                service.add(op == WRITE, count, wait_s, service_s)
        clients = set()
        for client, op, bytes_, count in summed(done, self._rows.source, self._rows.op):
            self._files.add_of_client(self._clients[client], OST_BYTES[op == WRITE], count, bytes_)
            clients.add(client)
        yield from self._counted(second)
        yield from (self._files.export(self._clients[client], second) for client in sorted(clients))
        yield from self._files.job_stats(second)

    def stale(self, second: int) -> Iterator[File]:
        """What goes while it does nothing."""
        return self._files.stale(second)

    def _tell(self, is_write: bool, size: int, count: int, service_s: float, wait_s: float) -> None:
        self._disk.add_rpcs(is_write, size, count)
        self._disk.add_ios(is_write, size, round(wait_s / service_s), count)
        for row, part in enumerate(queueing.spread(np.array([count]), np.array([service_s]), _TIME_BOUNDS, self._rng)[0].tolist()):
            self._disk.add_times(is_write, row, part)

    def _counted(self, second: int) -> Iterator[File]:
        disk = self._files.disk
        yield self._files.counted(second)
        yield f"{disk}/brw_stats", self._disk.text(second)
        used = TARGET_KIB * FULL_SHARE[0] // FULL_SHARE[1] + self._files.counts.bytes_of("write_bytes") // KIB
        free = max(TARGET_KIB - used, 0)
        yield f"{disk}/kbytesfree", f"{free}\n"
        yield f"{disk}/kbytesavail", f"{free * 19 // 20}\n"
        yield f"{disk}/filesfree", f"{max(TARGET_FILES - used // FILE_KIB, 0)}\n"


def server_looks(sight: Sight, number: int, queues: Sequence[Queue], told: dict[str, dict[str, int]]) -> Files:
    """What changes on a server: look, file, text, in order. queues: of all targets. told: gets its targets' sums by their names, once all is over."""
    each = sight.machine.storage.targets
    targets = [Target(sight, one, queues[one]) for one in range(number * each, (number + 1) * each)]
    yield from files(sight, targets, io_service((THREADS, THREADS_MIN)))
    for target in targets:
        told[target.name] = target.totals()
