"""The files of Lustre's servers, by counters that whoever counts adds to: those of targets, of the disks beneath them, and of the services whose queue all requests pass."""

from collections.abc import Iterator, Sequence

from bellrock.simulate.trees import queueing
from bellrock.simulate.trees.lustre_text import PROC, JobStats, Stat, Table, brw_stats, log_row, requests_line, stats

PAGE_BYTES = 4096
# What targets count: of the first its bytes, too; of the others that they were asked for.
OST_BYTES = ("read_bytes", "write_bytes")
OST_REQUESTS = ("getattr", "setattr", "punch", "sync", "destroy", "create", "statfs", "get_info", "set_info", "quotactl")
MDT_REQUESTS = ("open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr", "setxattr", "statfs", "sync")
# The last row of the table of I/Os in flight.
_IN_FLIGHT_LAST = 30
_RPCS = "pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %"
_OF_DISKS = (("disk I/Os in flight   ", False), ("I/O time (1/1000s)    ", True), ("disk I/O size         ", True))

# A file's name and its text.
File = tuple[str, str]


class Counts:
    """What was counted by operation."""

    __slots__ = ("_bytes", "_requests")

    def __init__(self, of_bytes: Sequence[str], of_requests: Sequence[str]) -> None:
        self._bytes = {name: Stat() for name in of_bytes}
        self._requests = dict.fromkeys(of_requests, 0)

    def add(self, op: str, count: int, bytes_: int = 0) -> None:
        """So many of an operation, and the bytes of all of them."""
        if op in self._bytes:
            self._bytes[op].add(count, bytes_)
        else:
            self._requests[op] += count

    def bytes_of(self, op: str) -> int:
        """All that an operation moved."""
        return self._bytes[op].sum

    def requests(self) -> dict[str, int]:
        """Of those without bytes, how many there were of each that there was."""
        return {name: count for name, count in self._requests.items() if count}

    def text(self, second: int) -> str:
        lines = [stat.line(name, "bytes") for name, stat in self._bytes.items()]
        return stats(second, [*lines, *(requests_line(name, count) for name, count in self._requests.items())])


class Target:
    """A target's files: what it counts in all, by client, and by job where names of jobs reach it. own, disk: its folder, and that of the disk beneath it."""

    def __init__(self, of: str, name: str, counts_name: str, operations: tuple[Sequence[str], Sequence[str]], with_jobs: bool) -> None:
        self.own, self.disk = f"{PROC}/{of}/{name}", f"{PROC}/osd-ldiskfs/{name}"
        self._counts_name, self._operations = counts_name, operations
        self.counts = Counts(*operations)
        self.by_client: dict[str, Counts] = {}
        self.jobs = JobStats(*operations) if with_jobs else None

    def add_of_client(self, nid: str, op: str, count: int, bytes_: int = 0) -> None:
        """What a client had of it."""
        counts = self.by_client.get(nid)
        if counts is None:
            counts = self.by_client[nid] = Counts(*self._operations)
        counts.add(op, count, bytes_)

    def counted(self, second: int) -> File:
        """Its `stats` or `md_stats`."""
        return f"{self.own}/{self._counts_name}", self.counts.text(second)

    def export(self, nid: str, second: int) -> File:
        """A client's `stats`."""
        counts = self.by_client.get(nid)
        return f"{self.own}/exports/{nid}/stats", stats(second, ()) if counts is None else counts.text(second)

    def job_stats(self, second: int) -> Iterator[File]:
        """Its `job_stats`, where it has any."""
        if self.jobs is not None:
            yield f"{self.own}/job_stats", self.jobs.text(second)

    def stale(self, second: int) -> Iterator[File]:
        """What goes while it does nothing."""
        if self.jobs is not None and self.jobs.is_stale(second):
            yield from self.job_stats(second)


def object_target(name: str, with_jobs: bool) -> Target:
    return Target("obdfilter", name, "stats", (OST_BYTES, OST_REQUESTS), with_jobs)


def metadata_target(name: str, with_jobs: bool) -> Target:
    return Target("mdt", name, "md_stats", ((), MDT_REQUESTS), with_jobs)


class Disk:
    """What `brw_stats` of an object storage target tells of its RPCs and of its disk's I/Os."""

    def __init__(self) -> None:
        self._pages = Table(_RPCS, True)
        self._in_flight, self._times, self._sizes = (Table(f"{title} ios   % cum % |  ios         % cum %", is_log) for title, is_log in _OF_DISKS)

    def add_rpcs(self, is_write: bool, bytes_: int, count: int) -> None:
        """So many RPCs of about so many bytes each."""
        self._pages.add(is_write, log_row(-(-bytes_ // PAGE_BYTES)), count)

    def add_ios(self, is_write: bool, bytes_: int, before: int, count: int) -> None:
        """So many I/Os of about so many bytes each, with so many before each."""
        self._in_flight.add(is_write, min(before, _IN_FLIGHT_LAST), count)
        self._sizes.add(is_write, log_row(max(bytes_, PAGE_BYTES)), count)

    def add_times(self, is_write: bool, row: int, count: int) -> None:
        """So many I/Os of a row of times: up to 1, 2, 4 … ms."""
        self._times.add(is_write, row, count)

    def text(self, second: int) -> str:
        return brw_stats(second, (self._pages, self._in_flight, self._times, self._sizes))


class Service:
    """A service's queue, as its `stats` file tells of it. threads: the most and the fewest."""

    def __init__(self, folder: str, threads: tuple[int, int], operations: Sequence[str]) -> None:
        self._folder, self._threads, self._names = folder, threads, operations
        self._waits, self._depth, self._active, self._timeout, self._buffers = (Stat() for _ in range(5))
        self._served = [Stat() for _ in operations]

    def add(self, which: int, count: int, wait_s: float, service_s: float) -> None:
        """So many requests of one of its operations."""
        wait_us, service_us, depth, active = (int(value) for value in queueing.told(wait_s, service_s, self._threads[0]))
        self._waits.add(count, count * wait_us)
        self._depth.add(count, count * depth)
        self._active.add(count, count * active)
        self._timeout.add(count, count * 15)
        self._buffers.add(count, count * 64)
        self._served[which].add(count, count * service_us)

    def first(self, second: int) -> Iterator[File]:
        """Its files before any request."""
        yield f"{self._folder}/threads_max", f"{self._threads[0]}\n"
        yield f"{self._folder}/threads_min", f"{self._threads[1]}\n"
        yield f"{self._folder}/threads_started", f"{self._threads[0]}\n"
        yield from self.changed(second)

    def changed(self, second: int) -> Iterator[File]:
        """Its file once more requests came."""
        lines = [
            self._waits.line("req_waittime", "usec", True), self._depth.line("req_qdepth", "reqs", True), self._active.line("req_active", "reqs", True),
            self._timeout.line("req_timeout", "sec", True), self._buffers.line("reqbuf_avail", "bufs", True),
            *(stat.line(name, "usec", True) for stat, name in zip(self._served, self._names, strict=True)),
        ]  # fmt: skip
        yield f"{self._folder}/stats", stats(second, lines)


def io_service(threads: tuple[int, int]) -> Service:
    """That of an object storage server: reads, writes."""
    return Service(f"{PROC}/ost/OSS/ost_io", threads, ("ost_read", "ost_write"))


def metadata_service(threads: tuple[int, int]) -> Service:
    """That of a metadata server: what is no close, and closes."""
    return Service(f"{PROC}/mds/MDS/mdt", threads, ("mdt_getattr", "mdt_close"))
