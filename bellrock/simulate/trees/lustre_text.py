"""The texts of Lustre's parameters as version 2.12 writes them, as far as the agent reads them (collectors/agent/src/sources/lustre)."""

from collections.abc import Iterable, Sequence

PROC = "proc/fs/lustre"
# The rows of the tables of brw_stats and rpc_stats: powers of two, and single numbers from 1.
LOG_ROWS = 32


class Stat:
    """A counter with the least, most and sum of what it counted."""

    __slots__ = ("_begun", "count", "least", "most", "squares", "sum")

    def __init__(self) -> None:
        self.count = self.sum = self.squares = self.least = self.most = self._begun = 0

    def add(self, count: int, total: int) -> None:
        """So many, all of about the same size. What comes before the first is done counts with that; what comes without any later is of those before."""
        if not count:
            if self.count:
                self.sum += total
            else:
                self._begun += total
            return
        total += self._begun
        self._begun = 0
        low, high = total // count, -(-total // count)
        self.least = low if not self.count else min(self.least, low)
        self.most = max(self.most, high)
        self.count += count
        self.sum += total
        self.squares += total * total // count

    def line(self, name: str, unit: str, squares: bool = False) -> str:
        """Its line in a `stats` file; empty where nothing was counted."""
        if not self.count:
            return ""
        more = f" {self.squares}" if squares else ""
        return f"{name:<25} {self.count} samples [{unit}] {self.least} {self.most} {self.sum}{more}\n"

    def job_line(self, name: str) -> str:
        """Its line in `job_stats`, where it counted bytes."""
        return f"  {name + ':':<16} {{ samples: {self.count:>11}, unit: bytes, min: {self.least:>7}, max: {self.most:>7}, sum: {self.sum:>15} }}\n"


def requests_line(name: str, count: int) -> str:
    """The line of what is only counted in a `stats` file."""
    return f"{name:<25} {count} samples [reqs]\n" if count else ""


def job_requests_line(name: str, count: int) -> str:
    """The line of what is only counted in `job_stats`."""
    return f"  {name + ':':<16} {{ samples: {count:>11}, unit:  reqs }}\n"


def stats(second: int, lines: Iterable[str]) -> str:
    """A `stats` file."""
    return f"{'snapshot_time':<25} {second}.000000000 secs.nsecs\n" + "".join(lines)


def log_row(value: int) -> int:
    """The row of a table of powers of two that a value falls into: those up to 1, 2, 4, …"""
    return min(max(value - 1, 0).bit_length(), LOG_ROWS - 1)


class Table:
    """A table of reads and writes by rows."""

    __slots__ = ("counts", "is_log", "title")

    def __init__(self, title: str, is_log: bool) -> None:
        self.title, self.is_log = title, is_log
        self.counts = [[0] * LOG_ROWS, [0] * LOG_ROWS]

    def add(self, is_write: bool, row: int, count: int) -> None:
        self.counts[is_write][min(row, LOG_ROWS - 1)] += count

    def lines(self, from_first: bool = False) -> list[str]:
        """The table under its title, with shares in percent, up to the last row that has anything. from_first: only from the first one that has."""
        reads, writes = self.counts
        totals = [max(sum(column), 1) for column in self.counts]
        used = [row for row in range(LOG_ROWS) if reads[row] or writes[row]]
        result, sums = [self.title], [0, 0]
        for row in range(used[0] if from_first else 0, used[-1] + 1) if used else ():
            cells = []
            for which, column in enumerate((reads, writes)):
                sums[which] += column[row]
                cells.append(f"{column[row]:>10} {column[row] * 100 // totals[which]:>3} {sums[which] * 100 // totals[which]:>3}")
            result.append(f"{self._label(row)}:\t\t{cells[0]}   | {cells[1]}")
        return result

    def _label(self, row: int) -> str:
        if not self.is_log:
            return str(row + 1)
        return f"{1 << row}" if row < 10 else f"{1 << (row - 10)}K" if row < 20 else f"{1 << (row - 20)}M"


def brw_stats(second: int, tables: Sequence[Table]) -> str:
    """A `brw_stats` file."""
    parts = [f"snapshot_time:         {second}.000000000 (secs.nsecs)"]
    for table in tables:
        parts += ["", "                           read      |     write", *table.lines(from_first=True)]
    return "\n".join(parts) + "\n"


def rpc_stats(second: int, in_flight: tuple[int, int], tables: Sequence[Table]) -> str:
    """An `rpc_stats` file."""
    parts = [
        f"snapshot_time:         {second}.000000000 (secs.nsecs)", f"read RPCs in flight:  {in_flight[0]}", f"write RPCs in flight: {in_flight[1]}",
        "pending write pages:  0", "pending read pages:   0",
    ]  # fmt: skip
    for table in tables:
        parts += ["", "\t\t\tread\t\t\twrite", *table.lines()]
    return "\n".join(parts) + "\n"


class JobStats:
    """A target's `job_stats`: an entry for each job that did anything within the last `cleanup` seconds. `of_bytes`: operations whose bytes are
    counted; `of_requests`: the others."""

    CLEANUP_S = 600

    def __init__(self, of_bytes: Sequence[str], of_requests: Sequence[str]) -> None:
        self._of_bytes, self._of_requests = of_bytes, of_requests
        self._stats: dict[str, dict[str, Stat]] = {}
        self._seen: dict[str, int] = {}
        self._text: dict[str, str] = {}

    def add(self, job: str, second: int, op: str, count: int, total: int = 0) -> None:
        """What a job did until a look."""
        stats = self._stats.get(job)
        if stats is None:
            stats = self._stats[job] = {name: Stat() for name in (*self._of_bytes, *self._of_requests)}
        stats[op].add(count, total)
        self._seen[job] = second
        self._text.pop(job, None)

    def is_stale(self, second: int) -> bool:
        """Whether an entry's time is over."""
        return any(second - seen > self.CLEANUP_S for seen in self._seen.values())

    def text(self, second: int) -> str:
        """The file; entries whose time is over go."""
        for job in [job for job, seen in self._seen.items() if second - seen > self.CLEANUP_S]:
            del self._stats[job], self._seen[job], self._text[job]
        return "job_stats:\n" + "".join(self._entry(job) for job in self._stats)

    def _entry(self, job: str) -> str:
        text = self._text.get(job)
        if text is None:
            stats = self._stats[job]
            text = f"- job_id:          {job}\n  snapshot_time:   {self._seen[job]}\n"
            text += "".join(stats[name].job_line(name) for name in self._of_bytes)
            text += "".join(job_requests_line(name, stats[name].count) for name in self._of_requests)
            self._text[job] = text
        return text
