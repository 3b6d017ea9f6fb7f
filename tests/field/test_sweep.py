"""What a machine leaves that was killed is found by the next, and ended; nothing else is."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bellrock.errors import BellrockError
from tests.wait import until
from bellrock.stack.process import end, processes
from tests.field.disk import LIMIT, LIMITED, Disk
from tests.field.machine import ROOT
from tests.field.network import Fabric, Node
from tests.field.parts import run
from tests.field.sweep import claim, in_use, sweep

# Brings up a node with a disk, and is killed.
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.field.disk import Disk
from tests.field.network import Fabric, Node
folder = Path(sys.argv[1])
fabric = Fabric(folder / "network")
fabric.start()
node = Node(folder / "node-cn1", fabric, "cn1", folder)
node.start()
disk = Disk(folder / "disk", node, 1 << 20)
disk.start()
node.run("sh", "-c", "sleep 1000 >/dev/null 2>&1 &")
print(node.pid, fabric.address, disk.limited, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(root: None, servers_dir: Path) -> Path:
    return servers_dir / "swept"


def members(pid: int) -> list[int]:
    """The processes of the namespace of which a node's first process is the parent's."""
    of_node = os.readlink(f"/proc/{pid}/ns/pid_for_children")
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdecimal() and os.readlink(f"/proc/{name}/ns/pid") == of_node:
                found.append(int(name))
        except OSError:
            continue  # ended meanwhile
    return found


def test_all_that_a_killed_machine_left_is_swept(folder: Path) -> None:
    if not LIMIT.exists():
        pytest.skip(f"{LIMIT} is missing: mount the blkio controller of cgroup v1")
    claim(folder)
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, address, limited = done.stdout.split()
    of_node, devices = members(int(pid)), in_use(folder)
    assert len(of_node) >= 3 and len(devices) == 1 and address in run("ip", "address")
    assert (LIMITED / limited).exists() and f"{limited} {1 << 20}" in LIMIT.read_text()
    # Somebody else's, of the same name: it stays.
    other = subprocess.Popen(["sleep", "1000"], env={"PATH": os.defpath, "BELLROCK_STACK_MARK": "0123456789abcdef"})
    try:
        assert set(sweep(folder)) == {"network", "node"}
        assert other.poll() is None
    finally:
        end("0123456789abcdef", signal.SIGKILL, 5)
        other.wait()
    until(lambda: not any(Path(f"/proc/{one}/exe").exists() for one in of_node), "its processes are gone")
    assert not folder.exists() and not in_use(folder) and f"{limited} " not in LIMIT.read_text()
    until(lambda: address not in run("ip", "address"), "its network is gone")
    assert sweep(folder) == []


def test_a_folder_of_something_else_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis").write_text("all of it")
    with pytest.raises(BellrockError, match="something else"):
        claim(folder)
    assert sweep(folder) == [] and (folder / "thesis").read_text() == "all of it"


def test_what_lives_is_not_swept_by_a_start_elsewhere(folder: Path, servers_dir: Path) -> None:
    """A limit of a disk whose node lives stays."""
    if not LIMIT.exists():
        pytest.skip(f"{LIMIT} is missing: mount the blkio controller of cgroup v1")
    place = servers_dir / "living"
    fabric = Fabric(place / "network")
    node = Node(place / "node", fabric, "cn1", place)
    disk = Disk(place / "disk", node, 3 << 20)
    with contextlib.ExitStack() as stack:
        for part in (fabric, node, disk):
            stack.callback(part.stop)
        for part in (fabric, node, disk):
            part.start()
        assert sweep(folder) == []
        assert f"{disk.limited} {3 << 20}" in LIMIT.read_text() and any(processes(node.mark))
    assert f"{disk.limited} " not in LIMIT.read_text()
