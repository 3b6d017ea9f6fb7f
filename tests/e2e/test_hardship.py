"""Programs in trouble of their own, and beside other preload libraries: the watcher neither helps nor harms."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.site import PROGRAMS, Site, compiled

SIZE = 10_000


@pytest.fixture(scope="module")
def hardship(site: Site) -> Path:
    return compiled("hardship", site.folder)


@pytest.fixture
def out(site: Site) -> Path:
    """A file for the program in a folder of its own."""
    folder = site.data / site.new_job()
    folder.mkdir()
    return folder / "out"


@pytest.mark.parametrize("mode", ["malloc", "closed", "memory-after"])
def test_all_is_seen_without_memory_or_standard_streams(site: Site, hardship: Path, out: Path, mode: str) -> None:
    closed = " <&- >&- 2>&-" if mode == "closed" else ""
    job = site.run(["bash", "-c", f"exec {hardship} {mode} {out}{closed}"], watch=out.parent)
    assert out.stat().st_size == SIZE
    assert site.profile(job)["write_bytes"] == SIZE + (mode == "malloc")


@pytest.mark.parametrize("mode", ["memory-before", "descriptors", "chroot"])
def test_what_leaves_no_room_for_a_ring_runs_all_the_same(site: Site, hardship: Path, out: Path, mode: str) -> None:
    """No address space or descriptor for one, or no /proc to say who the process is."""
    if mode == "chroot" and os.getuid():
        pytest.skip("only root may change its root")
    site.run([hardship, mode, out], watch=out.parent)
    assert out.stat().st_size == SIZE


def test_signal_handlers_that_do_io(site: Site, hardship: Path, out: Path) -> None:
    """All that the program does is counted; of what its handlers do, what does not fall amid a call of ours."""
    said = out.with_name("said")
    with open(said, "w") as stdout:
        job = site.run([hardship, "signals", out], watch=out.parent, stdout=stdout)
    ticks = int(said.read_text())
    assert out.stat().st_size == SIZE
    files = {Path(row["file"]).name: row for row in site.rows(job, "files")}
    assert files["out"]["write_bytes"] == SIZE
    assert 0 < files["out.aside"]["write_ops"] <= ticks
    assert site.profile(job)["errors"] == 0


@pytest.fixture
def small_rings(site: Site) -> Iterator[str]:
    """A command's beginning that gives it a /dev/shm of its own, as small as may be, with the rings in it."""
    works = not os.getuid() and shutil.which("unshare") and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
    if not works:
        pytest.skip("mounting takes root and unshare")
    yield "unshare -m sh -c 'mount -t tmpfs -o size={size} none /dev/shm && BELLROCK_RINGS=/dev/shm exec {program}'"


@pytest.mark.parametrize("size", ["16k", "300k", "8m"])
def test_a_full_dev_shm(site: Site, hardship: Path, out: Path, small_rings: str, size: str) -> None:
    """From the start, or filled up while the program runs, which then needs room for names and threads: a store into a page that is not
    there would kill it."""
    job = site.new_job()
    command = small_rings.format(size=size, program=f"{hardship} full {out}")
    site.run(["bash", "-c", command], job, watch=out.parent)
    assert out.stat().st_size == SIZE


def test_killed_for_want_of_memory(site: Site, hardship: Path, out: Path) -> None:
    """By the kernel, in a cgroup of its own: what it did until then is counted."""
    group = cgroup()
    try:
        job = site.run(["bash", "-c", f"echo $$ > {group}/cgroup.procs && exec {hardship} oom {out}"], watch=out.parent, code=137)
    finally:
        group.rmdir()
    assert site.profile(job)["write_bytes"] == SIZE


def cgroup() -> Path:
    """A new memory cgroup of 32 MiB that does not swap; skips where there is none to be had."""
    old, new = ("memory.limit_in_bytes", "memory.swappiness"), ("memory.max", "memory.swap.max")
    for base, (limit, swap) in ((Path("/sys/fs/cgroup/memory"), old), (Path("/sys/fs/cgroup"), new)):
        group = base / f"bellrock-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(32 << 20))
            if (group / swap).exists():
                (group / swap).write_text("0")
            return group
        except OSError:
            group.rmdir()
    pytest.skip("no memory cgroup can be made here: that takes root and a writable /sys/fs/cgroup")


@pytest.mark.parametrize("order", ["first", "last"])
def test_beside_another_preload_library(site: Site, order: str, build_dir: Path) -> None:
    """Each call passes both, whichever is first, and counts once."""
    other = site.folder / "interposer.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", other, PROGRAMS / "interposer.c", "-ldl"], check=True)
    program = compiled("every_call", site.folder)
    job = site.new_job()
    data, said = site.data / job, site.folder / f"{job}.json"
    data.mkdir()
    ours = str(build_dir / "libbellrock.so")
    preload = f"{other}:{ours}" if order == "first" else f"{ours}:{other}"
    with open(said, "w") as stdout:
        site.run(["env", f"LD_PRELOAD={preload}", "INTERPOSED=every_call", program, data], job, watch=data, stdout=stdout)
    truth = json.loads(said.read_text())
    profile = site.profile(job)
    assert profile["errors"] == truth.pop("errors")
    assert {row["op"]: [row["count"], row["bytes"]] for row in profile["operations"] if row["count"]} == truth
