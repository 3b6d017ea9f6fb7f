"""What the benchmarks share: compiling their programs, and running one plain or under watch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
LIBRARY = ROOT / "build" / "libbellrock.so"
AGENT = ROOT / "build" / "bellrock-agent"


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder on tmpfs, removed afterwards."""
    place = Path(tempfile.mkdtemp(prefix="bench-", dir="/dev/shm"))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def compiled(name: str, place: Path) -> Path:
    """programs/NAME.c as an executable."""
    target = place / name
    subprocess.run(["cc", "-O2", "-o", str(target), str(PROGRAMS / f"{name}.c")], check=True)
    return target


def watch_environment(rings: Path, data: Path) -> dict[str, str]:
    """The environment in which a program's I/O below `data` is watched."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("BELLROCK_")}
    return {**env, "LD_PRELOAD": str(LIBRARY), "BELLROCK_RINGS": str(rings), "BELLROCK_WATCH": str(data), "BELLROCK_JOB": "bench"}


def answer(command: list[str], env: dict[str, str] | None = None) -> dict:
    """Runs a program that prints one JSON object."""
    return json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)


@contextmanager
def agent(
    place: Path, rings: Path, port: int, metrics: str = "", settings: str = "", root: Path | None = None, before: Sequence[str] = ()
) -> Iterator[subprocess.Popen]:
    """bellrock-agent reading `rings` and shipping to `port`; ended with SIGTERM. metrics: where it answers /metrics, "": nowhere. settings: more lines of its file; root: what it takes
    for /; before: a command that becomes the agent."""
    rings.mkdir(exist_ok=True)
    config = place / "agent.toml"
    config.write_text(f'rings = "{rings}"\nspool = "{place / "spool"}"\nserver = "127.0.0.1:{port}"\nmetrics = "{metrics}"\n{settings}')
    with open(place / "agent.log", "w") as log:
        under = [] if root is None else ["--root", str(root)]
        process = subprocess.Popen([*before, str(AGENT), "--config", str(config), *under], stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)
