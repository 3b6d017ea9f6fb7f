"""The real agent when standard input tells it the time: hours pass in a moment, and nothing of this machine's clocks is in its records."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellrock import paths
from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from tests.integration.agent.samples import Samples

S = 10**9
START_S = 1_767_225_600
END_S = 60
TARGET = "proc/fs/lustre/obdfilter/work-OST0000"
JOB = "  write_bytes:     { samples: %d, unit: bytes, min: 4096, max: 4096, sum: %d }\n"


@contextlib.contextmanager
def server() -> Iterator[tuple[Samples, str]]:
    samples = Samples()
    ingest = Ingest(StoreSink(samples), host="127.0.0.1", port=0)
    ingest.start()
    try:
        yield samples, f"127.0.0.1:{ingest.port}"
    finally:
        ingest.stop()


class Stepped:
    """An agent on a tree in `folder`, whose one target has written so many times 4 KiB for job 4711."""

    def __init__(self, folder: Path, address: str, settings: str = "") -> None:
        self.root = folder / "root"
        (self.root / TARGET).mkdir(parents=True, exist_ok=True)
        config = folder / "agent.toml"
        config.write_text(f"lustre_server_period_s = 10\nlustre_job_period_s = 10\nnode_period_s = 0\nblock_device_period_s = 0\n{settings}")
        command = [str(paths.artefact(paths.AGENT)), "--steps", "--root", str(self.root), "--spool", str(folder / "spool"), "--server", address]
        with open(folder / "agent.log", "ab") as log:
            self.process = subprocess.Popen([*command, "--config", str(config), "--node", "n1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def put(self, writes: int, second: int) -> None:
        head = f"snapshot_time             {second}.000000000 secs.nsecs\n"
        (self.root / TARGET / "stats").write_text(head + f"write_bytes               {writes} samples [bytes] 4096 4096 {4096 * writes}\n")
        (self.root / TARGET / "job_stats").write_text(f"job_stats:\n- job_id:          4711\n  snapshot_time:   {second}\n" + JOB % (writes, 4096 * writes))

    def step(self, second: int) -> None:
        line = b"%d\n" % (second * S)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()
        assert self.process.stdout.readline() == line

    def end(self) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=END_S)
        self.process.stdout.close()
        return code


def spans(samples: Samples, component: str, value: str) -> list[tuple[int, int, float]]:
    """From when to when, s since the start, and what moved; in order, without what moved nothing."""
    found = [(sample["start"] // S - START_S, sample["end"] // S - START_S, sample["values"].get(value, 0)) for sample in samples.of(component)]
    return sorted(span for span in found if span[2])


def test_hours_pass_in_a_moment_by_the_clock_that_is_told(tmp_path):
    with server() as (samples, address):
        agent = Stepped(tmp_path, address)
        for look in range(721):
            second = START_S + 10 * look
            agent.put(look // 2, second - second % 20)
            agent.step(second)
        assert agent.end() == 0
    expected = [(10 * look - 10, 10 * look, 1) for look in range(2, 721, 2)]
    assert spans(samples, "lustre_ost", "writes") == expected
    assert spans(samples, "lustre_job", "writes")[1:] == expected[1:]
    assert samples.total("lustre_ost", "write_bytes") == 360 * 4096
    own = samples.of("agent")
    assert {sample["end"] // S for sample in own} <= set(range(START_S, START_S + 7201)), "times of another clock"
    assert len(own) == 722 and own[-1]["values"]["ended"] == 1


def test_a_look_comes_only_when_it_is_due(tmp_path):
    with server() as (samples, address):
        agent = Stepped(tmp_path, address)
        for second in range(START_S, START_S + 41):
            agent.put(second - START_S, second)
            agent.step(second)
        assert agent.end() == 0
    assert spans(samples, "lustre_ost", "writes") == [(10 * look, 10 * look + 10, 10) for look in range(4)]


@pytest.mark.parametrize("at", [0, 1, 2, 29, 30, 31, 47])
def test_killed_at_any_step_the_next_agent_loses_nothing(tmp_path, at):
    with server() as (samples, address):
        agent = Stepped(tmp_path, address)
        for look in range(at + 1):
            agent.put(5 * look, START_S + 10 * look)
            agent.step(START_S + 10 * look)
        agent.process.kill()
        agent.process.communicate()
        agent = Stepped(tmp_path, address)
        for look in range(at, 60):
            agent.put(5 * look, START_S + 10 * look)
            agent.step(START_S + 10 * look)
        assert agent.end() == 0
    assert samples.total("lustre_ost", "writes") == samples.total("lustre_job", "writes") == 59 * 5
    # At the first step and each thirtieth after it all was spooled.
    spooled = at - at % 30
    together = [(10 * spooled, 10 * at, 5 * (at - spooled))] if at > spooled else []
    assert spans(samples, "lustre_ost", "writes") == sorted([(10 * look, 10 * look + 10, 5) for look in range(59) if not spooled <= look < at] + together)


def test_a_log_is_silent_only_as_long_as_that_clock_says(tmp_path):
    log = tmp_path / "root/var/log/lwfs/server.log"
    log.parent.mkdir(parents=True)
    group = "".join(f"[2026-01-01 00:00:{{0:02d}}]  [Trace]: {kind} {what}: {{1}} 0 0 0 0 0 0 0\n" for kind in ("Read", "Write", "Meta") for what in ("exe", "wait"))
    log.write_text("".join((group + "[2026-01-01 00:00:{0:02d}]  [Trace]: queue length: 3\n").format(second, 400 * second) for second in (10, 20)))
    with server() as (samples, address):
        agent = Stepped(tmp_path, address, 'lwfs_server_logs = ["/var/log/lwfs/server.log"]\nlwfs_server_time_zone = "UTC"\n')
        for second in range(START_S, START_S + 301, 10):
            agent.put(0, second)
            agent.step(second)
        assert agent.end() == 0
    told = samples.of("lwfs_server")
    assert told and max(sample["end"] for sample in told) <= (START_S + 300) * S


def test_it_ends_by_a_signal_while_it_waits(tmp_path):
    with server() as (samples, address):
        agent = Stepped(tmp_path, address)
        agent.put(0, START_S)
        agent.step(START_S)
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(timeout=END_S) == 0
        agent.process.communicate()
    assert [sample["values"].get("ended") for sample in samples.of("agent")] == [None, 1]


@pytest.mark.parametrize(("lines", "why"), [(b"", "tells no step"), (b"noon\n", "line 1: expected whole ns"), (b"5\n4\n", "line 2: 4 is before 5"), (b"9" * 5000, "line 1: expected")])
def test_input_that_is_no_time_is_told(tmp_path, lines, why):
    agent = Stepped(tmp_path, "127.0.0.1:9")
    agent.process.communicate(lines, timeout=END_S)
    assert agent.process.returncode == 2
    assert why in (tmp_path / "agent.log").read_text()


def test_without_a_root_there_is_no_other_time(tmp_path):
    done = subprocess.run([paths.artefact(paths.AGENT), "--steps", "--spool", tmp_path / "spool"], input=b"5\n", capture_output=True, timeout=END_S)
    assert done.returncode == 2 and b"--root" in done.stderr
