"""Minutes of a virtual machine are what its trees would have shown, wherever the time is cut."""

import json
import re
from dataclasses import fields, replace

import numpy as np
import pytest

from bellrock.errors import UsageError
from bellrock.simulate import faults
from bellrock.simulate.description import read_machine
from bellrock.simulate.minutes import JOB_LAYERS, METADATA_NAMES, minutes, read_minutes
from bellrock.simulate.noise import Away, draw_noise
from bellrock.simulate.schedule import Plan
from bellrock.simulate.trees.looks import read_looks
from bellrock.simulate.trees.write import write_servers
from bellrock.simulate.virtual import VirtualMachine

S = 10**9
START = 1_767_225_600 * S


@pytest.fixture(scope="module", params=["clean", "noisy"])
def machine(request):
    described = read_machine("taihulight").scaled(0.025)
    wrong = [
        faults.Fault("cache-thrashing", 0, 0.0, 100.0, 1.0), faults.Fault("slow-ost", 3, 30.0, 1e6, 0.2), faults.Fault("slow-forwarding", 1, 0.0, 400.0, 0.3),
        faults.Fault("login-storm", 0, 100.0, 700.0, 60.0),
    ]  # fmt: skip
    noise = replace(draw_noise(described, 2, 0.02), away=()) if request.param == "noisy" else None
    return VirtualMachine(Plan(described, 2, 0.02, 8.0, wrong, START, noise))


@pytest.fixture(scope="module")
def trees(machine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    write_servers(machine, folder, 10)
    return folder / "nodes"


@pytest.fixture(scope="module")
def whole(machine):
    (made,) = minutes(machine)
    return made


def by_minute(trees, node, path, name, place, count):
    """What a line of a counter's file grew by in each minute; place: of its numbers, 0 the count, -1 the sum."""
    now, marks, edge = 0, [], 1
    with open(trees / f"{node}.looks.tar", "rb") as file:
        for second, found, data in read_looks(file):
            while (second - START // S) > 60 * edge:
                marks.append(now)
                edge += 1
            line = re.search(rf"^{name} +(\d+) samples \[\w+\](.*)$", data.decode(), re.MULTILINE) if found == path else None
            if line:
                now = [int(line[1]), *map(int, line[2].split())][place]
    marks += [now] * (count - len(marks))
    return np.diff(marks, prepend=0).tolist()


def test_a_minute_is_the_sum_of_the_true_agents_samples(machine, trees, whole):
    count = len(whole.targets.read_bytes)
    assert count > 10
    proc = "proc/fs/lustre"
    for number in range(6):
        path = f"{proc}/obdfilter/online1-OST{number:04x}/stats"
        for op in ("read", "write"):
            for what, place in (("bytes", -1), ("ops", 0)):
                assert getattr(whole.targets, f"{op}_{what}")[:, number].tolist() == by_minute(trees, f"oss{number // 3 + 1:03d}", path, f"{op}_bytes", place, count)
    for server in range(2):
        own = slice(3 * server, 3 * server + 3)
        path = f"{proc}/ost/OSS/ost_io/stats"
        for name, values in (("req_waittime", whole.targets.wait_us), ("req_qdepth", whole.targets.depth), ("req_active", whole.targets.active)):
            # count, least, most, sum, and the sum of squares
            assert values[:, own].sum(axis=1).tolist() == by_minute(trees, f"oss{server + 1:03d}", path, name, 3, count)
        served = np.sum([by_minute(trees, f"oss{server + 1:03d}", path, name, 3, count) for name in ("ost_read", "ost_write")], axis=0)
        assert whole.targets.service_us[:, own].sum(axis=1).tolist() == served.tolist()
    told = whole.metadata
    for name, values in (("req_waittime", told.wait_us), ("req_qdepth", told.depth), ("req_active", told.active)):
        assert values.sum(axis=1).tolist() == by_minute(trees, "mds1", f"{proc}/mds/MDS/mdt/stats", name, 3, count)
    for place, name in enumerate(METADATA_NAMES):
        assert told.ops[:, :, place].sum(axis=1).tolist() == by_minute(trees, "mds1", f"{proc}/mdt/online1-MDT0000/md_stats", name, 0, count)
    assert told.ops[:, 2].sum() == sum(sum(by_minute(trees, "mds1", f"{proc}/mdt/online1-MDT0000/exports/10.3.0.1@tcp/stats", name, 0, count)) for name in METADATA_NAMES) > 0
    mount = "online1-ffff880800000000"
    for number in range(2):
        node = f"fwd{number + 1:03d}"
        for op in ("read", "write"):
            for what, place in (("bytes", -1), ("ops", 0)):
                assert getattr(whole.forwarding, f"{op}_{what}")[:, number].tolist() == by_minute(trees, node, f"{proc}/llite/{mount}/stats", f"{op}_bytes", place, count)
        for name, values in (("hits", whole.forwarding.hits), ("misses", whole.forwarding.misses), ("read_but_discarded", whole.forwarding.discards)):
            assert values[:, number].tolist() == by_minute(trees, node, f"{proc}/llite/{mount}/read_ahead_stats", name, 0, count)
    assert whole.forwarding.discards[:, 0].any() and not whole.forwarding.discards[:, 1].any()
    targets = range(machine.plan.machine.targets)
    paths = [f"{proc}/osc/online1-OST{number:04x}-osc-ffff880800000000/stats" for number in targets]
    assert whole.forwarding.rpc_us[:, 0].tolist() == np.sum([by_minute(trees, "fwd001", path, "req_waittime", 3, count) for path in paths], axis=0).tolist()


def test_a_forwarding_nodes_service_is_that_of_its_log(trees, whole):
    log = (trees / "fwd001/var/log/lwfs/server.log").read_text().splitlines()
    for place, kind in enumerate(("Read", "Write", "Meta")):
        line = next(line for line in reversed(log) if f"{kind} exe" in line)
        buckets = np.array([int(word) for word in line.split(": ")[2].split()])
        # Of the log's last line some hundred requests may be missing; a bucket ends ten times later than it begins.
        counted = whole.forwarding.read_ops if kind == "Read" else whole.forwarding.write_ops if kind == "Write" else whole.forwarding.metadata_ops
        assert 0 <= counted[:, 0].sum() - buckets.sum() < 1000
        assert whole.forwarding.exe[:, 0, place].sum(axis=0).tolist() == buckets.tolist()
        mean_s = whole.forwarding.service_s[:, 0, place].sum() / max(counted[:, 0].sum(), 1)
        assert 0.05 < mean_s / ((buckets * 10.0 ** np.arange(-5, 3)).sum() / max(buckets.sum(), 1)) < 1.5
    assert whole.forwarding.queue.max() > 0


def test_time_may_be_cut_anywhere(machine, whole):
    parts = list(minutes(machine, 180))
    assert [part.first for part in parts] == list(range(0, 3 * len(parts), 3)) and len(parts) > 3
    sorted_by = {"seconds": ("second", "job"), "jobs": ("minute", "component", "layer", "job")}
    for kind in ("forwarding", "targets", "metadata", "seconds", "jobs"):
        for field in fields(getattr(whole, kind)):
            one = getattr(getattr(whole, kind), field.name)
            cut = np.concatenate([getattr(getattr(part, kind), field.name) for part in parts])
            if kind in sorted_by:
                cut = cut[np.lexsort([np.concatenate([getattr(getattr(part, kind), name) for part in parts]) for name in sorted_by[kind]])]
            if field.name in ("wait_us", "wait_s", "service_s", "queue", "rpc_us", "depth", "active", "service_us"):
                # How busy a server is, is a sum of fractions that begins anew with each part.
                assert np.allclose(one, cut, rtol=1e-6, atol=2)
            else:
                assert one.tolist() == cut.tolist(), (kind, field.name)


def test_what_jobs_asked_for_is_what_components_did(machine, whole):
    told, jobs = whole.jobs, {job.number: more for job, more in machine.places()}
    for layer, own in (("forwarding", whole.forwarding), ("storage", whole.targets)):
        mine = told.layer == JOB_LAYERS.index(layer)
        for name in ("read_bytes", "write_bytes", "read_ops", "write_ops"):
            sums = np.zeros_like(own.read_bytes)
            np.add.at(sums, (told.minute[mine], told.component[mine]), getattr(told, name)[mine])
            assert (sums == getattr(own, name)).all()
    forwarders = machine.plan.machine.forwarders
    mine = told.layer == JOB_LAYERS.index("metadata")
    assert np.bincount(told.minute[mine], told.metadata_ops[mine], len(whole.metadata.ops)).tolist() == whole.metadata.ops[:, :forwarders].sum(axis=(1, 2)).tolist()
    for number, more in jobs.items():
        mine = told.job == number
        for place, layer in enumerate(JOB_LAYERS):
            for name in ("read_bytes", "write_bytes", "metadata_ops"):
                assert getattr(told, name)[mine & (told.layer == place)].sum() == sum(figures.get(name, 0) for figures in more[layer].values())
        mine = whole.seconds.job == number
        for name in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops"):
            assert getattr(whole.seconds, name)[mine].sum() == sum(figures.get(name, 0) for figures in more["forwarding"].values())


def test_a_part_is_read_as_it_was_written(tmp_path, whole):
    whole.save(tmp_path / "part.npz")
    again = read_minutes(tmp_path / "part.npz")
    assert again.first == 0
    for kind in ("seen", "forwarding", "targets", "metadata", "seconds", "jobs"):
        for field in fields(getattr(whole, kind)):
            assert np.array_equal(getattr(getattr(again, kind), field.name), getattr(getattr(whole, kind), field.name))


@pytest.mark.parametrize(("each_s", "every_s"), [(86_400, 7), (86_400, 120), (90, 10)])
def test_minutes_end_with_looks(machine, each_s, every_s):
    with pytest.raises(UsageError, match="do not end with minutes"):
        next(minutes(machine, each_s, every_s))


def test_what_is_well_is_told_and_a_fault_of_none():
    described = read_machine("taihulight").scaled(0.1)
    noise = draw_noise(described, 3, 720)
    speeds = np.array([one.factor for one in noise.speeds])
    assert len(speeds) == described.forwarders + described.targets and 0.95 <= speeds.min() < 0.97 < 1.03 < speeds.max() <= 1.05
    scrubs = [one for one in noise.known if one.kind == "scrub"]
    assert len(scrubs) == pytest.approx(720 / 168 * described.targets, rel=0.1) and {one.component for one in scrubs} == set(range(described.targets))
    assert sum(one.kind == "maintenance" for one in noise.known) == 5
    plan = Plan(described, 3, 720, 1.0, [], START, noise)
    told = VirtualMachine(plan).told()
    assert told["faults"] == [] and len(told["known"]) == len(noise.known) and len(told["speeds"]["speed-ost"]) == described.targets
    json.dumps(told, allow_nan=False)
    scrub = scrubs[0]
    now = faults.capacity(described, plan.holds_up, scrub.begin_s)
    own = speeds[described.forwarders + scrub.component]
    assert now[described.forwarders + scrub.component] == pytest.approx(0.8 * own)
    clean = VirtualMachine(replace(plan, noise=None)).told()
    assert not {"known", "speeds", "away"} & set(clean)


def test_service_spreads_the_same_wherever_the_time_is_cut():
    noise = draw_noise(read_machine("taihulight").scaled(0.025), 3, 72)
    whole = noise.service("storage", 5, 0, 3 * 86_400)
    assert whole.mean() == pytest.approx(1, abs=0.01) and np.log(whole).std() == pytest.approx(0.15, abs=0.01)
    assert (whole[86_300:172_900] == noise.service("storage", 5, 86_300, 86_600)).all()
    assert (whole != noise.service("storage", 6, 0, 3 * 86_400)).mean() > 0.99 and (whole[:60] == whole[0]).all()


def test_of_an_agent_that_is_away_nothing_is_told():
    described = read_machine("taihulight").scaled(0.025)
    noise = draw_noise(described, 2, 0.02)
    gone = (Away("storage", 1, 130.0, 200.0), Away("forwarding", 0, 0.0, 30.0), Away("metadata", 0, 170.0, 181.0))
    there, away = (next(minutes(VirtualMachine(Plan(described, 2, 0.02, 8.0, [], START, replace(noise, away=one))))) for one in ((), gone))
    count = len(there.seen.metadata)
    missing = {name: np.argwhere(~getattr(away.seen, name)).tolist() for name in ("forwarding", "targets", "metadata")}
    assert missing == {"forwarding": [[0, 0]], "targets": [[minute, target] for minute in (2, 3) for target in (3, 4, 5)], "metadata": [[2], [3]]} and count > 5
    for kind in ("forwarding", "targets", "metadata"):
        assert getattr(there.seen, kind).all()
        for field in fields(getattr(there, kind)):
            before, after = (getattr(getattr(one, kind), field.name) for one in (there, away))
            is_seen = getattr(away.seen, kind)
            assert (after[is_seen] == before[is_seen]).all() and not after[~is_seen].any()
    assert there.metadata.ops[2].any() and (there.jobs.read_bytes == away.jobs.read_bytes).all()
