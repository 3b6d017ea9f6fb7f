"""Writes what the sources of a virtual machine's nodes would have left, a tree a node for the agent's `--root`, and what its site knows."""

import json
from collections.abc import Callable
from pathlib import Path

from bellrock.errors import UsageError
from bellrock.simulate.expand import Columns
from bellrock.simulate.model import Job
from bellrock.simulate.to_lwfs import LwfsSink
from bellrock.simulate.to_site import write_accounting, write_topology
from bellrock.simulate.trees.write import periods, write_servers
from bellrock.simulate.virtual import VirtualMachine

MACHINE = "machine.json"
CLIENT_LOG = "/var/log/lwfs/client.log"


class TreeSink:
    """In `folder`: nodes/, of each node that has work what trees.write tells; site/, its topology; slurm/, what accounting told; machine.json, the machine and its
    faults; truth.jsonl. tell: hears how many servers' trees are written, of how many. Raises UsageError where the folder holds anything."""

    def __init__(self, folder: Path, machine: VirtualMachine, every_s: int, tell: Callable[[int, int], None], *, with_jobs: bool = True) -> None:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "take an empty directory, or remove what is there")
        self.folder = folder
        self._machine = machine
        self._client = LwfsSink(folder, machine.seed, name=f"nodes/{{node}}{CLIENT_LOG}", utc=True)
        self._every_s, self._with_jobs, self._tell = every_s, with_jobs, tell

    def add(self, job: Job, runs: Columns) -> None:
        """Appends what a job left."""
        self._client.add(job, runs)

    def finish(self) -> None:
        """Writes what is known once all jobs have ended."""
        machine = self._machine.plan.machine
        self.folder.mkdir(parents=True, exist_ok=True)
        for node in (self.folder / "nodes").glob("*/"):
            settings = periods(self._every_s) + f'lwfs_client_logs = ["{CLIENT_LOG}"]\nlwfs_client_time_zone = "UTC"\n'
            (self.folder / "nodes" / f"{node.name}.agent.toml").write_text(settings, encoding="utf-8")
        write_servers(self._machine, self.folder, self._every_s, with_jobs=self._with_jobs, tell=self._tell)
        write_topology(machine, self.folder / "site", names_jobs=self._with_jobs)
        write_accounting(machine, self._machine.jobs(), self.folder / "slurm")
        (self.folder / MACHINE).write_text(json.dumps(self._machine.told(), indent=1) + "\n", encoding="utf-8")
