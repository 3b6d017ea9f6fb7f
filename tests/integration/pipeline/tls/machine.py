"""A node with the real agent."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.pipeline.tls.certificates import Pair, needs_openssl

ROOT = Path(__file__).resolve().parents[4]
BUILD = Path(os.environ.get("BELLROCK_BUILD", ROOT / "build"))
MISSING = [name for name in ("bellrock-agent", "libbellrock.so", "patterns") if not (BUILD / name).is_file()]
needs_agent = [needs_openssl, pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not in {BUILD}. Run: make build")]

KIB = 1 << 10


class Machine:
    """One node: an agent with its settings and files, and programs under its watch."""

    def __init__(self, folder: Path, rings: Path, port: int, authority: Path, pair: Pair | None) -> None:
        self.folder, self.rings, self.port = folder, rings, port
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(authority.read_bytes())
        self.pair = None
        if pair is not None:
            self.pair = Pair(folder / "node.crt", folder / "node.key")
            self.pair.replace(pair)
        self.log_file = folder / "agent.log"
        self.process: subprocess.Popen | None = None
        self.settings = {"node": "cn1", "server": f"localhost:{port}"}
        self.tls = {} if pair is None else {"ca": str(self.ca), "cert": str(self.pair.cert), "key": str(self.pair.key)}

    def command(self) -> list[str]:
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        lines += [f'rings = "{self.rings}"', f'spool = "{self.folder}/spool"', "sample_period_s = 1", "reconnect_min_ms = 20", "reconnect_max_ms = 500"]
        lines += ["[tls]", *(f"{key} = {json.dumps(value)}" for key, value in self.tls.items())]
        (self.folder / "agent.toml").write_text("\n".join(lines))
        return [str(BUILD / "bellrock-agent"), "--config", str(self.folder / "agent.toml")]

    def start(self) -> None:
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log)

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def says(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in self.log() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert text in self.log(), self.log()

    def write(self, kib: int) -> None:
        """Has a program under watch write so many KiB in requests of 1 KiB."""
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("BELLROCK_")}
        env |= {"LD_PRELOAD": str(BUILD / "libbellrock.so"), "BELLROCK_RINGS": str(self.rings), "BELLROCK_WATCH": str(data), "BELLROCK_JOB": "local-1"}
        words = ["--dir", str(data), "--mode", "nn", "--op", "write", "--processes", "1", "--bytes-per-process", str(kib * KIB), "--request", "1024"]
        subprocess.run([BUILD / "patterns", *words], env=env, check=True, stdout=subprocess.DEVNULL)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)


def written(store) -> tuple[int, int]:
    """Bytes and operations of all writes."""
    rows = store.runs("local-1", ["op", "bytes", "count"]).to_pylist()
    writes = [row for row in rows if row["op"] == "write"]
    return sum(row["bytes"] for row in writes), sum(row["count"] for row in writes)
