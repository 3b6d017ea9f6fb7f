"""A Slurm with accounting and some nodes, all on this machine: each node is a slurmd in a mount namespace of its own, with a name of its own.

Packages of Debian 12; users submit with `sbatch`, and nothing else. Needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bellrock.stack.process import HOST, Server
from bellrock.stack.sql import Account
from tests.field.parts import PATH, OfRoot, program
from tests.mariadb import MariaDb

CLUSTER = "tiny"
ASK_S = 30.0


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
    def __init__(self, folder: Path, conf: Path, command: Sequence[str], asks: Sequence[str] = (), more: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self._command, self._asks, self._more = list(command), list(asks), dict(more or {})
        self.conf = conf
        self.title = Path(command[0]).name

    def command(self) -> Sequence[str]:
        return self._command

    def environment(self) -> Mapping[str, str]:
        return {"SLURM_CONF": str(self.conf), "PATH": PATH, **self._more}

    def answers(self) -> bool:
        if not self._asks:
            return self.running
        return subprocess.run(self._asks, env={**os.environ, **self.environment()}, capture_output=True, timeout=ASK_S).returncode == 0


class Slurm:
    """`start` brings it up, `stop` ends it and all of its jobs. nodes: their names. settings: more lines of slurm.conf."""

    def __init__(self, folder: Path, nodes: Sequence[str], settings: str = "") -> None:
        self.folder, self.nodes, self._settings = folder, list(nodes), settings
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
        daemons = {name: self._node(name) for name in self.nodes}
        self._write(accounting.port, controller.port, {name: one.port for name, one in daemons.items()})
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

    def node(self, name: str) -> Server:
        """The slurmd of a node."""
        return next(part for part in self._parts if part.folder.name == f"slurmd-{name}")

    def ask(self, *words: str, user: int | None = None) -> str:
        """What a command of Slurm's answers, as root or another user. Raises CalledProcessError with what it said."""
        command = [program(words[0]), *words[1:]]
        if user is not None:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        done = subprocess.run(command, env={**os.environ, **self.environment}, cwd="/", capture_output=True, text=True, timeout=ASK_S)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
        return done.stdout

    def _node(self, name: str) -> _OfSlurm:
        # A mount namespace of its own, so that its name is: `hostname` is of the one, and Slurm wants both.
        inside = f"hostname {name}; exec {program('slurmd')} -D -N {name}"
        asks = [program("scontrol"), "show", "node", name]
        return _OfSlurm(self.folder / f"slurmd-{name}", self.conf, ["unshare", "--mount", "--uts", "bash", "-c", inside], asks, {"NODE": name})

    def _write(self, accounting: int, controller: int, nodes: Mapping[str, int]) -> None:
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
            f"ClusterName={CLUSTER}", f"SlurmctldHost={os.uname().nodename}({HOST})", f"SlurmctldPort={controller}", "SlurmUser=root", "SlurmdUser=root",
            auth.strip(), "CredType=cred/munge", "MpiDefault=none", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "ReturnToService=2", "JobAcctGatherType=jobacct_gather/linux",
            "AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=localhost", f"AccountingStoragePort={accounting}",
            f"AccountingStoragePass={self._munge.socket}", f"StateSaveLocation={of}/state", f"SlurmdSpoolDir={of}/spool-%n",
            f"SlurmctldPidFile={of}/slurmctld.pid", f"SlurmdPidFile={of}/slurmd-%n.pid", f"SlurmctldLogFile={of}/slurmctld.log",
            f"SlurmdLogFile={of}/slurmd-%n.log", "KillWait=2", "MinJobAge=30", "SlurmdParameters=config_overrides", self._settings,
            *(f"NodeName={name} NodeHostname={name} NodeAddr={HOST} Port={port} CPUs=4 State=UNKNOWN" for name, port in nodes.items()),
            f"PartitionName=batch Nodes={','.join(nodes)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO",
        ]  # fmt: skip
        (of / "state").mkdir(exist_ok=True)
        self.conf.write_text("\n".join(lines) + "\n")
