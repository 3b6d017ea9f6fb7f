"""Nodes of a miniature machine: each a machine to what runs on it, with an address, mounts, processes, a name, /tmp and /dev/shm of its own, on one network with this one.

All of it are namespaces without names, and ends with their first process: processes, mounts, links. Needs root."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bellrock.errors import Unavailable
from tests.field.parts import PATH, OfRoot, program, run

# Networks of this machine's own: 10.77.N.0/24, of which this machine is .1.
NETWORKS = 255
PREFIX = "bellrock"
FIRST_NODE = 11


class Fabric(OfRoot):
    """The network: a bridge in a namespace of its own, and this machine's end of it, which vanishes with that."""

    title = "network"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._number: int | None = None
        self._nodes = 0

    def environment(self) -> Mapping[str, str]:
        return {"PATH": PATH}

    def command(self) -> Sequence[str]:
        return [program("unshare"), "--net", "sh", "-c", f"{program('ip')} link add fabric up type bridge && exec sleep infinity"]

    def answers(self) -> bool:
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.running and bool(self._inside("ip", "link", "show", "dev", "fabric"))
        return False

    def start(self, *, wait: bool = True) -> None:
        """Raises BellrockError."""
        super().start(wait=wait)
        taken = run("ip", "-4", "-o", "address")
        for number in range(NETWORKS):
            if f" 10.77.{number}." not in taken and self._connected(f"{PREFIX}{number}"):
                self._number = number
                run("ip", "address", "add", f"{self.address}/24", "dev", f"{PREFIX}{number}")
                run("ip", "link", "set", f"{PREFIX}{number}", "up")
                return
        raise Unavailable(f"all networks from 10.77.0.0/24 to 10.77.{NETWORKS - 1}.0/24 are in use", "look with `ip address`")

    @property
    def address(self) -> str:
        """This machine's, where nodes find what runs on it."""
        return f"10.77.{self._number}.1"

    def next_address(self) -> str:
        """For one more node."""
        self._nodes += 1
        return f"10.77.{self._number}.{FIRST_NODE - 1 + self._nodes}"

    def connect(self, node: Node) -> None:
        """Gives a node its link to the network."""
        self._inside("ip", "link", "add", node.name, "master", "fabric", "up", "type", "veth", "peer", "name", "eth0", "netns", str(node.pid))

    def _connected(self, name: str) -> bool:
        """Whether this machine's end could be made under this name, which makes the network's number ours."""
        with contextlib.suppress(subprocess.CalledProcessError):
            run("ip", "link", "add", name, "type", "veth", "peer", "name", "outside", "netns", str(self.pid))
            self._inside("ip", "link", "set", "outside", "master", "fabric", "up")
            return True
        return False

    def _inside(self, *words: str) -> str:
        return run("nsenter", f"--net=/proc/{self.pid}/ns/net", *words)


class Node(OfRoot):
    """A node: its first process, with which all others of the node end. shared: the folder that it has in common with this machine, wherever it lies."""

    title = "node"

    def __init__(self, folder: Path, fabric: Fabric, name: str, shared: Path) -> None:
        super().__init__(folder)
        self._fabric, self.name, self._shared = fabric, name, shared
        self.address = ""  # from start on

    def environment(self) -> Mapping[str, str]:
        return {"PATH": PATH}

    def prepare(self) -> None:
        super().prepare()
        self._up.unlink(missing_ok=True)

    def command(self) -> Sequence[str]:
        # The rings' folder is what an agent makes at its start; here a prolog may come first.
        own = ["mount -t tmpfs -o mode=1777 shm /dev/shm", "mkdir -m 1777 /dev/shm/bellrock"]
        if self._shared.is_relative_to("/tmp"):
            new = f"/dev/shm/tmp{str(self._shared).removeprefix('/tmp')}"
            own += ["mkdir /dev/shm/tmp", "mount -t tmpfs -o mode=1777 tmp /dev/shm/tmp", f"mkdir -p {new}", f"mount --bind {self._shared} {new}"]
            own += ["mount --move /dev/shm/tmp /tmp", "rmdir /dev/shm/tmp"]
        # The first process takes in those whose parents ended, and is ended by what it asks for alone.
        stay = f"touch {self._up}; sleep infinity & wait"
        script = f"trap 'exit 0' TERM; hostname {self.name} && ip link set lo up && {' && '.join(own)} || exit 1; {stay}"
        return [program("unshare"), "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script]

    def answers(self) -> bool:
        return self.running and self._up.exists()

    def start(self, *, wait: bool = True) -> None:
        """Raises BellrockError."""
        super().start(wait=wait)
        self.address = self._fabric.next_address()
        self._fabric.connect(self)
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def enter(self, *command: str, network: bool = True) -> list[str]:
        """The words by which a command is run on this node; network=False: with this machine's network."""
        of = f"/proc/{self.pid}/ns"
        ways = [f"--mount={of}/mnt", f"--uts={of}/uts", f"--pid={of}/pid_for_children", *([f"--net={of}/net"] if network else [])]
        return [program("nsenter"), *ways, "--", *command]

    def run(self, *command: str, user: int | None = None, environ: Mapping[str, str] | None = None) -> str:
        """What a command says that is run on this node, as root or another user. Raises CalledProcessError with what it said."""
        of_user = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return run(*self.enter(*of_user, *command), environ=environ)

    @property
    def mark(self) -> str:
        """By which the node's first process is found (bellrock.stack.process)."""
        found = self._record()
        assert found is not None, "it was not started"
        return found["mark"]

    def path(self, path: Path) -> Path:
        """Where this machine sees a path of the node."""
        return Path(f"/proc/{self.pid}/root") / str(path).lstrip("/")

    @property
    def _up(self) -> Path:
        return self.folder / "up"


class OnNode(OfRoot):
    """A server that runs on a node."""

    # Whether it is on the nodes' network, not on this machine's.
    on_network = True

    def __init__(self, folder: Path, node: Node) -> None:
        super().__init__(folder)
        self.node = node

    def environment(self) -> Mapping[str, str]:
        return {"PATH": PATH}

    def words(self) -> Sequence[str]:
        """What is executed there."""
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        return self.node.enter(*self.words(), network=self.on_network)

    def answers(self) -> bool:
        return self.running
