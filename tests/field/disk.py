"""Disks of known speed, as storage targets: an image, a loop device on it that is written to no faster than it may, and a loop device on that one, which is the server's.

The limit is that of Linux' blkio controller, which holds requests back before they are counted; two devices, so that those of the upper one wait, as at a slow disk,
and its figures show it. Needs root."""

from __future__ import annotations

import contextlib
from pathlib import Path

from bellrock.stack import Missing
from bellrock.stack.process import processes
from tests.field.network import Node
from tests.field.parts import program, run

SIZE_MIB = 1024
LIMIT, READ_LIMIT = (Path(f"/sys/fs/cgroup/blkio/blkio.throttle.{way}_bps_device") for way in ("write", "read"))
# Which devices were limited, and by the mark of whose process: a limit outlives the device. Root's alone.
LIMITED = Path("/run/bellrock-field")


class Disk:
    """A disk of a node, mounted at `place`, until the node ends: then mounts and devices vanish by themselves. write_bytes_per_s: its speed."""

    def __init__(self, folder: Path, node: Node, write_bytes_per_s: int) -> None:
        self.place, self._image, self._node = folder / "disk", folder / "image", node
        self.write_bytes_per_s = write_bytes_per_s
        self.device = ""  # as /sys/block names it, from start on
        self.limited = ""  # major:minor of the one below, likewise

    def start(self) -> None:
        """Raises Missing and CalledProcessError."""
        for name in ("losetup", "mkfs.ext4", "mount"):
            program(name)
        if not LIMIT.exists():
            raise Missing(f"{LIMIT} is missing, by which disks are made slow", "mount the blkio controller of cgroup v1 there")
        release_left()
        self.place.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(SIZE_MIB << 20)
        below = _loop(self._image)
        try:
            above = _loop(below)
            try:
                self.device = above.name
                # No journal: what is written is data, and what little says where it lies.
                run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard", str(above))
                self._node.run("mount", "-o", "noatime", str(above), str(self.place))
            finally:
                run("losetup", "--detach", str(above))
        finally:
            # Those in use are detached when they are not any more.
            run("losetup", "--detach", str(below))
        self.limited = Path(f"/sys/block/{below.name}/dev").read_text().strip()
        LIMITED.mkdir(mode=0o700, exist_ok=True)
        (LIMITED / self.limited).write_text(self._node.mark)
        self.limit(self.write_bytes_per_s)

    def limit(self, write_bytes_per_s: int) -> None:
        """Has it be written to no faster, from now on."""
        LIMIT.write_text(f"{self.limited} {write_bytes_per_s}")

    def limit_reads(self, bytes_per_s: int) -> None:
        """Has it be read no faster, from now on; 0: as fast as it can."""
        READ_LIMIT.write_text(f"{self.limited} {bytes_per_s}")

    def forget(self, names: str) -> None:
        """Has its server read some files from the disk, the next time: what it remembers of them it drops."""
        for path in self._node.path(self.place).glob(names):
            self._node.run("dd", f"if=/{path.relative_to(self._node.path(Path('/')))}", "iflag=nocache", "count=0", "status=none")

    def stop(self) -> None:
        """After its node."""
        if self.limited:
            _release(self.limited)

    def sync(self) -> None:
        """Until all that its files hold is on the disk."""
        self._node.run("sync", "--file-system", str(self.place))


def release_left() -> None:
    """Lifts the limits of runs that were killed."""
    for record in LIMITED.glob("*:*"):
        if not any(processes(record.read_text())):
            _release(record.name)


def _loop(of: Path) -> Path:
    return Path(run("losetup", "--find", "--show", "--direct-io=on", str(of)).strip())


def _release(device: str) -> None:
    for limit in (LIMIT, READ_LIMIT):
        with contextlib.suppress(OSError):  # a device that is not there has no limit
            limit.write_text(f"{device} 0")
    (LIMITED / device).unlink(missing_ok=True)
