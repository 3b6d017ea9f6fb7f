"""What is broken, hostile or full gives a clear word or a counted loss; the watched program never notices."""

from __future__ import annotations

import os
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.hammer import Hammer
from tests.e2e.site import Site, compiled
from tests.wait import until


def write_some(site: Site, count: int = 50) -> str:
    """A small job that must come out exactly: the proof that all is well."""
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    site.run(["dd", "if=/dev/zero", f"of={data}/x", "bs=4096", f"count={count}"], job, watch=data, stderr=subprocess.DEVNULL)
    assert site.profile(job)["write_bytes"] == 4096 * count
    return job


def test_ring_overwritten_with_random_bytes(site: Site) -> None:
    hammer = compiled("hammer", site.folder)
    job = site.new_job()
    data, truth = site.data / job, site.folder / f"{job}.truth"
    data.mkdir()
    chance = random.Random(11)
    before = set(site.rings.rglob("*.ring"))
    with site.launch([hammer, data, truth, 2, 2, 3000, 500], job, watch=data) as process:
        while process.poll() is None:
            for ring in set(site.rings.rglob("*.ring")) - before:
                try:
                    with open(ring, "r+b") as file:
                        size = os.fstat(file.fileno()).st_size
                        for _ in range(20):
                            # Where there is something: the header, the first names, the segments.
                            file.seek(chance.choice([chance.randrange(4096), 4096 + chance.randrange(65536), chance.randrange(size)]))
                            file.write(chance.randbytes(chance.randrange(1, 64)))
                except FileNotFoundError:
                    continue  # its process has ended and the agent has read it
            time.sleep(0.01)
        assert process.wait() == 0, "the program noticed"
    assert sum(row[1] for row in struct.iter_unpack("4Q", truth.read_bytes())) == 4 * 3000
    write_some(site)


def test_files_that_are_not_rings(site: Site) -> None:
    folder = site.rings / str(os.getuid())
    (folder / "1-1-00000000.ring").write_bytes(b"")
    (folder / "1-2-00000000.ring").write_bytes(os.urandom(1 << 16))
    (folder / "1-3-00000000.ring").symlink_to("/etc/passwd")
    (folder / "nonsense.ring").mkdir()
    (folder / "bad.job").write_text("{not json")
    (folder / "odd.job").write_text('{"event": 5}')
    (site.rings / "12345").mkdir()  # another user's, but owned by us
    if os.getuid() == 0:
        stranger = folder / "1-4-00000000.ring"
        stranger.write_bytes(b"x" * 4096)
        os.chown(stranger, 65534, 65534)
        (folder / "1-5-00000000.ring").write_bytes(b"y" * 4096)
        (folder / "1-5-00000000.ring").chmod(0)
    write_some(site)
    assert Path("/etc/passwd").read_bytes().startswith(b"root:")
    site.agent_pid()


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"2",
        b"2W\0\0",
        b"GET / HTTP/1.0\r\n\r\n",
        b"2W\xff\xff\xff\xff",
        b"2W\0\0\0\1" + b"2C\xff\xff\xff\xff",
        b"2W\0\0\0\1" + b"2C\0\0\0\x0b" + b"not zlib at",
        random.Random(7).randbytes(4096),
    ],
    ids=["nothing", "half a frame", "cut window", "http", "huge window", "huge frame", "not zlib", "random"],
)
def test_cut_and_garbled_frames(site: Site, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", site.ingest_port), timeout=10) as peer:
        peer.sendall(garbage)
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while part := peer.recv(4096):
            answer += part
    assert not answer.startswith(b"2A") or answer.endswith(b"\0\0\0\0"), "nothing may be acknowledged"
    assert site.server.poll() is None
    write_some(site)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(place)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_full_disk_under_the_spool(tmp_path: Path, free_port: Callable[[], int], build_dir: Path, small_disk: Path) -> None:
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    site = Site(tmp_path / "site", rings, free_port)
    site.state.mkdir(mode=0o700)
    (small_disk / "spool").mkdir(mode=0o700)
    (site.state / "spool").mkdir(mode=0o700)
    subprocess.run(["mount", "--bind", str(small_disk / "spool"), str(site.state / "spool")], check=True)
    try:
        site.start()
        binary = compiled("hammer", site.folder)
        ballast = small_disk / "ballast"
        with open(ballast, "wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                pass  # full, as wanted
        hammer = Hammer(site, binary, 2, 2, 4000, 0, "random")
        assert hammer.wait() == 0, "the program noticed"
        log = site.state / "agent.log"
        until(lambda: "No space" in log.read_text() or "full" in log.read_text(), "a word about the full disk in the agent's log")
        ballast.unlink()
        hammer.assert_exact(seconds=90)
    finally:
        if site.server and site.server.poll() is None:
            site.stop()
        subprocess.run(["umount", "-l", str(site.state / "spool")], check=True)
        shutil.rmtree(rings)
