"""What a virtual machine's servers would have shown: sums stay whole, waits follow the formula, faults show where they are, and the same seed gives the same bytes."""

import hashlib
import io
import json
import re
import tarfile
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from math import exp, floor
from pathlib import Path

import numpy as np
import pytest

from bellrock.errors import BellrockError, UsageError
from bellrock.simulate import faults
from bellrock.simulate.description import read_machine
from bellrock.simulate.schedule import Plan
from bellrock.simulate.traffic import loads
from bellrock.simulate.trees import activity, metadata, queueing
from bellrock.simulate.trees.activity import Rows, Sight, gather, look_by_look, moved
from bellrock.simulate.trees.forwarding import read_ahead
from bellrock.simulate.trees.looks import Looks, read_looks
from bellrock.simulate.trees.lustre_text import JobStats, Stat, Table, log_row
from bellrock.simulate.trees.write import write_servers
from bellrock.simulate.virtual import VirtualMachine

START = 1_767_225_600 * 10**9


def machine(kinds=(), hours=0.02, seed=1, factor=None):
    described = read_machine("taihulight").scaled(0.025)
    wrong = faults.draw(list(kinds), described, seed, hours)
    if factor is not None:
        # All the time.
        wrong = [faults.Fault(fault.kind, fault.component, 0.0, 1e6, factor) for fault in wrong]
    return VirtualMachine(Plan(described, seed, hours, 4.0, wrong, START))


def last_texts(folder: Path, node: str) -> dict[str, str]:
    """What a node's files hold in the end."""
    with open(folder / "nodes" / f"{node}.looks.tar", "rb") as file:
        return {name: data.decode() for _, name, data in read_looks(file)}


def counted(text: str, name: str) -> list[int]:
    """The numbers of a line of a `stats` text: count, and where there are, least, most, sum."""
    line = next((line for line in text.splitlines() if line.startswith(f"{name} ")), f"{name} 0 samples [x]")
    count, rest = re.fullmatch(rf"{name} +(\d+) samples \[\w+\](.*)", line).groups()
    return [int(count), *map(int, rest.split())]


def rows_of(rng, count):
    begin = rng.integers(0, 50_000, count)
    none = np.zeros(count, dtype=np.int64)
    values = [rng.integers(0, 1 << int(rng.integers(1, 45)), count) for _ in range(2)]
    return Rows(begin, begin + rng.integers(1, 40_000, count), none, none, none, none, *values)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_done_until_a_look_is_the_part_of_the_time_rounded_down_and_all_in_the_end(seed):
    rng = np.random.default_rng(seed)
    rows, every_ms = rows_of(rng, 30), int(rng.choice([1000, 7000, 10_000]))
    done = moved(rows, every_ms)
    assert (np.diff(done.look) >= 0).all() and (done.bytes >= 0).all() and (done.operations >= 0).all()
    for row in range(len(rows)):
        own = done.row == row
        for values, told in ((rows.bytes, done.bytes), (rows.operations, done.operations)):
            sums = np.cumsum(told[own]).tolist()
            assert sums[-1] == values[row]
            for look, sum_ in zip(done.look[own].tolist(), sums, strict=True):
                passed = min(look * every_ms - rows.begin_ms[row], rows.end_ms[row] - rows.begin_ms[row])
                assert sum_ == floor(Fraction(int(values[row]) * int(passed), int(rows.end_ms[row] - rows.begin_ms[row])))


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_looks_that_are_cut_in_portions_are_those_of_all_at_once(monkeypatch, at_once):
    monkeypatch.setattr(activity, "LOOKS_AT_ONCE", at_once)
    rows = rows_of(np.random.default_rng(1), 30)

    def told(looks):
        return [(look, *(values.tolist() for values in (done.look, done.row, done.bytes, done.operations))) for look, done in looks]

    whole = told(moved(rows, 1000).looks())
    assert told(look_by_look(rows, 1000, 90)) == whole and whole[-1][0] > 50
    assert told(look_by_look(rows, 1000, 7)) == [one for one in whole if one[0] <= 7]


def test_a_long_time_of_a_metadata_server_takes_no_more_memory_than_a_short_one():
    described = read_machine("taihulight").scaled(0.025)
    described = replace(described, others=(replace(described.others[0], nodes=100),))
    begun = gather(described, [], [], START)

    def peak(looks):
        long = replace(begun, metadata=activity.Layer(list(activity.of_others(described, [], looks * 10_000))), end_ms=looks * 10_000)
        target = metadata.Target(Sight(described, [], long, START // 10**9, 10, True))
        tracemalloc.start()
        assert sum(1 for _ in target.looks()) == looks
        (_, most) = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(8 * activity.LOOKS_AT_ONCE) < 3 * peak(activity.LOOKS_AT_ONCE)


def test_waits_are_those_of_the_formula():
    assert queueing.waits(np.array([0.0, 0.5, 0.9]), 1, 1000).tolist() == pytest.approx([0, 1, 9])
    # Sakasegawa's for 16 threads, by hand: 0.9 ** (sqrt(34) - 1) / (16 * 0.1).
    assert queueing.waits(np.array([0.9]), 16, 10_000)[0] == pytest.approx(0.9**4.8309518948453 / 1.6)
    # No more than all other clients are before one.
    assert queueing.waits(np.array([5.0]), 1, 4)[0] == 3
    assert queueing.waits(np.array([5.0]), 1, 10_000)[0] == pytest.approx(queueing.RHO_MAX / (1 - queueing.RHO_MAX))


def test_work_is_spread_over_its_seconds():
    busy = queueing.busy(np.array([500, 1000]), np.array([2500, 2000]), np.array([1.0, 0.25]), 4)
    assert busy.tolist() == pytest.approx([0.25, 0.75, 0.25, 0.0])
    assert queueing.busy(np.zeros(0), np.zeros(0), np.zeros(0), 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("mean", [0.0, 1e-6, 0.004, 3.0, 1e4])
def test_times_are_spread_exponentially_and_none_is_lost(mean):
    bounds = (0.001, 0.01, 0.1)
    # Of one request each as well as of many at once.
    counts = np.array([200_003, 0, *[1] * 200_000])
    parts = queueing.spread(counts, np.full(len(counts), mean), bounds, queueing.drawn(1, 0))
    assert (parts.sum(axis=1) == counts).all() and (parts >= 0).all()
    expected = [1 - (exp(-bound / mean) if mean else 0) for bound in bounds]
    for many in (parts[0], parts[2:].sum(axis=0)):
        # Five standard deviations.
        assert (np.cumsum(many)[:3] / many.sum()).tolist() == pytest.approx(expected, abs=0.006)
    rng = queueing.drawn(1, 0)
    cut = [queueing.spread(counts[part], np.full(len(counts), mean)[part], bounds, rng) for part in (slice(0, 7), slice(7, None))]
    assert (np.concatenate(cut) == parts).all()


def test_an_archive_of_looks_is_one_that_tar_reads(tmp_path):
    files = [(1_767_225_600, "proc/fs/lustre/a b/stats", "hello\n"), (1_767_225_610, "x" * 100, "ä" * 700), (1_767_225_610, "none", "")]
    with Looks(tmp_path / "looks.tar") as looks:
        for file in files:
            looks.add(*file)
        with pytest.raises(UsageError, match="more than 100"):
            looks.add(5, "x" * 101, "")
    with tarfile.open(tmp_path / "looks.tar") as archive:
        there = [(member.mtime, member.name, archive.extractfile(member).read().decode(), member.uid, member.gid) for member in archive]
    assert there == [(*file, 0, 0) for file in files]
    whole = (tmp_path / "looks.tar").read_bytes()
    with open(tmp_path / "looks.tar", "rb") as file:
        assert [(second, name, data.decode()) for second, name, data in read_looks(file)] == files
    for bad in (whole[:-1024], whole[:700], b"", b"\1" * 5000, whole[:100] + b"7" + whole[101:]):
        file = io.BytesIO(bad)
        file.name = "bad.tar"
        with pytest.raises(BellrockError, match=r"bad\.tar: it breaks off"):
            list(read_looks(file))


def test_texts_say_what_was_counted():
    stat = Stat()
    stat.add(0, 0)
    assert stat.line("read_bytes", "bytes") == ""
    stat.add(0, 4)
    stat.add(3, 6)
    stat.add(1, 100)
    assert stat.line("read_bytes", "bytes").split() == ["read_bytes", "4", "samples", "[bytes]", "3", "100", "110"]
    stat.add(0, 7)
    assert stat.line("read_bytes", "bytes").split()[1:] == ["4", "samples", "[bytes]", "3", "100", "117"]
    assert [log_row(value) for value in (0, 1, 2, 3, 4, 5, 256, 257, 1 << 60)] == [0, 0, 1, 2, 2, 3, 8, 9, 31]
    table = Table("pages", True)
    table.add(True, 0, 1)
    table.add(False, 11, 3)
    assert [line.split()[0] for line in table.lines()][:3] == ["pages", "1:", "2:"] and table.lines()[-1].split()[:2] == ["2K:", "3"]
    table = Table("pages", True)
    assert table.lines(from_first=True) == table.lines() == ["pages"]
    table.add(True, 5, 1)
    assert [line.split()[0] for line in table.lines(from_first=True)] == ["pages", "32:"] and len(table.lines()) == 7


def test_jobs_that_do_nothing_for_long_go_from_job_stats():
    jobs = JobStats(("read_bytes",), ("punch",))
    jobs.add("4711", 1000, "read_bytes", 2, 8192)
    jobs.add("4712", 1500, "punch", 1)
    assert jobs.text(1500).count("- job_id:") == 2 and "sum:            8192" in jobs.text(1500)
    assert not jobs.is_stale(1600) and jobs.is_stale(1601)
    assert "4711" not in jobs.text(1601) and "4712" in jobs.text(1601)
    jobs.add("4711", 1700, "read_bytes", 1, 5)
    assert "sum:               5" in jobs.text(1700), "it counts from 0 again"


def test_what_comes_by_each_forwarding_node_adds_up_to_what_comes():
    described = machine(["cache-thrashing"])
    plan = described.plan
    for job in list(described.jobs())[:6]:
        where = (plan.machine, job.model, job.number, job.first_node, job.start_ns - plan.start_ns, plan.faults)
        for one, apart in zip(loads(*where), loads(*where, by_source=True), strict=True):
            assert (one.layer, one.op, one.begin_ns, one.end_ns) == (apart.layer, apart.op, apart.begin_ns, apart.end_ns)
            for name in ("bytes", "operations"):
                sums = np.bincount(np.searchsorted(one.component, apart.component), weights=getattr(apart, name))
                assert sums.tolist() == getattr(one, name).tolist()


def test_the_files_hold_in_the_end_what_the_jobs_did(tmp_path):
    described = machine()
    plan = described.plan
    write_servers(described, tmp_path, 30)
    activity = gather(plan.machine, plan.faults, described.jobs(), plan.start_ns)
    for number in range(plan.machine.targets):
        rows = activity.storage.of(number)
        target = f"online1-OST{number:04x}"
        texts = last_texts(tmp_path, f"oss{number // 3 + 1:03d}")
        stats, brw = texts[f"proc/fs/lustre/obdfilter/{target}/stats"], texts[f"proc/fs/lustre/osd-ldiskfs/{target}/brw_stats"]
        for op in ("read", "write"):
            own = rows.of_ops([op])
            assert [counted(stats, f"{op}_bytes")[place] for place in (0, -1)] == [own.operations.sum(), own.bytes.sum()]
            for client in range(2):
                export = texts[f"proc/fs/lustre/obdfilter/{target}/exports/10.2.0.{client + 1}@tcp/stats"]
                assert counted(export, f"{op}_bytes")[-1] == own.take(own.source == client).bytes.sum()
        for table in brw.split("\n\n")[1:]:
            cells = [line.split(":")[1].replace("|", " ").split() for line in table.splitlines()[2:]]
            assert [sum(int(cell[place]) for cell in cells) for place in (0, 3)] == [rows.of_ops([op]).operations.sum() for op in ("read", "write")]
    for number in range(plan.machine.forwarders):
        texts = last_texts(tmp_path, f"fwd{number + 1:03d}")
        for target in range(plan.machine.targets):
            own = activity.storage.of(target)
            own = own.take(own.source == number)
            text = texts[f"proc/fs/lustre/osc/online1-OST{target:04x}-osc-ffff880800000000/stats"]
            for op in ("read", "write"):
                assert [counted(text, f"{op}_bytes")[place] if own.of_ops([op]).operations.any() else 0 for place in (0, 3)] == [own.of_ops([op]).operations.sum(), own.of_ops([op]).bytes.sum()]
            assert counted(text, "req_waittime")[0] == own.operations.sum()
    texts = last_texts(tmp_path, "mds1")
    md_stats = texts["proc/fs/lustre/mdt/online1-MDT0000/md_stats"]
    exports = [text for name, text in texts.items() if "/exports/" in name]
    for lustre, op in (("open", "open"), ("getattr", "stat"), ("unlink", "unlink")):
        whole = activity.metadata.rows.of_ops([op]).operations.sum()
        assert counted(md_stats, lustre)[0] == whole == sum(counted(text, lustre)[0] for text in exports)


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    def digest(folder, seed, **more):
        write_servers(machine(["slow-ost"], seed=seed), folder, 60, **more)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return hashlib.sha256(b"".join(str(path.relative_to(folder)).encode() + path.read_bytes() for path in files)).hexdigest()

    assert digest(tmp_path / "a", 1) == digest(tmp_path / "b", 1)
    assert digest(tmp_path / "a", 1) != digest(tmp_path / "c", 2)
    digest(tmp_path / "d", 1, with_jobs=False)
    assert not any("job_stats" in name for name in last_texts(tmp_path / "d", "oss001")) and any("job_stats" in name for name in last_texts(tmp_path / "a", "oss001"))


def test_a_slow_target_takes_longer_for_each_request_and_lets_them_wait(tmp_path):
    described = machine(["slow-ost"], factor=0.1)
    slow = described.plan.faults[0].component
    write_servers(described, tmp_path, 60)

    def times(number):
        texts = last_texts(tmp_path, f"oss{number // 3 + 1:03d}")
        table = texts[f"proc/fs/lustre/osd-ldiskfs/online1-OST{number:04x}/brw_stats"].split("I/O time")[1].split("\n\n")[0]
        rows = [line.replace("|", " ").split() for line in table.splitlines()[1:]]
        counts = np.array([int(row[1]) + int(row[4]) for row in rows])
        return (counts * 2.0 ** np.arange(len(counts))).sum() / counts.sum()

    others = [times(number) for number in range(21) if number != slow]
    assert times(slow) > 3 * max(others)

    def took_us(number):
        """As its clients saw it."""
        found = [counted(last_texts(tmp_path, f"fwd{client + 1:03d}")[f"proc/fs/lustre/osc/online1-OST{number:04x}-osc-ffff880800000000/stats"], "req_waittime") for client in range(2)]
        return sum(one[3] for one in found if one[0]) / sum(one[0] for one in found)

    # Those of writes and reads of other sizes among them.
    assert took_us(slow) > 3 * max(took_us(number) for number in range(21) if number != slow)


def test_a_slow_forwarding_node_takes_longer_for_each_request(tmp_path):
    means = []
    for kinds in ((), ("slow-forwarding",)):
        described = machine(kinds, factor=0.1 if kinds else None)
        slow = described.plan.faults[0].component if kinds else 0
        write_servers(described, tmp_path / str(len(kinds)), 60)
        logs = [(tmp_path / str(len(kinds)) / f"nodes/fwd{number + 1:03d}/var/log/lwfs/server.log").read_text().splitlines() for number in (0, 1)]
        buckets = [np.array([int(word) for word in next(line for line in reversed(log) if "Write exe" in line).split(": ")[2].split()]) for log in logs]
        means.append([float((counts * 10.0 ** np.arange(8)).sum() / counts.sum()) for counts in buckets])
    assert means[1][slow] > 3 * means[0][slow] and means[1][1 - slow] < 2 * means[0][1 - slow]


def test_a_file_that_many_nodes_share_holds_a_forwarding_nodes_threads():
    described = read_machine("taihulight").scaled(0.025)
    kept = tuple(application for application in described.application if application.name == "AWP")
    source = VirtualMachine(Plan(replace(described, application=kept), 1, 0.02, 1.0, [], START))
    activity = gather(source.plan.machine, [], source.jobs(), START)
    held = activity.held.rows
    assert len(held) and (held.bytes == np.rint((held.end_ms - held.begin_ms) * 0.9)).all() and not held.operations.any()


def test_thrashing_shows_in_the_read_ahead_of_that_forwarding_node_alone(tmp_path):
    described = machine(["cache-thrashing"], factor=1.0)
    where = described.plan.faults[0].component
    write_servers(described, tmp_path, 60)
    for number in range(2):
        text = last_texts(tmp_path, f"fwd{number + 1:03d}")["proc/fs/lustre/llite/online1-ffff880800000000/read_ahead_stats"]
        hits, misses, discards = (counted(text, name)[0] for name in ("hits", "misses", "read_but_discarded"))
        assert (discards > hits and misses > hits) if number == where else (discards == 0 and hits > 50 * misses > 0)


def test_rpcs_are_in_flight_only_while_a_target_is_asked(tmp_path):
    described = machine()
    plan = described.plan
    write_servers(described, tmp_path, 10)
    asked = gather(plan.machine, [], described.jobs(), START).storage.by_source(0)
    done = moved(asked, 10_000)
    target = asked.component[done.row]
    expected = {(int(look), int(number)) for look, number, count in zip(done.look, target, done.operations, strict=True) if count}
    with open(tmp_path / "nodes/fwd001.looks.tar", "rb") as file:
        texts = [((second - START // 10**9) // 10, name, data.decode()) for second, name, data in read_looks(file) if name.endswith("rpc_stats")]
    last = json.loads((tmp_path / "replay.json").read_text())["looks"]
    seen, busy = set(), {}
    for look in range(last + 1):
        for at, name, text in texts:
            if at == look:
                busy[int(re.search(r"-OST(\w{4})-", name)[1], 16)] = sum(map(int, re.findall(r"RPCs in flight: +(\d+)", text)))
        seen |= {(look, number) for number, count in busy.items() if count}
    assert seen == expected and len({look for look, _ in expected}) < last, "it was idle, too"


def test_what_read_ahead_counts_is_of_each_look_by_itself():
    # The fault is there between the second look and the third; a page lags before the fourth.
    asked = np.array([0, 1024, 2048, 3072, 3072, 4096, 5120])
    fetched = np.array([0, 1023, 2048, 5632, 5632, 6655, 7680])
    assert {name: counts.tolist() for name, counts in read_ahead(asked, fetched).items()} == {
        "hits": [0, 1020, 2040, 2040, 2040, 3060, 4080], "misses": [0, 4, 8, 1032, 1032, 1036, 1040], "read_but_discarded": [0, 0, 0, 2560, 2560, 2560, 2560],
    }  # fmt: skip


def test_thrashing_that_begins_in_mid_run_lets_no_counter_fall(tmp_path):
    described = machine(["cache-thrashing"], seed=2)
    plan = described.plan
    where = plan.faults[0].component
    reads = gather(plan.machine, [], described.jobs(), START).forwarding.of(where).of_ops(["read"])
    begin_s = float(np.median(reads.begin_ms)) / 1000
    begun = VirtualMachine(replace(plan, faults=[replace(plan.faults[0], begin_s=begin_s, end_s=1e6)]))
    write_servers(begun, tmp_path, 10)
    with open(tmp_path / "nodes" / f"fwd{where + 1:03d}.looks.tar", "rb") as file:
        texts = [data.decode() for _, name, data in read_looks(file) if name.endswith("read_ahead_stats")]
    seen = np.array([[counted(text, name)[0] for name in ("hits", "misses", "read_but_discarded")] for text in texts])
    assert (np.diff(seen, axis=0) >= 0).all()
    assert seen[-1].min() > 0, "it read in usual times and in others"


def test_a_storm_of_logins_shows_in_their_exports(tmp_path):
    counts = []
    for kinds in ((), ("login-storm",)):
        described = machine(kinds, factor=60.0 if kinds else None)
        write_servers(described, tmp_path / str(len(kinds)), 60)
        texts = last_texts(tmp_path / str(len(kinds)), "mds1")
        seconds = gather(described.plan.machine, described.plan.faults, described.jobs(), START).end_ms / 1000
        counts.append([counted(texts[f"proc/fs/lustre/mdt/online1-MDT0000/exports/10.3.0.{number}@tcp/stats"], "getattr")[0] / seconds for number in (1, 2)])
    assert counts[1][0] == pytest.approx(60 * counts[0][0], rel=0.01) and counts[1][1] == pytest.approx(counts[0][1], rel=0.01)


def test_a_forwarding_nodes_log_has_a_group_each_thousand_requests(tmp_path):
    described = machine()
    plan = described.plan
    write_servers(described, tmp_path, 60)
    activity = gather(plan.machine, plan.faults, described.jobs(), plan.start_ns)
    log = (tmp_path / "nodes/fwd001/var/log/lwfs/server.log").read_text().splitlines()
    pattern = re.compile(r"\[20(?:25-12-31|26-01-01) \d\d:\d\d:\d\d\]  \[Trace\]: (?:(?:Read|Write|Meta) (?:exe|wait): \d+(?: \d+){7}|queue length: \d+)")
    assert len(log) % 7 == 0 and all(pattern.fullmatch(line) for line in log)
    assert [line[:21] for line in log] == sorted(line[:21] for line in log)
    last = {line.split("]: ")[1].split(":")[0]: sum(map(int, line.split(": ")[2].split())) for line in log[-7:-1]}
    whole = activity.forwarding.of(0).operations.sum()
    assert all(last[f"{kind} exe"] == last[f"{kind} wait"] for kind in ("Read", "Write", "Meta"))
    assert whole - 1000 < sum(last[f"{kind} exe"] for kind in ("Read", "Write", "Meta")) <= whole
