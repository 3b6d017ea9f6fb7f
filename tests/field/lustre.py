"""A stand-in for Lustre: beside each brick a program that shows its counters as a Lustre server shows its own (tests/field/lustre_standin.py), where the agent of that server looks."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bellrock.simulate.trees.lustre_text import PROC
from tests.field.gluster import VOLUME, Brick, Gluster
from tests.field.network import Node
from tests.field.parts import PATH, OfRoot

ROOT = Path(__file__).resolve().parents[2]
# Lines of an agent's settings.
AGENT_SETTINGS = "".join(f"lustre_{name}_period_s = 1\n" for name in ("server", "job", "export"))


class Server(OfRoot):
    """That of one brick. It runs beside the nodes, since it looks into all of them. mount: where clients have the file system; jobs: the file to which Slurm's hooks
    write (`hook`)."""

    title = "Lustre stand-in"

    def __init__(self, folder: Path, number: int, brick: Brick, clients: Sequence[Node], mount: Path, jobs: Path) -> None:
        super().__init__(folder)
        self._number, self._brick, self._clients, self._mount, self._jobs = number, brick, clients, mount, jobs
        self._root = folder / "root"

    def prepare(self) -> None:
        super().prepare()
        brick, shown = self._brick, self._root / PROC
        connection = f".meta/graphs/active/{VOLUME}-client-{self._number}"
        given = {
            "root": str(self._root), "file_system": VOLUME, "number": self._number, "device": brick.disk.device, "place": str(brick.node.path(brick.place)),
            "dump": f"{brick.folder}/lib/stats/glusterfsd_{brick.instance}.dump", "jobs": str(self._jobs),
            "clients": {node.address: (node.name, str(node.path(self._mount / connection))) for node in self._clients},
        }  # fmt: skip
        self._settings.write_text(json.dumps(given))
        if not shown.exists():
            shown.mkdir(parents=True)
            # Nothing can be made in /proc itself. It ends with the node.
            brick.node.run("mount", "--bind", str(shown.parent), f"/{PROC}".rpartition("/")[0])

    def environment(self) -> Mapping[str, str]:
        return {"PATH": PATH, "PYTHONPATH": str(ROOT)}

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "tests.field.lustre_standin", str(self._settings)]

    def answers(self) -> bool:
        # What it writes last.
        return self.running and (self._root / PROC / "mds/MDS/mdt/stats").exists()

    @property
    def _settings(self) -> Path:
        return self.folder / "settings.json"


class Lustre:
    """`start` begins a server for each brick, once GlusterFS runs."""

    def __init__(self, folder: Path, gluster: Gluster, clients: Sequence[Node]) -> None:
        self._jobs = folder / "jobs.log"
        self._servers = [Server(folder / name, number, brick, clients, gluster.place, self._jobs) for number, (name, brick) in enumerate(gluster.bricks.items())]

    def start(self) -> None:
        """Raises BellrockError."""
        self._jobs.parent.mkdir()
        self._jobs.touch()
        for server in self._servers:
            server.start()

    def stop(self) -> None:
        """Ends all of it; what fails does not keep the rest."""
        with contextlib.ExitStack() as stack:
            for server in self._servers:
                stack.callback(server.stop)

    def hook(self) -> str:
        """The line by which Slurm's prolog and epilog tell of a job on a node."""
        return f'echo "$SLURM_SCRIPT_CONTEXT $SLURMD_NODENAME $SLURM_JOB_ID" >>{self._jobs}\n'
