"""A job that hammers files and writes down what it does, so that what was stored can be held against it: programs/hammer.c."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from collections import defaultdict
from pathlib import Path

from tests.e2e.site import Site
from tests.wait import until

# One operation's bytes, as in hammer.c.
SIZE = 3000


class Hammer:
    """One running job. With `operations` 0 it runs until `stop` or `kill`; `launcher` is a command that starts it."""

    def __init__(
        self, site: Site, binary: Path, processes: int, threads: int, operations: int, pause_us: int, *more: str, launcher: tuple[str, ...] = ()
    ) -> None:
        self.site, self.binary = site, binary
        self.processes, self.threads = processes, threads
        self.job = site.new_job()
        self.data, self.truth_file = site.data / self.job, site.folder / f"{self.job}.truth"
        self.data.mkdir()
        # Processes that were killed: each of their threads may have done one operation more than it wrote down.
        self.killed: set[int] = set()
        command = [*launcher, binary, self.data, self.truth_file, processes, threads, operations, pause_us, *more]
        self.program = site.launch(command, self.job, watch=self.data)

    def truth(self) -> dict[tuple[int, int], tuple[int, int, int, int]]:
        """{(process, thread): (started, done, written bytes, read bytes)}."""
        rows = list(struct.iter_unpack("4Q", self.truth_file.read_bytes()))
        assert len(rows) == self.processes * self.threads + 1
        return {(p, t): rows[p * self.threads + t] for p in range(self.processes) for t in range(self.threads)}

    @property
    def runs(self) -> bool:
        return self.program.poll() is None

    def wait_busy(self, operations: int = 300) -> None:
        """Until every thread has done so many operations."""

        def busy() -> bool:
            there = self.truth_file.exists() and self.truth_file.stat().st_size > 0
            return there and all(row[1] > operations for row in self.truth().values())

        until(busy, "the program to be busy")

    def stop(self) -> None:
        """Asks the program to end."""
        with open(self.truth_file, "r+b") as file:
            file.seek(32 * self.processes * self.threads)
            file.write(struct.pack("Q", 1))

    def wait(self, seconds: float = 60) -> int:
        """The exit code of `bellrock run`."""
        return self.program.wait(timeout=seconds)

    def _pids(self) -> list[int]:
        """The program's processes, the first one first; not `bellrock run`, whose command line names it too."""
        found = subprocess.run(["pgrep", "-f", f"^{self.binary} {self.data} "], capture_output=True, text=True)
        return sorted(map(int, found.stdout.split()))

    def kill(self) -> None:
        """SIGKILL for all of the program."""
        for pid in self._pids():
            os.kill(pid, signal.SIGKILL)
        self.killed = set(range(self.processes))

    def kill_one(self, process: int) -> None:
        """SIGKILL for one of its processes; the others go on."""
        with open(self.truth_file.with_suffix(".pids"), "rb") as file:
            pids = struct.unpack(f"{self.processes}I", file.read())
        os.kill(pids[process], signal.SIGKILL)
        self.killed.add(process)

    def assert_exact(self, seconds: float = 60) -> None:
        """Waits until all is stored, then holds each thread's file against its truth."""
        self.site.settle(self.job, seconds)
        files = {row["file"]: row for row in self.site.rows(self.job, "files")}
        truth = self.truth()
        for (process, thread), (started, done, written, read_back) in truth.items():
            row = files.get(str(self.data / f"f.{process}.{thread}"), defaultdict(int))
            operations = row["read_ops"] + row["write_ops"]
            slack = SIZE if process in self.killed else 0
            assert started == done or process in self.killed
            assert done <= operations <= started, (self.job, process, thread, done, operations, started)
            assert written <= row["write_bytes"] <= written + slack, (self.job, process, thread)
            assert read_back <= row["read_bytes"] <= read_back + slack, (self.job, process, thread)
        profile = self.site.profile(self.job)
        assert len(files) == profile["files"] == len(truth)
        assert profile["processes"] == self.processes
        # An open and a close a thread; who was killed did not come to close.
        kept = (self.processes - len(self.killed)) * self.threads
        assert 2 * kept <= profile["metadata_ops"] <= 2 * len(truth)
        if not self.killed:
            assert profile["read_ops"] + profile["write_ops"] == sum(row[1] for row in truth.values())
            assert profile["write_bytes"] == sum(row[2] for row in truth.values())
            assert profile["read_bytes"] == sum(row[3] for row in truth.values())
