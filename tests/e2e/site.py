"""A whole Bellrock on this machine for the e2e tests: server, agent, and programs under watch, all in folders of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bellrock.agent import spool_holder
from tests.wait import until

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
BELLROCK = [sys.executable, "-m", "bellrock"]


def compiled(name: str, folder: Path, *options: str) -> Path:
    """programs/NAME.c as an executable in `folder`."""
    target = folder / name
    subprocess.run(["cc", "-O2", "-pthread", *options, "-o", str(target), str(PROGRAMS / f"{name}.c")], check=True)
    return target


class Site:
    """`folder` holds everything; data that programs under watch use lie in `data`."""

    def __init__(self, folder: Path, rings: Path, free_port: Callable[[], int]) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self.port, self.ingest_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("BELLROCK_")}
        self.env |= {"BELLROCK_STATE": str(self.state), "BELLROCK_RINGS": str(rings)}
        self.rings = rings
        self.server: subprocess.Popen | None = None
        self.pids: list[int] = []  # of servers and of launched commands, dead ones too
        self._jobs = 0
        self._launched: list[subprocess.Popen] = []

    def put_state(self, state: Path) -> None:
        """Has the state elsewhere, such as on a disk that can fill. Call it before `start`."""
        self.state = state
        self.env["BELLROCK_STATE"] = str(state)

    # --- server and agent
    def start(self) -> None:
        with open(self.folder / "server.log", "a") as log:
            command = [*BELLROCK, "server", "--port", str(self.port), "--ingest-port", str(self.ingest_port)]
            self.server = subprocess.Popen(command, env=self.env, stdout=log, stderr=log, cwd=ROOT)
        self.pids.append(self.server.pid)
        until(self._answers, f"the server; see {self.folder / 'server.log'}")

    def _answers(self) -> bool:
        assert self.server is not None and self.server.poll() is None, (self.folder / "server.log").read_text()
        try:
            return self.get("/healthz") is not None
        except OSError:
            return False

    def close(self) -> None:
        """Ends all that a test may have left."""
        for launched in self._launched:
            if launched.poll() is None:
                os.killpg(launched.pid, signal.SIGKILL)
                launched.wait()
        if self.server is not None and self.server.poll() is None:
            self.stop()

    def stop(self) -> int:
        self.server.terminate()
        return self.server.wait(timeout=60)

    def kill_server(self) -> None:
        self.server.kill()
        self.server.wait()

    def agent_pid(self) -> int:
        """The pid of the agent that runs now."""
        return until(self._agent_pid, "the agent")

    def _agent_pid(self) -> int | None:
        return spool_holder(self.state / "spool") or None

    def kill_agent(self) -> None:
        """SIGKILL; the server starts another."""
        killed = self.agent_pid()
        os.kill(killed, signal.SIGKILL)
        until(lambda: self._agent_pid() not in (None, killed), "a new agent")

    # --- programs
    def new_job(self) -> str:
        self._jobs += 1
        return f"job-{self._jobs}"

    def launch(self, argv: list[str | Path], job: str, watch: Path | None = None, **options: Any) -> subprocess.Popen:
        """`bellrock run` in the background, in a process group of its own."""
        prefix = [*BELLROCK, "run", "--quiet", "--name", job, "--watch", str(watch or self.data), "--"]
        env = {**self.env, **options.pop("env", {})}
        launched = subprocess.Popen([*prefix, *map(str, argv)], env=env, start_new_session=True, cwd=options.pop("cwd", ROOT), **options)
        self._launched.append(launched)
        self.pids.append(launched.pid)
        return launched

    def run(self, argv: list[str | Path], job: str | None = None, code: int = 0, **options: Any) -> str:
        """Runs a program to its end and answers its job once all its records are stored."""
        job = job or self.new_job()
        with self.launch(argv, job, **options) as process:
            assert process.wait(timeout=120) == code, argv
        self.settle(job)
        return job

    def settle(self, job: str, seconds: float = 60) -> None:
        def settled() -> bool:
            try:
                return self.get(f"/api/v1/jobs/{job}")["job"]["settled"]
            except urllib.error.HTTPError as error:
                assert error.code == 404, error
                return False
            except OSError:
                return False  # the server is away

        until(settled, f"job {job} to settle", seconds)

    # --- answers
    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith((b"{", b"[")) else text.decode()

    def profile(self, job: str) -> dict:
        return self.get(f"/api/v1/jobs/{job}")["profile"]

    def rows(self, job: str, kind: str) -> list[dict]:
        """All rows of a table of the job: files, processes or nodes."""
        rows, cursor = [], ""
        while True:
            page = self.get(f"/api/v1/jobs/{job}/{kind}?limit=500" + (f"&cursor={cursor}" if cursor else ""))
            rows += page[kind]
            cursor = page.get("next_cursor")
            if not cursor:
                return rows
