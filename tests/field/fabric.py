"""An InfiniBand fabric without hardware: ibsim has its switches and hosts, and the real tools and a real subnet manager talk to them. Needs no root."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bellrock.stack import Missing
from tests.field.parts import ASK_S, PATH, program
from tests.wait import until

# Two switches with two links between them, and a host at each other port that is used. The first host is the one that asks.
LINKS = {
    "leaf1": {1: ("cn1", 1), 2: ("cn2", 1), 7: ("spine1", 1), 8: ("spine1", 2)},
    "spine1": {1: ("leaf1", 7), 2: ("leaf1", 8), 5: ("fwd1", 1)},
}
HOSTS = {"cn1": ("leaf1", 1), "cn2": ("leaf1", 2), "fwd1": ("spine1", 5)}
PORTS = 8
TOOLS = ("ibnetdiscover", "perfquery")


class Fabric:
    """Ends with `stop`; what a tool that is killed leaves lies in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._log = folder, folder / "ibsim.log"
        self._environ = {**os.environ, "PATH": PATH, "IBSIM_SOCKNAME": f"bellrock-{os.getpid()}", "SIM_HOST": "cn1"}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Raises Missing."""
        library = next(iter(sorted(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"))), None)
        if library is None:
            raise Missing("ibsim's libumad2sim.so is missing", "run `scripts/system.sh build field`")
        self._folder.mkdir(parents=True)
        net = self._folder / "net"
        net.write_text(net_text())
        environ = " ".join(f"{name}={self._environ[name]}" for name in ("IBSIM_SOCKNAME", "SIM_HOST"))
        for name in (*TOOLS, "opensm"):
            # It makes a folder of its own where it is started.
            path = self.tool(name)
            path.write_text(f'#!/bin/sh\n[ -e {path}.hangs ] && exec sleep 1000\ncd {self._folder} || exit 1\n{environ} LD_PRELOAD={library} exec {program(name)} "$@"\n')
            path.chmod(0o755)
        with open(self._log, "w") as log:
            self._process = subprocess.Popen([program("ibsim"), "-s", str(net)], stdin=subprocess.PIPE, stdout=log, stderr=log, env=self._environ, text=True)
        until(lambda: "Network simulator ready" in self._log.read_text(), "ibsim runs")
        self.manage()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def tool(self, name: str) -> Path:
        return self._folder / name

    @contextlib.contextmanager
    def hanging(self, name: str) -> Iterator[None]:
        """While a tool that is started does nothing."""
        mark = self._folder / f"{name}.hangs"
        mark.touch()
        yield
        mark.unlink()

    def manage(self) -> None:
        """Has a subnet manager give LIDs, find the ways and bring up what has a link."""
        environ = {**self._environ, "OSM_CACHE_DIR": str(self._folder), "OSM_TMP_DIR": str(self._folder)}
        subprocess.run([self.tool("opensm"), "-o", "-f", self._folder / "opensm.log"], env=environ, capture_output=True, check=True, timeout=ASK_S)

    def say(self, command: str) -> None:
        """To ibsim's console; waits until it has done so."""
        assert self._process is not None and self._process.stdin is not None
        before = self._prompts()
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        until(lambda: self._prompts() > before, command)

    def count(self, switch: str, port: int, **counters: int) -> None:
        """Has a port's counters stand so, as `perfquery` calls them: those of data and packets in 64 bits."""
        for name, value in counters.items():
            kind = "PortCountersExtended" if re.fullmatch(r"Port(Xmit|Rcv)(Data|Pkts)", name) else "PortCounters"
            self.say(f'PerformanceSet "{switch}"[{port}] {kind}.{name}={value}')
            assert f"{switch}[{port}] {kind}.{name} has been set to {value}" in self._log.read_text()

    def _prompts(self) -> int:
        return self._log.read_text().count("sim> ")


def net_text() -> str:
    """The fabric as ibsim reads it."""
    nodes = [(f'Switch {PORTS} "{name}"', links) for name, links in LINKS.items()]
    nodes += [(f'Hca 1 "{name}"', {1: end}) for name, end in HOSTS.items()]
    return "\n".join("\n".join([head, *(f'[{port}] "{peer}"[{at}]' for port, (peer, at) in links.items()), ""]) for head, links in nodes)
