"""A miniature machine of real parts on this one: nodes, Slurm, GlusterFS on disks of known speed, an agent on each node, programs under watch by Slurm's prologs, and
a server that follows Slurm. Users type `sbatch`, and nothing else. Needs root."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bellrock import paths
from bellrock.client import Client
from bellrock.errors import ApiError
from tests.field import topology
from tests.field.centre import Centre, Embedded
from tests.field.gluster import Gluster
from tests.field.lustre import AGENT_SETTINGS, Lustre
from tests.field.network import Fabric, Node, OnNode
from tests.field.parts import WAIT_S
from tests.field.slurm import Slurm
from tests.wait import until

ROOT = Path(__file__).resolve().parents[2]
# Users of any Debian, who own nothing that matters.
ADA, BOB = 5, 7
# libfaketime's, for a node whose clock is off.
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
MIB = 1 << 20
# How fast the disks of the forwarding layer's servers can be written; the last one's brick is slow by itself.
SERVERS = {"fwd1": 16 * MIB, "fwd2": 64 * MIB}
SLOW = "fwd2"
RINGS = "/dev/shm/bellrock"


class Agent(OnNode):
    """The agent of a node. settings: lines of its own; the last ones are the centre's."""

    title = "agent"

    def __init__(self, folder: Path, node: Node, program: Path, centre: Centre, clock_off_s: float, settings: Callable[[], str]) -> None:
        super().__init__(folder, node)
        self._program = program
        self._centre, self._clock_off_s, self._settings = centre, clock_off_s, settings
        self.on_network = not centre.on_loopback

    def prepare(self) -> None:
        super().prepare()
        lines = f'node = "{self.node.name}"\nrings = "{RINGS}"\nspool = "{self.folder / "spool"}"\nsample_period_s = 1\n'
        self._file.write_text(lines + self._settings() + self._centre.agent_settings(self.node.name))
        self._file.chmod(0o600)

    def words(self) -> Sequence[str]:
        clock = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{self._clock_off_s:+.0f}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        off = [f"{name}={value}" for name, value in clock.items()] if self._clock_off_s else []
        return ["env", *off, str(self._program), "--config", str(self._file)]

    @property
    def _file(self) -> Path:
        return self.folder / "agent.toml"


class Machine:
    """nodes: the compute nodes' names; those of `late` get no agent before `agents[name].start()`. clocks: seconds by which nodes' clocks are ahead.
    forwards: with GlusterFS, which the nodes mount at `work`; as_lustre: its servers pass for Lustre's; slow: which of these is slow from the start, "": none. centre: by default the embedded server."""

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[str],
        late: Sequence[str] = (),
        clocks: Mapping[str, float] | None = None,
        forwards: bool = False,
        centre: Centre | None = None,
        as_lustre: bool = False,
        slow: str = SLOW,
    ) -> None:
        self.folder, self._late = folder, late
        self.shared = folder / "shared"  # of all nodes, and of this machine
        self.work = folder / "work"  # the volume of GlusterFS, on nodes
        self.centre = centre or Embedded(folder / "server")
        self._fabric = Fabric(folder / "network")
        self.nodes = {name: Node(folder / f"node-{name}", self._fabric, name, folder) for name in (*nodes, *(SERVERS if forwards else ()))}
        compute = [self.nodes[name] for name in nodes]
        servers = {self.nodes[name]: speed for name, speed in SERVERS.items()} if forwards else {}
        self.gluster = Gluster(folder / "gluster", servers, slow, compute, self.work) if forwards else None
        self.lustre = Lustre(folder / "lustre", self.gluster, compute) if self.gluster is not None and as_lustre else None
        self.slurm = Slurm(folder / "slurm", self._fabric, compute, self._hooks())
        clocks = clocks or {}
        self.agents = {
            name: Agent(folder / f"agent-{name}", node, folder / paths.AGENT, self.centre, clocks.get(name, 0.0), lambda name=name: self._agent_settings(name))
            for name, node in self.nodes.items()
        }

    def start(self) -> None:
        """Raises Missing and BellrockError."""
        self.folder.chmod(0o755)
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        self._fabric.start()
        for node in self.nodes.values():
            node.start()
        if self.gluster is not None:
            self.gluster.start()
        if self.lustre is not None:
            self.lustre.start()
        self.slurm.start()
        # The tree that is tested, whichever is installed.
        self.centre.start({**self.slurm.environment, "PYTHONPATH": str(ROOT)})
        if self.gluster is not None:
            self._apply_topology(self.gluster)
        for name, agent in self.agents.items():
            if name not in self._late:
                agent.start()
        until(lambda: set(self.slurm.ask("sinfo", "-h", "-o", "%T").split()) == {"idle"}, "all nodes are idle")

    def stop(self) -> None:
        """Ends all of it, by pid; what fails does not keep the rest."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._fabric.stop)
            if self.gluster is not None:
                stack.callback(self.gluster.stop)
            for node in self.nodes.values():
                stack.callback(node.stop)
            if self.lustre is not None:
                stack.callback(self.lustre.stop)
            stack.callback(self.centre.stop)
            for agent in self.agents.values():
                stack.callback(agent.stop)
            stack.callback(self.slurm.stop)

    @property
    def client(self) -> Client:
        return self.centre.client

    def submit(self, script: str, *options: str, user: int = ADA) -> str:
        """Submits a script as a user does; the job's id."""
        path = self.shared / f"job-{time.monotonic_ns()}.sh"
        path.write_text(f"#!/bin/sh\nset -e\n{script}\n")
        path.chmod(0o755)
        words = ("sbatch", "--parsable", "-o", f"{path}.out", "-D", str(self.shared), *options, str(path))
        return self.slurm.ask(*words, user=user).strip().partition(";")[0]

    def wait_ended(self, *keys: str) -> None:
        """Until Slurm knows of none of these jobs that waits or runs."""
        until(lambda: not self.slurm.ask("squeue", "-h", "-j", ",".join(keys)).strip(), f"jobs {keys} have ended")

    def job(self, key: str) -> dict[str, Any] | None:
        """A job and its profile as the API tells, None where it knows none."""
        try:
            return self.client.get(f"/api/v1/jobs/{key}")
        except ApiError:
            return None

    def settled(self, key: str, limit_s: float = WAIT_S) -> dict[str, Any]:
        """The job once it has settled."""

        def look() -> dict[str, Any] | None:
            found = self.job(key)
            return found if found is not None and found["job"]["settled"] and found["job"]["queued"] is not None else None

        return until(look, f"job {key} has settled; it is {json.dumps(self.job(key))[:2000]}; {self._log_end()}", limit_s)

    def files(self, key: str) -> dict[str, dict[str, Any]]:
        """What a job did to files in the volume, by their names in it."""
        rows = self.client.get(f"/api/v1/jobs/{key}/files", limit=500)["files"]
        return {row["file"].removeprefix(f"{self.work}/"): row for row in rows if row["file"].startswith(f"{self.work}/")}

    def _agent_settings(self, name: str) -> str:
        # Which of this machine's disks are a node's own, the kernel does not know.
        if self.gluster is not None and name in self.gluster.bricks:
            brick = self.gluster.bricks[name]
            asks = f'gluster_client_period_s = 1\ngluster_client_command = "{brick.command_line()}"\n'
            return f'block_devices = ["{brick.disk.device}"]\n{asks}{AGENT_SETTINGS if self.lustre is not None else ""}'
        return "block_device_period_s = 0\n"

    def _hooks(self) -> str:
        """Lines of slurm.conf. The wrappers only say where this machine has the library, and tell Lustre's servers of jobs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Nodes see no other folder of this machine's /tmp.
        for name in (paths.AGENT, "libbellrock.so", "mpi_checkpoint"):
            if paths.artefact(name).exists():
                shutil.copy(paths.artefact(name), self.folder / name)
                (self.folder / name).chmod(0o755)
        lines = []
        for setting, hook in (("TaskProlog", "task_prolog"), ("Prolog", "job_event"), ("Epilog", "job_event")):
            copy, wrapper = self.folder / hook, self.folder / f"field-{hook}"
            shutil.copy(ROOT / "collectors/slurm" / hook, copy)
            tells = self.lustre.hook() if self.lustre is not None and hook == "job_event" else ""
            wrapper.write_text(f"#!/bin/sh\n{tells}BELLROCK_LIBRARY={self.folder}/libbellrock.so\nexport BELLROCK_LIBRARY\nexec {copy}\n")
            for path in (copy, wrapper):
                path.chmod(0o755)
            lines.append(f"{setting}={wrapper}")
        return "\n".join([*lines, "PrologFlags=Alloc"])

    def _apply_topology(self, gluster: Gluster) -> None:
        """Tells what serves what, as a site's administrator does."""
        folder = self.folder / "topology"
        folder.mkdir()
        clients = [node for node in self.nodes.values() if node.name not in gluster.bricks]
        (folder / "site.toml").write_text(topology.site(gluster, self.work, clients, as_lustre=self.lustre is not None))
        settings = self.centre.server.folder / "server.toml"
        command = [sys.executable, "-m", "bellrock", "topology", "apply", str(folder), "--yes", "--config", str(settings)]
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "BELLROCK_STATE": str(self.centre.server.folder / "state")}
        done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def _log_end(self) -> str:
        return self.centre.server.log.read_text()[-2000:]
