"""The trace log of an LWFS client is followed over rotation while the agent is killed: every operation once, and its memory stays flat.

`$BELLROCK_LOG_MIB` is how much log (64; `make soak` has 10,240), `$BELLROCK_KILLS` how many kills, `$BELLROCK_SEED` the seed, which is printed.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from pipeline.store import Appended
from tests.unit.pipeline.events import take_one_by_one
from tests.wait import until


LOG_MIB = int(os.environ.get("BELLROCK_LOG_MIB", "64"))
KILLS = int(os.environ.get("BELLROCK_KILLS", "6"))
HANDLES = 128
SIZE = 4096
LINES = 20_000
# The agent may be so far behind before the writer waits; a log is rotated at half of that, and so many are kept.
BEHIND_MIB = max(16, LOG_MIB // 20)
ROTATE_MIB, KEPT = BEHIND_MIB // 2, 4
STAMP = b"2016-07-27 15:34:33"
RSS_MIB_MAX = 64


class Sums:
    """A store that adds up what comes: operations and bytes of each file, each record once."""

    def __init__(self) -> None:
        self.operations: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.total = 0
        self._last: dict[str, int] = {}

    def append(self, events: list[dict]) -> Appended:
        appended = Appended()
        for event in events:
            if event["seq"] <= self._last.get(event["boot"], 0):
                continue  # sent again
            assert event["seq"] == self._last.get(event["boot"], 0) + 1, event
            self._last[event["boot"]] = event["seq"]
            if event["kind"] == "run" and event["op"] in ("read", "write"):
                key = (event["op"], event["file"])
                self.operations[key] += event["count"]
                self.bytes[key] += event["bytes"]
                self.total += event["count"]
        return appended

    take = take_one_by_one


def block(chance: random.Random) -> tuple[bytes, Counter]:
    """Lines of HANDLES handles, interleaved, one in a hundred garbage; and how many operations they are, by (op, file)."""
    offsets: Counter[int] = Counter()
    truth: Counter[tuple[str, str]] = Counter()
    lines = []
    for number in range(LINES):
        handle = chance.randrange(HANDLES)
        if number % 100 == 0:
            lines.append(b"[%s] T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: %d: WRITE (0x%x, si" % (STAMP, number, handle))
            continue
        op = "WRITE" if handle % 2 else "READ"
        text = f"T [fuse-bridge.c:1967:fuse_op] lwfs-fuse: {number + 1}: {op} (0x{handle + 1:x}, size={SIZE}, offset={offsets[handle]})"
        lines.append(b"[%s] %s" % (STAMP, text.encode()))
        offsets[handle] += SIZE
        truth[op.lower(), f"/data/{handle}"] += 1
    return b"\n".join(lines) + b"\n", truth


class Log:
    """A log that grows and is rotated by renaming."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "wb", buffering=0)

    def write(self, data: bytes) -> None:
        half = len(data) // 2 + 7  # within a line
        self._file.write(data[:half])
        self._file.write(data[half:])
        if self._file.tell() >= ROTATE_MIB << 20:
            self._rotate()

    def _rotate(self) -> None:
        for age in range(KEPT, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{age}")
            if older.exists():
                older.rename(self.path.with_name(f"{self.path.name}.{age + 1}")) if age < KEPT else older.unlink()
        self.path.rename(self.path.with_name(f"{self.path.name}.1"))
        self._file.close()
        self._file = open(self.path, "wb", buffering=0)


def rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


@pytest.mark.timeout(300 + LOG_MIB)
def test_a_log_is_followed_over_rotation_and_kills(tmp_path: Path, build_dir: Path) -> None:
    seed = int(os.environ.get("BELLROCK_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"\nBELLROCK_SEED={seed}")
    chance, began = random.Random(seed), time.monotonic()
    lines, of_block = block(chance)
    blocks = (LOG_MIB << 20) // len(lines) + 1
    in_block = sum(of_block.values())
    behind = (BEHIND_MIB << 20) // len(lines) * in_block
    sums = Sums()
    ingest = Ingest(StoreSink(sums))
    ingest.start()
    log = Log(tmp_path / "client.log")
    settings = tmp_path / "agent.toml"
    settings.write_text(
        f'rings = "{tmp_path}/rings"\nspool = "{tmp_path}/spool"\nserver = "127.0.0.1:{ingest.port}"\n'
        f'lwfs_client_logs = ["{log.path}"]\nlwfs_client_time_zone = "UTC"\n'
    )

    def start() -> subprocess.Popen:
        return subprocess.Popen([build_dir / "bellrock-agent", "--config", settings], stderr=messages)

    log.write(b"".join(b"[%s] T OPEN() /data/%d => 0x%x\n" % (STAMP, n, n + 1) for n in range(HANDLES)))
    with open(tmp_path / "agent.log", "wb") as messages:
        # Of logs that were rotated before an agent's first look nothing is known, and one may be killed before it looks.
        subprocess.run([build_dir / "bellrock-agent", "--config", settings, "--once"], stderr=messages, check=True, timeout=60)
        agent = start()
        try:
            kills = sorted(chance.sample(range(1, blocks), min(KILLS, blocks - 1)))
            rss: list[float] = []
            for number in range(blocks):
                # A minute later each time, so that runs close.
                at = time.gmtime(1_469_633_673 + number * 60)
                log.write(lines.replace(STAMP, time.strftime("%Y-%m-%d %H:%M:%S", at).encode()))
                written = (number + 1) * in_block
                until(lambda written=written: written - sums.total < behind, "the agent to come after", 120)
                rss.append(rss_mib(agent.pid))
                if number in kills:
                    agent.kill()
                    agent.wait()
                    agent = start()
                    print(f"{time.monotonic() - began:7.1f} s  killed after {number * len(lines) >> 20} MiB of log, {rss[-1]:.1f} MiB resident", flush=True)
            agent.terminate()  # it spools what is open, and ships for a few seconds
            agent.wait(60)
            agent = start()
            until(lambda: sums.total >= blocks * in_block, "the last operations")
        finally:
            agent.kill()
            agent.wait()
            ingest.stop()
    expected = Counter({key: count * blocks for key, count in of_block.items()})
    assert sums.operations == expected
    assert sums.bytes == Counter({key: count * SIZE for key, count in expected.items()})
    print(f"{time.monotonic() - began:7.1f} s  {sums.total} operations, all exact; at most {max(rss):.1f} MiB resident")
    assert max(rss) < RSS_MIB_MAX
