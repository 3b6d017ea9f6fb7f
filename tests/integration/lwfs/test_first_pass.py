"""The agent on LWFS logs against the slow reference of Beacon's rule: the same operations and bytes, and never more records."""

import json
import os
import subprocess
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bellrock.simulate.kinds import KINDS
from bellrock.simulate.to_lwfs import LwfsSink
from bellrock.simulate.volume import TRUTH, Plan, simulate
from tests.integration.lwfs.beacon_rule import RELEASED, compressed, first_pass, read_log
from tests.integration.lwfs.random_logs import START_S, hostile, joined, random_log, stamp

DATA = ("read", "write")


@pytest.fixture
def agent(build_dir, tmp_path):
    """Gives a log's run records as the agent makes them."""

    def records(log: bytes) -> list[dict]:
        path = tmp_path / "client.log"
        path.write_bytes(log)
        command = [build_dir / "bellrock-agent", "--lwfs-log", path, "--print"]
        done = subprocess.run(command, capture_output=True, timeout=120, env=os.environ | {"TZ": "UTC"})
        assert done.returncode == 0, done.stderr
        return [event for event in map(json.loads, done.stdout.splitlines()) if event["kind"] == "run"]

    return records


def check(records: list[dict], log: bytes) -> tuple[int, int]:
    """Holds the agent's records of a log against the reference; gives both numbers of records of reads and writes."""
    trace = read_log(log)
    assert sums((r["handle"], r["op"], r["errno"] != 0, r["count"], r["bytes"]) for r in records if r["op"] in DATA) == sums(
        (one.handle, one.op, one.errno != 0, one.count, one.count * one.size) for one in trace.data
    )
    assert sums((r["file"], r["op"], 0, r["count"], r["bytes"]) for r in records if r["op"] in DATA and is_plain(r["file"])) == sums(
        (one.file.decode(), one.op, 0, one.count, one.count * one.size) for one in trace.data if is_plain(one.file)
    )
    for failed, counts in ((False, trace.metadata), (True, trace.failed)):
        counted = Counter()
        for r in records:
            if r["op"] not in DATA and (r["errno"] != 0) == failed:
                counted[r["op"]] += r["count"]
        assert counted == counts
    ours, theirs = sum(r["op"] in DATA for r in records), len(first_pass(trace.data))
    assert ours <= theirs
    return ours, theirs


def sums(rows) -> dict:
    """(handle or file, operation, whether it failed) → operations and bytes."""
    out: dict = {}
    for *key, count, moved in rows:
        before = out.get(tuple(key), (0, 0))
        out[tuple(key)] = (before[0] + count, before[1] + moved)
    return out


def is_plain(path: str | bytes | None) -> bool:
    """Whether a path is written in JSON as it is in the log."""
    text = path.decode("latin-1") if isinstance(path, bytes) else path
    return text is not None and text.startswith("/") and text.isascii() and text.isprintable() and "\\" not in text


@pytest.mark.parametrize(("seed", "handles"), [(1, 1), (2, 3), (3, 128), (4, 1000)])
def test_random_logs(agent, seed, handles):
    log = joined(random_log(seed, 20_000, handles))
    ours, theirs = check(agent(log), log)
    assert ours < 0.8 * theirs


@pytest.mark.parametrize("seed", range(4))
def test_hostile_logs(agent, seed):
    log = joined(hostile(seed, random_log(seed, 15_000, 40), share=0.3))
    check(agent(log), log)


@pytest.mark.parametrize("seed", [5, 6])
def test_beacons_own_lines(agent, seed):
    trace = read_log(joined(random_log(seed, 15_000, 30, plain=True)))
    log = compressed(first_pass(trace.data))
    ours, theirs = check(agent(log), log)
    assert ours <= theirs <= log.count(b"\n")
    # Nor is anything lost on the way through Beacon's form.
    by_handle = [sums((one.handle, one.op, 0, one.count, one.count * one.size) for one in data) for data in (trace.data, read_log(log).data)]
    assert by_handle[0] == by_handle[1]


def test_interleaved_files_merge_as_if_alone(agent):
    lines = [f"{stamp(START_S)} T {op} ({0x1000 + handle:#x}, size=4096, offset={4096 * turn})" for turn in range(50) for handle in range(20) for op in ("READ", "WRITE")]
    log = joined([line.encode() for line in lines])
    assert check(agent(log), log) == (40, 40)
    assert len(first_pass(read_log(log).data, RELEASED)) == 2000


_handle, _size = st.sampled_from([0x10, 0x20]), st.sampled_from([0, 1, 8])
_offset = st.one_of(st.integers(0, 5).map(lambda n: 8 * n), st.sampled_from([1 << 32, 2**63 - 9]))
_number, _second = st.integers(0, 4), st.integers(0, 12)
_text = st.one_of(
    st.builds("{}: {} ({:#x}, size={}, offset={})".format, _number, st.sampled_from(["READ", "WRITE"]), _handle, _size, _offset),
    st.builds("{}: {} => {}/8,1/1".format, _number, st.sampled_from(["READ", "WRITE"]), st.sampled_from(["8", "3", "0", "-1", "-5"])),
    st.builds("{}: OPEN /{}".format, _number, st.sampled_from("ab")),
    st.builds("{}: RELEASE ({:#x})".format, _number, _handle),
    st.builds("{}: STAT /a => 5".format, _number),
).map("[x.c:1:x_cbk] lwfs-fuse: {}".format) | st.one_of(
    st.builds("[x.c:1:x] lwfs-fuse: {}: {} ({:#x}, size={}, offset={})".format, _number, st.sampled_from(["READ", "WRITE"]), _handle, _size, _offset),
    st.builds("OPEN() /{} => {:#x}".format, st.sampled_from(["a", "READ size", "b => 0x1"]), _handle),
    st.builds("RELEASE ({:#x})".format, _handle),
    st.builds("READ {:#x} size={} offset={} count={}".format, _handle, _size, _offset, st.integers(0, 3)),
    st.sampled_from(["STAT /a", "READDIR (0x10, size=1, offset=0)", "FLUSH /a", "", "nonsense"]),
)
_line = st.builds(lambda second, text, cut: f"{stamp(START_S + second)} T {text}"[: cut or None].encode(), _second, _text, st.sampled_from([0] * 9 + [-1, -2, 30]))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(_line, max_size=30))
def test_small_logs(agent, lines):
    log = joined(lines)
    check(agent(log), log)


@pytest.fixture
def in_utc(monkeypatch):
    """Local time, which the logs go by, is UTC here, too."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("kind", KINDS)
def test_simulated_logs_hold_the_truth(agent, tmp_path, kind, in_utc):
    sink = LwfsSink(tmp_path / "logs", seed=7, garbage_share=0.1)
    simulate(Plan(seed=7, jobs=2, nodes=2, records=800, kinds=(kind,)), [], [sink])
    known = [json.loads(line) for line in (sink.folder / TRUTH).read_text().splitlines()]
    found = Counter()
    for log in sorted(sink.folder.glob("*.log")):
        records = agent(log.read_bytes())
        check(records, log.read_bytes())
        for r in records:
            name = "errors" if r["errno"] else f"{r['op']}_ops" if r["op"] in DATA else "metadata_ops"
            found[name] += r["count"]
            if r["op"] in DATA:
                found[f"{r['op']}_bytes"] += r["bytes"]
    for name in ("read_ops", "write_ops", "read_bytes", "write_bytes", "metadata_ops", "errors"):
        assert found[name] == sum(figures[name] for figures in known), name
