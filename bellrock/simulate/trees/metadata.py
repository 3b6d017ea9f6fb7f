"""The files of the metadata server in use."""

from collections.abc import Iterator

from bellrock.simulate import names
from bellrock.simulate.model import OPS
from bellrock.simulate.trees import queueing
from bellrock.simulate.trees.activity import NO_JOB, Sight, moved, others_first, summed
from bellrock.simulate.trees.lustre_text import PROC, JobStats, requests_line, stats
from bellrock.simulate.trees.server import Files, Service, files, nid

# What the metadata server calls what clients ask for. A listing is of attributes.
NAME = {
    "open": "open", "close": "close", "stat": "getattr", "access": "getattr", "readdir": "getattr", "unlink": "unlink", "rename": "rename", "mkdir": "mkdir",
    "rmdir": "rmdir", "link": "link", "truncate": "setattr", "sync": "sync",
}  # fmt: skip
OPERATIONS = ("open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr", "setxattr", "statfs", "sync")
# Threads of its service, so that one serves a request in so many of `operations_s` (ours).
THREADS, THREADS_MIN = 64, 3
MDT_KIB, MDT_FILES = 8 << 30, 1 << 31
FULL_SHARE = (1, 4)


class Target:
    """The metadata target: its loads cut at looks, and its counters as they stand, by job and by client."""

    def __init__(self, sight: Sight) -> None:
        machine, rows = sight.machine, sight.activity.metadata.of(0)
        self.name = f"{machine.file_system}-{names.metadata_target(0)}"
        self._rows, self._moved = rows, moved(rows, sight.every_s * 1000)
        clients = others_first(machine)
        work_s = rows.operations / machine.metadata.operations_s
        busy = queueing.busy(rows.begin_ms, rows.end_ms, work_s, sight.seconds)
        self._service_s = THREADS / machine.metadata.operations_s
        self._waits = queueing.over(queueing.waits(busy, THREADS, clients[-1]), busy, sight.every_s)
        self._counts = dict.fromkeys(OPERATIONS, 0)
        self._clients = [nid(names.FORWARDING_NET, number) for number in range(clients[0])]
        self._clients += [nid(names.OTHERS_NET, number) for number in range(clients[-1] - clients[0])]
        self._by_client: dict[int, dict[str, int]] = {}
        self._jobs = JobStats((), OPERATIONS) if sight.with_jobs else None
        self._job_ids = sight.activity.job_ids

    def first(self, second: int) -> Iterator[tuple[str, str]]:
        """All its files, before anything was done."""
        disk = f"{PROC}/osd-ldiskfs/{self.name}"
        yield f"{self._own()}/num_exports", f"{len(self._clients)}\n"
        used = MDT_KIB * FULL_SHARE[0] // FULL_SHARE[1]
        for name, value in (("kbytestotal", MDT_KIB), ("kbytesfree", MDT_KIB - used), ("kbytesavail", MDT_KIB - used), ("filestotal", MDT_FILES)):
            yield f"{disk}/{name}", f"{value}\n"
        yield f"{disk}/filesfree", f"{MDT_FILES * (FULL_SHARE[1] - FULL_SHARE[0]) // FULL_SHARE[1]}\n"
        yield f"{self._own()}/md_stats", self._text(self._counts, second)
        for number in range(len(self._clients)):
            yield self._export(number, second)
        if self._jobs is not None:
            yield f"{self._own()}/job_stats", self._jobs.text(second)

    def looks(self) -> Iterator[tuple[int, slice]]:
        """The looks at which it has done something, and what."""
        return self._moved.looks()

    def totals(self) -> dict[str, int]:
        """What it counted."""
        return {name: count for name, count in self._counts.items() if count}

    def changed(self, look: int, what: slice, second: int, service: Service) -> Iterator[tuple[str, str]]:
        """Its files at a look, once it has done `what`."""
        clients, has_jobs = set(), False
        for client, op, _, count in summed(self._moved, what, self._rows.source, self._rows.op):
            if count:
                name = NAME[OPS[op]]
                counts = self._by_client.setdefault(client, dict.fromkeys(OPERATIONS, 0))
                counts[name] += count
                self._counts[name] += count
                clients.add(client)
                service.add(name == "close", count, self._service_s * float(self._waits[look - 1]), self._service_s)
        yield f"{self._own()}/md_stats", self._text(self._counts, second)
        for client in sorted(clients):
            yield self._export(client, second)
        if self._jobs is not None:
            for job, op, _, count in summed(self._moved, what, self._rows.job, self._rows.op):
                if job != NO_JOB and count:
                    has_jobs = True
                    self._jobs.add(self._job_ids[job], second, NAME[OPS[op]], count)
            if has_jobs or self._jobs.is_stale(second):
                yield f"{self._own()}/job_stats", self._jobs.text(second)

    def stale(self, second: int) -> Iterator[tuple[str, str]]:
        """What goes while it does nothing."""
        if self._jobs is not None and self._jobs.is_stale(second):
            yield f"{self._own()}/job_stats", self._jobs.text(second)

    def _own(self) -> str:
        return f"{PROC}/mdt/{self.name}"

    def _export(self, client: int, second: int) -> tuple[str, str]:
        return f"{self._own()}/exports/{self._clients[client]}/stats", self._text(self._by_client.get(client, {}), second)

    @staticmethod
    def _text(counts: dict[str, int], second: int) -> str:
        return stats(second, (requests_line(name, count) for name, count in counts.items()))


def waiting_looks() -> Files:
    """What a server shows that waits to take over: Lustre is there, and nothing is mounted."""
    yield from ((0, f"{PROC}/{name}", f"{text}\n") for name, text in (("version", "lustre: 2.12.9"), ("health_check", "healthy")))


def server_looks(sight: Sight, told: dict[str, dict[str, int]]) -> Files:
    """What changes on the metadata server: look, file, text, in order. told: gets its target's sums by its name, once all is over."""
    target = Target(sight)
    yield from files(sight, [target], Service(f"{PROC}/mds/MDS/mdt", (THREADS, THREADS_MIN), ("mdt_getattr", "mdt_close")))
    told[target.name] = target.totals()
