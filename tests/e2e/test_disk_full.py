"""The disk that holds the state fills while programs run, and is full when a server starts: nothing is lost, nothing comes twice."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.e2e.hammer import Hammer
from tests.e2e.site import BELLROCK, ROOT, Site, compiled
from tests.wait import until

DISK_MIB = 64
CLONE_NEWNS = 0x20000
SETTLE_S = 120
# A program that works is heard of at least every second.
QUIET_NS = 5 * 10**9


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small file system of its own, which only this process and its children see."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount. Run the tests as root")
    libc = ctypes.CDLL(None, use_errno=True)
    cwd, before = os.getcwd(), os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNS) != 0:
        pytest.skip(f"no mounts of our own here: {os.strerror(ctypes.get_errno())}. Run where unshare -m works")
    folder = tmp_path_factory.mktemp("disk")
    try:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "small", folder], check=True)
        yield folder
        subprocess.run(["umount", "--lazy", folder], check=True)
    finally:
        libc.setns(before, CLONE_NEWNS)
        os.close(before)
        os.chdir(cwd)


@pytest.fixture(scope="module")
def site(disk: Path, tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[Site]:
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    site = Site(tmp_path_factory.mktemp("site"), rings, free_port)
    site.put_state(disk / "state")
    site.start()
    yield site
    site.close()
    shutil.rmtree(rings)


def fill(disk: Path) -> Path:
    """Takes all the room that is left."""
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def log_of(site: Site) -> str:
    return (site.folder / "server.log").read_text()


def cannot_write(site: Site) -> bool:
    """The store tells so; or the agent's spool was the first that had no room, and nothing more comes to the store."""
    status = site.get("/api/v1/status")
    return bool(status["store_error"]) or all(time.time_ns() - agent["last_seen_ns"] > QUIET_NS for agent in status["agents"])


def test_a_disk_that_fills_while_programs_run(site: Site, disk: Path) -> None:
    binary = compiled("hammer", site.folder)
    before = Hammer(site, binary, 2, 2, 0, 5000)
    before.wait_busy(20)
    filler = fill(disk)
    until(lambda: cannot_write(site), "the disk to be felt")
    during = Hammer(site, binary, 2, 2, 100, 2000, "random")
    assert during.wait(120) == 0
    if site.get("/api/v1/status")["store_error"]:
        assert "No space left" in log_of(site)
        assert "next try in" in log_of(site)
    done = {key: row[1] for key, row in before.truth().items()}
    until(lambda: all(row[1] > done[key] + 50 for key, row in before.truth().items()), "the program to go on")

    filler.unlink()
    until(lambda: not site.get("/api/v1/status")["store_error"], "the store to take records again", SETTLE_S)
    before.stop()
    assert before.wait() == 0
    for job in (before, during):
        job.assert_exact(SETTLE_S)
    status = site.get("/api/v1/status")
    assert (status["dead_letters"], status["missing"]) == (0, 0)


def test_a_disk_that_is_full_at_the_start(site: Site, disk: Path) -> None:
    binary = compiled("hammer", site.folder)
    known = Hammer(site, binary, 1, 2, 50, 0)
    assert known.wait(120) == 0
    known.assert_exact(SETTLE_S)
    assert site.stop() == 0

    filler = fill(disk)
    refused = subprocess.run([*BELLROCK, "server", "--port", str(site.port)], env=site.env, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0
    assert "No space left" in refused.stderr and f"df {site.state}" in refused.stderr, refused.stderr
    blind = Hammer(site, binary, 1, 2, 50, 0)  # neither server nor agent
    assert blind.wait(240) == 0

    filler.unlink()
    site.start()
    for job in (known, blind):
        job.assert_exact(SETTLE_S)
    site.stop()
    assert sqlite3.connect(site.state / "jobs.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with duckdb.connect(str(site.state / "records.duckdb"), read_only=True) as store:
        assert store.execute("SELECT count(*) FROM runs").fetchone()[0] > 0
    site.start()
