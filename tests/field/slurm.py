"""A Slurm with accounting on this machine: slurmctld and slurmdbd here, a slurmd on each node.

Packages of Debian 12; users submit with `sbatch`, and nothing else. Needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bellrock.stack.process import HOST, Server
from bellrock.stack.sql import Account
from tests.field.network import Fabric, Node
from tests.field.parts import ASK_S, PATH, OfRoot, program, run
from tests.mariadb import MariaDb

CLUSTER = "tiny"
CPUS = 4  # of each node, whatever this machine has


class Munge(OfRoot):
    """Who is who, for Slurm."""

    title = "munged"

    @property
    def socket(self) -> Path:
        return self.folder / "munge.socket"

    def prepare(self) -> None:
        super().prepare()
        key = self.folder / "munge.key"
        if not key.exists():
            key.touch(0o400)
            key.write_bytes(os.urandom(1024))

    def command(self) -> Sequence[str]:
        of = self.folder
        return [
            program("munged"), "--foreground", "--force", f"--socket={self.socket}", f"--key-file={of}/munge.key", f"--pid-file={of}/munged.pid",
            f"--log-file={of}/munged.log", f"--seed-file={of}/munged.seed",
        ]  # fmt: skip

    def answers(self) -> bool:
        return subprocess.run([program("munge"), "-n", "-S", str(self.socket)], capture_output=True).returncode == 0


class _OfSlurm(OfRoot):
    def __init__(self, folder: Path, conf: Path, command: Sequence[str], asks: Sequence[str]) -> None:
        super().__init__(folder)
        self._command, self._asks = list(command), list(asks)
        self.conf = conf
        self.title = folder.name

    def command(self) -> Sequence[str]:
        return self._command

    def environment(self) -> Mapping[str, str]:
        return {"SLURM_CONF": str(self.conf), "PATH": PATH}

    def answers(self) -> bool:
        return subprocess.run(self._asks, env={**os.environ, **self.environment()}, capture_output=True, timeout=ASK_S).returncode == 0


class Slurm:
    """`start` brings it up where nodes run, `stop` ends it; its jobs end with their nodes. settings: more lines of slurm.conf."""

    def __init__(self, folder: Path, fabric: Fabric, nodes: Sequence[Node], settings: str = "") -> None:
        self.folder, self._fabric, self.nodes, self._settings = folder, fabric, list(nodes), settings
        self.conf = folder / "slurm.conf"
        self._munge = Munge(folder / "munge")
        self._sql = MariaDb(folder / "sql", databases=("slurm_acct_db",), accounts=(Account("slurm", "slurm", ("ALL ON slurm_acct_db.*",)),))
        self._parts: list[Server] = [self._munge, self._sql]
        self.environment = {"SLURM_CONF": str(self.conf), "PATH": PATH}

    def start(self) -> None:
        """Raises Missing and BellrockError."""
        for name in ("munged", "slurmdbd", "slurmctld", "slurmd", "sbatch"):
            program(name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self._munge.start()
        self._sql.start()
        accounting = _OfSlurm(self.folder / "slurmdbd", self.conf, [program("slurmdbd"), "-D"], [program("sacctmgr"), "-n", "show", "cluster"])
        controller = _OfSlurm(self.folder / "slurmctld", self.conf, [program("slurmctld"), "-D", "-i"], [program("scontrol"), "ping"])
        daemons = {node: self._daemon(node) for node in self.nodes}
        self._write(accounting.port, controller.port, {node: one.port for node, one in daemons.items()})
        self._parts.append(accounting)
        accounting.start()
        if CLUSTER not in self.ask("sacctmgr", "-n", "show", "cluster", "format=cluster").split():
            self.ask("sacctmgr", "-i", "add", "cluster", CLUSTER)
        for part in (controller, *daemons.values()):
            self._parts.append(part)
            part.start()

    def stop(self) -> None:
        """Ends all, the last that was started first."""
        for part in reversed(self._parts):
            part.stop()

    def ask(self, *words: str, user: int | None = None) -> str:
        """What a command of Slurm's answers, as root or another user, of whose environment jobs get the same. Raises CalledProcessError with what it said."""
        if user is None:
            return run(*words, environ=self.environment)
        of_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return run("env", "-i", *(f"{name}={value}" for name, value in {**self.environment, "HOME": "/nonexistent"}.items()), *of_user, *words)

    def _daemon(self, node: Node) -> _OfSlurm:
        command = node.enter(program("slurmd"), "-D", "-N", node.name)
        return _OfSlurm(self.folder / f"slurmd-{node.name}", self.conf, command, [program("scontrol"), "show", "node", node.name])

    def _write(self, accounting: int, controller: int, nodes: Mapping[Node, int]) -> None:
        of, auth = self.folder, f"AuthType=auth/munge\nAuthInfo=socket={self._munge.socket},cred_expire=10\n"
        database = self.folder / "slurmdbd.conf"
        database.touch(0o600)
        database.chmod(0o600)
        database.write_text(
            f"{auth}DbdHost=localhost\nDbdPort={accounting}\nSlurmUser=root\nLogFile={of}/slurmdbd.log\nPidFile={of}/slurmdbd.pid\n"
            f"StorageType=accounting_storage/mysql\nStorageHost={HOST}\nStoragePort={self._sql.port}\nStorageUser=slurm\nStoragePass=slurm\n"
            "StorageLoc=slurm_acct_db\n"
        )
        lines = [
            f"ClusterName={CLUSTER}", f"SlurmctldHost={os.uname().nodename}({self._fabric.address})", f"SlurmctldPort={controller}", "SlurmUser=root", "SlurmdUser=root",
            auth.strip(), "CredType=cred/munge", "MpiDefault=none", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "ReturnToService=2", "JobAcctGatherType=jobacct_gather/linux",
            "AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=localhost", f"AccountingStoragePort={accounting}",
            f"AccountingStoragePass={self._munge.socket}", f"StateSaveLocation={of}/state", f"SlurmdSpoolDir={of}/spool-%n",
            f"SlurmctldPidFile={of}/slurmctld.pid", f"SlurmdPidFile={of}/slurmd-%n.pid", f"SlurmctldLogFile={of}/slurmctld.log",
            f"SlurmdLogFile={of}/slurmd-%n.log", "KillWait=2", "MinJobAge=30", "SlurmdParameters=config_overrides", self._settings,
            *(f"NodeName={node.name} NodeHostname={node.name} NodeAddr={node.address} Port={port} CPUs={CPUS} State=UNKNOWN" for node, port in nodes.items()),
            f"PartitionName=batch Nodes={','.join(node.name for node in nodes)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO",
        ]  # fmt: skip
        (of / "state").mkdir(exist_ok=True)
        self.conf.write_text("\n".join(lines) + "\n")
