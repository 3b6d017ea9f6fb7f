"""A virtual machine: its description, who is in whose way, and that its truth is what profiles show."""

import dataclasses
import hashlib

import numpy as np
import pytest

from anomaly.phases import find_phases
from bellrock.errors import UsageError
from bellrock.simulate import faults
from bellrock.simulate.application import slowness
from bellrock.simulate.contention import SPEED_MIN, speeds
from bellrock.simulate.description import read_machine
from bellrock.simulate.expand import expand
from bellrock.simulate.records import Numbering, table
from bellrock.simulate.schedule import Plan, jobs, model_of, simulate
from bellrock.simulate.truth import truth
from bellrock.simulate.virtual import VirtualMachine
from jobdb.job import Job
from jobdb.profile import profile
from jobdb.runs import read_runs

START = 1_767_225_600 * 10**9


def plan(scale=0.025, hours=0.5, intensity=4.0, seed=1, kinds=()):
    machine = read_machine("taihulight").scaled(scale)
    return Plan(machine, seed, hours, intensity, faults.draw(kinds, machine, seed, hours), START)


def test_taihulight_is_what_the_paper_says():
    machine = read_machine("taihulight")
    assert (machine.compute.nodes, machine.forwarders, machine.forwarding.spare, machine.storage.servers, machine.targets) == (40960, 80, 80, 288, 864)
    tenth = machine.scaled(0.1)
    assert (tenth.compute.nodes, tenth.forwarders, tenth.forwarding.spare, tenth.storage.servers, tenth.targets) == (4096, 8, 8, 28, 84)
    assert {application.name for application in machine.application} == {"APT", "WRF", "DNDC", "XCFD", "GKUA", "CAM", "AWP", "Shentu"}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("nodes = 40960", "nodes = -1", "compute: nodes must be more than 0"),
        ("nodes = 40960", 'nodes = "many"', "compute: nodes must be a whole number"),
        ("processes = 4", "procs = 4", "there is no key procs"),
        ("each = 512\n", "", "each is missing"),
        ('mode = "1-1", bytes = 268435456', 'mode = "2-2", bytes = 268435456', "WRF: op is one of"),
        ("cycles = [4, 10]", "cycles = [10, 4]", "APT: cycles must be [least, most]"),
        ("cycles = [4, 10]", "cycles = [4]", "cycles must be a list of 2"),
        ('name = "taihulight"', 'name = "taihulight', "line"),
        ("writers = 0.1", "writers = 0.9", "CAM: mode N-M needs writers"),
        ('class = "auxiliary"', 'class = "login"', "others: class 'login' must be named once"),
        *(('class = "login"', f'class = "{kind}"', f"others: class '{kind}' must be") for kind in ("compute", "forwarding", "storage", "metadata")),
        ('speed = "FDR"', 'speed = "fast"', "fabric: speed is one of QDR, FDR"),
        ("ports = 36", "ports = 35", "fabric: ports must be even"),
        ("ports = 36", "ports = 24", "have room for 288 nodes, and there are 506"),
        ("message_bytes = 512", "message_bytes = 8192", "message_bytes must be no more than packet_bytes"),
    ],
)
def test_a_wrong_description_is_refused_and_says_where(tmp_path, before, after, says):
    from importlib import resources

    text = resources.files("bellrock.simulate").joinpath("machines", "taihulight.toml").read_text()
    assert before in text
    path = tmp_path / "machine.toml"
    path.write_text(text)
    assert read_machine(str(path)) == read_machine("taihulight")
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(UsageError, match=says.replace("[", r"\[")):
        read_machine(str(path))


def test_a_machine_that_is_not_there_names_those_that_are():
    with pytest.raises(UsageError, match="No such file") as error:
        read_machine("nowhere")
    assert "taihulight" in str(error.value.hint)
    with pytest.raises(UsageError, match="too few"):
        read_machine("taihulight").scaled(1e-4)


def test_all_get_the_same_share_of_a_full_server():
    demand = np.array([[0.8, 0.0], [0.4, 0.0], [0.0, 0.5]])
    assert speeds(demand, np.ones(3), np.zeros(3, dtype=bool), np.ones(2)) == pytest.approx([1 / 1.2, 1 / 1.2, 1.0])


def test_where_nobody_is_in_the_way_all_go_at_full_speed_and_no_slower():
    demand = np.array([[0.5, 0.1, 0.0], [0.4, 0.0, 0.0], [0.1, 0.9, 0.0]])
    for capacity in (np.array([1.0, 1.0, 0.0]), np.array([1.0000001, 2.0, 1.0])):
        assert speeds(demand, np.ones(3), np.zeros(3, dtype=bool), capacity).tolist() == [1.0, 1.0, 1.0]
    assert speeds(demand, np.ones(3), np.zeros(3, dtype=bool), np.array([0.99, 1.0, 1.0])).max() < 1


def test_what_one_leaves_another_gets():
    demand = np.array([[0.9, 0.0], [0.9, 2.0]])
    # The second is held up by the second server, so the first has more of the first one.
    assert speeds(demand, np.ones(2), np.zeros(2, dtype=bool), np.ones(2)) == pytest.approx([min(1, (1 - 0.45) / 0.9), 0.5])


def test_a_limit_of_ones_own_leaves_the_rest_to_others():
    demand = np.array([[1.0], [1.0]])
    assert speeds(demand, np.array([0.1, 1.0]), np.zeros(2, dtype=bool), np.ones(1)) == pytest.approx([0.1, 0.9])


def test_metadata_goes_first_and_nobody_stands_still():
    demand = np.array([[3.0], [0.5], [2000.0]])
    found = speeds(demand, np.ones(3), np.array([True, False, False]), np.ones(1))
    assert found[0] == pytest.approx(1 / 3) and 0 < found[1] < 0.01 and found[2] >= SPEED_MIN


@pytest.mark.parametrize("seed", range(20))
def test_no_server_does_more_than_it_can(seed):
    rng = np.random.default_rng(seed)
    demand = rng.uniform(0, 2, (12, 9)) * (rng.random((12, 9)) < 0.3)
    limit, capacity = rng.uniform(0.2, 1, 12), rng.uniform(0.1, 1, 9)
    found = speeds(demand, limit, np.zeros(12, dtype=bool), capacity)
    used = (demand * found[:, None]).sum(axis=0)
    assert (used <= capacity + 12 * SPEED_MIN * 2 + 1e-9).all() and (found <= limit + 1e-9).all()
    # Max-min: whoever does not get what it could uses a server that is full.
    full = used >= capacity - 1e-6
    assert all(speed >= own - 1e-6 or full[asked > 0].any() for speed, own, asked in zip(found, limit, demand, strict=True))


def test_runs_of_an_application_differ_as_they_should():
    factors = [slowness(np.random.default_rng(seed)) for seed in range(4000)]
    usual = np.array([factor for factor, is_outlier in factors if not is_outlier])
    assert usual.mean() == pytest.approx(1.0, abs=0.02) and usual.std() / usual.mean() == pytest.approx(0.2, abs=0.02)
    assert sum(is_outlier for _, is_outlier in factors) == pytest.approx(40, abs=20)


def test_the_same_seed_gives_the_same_runs_and_another_others():
    def digest(seed):
        p = plan(seed=seed, kinds=["slow-ost", "n-1-aggressor"])
        told = hashlib.sha256()
        for job in jobs(p, simulate(p)):
            runs = expand(job)
            told.update(job.job_id.encode() + b"".join(getattr(runs, field.name).tobytes() for field in dataclasses.fields(runs)))
        return told.hexdigest()

    assert digest(3) == digest(3) != digest(4)


def test_a_seed_gives_what_it_always_gave():
    p = plan(hours=1, seed=5, kinds=faults.KINDS)
    runs = simulate(p)
    told = repr([(run.number, run.first_node, [round(instant_s * 1000) for instant_s in (*run.begin, *run.end)]) for run in runs])
    assert len(runs) == 49 and hashlib.sha256(told.encode()).hexdigest().startswith("a7f8ed99ae3c5356")


def test_jobs_have_their_nodes_to_themselves():
    p = plan(scale=0.05, hours=2)
    runs = simulate(p)
    assert len(runs) > 30 and {run.application.name for run in runs} >= {"WRF", "GKUA", "APT", "CAM"}
    for one in runs:
        assert one.submitted_s <= one.start_s and 0 <= one.first_node <= p.machine.compute.nodes - one.nodes
        assert all(begin < end for begin, end in zip(one.begin, one.end, strict=True))
        for two in runs:
            is_apart = one.first_node + one.nodes <= two.first_node or two.first_node + two.nodes <= one.first_node
            assert one is two or is_apart or one.start_s + one.wall_s <= two.start_s or two.start_s + two.wall_s <= one.start_s


def test_a_slow_target_holds_up_those_who_use_it_and_no_one_else():
    healthy = plan(scale=0.05, hours=1)
    target = 5
    sick = dataclasses.replace(healthy, faults=[faults.Fault("slow-ost", target, 0.0, 1e6, 0.02)])
    before, after = ({run.number: run for run in simulate(p)} for p in (healthy, sick))
    # Jobs of the first moment are the same in both: later ones are placed where others leave nodes.
    first = [number for number, run in before.items() if run.submitted_s == 0 and run.first_node == after[number].first_node]
    used = {number: f"OST{target:04x}" in more["storage"] for number, more in _ways(healthy).items()}
    slower = {number for number in first if after[number].end[0] - after[number].begin[0] > 1.5 * (before[number].end[0] - before[number].begin[0])}
    assert slower and all(used[number] for number in slower)


def _ways(p):
    machine = VirtualMachine(p)
    return {job.number: more for job, more in machine.places()}


def test_the_truth_of_the_way_is_what_the_job_did():
    p = plan(kinds=["cache-thrashing"], hours=1)
    p = dataclasses.replace(p, faults=[dataclasses.replace(fault, begin_s=0.0, end_s=1e6) for fault in p.faults])
    thrashed = 0
    for job, more in VirtualMachine(p).places():
        known = truth(job)
        sums = {
            (layer, what): sum(figures.get(what, 0) for figures in more[layer].values())
            for layer in ("forwarding", "storage", "metadata")
            for what in ("read_bytes", "write_bytes", "metadata_ops")
        }
        assert sums["forwarding", "read_bytes"] == known["read_bytes"] and sums["forwarding", "write_bytes"] == known["write_bytes"] == sums["storage", "write_bytes"]
        assert sums["storage", "read_bytes"] >= known["read_bytes"]
        thrashed += sums["storage", "read_bytes"] > 1.1 * known["read_bytes"]
        failed = sum(int(burst.count.sum()) * burst.runs for burst in job.model.bursts if burst.errno)
        assert sums["metadata", "metadata_ops"] == known["metadata_ops"] + failed == sums["forwarding", "metadata_ops"]
        each = p.machine.forwarding.each
        last = job.first_node + job.model.nodes - 1
        assert set(more["forwarding"]) <= {f"fwd{number + 1:03d}" for number in range(job.first_node // each, last // each + 1)}
    assert thrashed > 0


def test_profiles_of_virtual_jobs_are_their_truth():
    p = plan(hours=0.3, kinds=["slow-forwarding", "metadata-storm"])
    machine = VirtualMachine(p)
    numbering = Numbering(p.seed, machine.nodes, p.start_ns)
    seen = set()
    for job, _ in machine.places():
        if job.model.rows > 40_000:
            continue
        runs = read_runs(table(job, expand(job), numbering), uid=job.uid)
        ran = Job(
            job.job_id, job.job_id, job.uid, "simulated", job.user, job.model.program, "", "completed", True, job.start_ns, job.end_ns, 0, job.node_names[:1]
        )
        found, known = profile(runs, find_phases(runs), ran).to_dict(), truth(job)
        for name in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "errors", "files", "io_mode_read", "io_mode_write", "io_nodes", "phases"):
            assert found[name] == known[name], (job.model.kind, name)
        seen.add(job.model.kind)
    assert len(seen) >= 4


MANY = ("slow-ost:30", "slow-forwarding:10", "n-1-aggressor:3", "cache-thrashing:10", "login-storm:6")


def test_faults_in_number_lie_beside_each_other_and_all_is_told():
    described = read_machine("taihulight").scaled(0.1)
    found = faults.draw(("slow-ost", *MANY), described, 7, 720)
    assert found[:1] == faults.draw(("slow-ost",), described, 7, 720) and found[0].strength is None
    many = found[1:]
    assert [fault.begin_s for fault in many] == sorted(fault.begin_s for fault in many)
    assert {kind: sum(fault.kind == kind for fault in many) for kind in faults.KINDS} == {
        "slow-ost": 30, "slow-forwarding": 10, "n-1-aggressor": 3, "metadata-storm": 0, "cache-thrashing": 10, "login-storm": 6,
    }  # fmt: skip
    for place, one in enumerate(found):
        assert 0 <= one.begin_s < one.end_s <= 720 * 3600 and one.component < faults.components(one.kind, described)
        for two in found[:place]:
            is_apart = one.begin_s >= two.end_s + faults.APART_S - 1e-6 or two.begin_s >= one.end_s + faults.APART_S - 1e-6
            assert is_apart or (faults.LAYERS[one.kind], one.component) != (faults.LAYERS[two.kind], two.component)
    last_h = np.array([fault.end_s - fault.begin_s for fault in many]) / 3600
    assert last_h.min() >= 1 / 6 - 1e-9 and last_h.max() <= 96 and 0.3 < (last_h < 1).mean() < 0.7
    strength = np.array([fault.strength for fault in many])
    assert strength.min() >= 1.3 and strength.max() <= 20 and 0.3 < (strength < np.sqrt(1.3 * 20)).mean() < 0.7
    told = VirtualMachine(Plan(described, 7, 720, 1.0, found, START)).told()["faults"]
    assert "strength" not in told[0] and all(one["strength"] == fault.strength for one, fault in zip(told[1:], many, strict=True))


def test_strength_is_how_many_times_slower_what_has_the_fault_gets():
    described = read_machine("taihulight").scaled(0.1)
    usual = faults.capacity(described, [], 0.0)
    for fault in faults.draw(MANY, described, 8, 720):
        now = faults.capacity(described, [fault], fault.begin_s)
        place = {"slow-ost": described.forwarders + fault.component, "slow-forwarding": fault.component, "login-storm": -1}.get(fault.kind)
        if place is not None:
            assert now[place] == pytest.approx(max(usual[place] / fault.strength, 0.05))
            now[place] = usual[place]
        assert (now == usual).all()


@pytest.mark.parametrize(
    ("word", "says"),
    [("slow-ost:", "'' is no number"), ("slow-ost:0", "'0' is no number"), ("slow-ost:-1", "no number"), ("slow-ost:99999", "no number"), ("rain:3", "no kind 'rain'"),
     ("login-storm:400", "no metadata component has room")],
)  # fmt: skip
def test_what_cannot_be_ordered_is_refused(word, says):
    with pytest.raises(UsageError, match=says):
        faults.draw([word], read_machine("taihulight").scaled(0.1), 1, 100)


def test_which_faults_hold_is_known_without_looking_at_all():
    found = faults.draw(MANY, read_machine("taihulight").scaled(0.1), 9, 720)
    timeline = faults.Timeline(found)
    edges = [instant for fault in found[:20] for instant in (fault.begin_s, fault.end_s)]
    for now_s in (0.0, *edges, *(edge - 0.001 for edge in edges), 1e9):
        assert timeline.at(now_s) == [fault for fault in found if fault.holds(now_s)]
    assert timeline.at(5.0) is timeline.at(5.5)


def test_aggressors_of_faults_in_number_work_all_the_time_on_nodes_kept_for_them():
    described = read_machine("taihulight").scaled(0.025)
    wrong = [faults.Fault("n-1-aggressor", 1, 600.0, 5000.0, 1.0, 2.0)]
    p = Plan(described, 1, 1.5, 1.0, wrong, START)
    runs = simulate(p)
    mine = [run for run in runs if run.until_s is not None]
    assert mine and all(run.at_forwarder == 1 and run.first_node + run.nodes == described.compute.nodes for run in mine)
    assert all(run.first_node + run.nodes <= described.compute.nodes - mine[0].nodes or run in mine for run in runs if run.first_node >= described.forwarding.each)
    assert mine[0].begin[0] < 660 and 4930 < max(run.end[-1] for run in mine) < 5100
    told = {job.number: job for job in jobs(p, runs)}
    last = mine[-1]
    model = told[last.number].model
    assert len(model.steps) == len(last.end) and model.bursts[-1].end_ns.max() <= model.wall_ns and len(model.bursts) == model.steps[-1].last


def test_nodes_kept_for_aggressors_must_leave_some():
    described = read_machine("taihulight").scaled(0.004)
    with pytest.raises(UsageError, match="larger --scale"):
        simulate(Plan(described, 1, 0.1, 1.0, faults.draw(["n-1-aggressor:1"], described, 1, 0.1), START))


def test_what_others_cost_is_the_time_that_would_have_been_spared():
    described = read_machine("taihulight").scaled(0.025)
    p = Plan(described, 1, 1.5, 1.0, [], START)
    runs = simulate(dataclasses.replace(p, tells_lost=True))
    assert [(run.begin, run.end) for run in runs] == [(run.begin, run.end) for run in simulate(p)]
    rows = []
    for run in runs:
        slower_s = sum(run.end) - sum(run.begin) - sum(step.end_ns - step.begin_ns for step in model_of(p, run).steps[: len(run.end)]) / 10**9
        rows += [(slower_s, lost_s) for lost_s in run.lost_s.values()]
    assert len(rows) > 10 and all(0 < lost_s < slower_s + 1e-6 for slower_s, lost_s in rows)
    # Who had one other alone in its way would have been at full speed without it.
    assert sum(lost_s > 0.99 * slower_s > 1 for slower_s, lost_s in rows) >= 3
