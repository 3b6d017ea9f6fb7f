import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anomaly.phases import find_phases
from jobdb.profile import HEADLINE, profile
from jobdb.runs import read_runs
from tests.unit.jobdb import naive
from tests.unit.jobdb.tables import T0, job, row, rows, table

S = 10**9


def compute(list_of_rows, phases=None, the_job=None):
    the_job = the_job or job()
    runs = read_runs(table(list_of_rows), uid=the_job.uid)
    return profile(runs, find_phases(runs) if phases is None else np.array(phases, dtype=np.int64).reshape(-1, 2), the_job)


def agree(got, wanted):
    got = got | {"latency": {name: (e["counts"], e["slowest"] and e["slowest"]["seconds"]) for name, e in got["latency"].items()}}
    for name, value in wanted.items():
        if isinstance(value, float):
            assert got[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
        else:
            assert got[name] == value, name


@settings(max_examples=120, deadline=None)
@given(rows())
@example([])
@example([row(bytes=10, count=2, end=T0)])
@example([row("start"), row("start", rank=3, process="9.9")])
def test_profile_equals_the_slow_one(list_of_rows):
    good = naive.calls(naive.clean(list_of_rows, 1000))
    phases = naive.find_phases((r["start"], r["end"]) for r in good)
    got = compute(list_of_rows, phases)
    wanted = naive.profile(list_of_rows, phases, job())
    slowest_s = wanted.pop("slowest_s")
    assert (got.slowest_op and got.slowest_op["seconds"]) == slowest_s
    assert got.is_seen == naive.is_seen(list_of_rows, 1000)
    agree(vars(got), wanted)
    sizes = {e["from_bytes"]: [e["read_ops"], e["write_ops"], e["read_bytes"], e["write_bytes"]] for e in got.request_sizes}
    assert {low: entry for low, entry in sizes.items() if any(entry)} == {
        low: entry for low, entry in naive.request_sizes(list_of_rows, 1000).items() if any(entry)
    }
    assert sum(p["read_bytes"] for p in got.phase_list) == got.read_bytes
    assert sum(entry["errors"] for entry in got.operations) == got.errors
    assert sum(entry["count"] for entry in got.operations if entry["op"] == "read") == got.read_ops


@settings(max_examples=60, deadline=None)
@given(rows(), st.lists(st.integers(0, 70 * S), min_size=0, max_size=8, unique=True))
def test_profile_takes_any_phases(list_of_rows, bounds):
    bounds = sorted(T0 + b for b in bounds)[: len(bounds) // 2 * 2]
    phases = list(zip(bounds[::2], bounds[1::2], strict=True))
    wanted = naive.profile(list_of_rows, phases, job())
    del wanted["slowest_s"]
    got = compute(list_of_rows, phases)
    agree(vars(got), wanted)
    listed = naive.phase_list(list_of_rows, phases, 1000)
    assert [{name: value for name, value in phase.items() if not name.startswith("io_mode")} for phase in got.phase_list] == [pytest.approx(phase) for phase in listed]


@settings(max_examples=25, deadline=None)
@given(rows(), st.randoms())
def test_order_of_rows_does_not_matter(list_of_rows, random):
    shuffled = random.sample(list_of_rows, len(list_of_rows))
    first, second = compute(list_of_rows).to_dict(), compute(shuffled).to_dict()
    for name in HEADLINE:
        assert first[name] == (pytest.approx(second[name]) if isinstance(second[name], float) else second[name]), name


def unseen(program="solver", flag=128, **more):
    return row("unseen", program=program, file=f"/opt/{program}", flags=flag, **more)


def test_what_could_not_be_watched_is_named_and_never_shown_as_idle():
    both = [unseen(), unseen(process="2.1"), unseen("sudo", flag=512, process="3.1"), unseen("new", flag=0, process="4.1")]
    wholly = compute([row("start"), *both]).to_dict()
    assert wholly["unseen"] == [
        {"program": "solver", "file": "/opt/solver", "reason": "static", "processes": 2},
        {"program": "new", "file": "/opt/new", "reason": "unknown", "processes": 1},
        {"program": "sudo", "file": "/opt/sudo", "reason": "privileged", "processes": 1},
    ]
    assert {name: wholly[name] for name in ("read_bytes", "write_ops", "iops_avg", "processes", "phases", "errors")} == dict.fromkeys(
        ("read_bytes", "write_ops", "iops_avg", "processes", "phases", "errors")
    )
    assert (wholly["nodes"], wholly["runtime_s"], wholly["unseen_programs"]) == (1, 10.0, 3)
    partly = compute([*both, row("write", bytes=10, process="9.1")]).to_dict()
    assert (partly["write_bytes"], partly["processes"], partly["unseen_programs"]) == (10, 1, 3)
    nothing = compute([row("start")]).to_dict()
    assert (nothing["read_bytes"], nothing["unseen"]) == (0, [])


def test_all_programs_that_could_not_be_watched_are_counted_and_the_first_listed():
    rows = [unseen(f"p{number:03}", process=f"{number}.{again}") for number in range(150) for again in range(1 + (number == 120))]
    rows += [unseen("p000", process="0.0"), unseen(None) | {"file": None}]
    p = compute(rows).to_dict()
    assert (len(p["unseen"]), p["unseen_programs"]) == (100, 151)
    assert [(entry["program"], entry["processes"]) for entry in p["unseen"][:3]] == [("p120", 2), ("", 1), ("p000", 1)]
    assert p["unseen"][1] == {"program": "", "file": None, "reason": "static", "processes": 1}


def test_nodes_stand_in_for_processes_only_where_none_was_seen():
    def of_node(node, **more):
        return row("write", T0, T0 + S, bytes=100, node=node, process="node", uid=None, program="", flags=64, busy_ns=0, slow_ns=0, **more)

    nodes = [of_node(f"n{number}", file=f"/f{number}") for number in range(3)]
    p = compute([row("start"), unseen(), *nodes]).to_dict()
    assert (p["granularity"], p["write_bytes"], p["processes"], p["io_mode_write"]) == ("node", 300, 3, "N-N")
    assert (p["slowest_op"], p["operations"][0]["busy_s"], p["operations"][0]["slowest_s"]) == (None, None, None)
    assert compute(nodes).to_dict()["write_bytes"] == 300
    queued = dataclasses.replace(job(), queue_nodes=tuple(f"n{number}" for number in range(20)))
    p = compute(nodes, the_job=queued).to_dict()
    assert (p["processes"], p["io_processes"], p["io_mode_write"]) == (20, 3, "N-M"), "idle nodes count where the batch system tells of them"
    p = compute([row("write", bytes=7), *nodes]).to_dict()
    assert (p["granularity"], p["write_bytes"], p["processes"], p["nodes"]) == ("process", 7, 1, 1)
    idle = compute([row("start"), row("start", process="2.1"), *nodes]).to_dict()
    assert (idle["granularity"], idle["write_bytes"], idle["processes"], idle["nodes"]) == ("process", 0, 0, 1), "what was watched and idle did none of it"


def test_known_program_counts_to_the_byte():
    p = compute(
        [
            row("start", T0),
            row("open", T0 + S),
            row("write", T0 + S, T0 + 3 * S, bytes=4096 * 100, count=100),
            row("read", T0 + 9 * S, T0 + 10 * S, bytes=1000, count=4),
            row("read", T0 + 10 * S, T0 + 10 * S, bytes=0, count=1),
            row("open", T0 + 2 * S, errno=2, count=5, file="/missing"),
            row("mmap", T0 + 10 * S, bytes=8192),
        ]
    )
    assert (p.write_bytes, p.write_ops, p.read_bytes, p.read_ops, p.metadata_ops, p.errors) == (409600, 100, 1000, 5, 1, 5)
    assert (p.phases, p.files, p.processes, p.io_processes, p.mapped_bytes, p.runtime_s) == (2, 1, 1, 1, 8192, 10.0)
    assert (p.bandwidth_avg_write, p.bandwidth_peak_write, p.bandwidth_avg_read) == (204800.0, 204800.0, 1000.0)
    assert p.iops_avg == 105 / 3 and p.mdops_avg == 1 / 3
    assert (p.io_mode_write, p.io_mode_read) == ("1-1", "1-1")
    assert [(e["from_bytes"], e["to_bytes"], e["read_ops"]) for e in p.request_sizes][0] == (0, 0, 1)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 16, 64])
def test_io_mode_of_every_pattern(n):
    def mode(file_of, writers=n):
        ranks = [row("start", rank=rank, process=f"{rank}.1") for rank in range(n)]
        writes = [row("write", T0, T0 + S, bytes=10**6, rank=r, process=f"{r}.1", file=file_of(r)) for r in range(writers)]
        return compute(ranks + writes).io_mode_write

    assert mode(lambda r: f"/own{r}") == ("1-1" if n == 1 else "N-N")
    assert mode(lambda r: "/one") == ("1-1" if n == 1 else "N-1")
    assert mode(lambda r: "/one", writers=1) == "1-1"
    if n >= 10:
        assert mode(lambda r: f"/own{r}", writers=n // 2) == "N-M"
        assert mode(lambda r: f"/group{r % 4}") == "N-M"


def test_io_mode_bounds_are_met_exactly():
    def mode(small, n_writers=2, n=2):
        ranks = [row("start", rank=r, process=f"{r}.1") for r in range(n)]
        own = [row("write", bytes=1000, rank=r, process=f"{r}.1", file=f"/own{r}") for r in range(n_writers)]
        shared = [row("write", bytes=small, rank=r, process=f"{r}.1", file="/shared") for r in range(2) if small]
        return compute(ranks + own + shared).io_mode_write

    assert mode(0) == "N-N"
    assert mode(52) == "N-N"  # 2000 / 2104 = 95.06 %
    assert mode(53) == "N-M"  # 2000 / 2106 = 94.97 %
    assert mode(4) == "N-N"  # /shared has 8 bytes, under 1 % of 1004: does not count
    assert mode(0, n_writers=9, n=10) == "N-N"
    assert mode(0, n_writers=8, n=10) == "N-M"


@pytest.mark.parametrize(("size", "mode"), [(100, "N-M"), (98, "N-N")])
def test_a_file_counts_from_one_percent_of_the_largest(size, mode):
    own = [row("write", bytes=10_000, rank=r, process=f"{r}.1", file=f"/own{r}") for r in range(2)]
    shared = [row("write", bytes=size // 2, rank=r, process=f"{r}.1", file=f"/shared{i}") for r in range(2) for i in range(20)]
    assert compute(own + shared).io_mode_write == mode


@pytest.mark.parametrize(("size", "mode", "io_processes"), [(100, "N-N", 2), (99, "1-1", 1)])
def test_a_process_does_io_from_one_percent_of_the_busiest(size, mode, io_processes):
    p = compute([row("write", bytes=b, rank=r, process=f"{r}.1", file=f"/own{r}") for r, b in enumerate((10_000, size))])
    assert (p.io_mode_write, p.io_processes) == (mode, io_processes)


@pytest.mark.parametrize(("users", "mode"), [(1, "N-N"), (2, "N-M")])
def test_a_file_that_one_minor_process_alone_uses_is_its_own(users, mode):
    """Files as large as any, but of processes too small to count as I/O processes."""
    main = [row("write", bytes=5000, rank=r, process=f"{r}.1", file=f"/own{r}-{i}") for r in range(2) for i in range(200)]
    minor = [row("write", bytes=5000 // users, process=f"{100 + i}.{u}", file=f"/minor{i}") for i in range(40) for u in range(users)]
    assert compute(main + minor).io_mode_write == mode


def test_background_counts_in_sums_and_not_in_rates():
    log = [row("write", T0 + second * S, T0 + second * S + 1, bytes=100, size=100, file="/log", node=f"n{second % 3}") for second in range(300)]
    burst = [row("write", T0 + 100 * S, T0 + 110 * S, bytes=10**10, count=1000, file="/out"), row("open", T0 + 100 * S, count=20)]
    p = compute([*log, *burst])
    (phase,) = p.phase_list
    assert (phase["start_ns"], phase["end_ns"]) == (T0 + 100 * S, T0 + 110 * S) and p.write_bytes == 10**10 + 30_000
    assert (phase["write_bytes"], phase["write_ops"], phase["metadata_ops"], phase["mdops"], phase["nodes"]) == (10**10 + 1100, 1011, 20, 2.0, 3)
    assert p.bandwidth_avg_write == (10**10 + 1100) / (10 + 1e-9) and p.iops_avg == 1011 / (10 + 1e-9)


def test_job_mode_is_the_one_with_most_bytes():
    shared = [row("write", T0, bytes=300, process=p, file="/one") for p in ("1.1", "2.1")]
    own = [row("write", T0 + 20 * S, bytes=200, process=p, file=f"/{p}") for p in ("1.1", "2.1")]
    p = compute(shared + own)
    assert [phase["io_mode_write"] for phase in p.phase_list] == ["N-1", "N-N"] and p.io_mode_write == "N-1"


def test_ranks_count_even_without_io_and_launchers_do_not():
    ranks = [row("start", rank=r, process=f"{r}.1") for r in range(3)]
    launcher = [row("read", bytes=5, process="100.1")]
    assert compute(ranks + launcher).processes == 3
    twins = [row("read", bytes=5, rank=0, process=p) for p in ("0.1", "50.1")]
    assert compute(ranks + launcher + twins).processes == 4


def test_a_rank_is_the_one_that_a_process_told_last():
    """Before it executed the program it bore its launcher's."""
    of_launcher = [row("open", T0, T0 + 1, rank=0, process=f"{r}.1", program="orted") for r in range(3)]
    own = [row("write", T0 + S, T0 + 2 * S, bytes=100, rank=r, process=f"{r}.1", program="solver", file="/one") for r in range(3)]
    assert compute(of_launcher + own).processes == 3
    runs = read_runs(table(own + of_launcher))
    assert dict(zip(runs.process_keys, runs.ranks, strict=True)) == {("n1", f"{r}.1"): r for r in range(3)}


def test_the_mode_leaves_out_launchers_and_no_one_else():
    workers = [row("write", bytes=100, process=f"{p}.5", parent=1, file=f"/own{p}") for p in (11, 12)]
    shell, launcher = row("stat", process="1.1"), row("open", process="2.1", parent=1, file="/log")
    grandchild = row("write", bytes=100, process="13.5", parent=2, file="/own13")
    idle = row("open", process="14.5", parent=1, file="/own14")
    elsewhere = row("open", process="1.1", node="n2")
    assert compute([shell, *workers]).io_mode_write == "N-N"
    assert compute([shell, launcher, *workers, grandchild]).io_mode_write == "N-N"
    assert compute([shell, *workers, idle]).io_mode_write == "N-M"
    assert compute([elsewhere, *workers]).io_mode_write == "N-M"
    assert compute([shell, launcher, *workers, grandchild, idle]).processes == 6
    there = [row("write", bytes=100, process=f"{p}.5.f00d", parent=1, file=f"/own{p}") for p in (11, 12)]
    assert compute([shell, *there]).io_mode_write == "N-M", "pid 1 of another namespace is another process"
    assert compute([row("stat", process="1.1.f00d"), *there]).io_mode_write == "N-N"
    # Each the other's parent, as reused pids and lies have it.
    assert compute([row("open", process=f"{p}.1", parent=3 - p) for p in (1, 2)]).processes == 2


def test_directories_are_no_files_unless_there_is_nothing_else():
    listing = row("readdir", process="1.1", flags=32)
    assert compute([listing]).processes == 1
    assert compute([listing, row("stat", process="2.1")]).processes == 1


def test_same_path_on_two_nodes_is_one_file():
    assert compute([row("read", bytes=1, node=n) for n in ("n1", "n2")]).files == 1


def test_impossible_values_neither_crash_nor_wrap():
    hostile = [
        row("read", -5, 2**63 - 1, bytes=2**63 - 1, count=2**63 - 1, size=2**63 - 1),
        row("read", 2**63 - 1, 0, bytes=2**63 - 1, count=-3, size=-1),
        row("write", 0, 0, bytes=2**63 - 1),
    ]
    p = compute(hostile)
    assert 0 <= p.read_bytes <= 2**62 and p.errors == 0 and p.bandwidth_peak_read >= 0
    assert all(value >= 0 for value in p.to_dict().values() if isinstance(value, int | float))


def test_listed_phases_are_bounded_their_count_is_not():
    p = compute([row("read", T0 + 10 * S * i, bytes=i) for i in range(1500)])
    assert p.phases == 1500 and len(p.phase_list) == 1000
    assert [phase["read_bytes"] for phase in p.phase_list] == list(range(500, 1500))


def test_running_job_lasts_to_its_last_operation():
    assert compute([row("read", T0, T0 + 3 * S)], the_job=job(end_ns=None, state="running")).runtime_s == 3.0
