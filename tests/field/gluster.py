"""A forwarding layer of real parts on this machine: servers of GlusterFS, each with a brick, an address and statistics of its own, and a mount that all nodes share.

Servers live in network and mount namespaces without names, which end with them: only the mount is left by a run that was killed, and taken away by the next.
Packages of Debian 12. Needs root."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bellrock.stack import Missing
from tests.field.parts import PATH, OfRoot, program, until

VOLUME = "lw"
ASK_S = 30.0
# Not below /run, where programs' files are not watched.
MOUNTS = Path(tempfile.gettempdir())
MOUNT_PREFIX = "bellrock-gluster-"
# Of a network that nobody else is in.
SWITCH_ADDRESS = "10.77.0.1"
DELAY_NS = 50_000_000
OPTIONS = {
    "diagnostics.stats-dump-interval": "1",
    "diagnostics.stats-dump-format": "json",
    "diagnostics.latency-measurement": "on",
    "diagnostics.count-fop-hits": "on",
    # What `be_slow` turns on.
    "debug.delay-gen": "posix",
    "delay-gen.delay-percentage": "0",
    "delay-gen.delay-duration": str(DELAY_NS // 1000),
    "delay-gen.enable": "write",
}


class _InNetwork(OfRoot):
    """A server in a network namespace."""

    def environment(self) -> Mapping[str, str]:
        return {"PATH": PATH}

    def inside(self, *command: str) -> str:
        """What a command says that is run in the network of this server. Raises CalledProcessError."""
        words = [program("nsenter"), f"--net=/proc/{self.pid}/ns/net", *command]
        done = subprocess.run(words, env={**os.environ, "PATH": PATH}, capture_output=True, text=True, timeout=ASK_S)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        return done.stdout


class Switch(_InNetwork):
    """The network's bridge, in a namespace of its own, where the mount's client runs too."""

    title = "switch"

    def command(self) -> Sequence[str]:
        bridge = f"ip link add fabric up type bridge && ip address add {SWITCH_ADDRESS}/24 dev fabric && ip link set lo up"
        return [program("unshare"), "--net", "sh", "-c", f"{bridge} && exec sleep infinity"]

    def answers(self) -> bool:
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.running and SWITCH_ADDRESS in self.inside(program("ip"), "address", "show", "dev", "fabric")
        return False


class Brick(_InNetwork):
    """A server of GlusterFS with one brick."""

    title = "glusterd"

    def __init__(self, folder: Path, switch: Switch, node: str, address: str) -> None:
        super().__init__(folder)
        self._switch, self.node, self.address = switch, node, address

    @property
    def place(self) -> Path:
        """Where the brick's files are."""
        return self.folder / "brick"

    @property
    def stats(self) -> Path:
        return self.folder / "lib/stats"

    @property
    def instance(self) -> str:
        """The brick's name in its statistics."""
        return str(self.place).replace("/", "_")

    def be_slow(self) -> None:
        """Has the brick take DELAY_NS longer over each write, once the volume is started. `gluster volume set` would have all bricks do so: only this
        server's own copy of what a brick is made of is changed."""
        volfile = self.folder / f"lib/vols/{VOLUME}/{VOLUME}.{self.address}.{str(self.place).strip('/').replace('/', '-')}.vol"
        off, on = "option delay-percentage 0\n", "option delay-percentage 100\n"
        text = volfile.read_text()
        assert off in text, f"{volfile} has no delay to turn on"
        volfile.write_text(text.replace(off, on))

    def prepare(self) -> None:
        for path in (self.place, self.stats, self.folder / "run", self.folder / "log"):
            path.mkdir(parents=True, exist_ok=True)
        lines = (
            "volume management", "type mgmt/glusterd", "option working-directory /var/lib/glusterd", f"option run-directory {self.folder}/run",
            f"option glusterd-sockfile {self._socket}", "option transport-type socket", "option transport.address-family inet",
            "option transport.socket.keepalive-time 10", "option transport.socket.keepalive-interval 2", "option ping-timeout 0", "end-volume",
        )  # fmt: skip
        (self.folder / "glusterd.vol").write_text("\n".join(lines) + "\n")

    def command(self) -> Sequence[str]:
        # Bricks write their statistics to /var/lib/glusterd/stats, wherever else Gluster is told to work.
        steps = (
            f"nsenter --net=/proc/{self._switch.pid}/ns/net ip link add {self.node} master fabric up type veth peer name eth0 netns $$",
            f"ip address add {self.address}/24 dev eth0", "ip link set eth0 up", "ip link set lo up",
            f"mount --bind {self.folder}/lib /var/lib/glusterd", f"mount --bind {self.folder}/log /var/log/glusterfs",
            f"exec {program('glusterd')} -N -f {self.folder}/glusterd.vol -l {self.folder}/log/glusterd.log -p {self.folder}/glusterd.pid",
        )  # fmt: skip
        return [program("unshare"), "--net", "--mount", "sh", "-c", " && ".join(steps)]

    def answers(self) -> bool:
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.running and bool(self.ask("peer", "status"))
        return False

    def ask(self, *words: str) -> str:
        """What `gluster` answers. Raises CalledProcessError."""
        return self.inside(program("gluster"), "--mode=script", f"--glusterd-sock={self._socket}", f"--log-file={self.folder}/log/cli.log", *words)

    @property
    def _socket(self) -> Path:
        return self.folder / "glusterd.socket"


class Mount(_InNetwork):
    """The mount that all nodes of this machine share: its client is the compute node's."""

    title = "glusterfs"

    def __init__(self, folder: Path, switch: Switch, server: Brick, place: Path) -> None:
        super().__init__(folder)
        self._switch, self._server, self.place = switch, server, place

    def command(self) -> Sequence[str]:
        of_volume = (f"--volfile-server={self._server.address}", f"--volfile-id={VOLUME}", f"--log-file={self.folder}/mount.log")
        return [program("nsenter"), f"--net=/proc/{self._switch.pid}/ns/net", program("glusterfs"), "--no-daemon", *of_volume, str(self.place)]

    def answers(self) -> bool:
        return self.running and os.path.ismount(self.place)

    @property
    def log(self) -> Path:
        return self.folder / "mount.log"


class Gluster:
    """`start` brings up servers, volume and mount, `stop` ends them. nodes: the servers' names; slow: that of the one that takes DELAY_NS longer
    over each write."""

    def __init__(self, folder: Path, nodes: Sequence[str], slow: str) -> None:
        self._switch = Switch(folder / "switch")
        self.bricks = {node: Brick(folder / node, self._switch, node, f"10.77.0.{11 + at}") for at, node in enumerate(nodes)}
        self._folder, self._slow = folder, slow
        self._mount: Mount | None = None

    def start(self) -> None:
        """Raises Missing and BellrockError."""
        for name in ("glusterd", "glusterfsd", "glusterfs", "gluster", "ip"):
            program(name)
        if not Path("/dev/fuse").exists():
            raise Missing("/dev/fuse is missing", "run `modprobe fuse`, or give the container that device")
        _unmount_left()
        self._switch.start()
        for brick in self.bricks.values():
            brick.start()
        first = self._first
        for brick in self.bricks.values():
            if brick is not first:
                first.ask("peer", "probe", brick.address)
        until(lambda: first.ask("pool", "list").count("Connected") == len(self.bricks), "the servers know each other")
        first.ask("volume", "create", VOLUME, *(f"{brick.address}:{brick.place}" for brick in self.bricks.values()), "force")
        for name, value in OPTIONS.items():
            first.ask("volume", "set", VOLUME, name, value)
        self.bricks[self._slow].be_slow()
        first.ask("volume", "start", VOLUME)
        place = Path(tempfile.mkdtemp(prefix=MOUNT_PREFIX, dir=MOUNTS))
        self._mount = Mount(self._folder / "mount", self._switch, first, place)
        self._mount.start()
        self.mount.chmod(0o1777)

    def stop(self) -> None:
        """Ends all of it; what fails does not keep the rest."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._switch.stop)
            for brick in self.bricks.values():
                stack.callback(brick.stop)
            if self._mount is not None:
                stack.callback(_unmount, self.mount)
                stack.callback(self._mount.stop)

    @property
    def mount(self) -> Path:
        assert self._mount is not None, "it was not started"
        return self._mount.place

    @property
    def _first(self) -> Brick:
        return next(iter(self.bricks.values()))


def _unmount_left() -> None:
    """Takes away the mounts of runs that were killed: their clients are gone."""
    for place in MOUNTS.glob(f"{MOUNT_PREFIX}*"):
        try:
            place.stat()
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
            _unmount(place)


def _unmount(place: Path) -> None:
    # Not by looking at it: what has lost its client cannot be looked at. One that ends as asked has taken its mount away.
    if str(place) in (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()):
        subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()
