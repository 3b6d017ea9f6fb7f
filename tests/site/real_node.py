"""A node of a miniature site with the real agent, and programs under its watch: what `tests.e2e.hammer` asks of a site."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
from pathlib import Path
from typing import Any

from bellrock.agent import spool_holder
from bellrock.demo.stack import start_agent

from tests.site.stack import ROOT, Stack
from tests.wait import until


class RealNode:
    def __init__(self, stack: Stack, group: str, folder: Path) -> None:
        self.stack, self.folder, self.data = stack, folder, folder / "data"
        self.name = f"real-{group}"
        self.data.mkdir(parents=True)
        self._rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
        self._agent = start_agent(stack.site, group, self.name, self._rings)
        self._launched: list[subprocess.Popen] = []

    def kill_agent(self) -> None:
        """SIGKILL; another is started at once."""
        killed = until(lambda: spool_holder(self._agent.spool), "the agent")
        os.kill(killed, signal.SIGKILL)
        until(lambda: spool_holder(self._agent.spool) not in (0, killed), "a new agent")

    def close(self) -> None:
        for launched in self._launched:
            if launched.poll() is None:
                os.killpg(launched.pid, signal.SIGKILL)
                launched.wait()
        self._agent.stop(60)
        shutil.rmtree(self._rings)

    # What a Hammer asks.

    def new_job(self) -> str:
        return f"{self.name}-{len(self._launched)}"

    def launch(self, argv: list[Any], job: str, watch: Path) -> subprocess.Popen:
        command = [sys.executable, "-m", "tests.site.watched", str(self._rings), str(watch), job, "--", *map(str, argv)]
        launched = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        self._launched.append(launched)
        return launched

    def settle(self, job: str, seconds: float) -> None:
        def settled() -> bool:
            try:
                return self.stack.get(f"/api/v1/jobs/{job}")["job"]["settled"]
            except urllib.error.HTTPError as error:
                assert error.code in (404, 503), error
                return False

        until(settled, f"job {job} to settle", seconds)

    def profile(self, job: str) -> dict:
        return self.stack.get(f"/api/v1/jobs/{job}")["profile"]

    def rows(self, job: str, kind: str) -> list[dict]:
        """Of at most 500 files, processes or nodes."""
        return self.stack.get(f"/api/v1/jobs/{job}/{kind}?limit=500")[kind]
