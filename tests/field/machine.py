"""A miniature machine of real parts on this one: Slurm with nodes, an agent on each, programs under watch by Slurm's prologs, and the embedded server, which follows
Slurm. Users type `sbatch`, and nothing else. Needs root."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bellrock import paths
from bellrock.client import Client
from bellrock.errors import ApiError
from tests.field.parts import WAIT_S, until
from tests.field.slurm import Slurm

ROOT = Path(__file__).resolve().parents[2]
# Users of any Debian, who own nothing that matters.
ADA, BOB = 5, 7
# libfaketime's, for a node whose clock is off.
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


class Agent:
    """An agent of one node, with rings and spool of its own. more: further lines of its settings."""

    def __init__(self, node: str, rings: Path, folder: Path, server: Path, clock_off_s: float = 0.0, more: str = "") -> None:
        self.node, self.rings, self._folder = node, rings, folder
        self._clock_off_s = clock_off_s
        self._process: subprocess.Popen | None = None
        folder.mkdir(parents=True)
        self._settings = folder / "agent.toml"
        self._settings.write_text(f'node = "{node}"\nrings = "{rings}"\nspool = "{folder / "spool"}"\nserver = "unix:{server}"\nsample_period_s = 1\n{more}')

    def start(self) -> None:
        """Begins; its rings are there once it has."""
        environ = dict(os.environ)
        if self._clock_off_s:
            environ |= {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{self._clock_off_s:+.0f}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with open(self._folder / "agent.log", "ab") as log:
            self._process = subprocess.Popen([paths.artefact(paths.AGENT), "--config", str(self._settings)], env=environ, stdout=log, stderr=log)

    def stop(self) -> None:
        """Ends it as the node's shutdown would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            assert self._process.wait(30) == 0
            self._process = None


class Machine:
    """nodes: their names; those of `late` get no agent before `agents[name].start()`. clocks: seconds by which nodes' clocks are ahead.
    servers: nodes that have an agent and no jobs, with lines of its settings."""

    def __init__(
        self, folder: Path, nodes: Sequence[str], late: Sequence[str] = (), clocks: Mapping[str, float] | None = None, servers: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self._late = folder, late
        self.shared = folder / "shared"  # the file system of all nodes
        self._rings = Path(tempfile.mkdtemp(prefix="bellrock-field-", dir="/dev/shm"))
        self._state = folder / "state"
        self._server: subprocess.Popen | None = None
        clocks, servers = clocks or {}, servers or {}
        self.agents = {
            node: Agent(node, self._rings / node, folder / f"agent-{node}", self._state / "ingest.sock", clocks.get(node, 0.0), servers.get(node, ""))
            for node in (*nodes, *servers)
        }
        self.slurm = Slurm(folder / "slurm", nodes, self._hooks())
        self.client: Client = None  # type: ignore[assignment]  # from start on

    def start(self) -> None:
        """Raises Missing and BellrockError."""
        self.folder.chmod(0o755)
        self._rings.chmod(0o755)
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        self.slurm.start()
        self._state.mkdir(mode=0o700)
        settings = self._state / "server.toml"
        settings.write_text('[http]\nport = 0\n[agent]\nrun = false\n[scheduler]\nkind = "slurm"\nevery_s = 1\n')
        environ = {**os.environ, **self.slurm.environment, "BELLROCK_STATE": str(self._state)}
        with open(self.folder / "server.log", "wb") as log:
            self._server = subprocess.Popen([sys.executable, "-m", "bellrock", "server"], env=environ, cwd=ROOT, stdout=log, stderr=log)
        found = until(lambda: paths.read_json(self._state / "server.json"), "the server is up")
        self.client = Client(found["url"])
        for node, agent in self.agents.items():
            agent.rings.mkdir()
            agent.rings.chmod(0o1777)
            if node not in self._late:
                agent.start()
        until(lambda: set(self.slurm.ask("sinfo", "-h", "-o", "%T").split()) == {"idle"}, "all nodes are idle")

    def stop(self) -> None:
        """Ends all of it, by pid; what fails does not keep the rest."""
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self._rings, ignore_errors=True)
            stack.callback(self._stop_server)
            for agent in self.agents.values():
                stack.callback(agent.stop)
            stack.callback(self.slurm.stop)

    def submit(self, script: str, *options: str, user: int = ADA) -> str:
        """Submits a script as a user does; the job's id."""
        path = self.shared / f"job-{time.monotonic_ns()}.sh"
        path.write_text(f"#!/bin/sh\nset -e\n{script}\n")
        path.chmod(0o755)
        words = ("sbatch", "--parsable", "-o", "/dev/null", "-D", str(self.shared), *options, str(path))
        return self.slurm.ask(*words, user=user).strip().partition(";")[0]

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

    def _hooks(self) -> str:
        """Lines of slurm.conf. The wrappers only say where this machine has its rings: elsewhere each node has a /dev/shm."""
        self.folder.mkdir(parents=True, exist_ok=True)
        library = self.folder / "libbellrock.so"
        shutil.copy(paths.artefact("libbellrock.so"), library)
        library.chmod(0o755)
        lines = []
        for setting, hook in (("TaskProlog", "task_prolog"), ("Prolog", "job_event"), ("Epilog", "job_event")):
            copy, wrapper = self.folder / hook, self.folder / f"field-{hook}"
            shutil.copy(ROOT / "collectors/slurm" / hook, copy)
            wrapper.write_text(f'#!/bin/sh\nBELLROCK_LIBRARY={library} BELLROCK_RINGS={self._rings}/$SLURMD_NODENAME\nexport BELLROCK_LIBRARY BELLROCK_RINGS\nexec {copy}\n')
            for path in (copy, wrapper):
                path.chmod(0o755)
            lines.append(f"{setting}={wrapper}")
        return "\n".join([*lines, "PrologFlags=Alloc"])

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            assert self._server.wait(60) == 0

    def _log_end(self) -> str:
        return (self.folder / "server.log").read_text()[-2000:]
