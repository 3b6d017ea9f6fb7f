"""A storage server of Lustre's to its agent, by the counters of a brick of GlusterFS: the brick is an object storage target, and what it does to names and attributes is a metadata target's.

    python -m tests.field.lustre_standin SETTINGS     a JSON object, of `Settings`; until SIGTERM

Below its root it writes the files that Lustre has of both, each as a whole, as soon as the brick has told of a second. docs/field.md says what stands for what."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bellrock.simulate import names
from bellrock.simulate.trees.lustre_files import Disk, File, Target, io_service, metadata_service, metadata_target, object_target
from bellrock.simulate.trees.lustre_text import log_row
from tests.field.lustre_counters import WAYS, Asked, Brick, Client, Device, Moved
from tests.field.lustre_owners import Jobs, Owner, Shares

# How often it looks whether the brick has written, and after which time it goes on without.
POLL_S, LATE_S = 0.1, 3.0
KIB = 1024
# Threads of a brick: GlusterFS' `performance.io-thread-count`, and those that are always there.
THREADS = (16, 1)
# What Lustre calls what clients ask a brick for. Of GlusterFS' own, such as locks, there is nothing.
ON_OST = {"read": "read_bytes", "write": "write_bytes", "fsync": "sync"}
ON_MDT = {
    "open": "open", "create": "open", "flush": "close", "mknod": "mknod", "symlink": "mknod", "link": "link", "unlink": "unlink", "mkdir": "mkdir", "rmdir": "rmdir",
    "rename": "rename", "lookup": "getattr", "stat": "getattr", "fstat": "getattr", "access": "getattr", "readlink": "getattr", "opendir": "getattr",
    "readdir": "getattr", "readdirp": "getattr", "setattr": "setattr", "fsetattr": "setattr", "truncate": "setattr", "ftruncate": "setattr",
    "getxattr": "getxattr", "fgetxattr": "getxattr", "setxattr": "setxattr", "fsetxattr": "setxattr", "removexattr": "setxattr", "fremovexattr": "setxattr",
    "statfs": "statfs", "fsyncdir": "sync",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """root: below which it writes. number: of both targets. dump: the brick's statistics. place: its folder. device: its disk. jobs: what Slurm's hooks tell.
    clients: by address the node's name, and its mount's folder of the connection to the brick."""

    root: str
    file_system: str
    number: int
    dump: str
    place: str
    device: str
    jobs: str
    clients: Mapping[str, tuple[str, str]]


class Server:
    """All that it shows, as of the last look."""

    def __init__(self, given: Settings) -> None:
        self._ost = object_target(f"{given.file_system}-{names.target(given.number)}", with_jobs=True)
        self._mdt = metadata_target(f"{given.file_system}-{names.metadata_target(given.number)}", with_jobs=True)
        self._disk, self._io, self._metadata = Disk(), io_service(THREADS), metadata_service(THREADS)
        self._place, self._device = given.place, Device(given.device)
        self._clients = {f"{address}@tcp": (node, Client(Path(folder))) for address, (node, folder) in given.clients.items()}
        self._jobs = Jobs(Path(given.jobs))
        self._shares = {way: Shares() for way in WAYS}

    def look(self, moved: Moved | None) -> Iterator[File]:
        """Counts what has come since the last look, and gives all files. moved: what the brick has told since. Raises OSError where its node is gone."""
        second = int(time.time())
        asked = {nid: found for nid, (_, client) in self._clients.items() if (found := client.look()) is not None}
        # After what clients asked for: whoever asked has begun.
        ran = self._jobs.look()
        jobs = {nid: next(iter(of), None) if len(of := ran.get(node, set())) == 1 else None for nid, (node, _) in self._clients.items()}
        self._count_each(asked, jobs, moved, second)
        if moved is not None:
            self._count_all(moved)
        device = self._device.look()
        if device is not None:
            for way, ios in device[0].items():
                if ios.count > 0:
                    self._disk.add_ios(way == "write", -(-ios.bytes // ios.count), max(round(device[1]) - 1, 0), ios.count)
                    self._disk.add_times(way == "write", log_row(round(ios.ms / ios.count)), ios.count)
        yield from self._files(second)

    def _count_each(self, asked: Mapping[str, Asked], jobs: Mapping[str, str | None], moved: Moved | None, second: int) -> None:
        """By client and job: how many by what mounts asked for, bytes by what they sent or got of the brick's."""
        sums: dict[tuple[Owner, str], list[int]] = defaultdict(lambda: [0, 0])
        for nid, of in asked.items():
            for op, count in of.count.items():
                sums[(nid, jobs[nid]), op][0] += count
        for way, shares in self._shares.items():
            wire = {(nid, jobs[nid]): of.wire[way] for nid, of in asked.items() if way in of.wire}
            for owner, bytes_ in shares.look(moved.bytes[way] if moved is not None else 0, wire).items():
                sums[owner, way][1] += bytes_
        for ((nid, job), op), (count, bytes_) in sums.items():
            for target, name in self._places(op):
                target.add_of_client(nid, name, count, bytes_)
                if job is not None and target.jobs is not None:
                    target.jobs.add(job, second, name, count, bytes_)

    def _count_all(self, moved: Moved) -> None:
        """What the brick counted, whoever it was for."""
        # By Little's law they have waited so long together, within the times that the brick counts.
        waited_s = moved.queue * moved.seconds / max(sum(moved.count.values()), 1)
        for op, count in moved.count.items():
            for target, name in self._places(op):
                target.counts.add(name, count, moved.bytes.get(op, 0))
            if count > 0 and (op in ON_MDT or op in WAYS):
                took_s = moved.time_ns[op] / count / 1e9
                wait_s = min(waited_s, took_s)
                if op in WAYS:
                    self._io.add(op == "write", count, wait_s, took_s - wait_s)
                else:
                    self._metadata.add(ON_MDT[op] == "close", count, wait_s, took_s - wait_s)
        for (way, bytes_), count in moved.sizes.items():
            self._disk.add_rpcs(way == "write", bytes_, count)

    def _places(self, op: str) -> Iterator[tuple[Target, str]]:
        if op in ON_OST:
            yield self._ost, ON_OST[op]
        if op in ON_MDT:
            yield self._mdt, ON_MDT[op]

    def _files(self, second: int) -> Iterator[File]:
        full = os.statvfs(self._place)
        kib = full.f_frsize / KIB
        fullness = (
            ("kbytestotal", int(full.f_blocks * kib)), ("kbytesfree", int(full.f_bfree * kib)), ("kbytesavail", int(full.f_bavail * kib)),
            ("filestotal", full.f_files), ("filesfree", full.f_ffree),
        )  # fmt: skip
        yield f"{self._ost.disk}/brw_stats", self._disk.text(second)
        for target in (self._ost, self._mdt):
            yield f"{target.own}/num_exports", f"{len(self._clients)}\n"
            yield from ((f"{target.disk}/{name}", f"{value}\n") for name, value in fullness)
            yield target.counted(second)
            yield from (target.export(nid, second) for nid in self._clients)
            yield from target.job_stats(second)
        for service in (self._io, self._metadata):
            yield from service.first(second)


def write(root: Path, files: Iterator[File]) -> None:
    """Puts files in place, each as a whole."""
    for name, text in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text)
        new.rename(path)


def main() -> None:
    given = Settings(**json.loads(Path(sys.argv[1]).read_text()))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server, brick = Server(given), Brick(Path(given.dump))
    late_s = time.monotonic()
    while not ended.wait(POLL_S):
        moved = brick.look()
        if moved is not None or time.monotonic() >= late_s:
            write(Path(given.root), server.look(moved))
            late_s = time.monotonic() + LATE_S


if __name__ == "__main__":
    main()
