"""A forwarding layer of real parts: servers of GlusterFS, each a node with a brick on a disk of its own, and a mount on each compute node, which to the servers is a client of its own.

Packages of Debian 12. Needs root."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bellrock.stack import Missing
from tests.field.disk import Disk
from tests.field.network import Node, OnNode
from tests.field.parts import program
from tests.wait import until

VOLUME = "work"
LOCKED = ("Locking failed", "Another transaction is in progress")
DELAY_NS = 50_000_000
OPTIONS = {
    "diagnostics.stats-dump-interval": "1",
    "diagnostics.stats-dump-format": "json",
    "diagnostics.latency-measurement": "on",
    "diagnostics.count-fop-hits": "on",
    # What `Brick.delay` turns on.
    "debug.delay-gen": "posix",
    "delay-gen.delay-percentage": "0",
    "delay-gen.delay-duration": str(DELAY_NS // 1000),
    "delay-gen.enable": "write",
}


class Brick(OnNode):
    """A server of GlusterFS with one brick."""

    title = "glusterd"

    def __init__(self, folder: Path, node: Node, write_bytes_per_s: int) -> None:
        super().__init__(folder, node)
        self.disk = Disk(folder, node, write_bytes_per_s)

    @property
    def place(self) -> Path:
        """Where the brick's files are, as its node sees it."""
        return self.disk.place / "brick"

    @property
    def instance(self) -> str:
        """The brick's name in its statistics."""
        return str(self.place).replace("/", "_")

    def held(self, names: str) -> list[int]:
        """Sizes of the files that it has."""
        return [path.stat().st_size for path in self.node.path(self.place).glob(names)]

    def delay(self, delay_ns: int) -> None:
        """Has the brick take so much longer over each write, 0: none; from its next start on (`Gluster.restart`). `gluster volume set` would have all bricks do so: only this
        server's own copy of what a brick is made of is changed."""
        volfile = self.folder / f"lib/vols/{VOLUME}/{VOLUME}.{self.node.address}.{self._in_names}.vol"
        text = volfile.read_text()
        for name, value in (("percentage", 100 if delay_ns else 0), ("duration", delay_ns // 1000)):
            text, count = re.subn(rf"option delay-{name} \d+\n", f"option delay-{name} {value}\n", text)
            assert count == 1, f"{volfile} has no delay-{name} to set"
        volfile.write_text(text)

    def process(self) -> int:
        """The brick's pid on its node; -1 while there is none, 0 while another command is under way."""
        with contextlib.suppress(subprocess.CalledProcessError):
            answer = self.ask("--xml", "volume", "status", VOLUME, f"{self.node.address}:{self.place}")
            if "<pid>" in answer:
                return int(answer.split("<pid>")[1].split("<")[0])
        return 0

    def clients(self) -> set[str]:
        """Addresses of those that are connected to the brick."""
        with contextlib.suppress(subprocess.CalledProcessError):
            rows = self.ask("volume", "status", VOLUME, f"{self.node.address}:{self.place}", "clients").splitlines()
            return {row.partition(":")[0] for row in rows}
        return set()

    @property
    def _in_names(self) -> str:
        """Where the brick is, as glusterd's files are called."""
        return str(self.place).strip("/").replace("/", "-")

    def prepare(self) -> None:
        super().prepare()
        for path in (self.folder / "lib/stats", self.folder / "run", self.folder / "log"):
            path.mkdir(parents=True, exist_ok=True)
        self.disk.start()
        lines = (
            "volume management", "type mgmt/glusterd", "option working-directory /var/lib/glusterd", f"option run-directory {self.folder}/run",
            f"option glusterd-sockfile {self._socket}", "option transport-type socket", "option transport.address-family inet",
            "option transport.socket.keepalive-time 10", "option transport.socket.keepalive-interval 2", "option ping-timeout 0", "end-volume",
        )  # fmt: skip
        (self.folder / "glusterd.vol").write_text("\n".join(lines) + "\n")
        # Bricks write their statistics to /var/lib/glusterd/stats, wherever else Gluster is told to work.
        self.node.run("mount", "--bind", f"{self.folder}/lib", "/var/lib/glusterd")
        self.node.run("mount", "--bind", f"{self.folder}/log", "/var/log/glusterfs")
        self.node.run("mkdir", str(self.place))

    def words(self) -> Sequence[str]:
        return [program("glusterd"), "-N", "-f", f"{self.folder}/glusterd.vol", "-l", f"{self.folder}/log/glusterd.log", "-p", f"{self.folder}/glusterd.pid"]

    def answers(self) -> bool:
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.running and bool(self.ask("peer", "status"))
        return False

    def command_line(self) -> Path:
        """A program that is this server's `gluster`."""
        path = self.folder / "gluster.sh"
        path.write_text(f'#!/bin/sh\nexec {program("gluster")} --glusterd-sock={self._socket} --log-file={self.folder}/log/cli.log "$@"\n')
        path.chmod(0o755)
        return path

    def ask(self, *words: str) -> str:
        """What `gluster` answers. All servers have one lock: who does not get it, since another's question is just answered, asks again. Raises CalledProcessError."""
        command = [program("gluster"), "--mode=script", f"--glusterd-sock={self._socket}", f"--log-file={self.folder}/log/cli.log", *words]

        def answer() -> list[str]:
            try:
                return [self.node.run(*command)]
            except subprocess.CalledProcessError as error:
                if any(word in error.stderr for word in LOCKED):
                    return []
                raise

        return until(answer, "the lock of GlusterFS")[0]

    @property
    def _socket(self) -> Path:
        return self.folder / "glusterd.socket"


class Mount(OnNode):
    """A node's mount of the volume."""

    title = "glusterfs"

    def __init__(self, folder: Path, node: Node, server: Brick, place: Path) -> None:
        super().__init__(folder, node)
        self._server, self._place = server, place

    def words(self) -> Sequence[str]:
        of_volume = (f"--volfile-server={self._server.node.address}", f"--volfile-id={VOLUME}", f"--log-file={self.folder}/mount.log")
        return [program("glusterfs"), "--no-daemon", *of_volume, str(self._place)]

    def answers(self) -> bool:
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.running and bool(self.node.run("mountpoint", str(self._place)))
        return False


class Gluster:
    """`start` brings up bricks, volume and mounts on nodes that run. servers: by node, how many bytes a second its disk can be written; slow: the name of the one that
    takes DELAY_NS longer over each write, "": none; place: where clients mount the volume."""

    def __init__(self, folder: Path, servers: Mapping[Node, int], slow: str, clients: Sequence[Node], place: Path) -> None:
        self.bricks = {node.name: Brick(folder / node.name, node, speed) for node, speed in servers.items()}
        self.place = place
        self._slow = slow
        first = next(iter(self.bricks.values()))
        self._mounts = [Mount(folder / f"mount-{node.name}", node, first, place) for node in clients]

    def start(self) -> None:
        """Raises Missing and BellrockError."""
        for name in ("glusterd", "glusterfsd", "glusterfs", "gluster"):
            program(name)
        if not Path("/dev/fuse").exists():
            raise Missing("/dev/fuse is missing", "run `modprobe fuse`, or give the container that device")
        for brick in self.bricks.values():
            brick.start()
        first, *others = self.bricks.values()
        for brick in others:
            first.ask("peer", "probe", brick.node.address)
        until(lambda: first.ask("pool", "list").count("Connected") == len(self.bricks), "the servers know each other")
        first.ask("volume", "create", VOLUME, *(f"{brick.node.address}:{brick.place}" for brick in self.bricks.values()), "force")
        for name, value in OPTIONS.items():
            first.ask("volume", "set", VOLUME, name, value)
        if self._slow:
            self.bricks[self._slow].delay(DELAY_NS)
        first.ask("volume", "start", VOLUME)
        self.place.mkdir()
        for mount in self._mounts:
            mount.start()
        self._mounts[0].node.run("chmod", "1777", str(self.place))

    def remount(self, node: str) -> None:
        """A node unmounts the volume and mounts it again: a new connection to each brick."""
        (mount,) = [mount for mount in self._mounts if mount.node.name == node]
        mount.stop()
        mount.start()

    def restart(self, node: str) -> None:
        """Ends a brick at once, as a crash does, and starts it again, until all clients are back."""
        brick, addresses = self.bricks[node], {mount.node.address for mount in self._mounts}
        brick.node.run("kill", f"-{signal.SIGKILL.value}", str(brick.process()))
        until(lambda: brick.process() <= 0, "glusterd knows that the brick is gone")

        def is_back() -> bool:
            with contextlib.suppress(subprocess.CalledProcessError):  # another command may be under way
                brick.ask("volume", "start", VOLUME, "force")
            return brick.process() > 0

        until(is_back, "the brick is back")
        until(lambda: addresses <= brick.clients(), "the clients are back")

    def stop(self) -> None:
        """Ends all of it; what fails does not keep the rest."""
        with contextlib.ExitStack() as stack:
            for brick in self.bricks.values():
                stack.callback(brick.disk.stop)
                stack.callback(brick.stop)
            for mount in self._mounts:
                stack.callback(mount.stop)
