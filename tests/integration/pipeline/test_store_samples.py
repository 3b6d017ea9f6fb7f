"""Components and their samples: what every store must do, run against each in conftest.MAKERS."""

import numpy as np
import pytest

from jobdb.layers import each
from jobdb.layers.amounts import Amounts, Grid, measured
from jobdb.layers.figures import figures
from jobdb.layers.others import Jobs
from jobdb.layers.own import counted
from jobdb.layers.plan import Part, Plan
from jobdb.layers.reading import Reader
from jobdb.layers.served import Served
from pipeline import steps as on_steps
from pipeline.schema.components import COMPONENTS
from pipeline.store import SAMPLES, Heard, TooManyComponents, TooManySamples, named_samples
from tests.integration.pipeline.conftest import MAKERS
from tests.unit.pipeline.events import T0, run_event, sample_event

pytestmark = pytest.mark.parametrize("open_store", sorted(MAKERS), indirect=True)
S = 10**9


def disk(seq, at_s, *, instance="sda", period_s=1, **more):
    """A sample of a disk, of the time from `at_s` after T0 on."""
    told = {"component": "block_device", "instance": instance, "start": T0 + at_s * S, "end": T0 + (at_s + period_s) * S}
    return sample_event(seq, **(told | {"values": {"read_bytes": seq * 10, "queue_length": 0.5}} | more))


def rows(table, *names):
    assert table.schema == SAMPLES
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def test_components_are_told_with_when_they_were_heard_within_the_time(open_store):
    store = open_store()
    assert store.components(0, 2**62) == []
    store.append([run_event(1), *(disk(n + 2, n) for n in range(10)), disk(12, 3, instance="sdb/part 1"), sample_event(13), sample_event(14, component="")])
    store.append([disk(1, 4, node="cn2"), disk(2, 900, node="cn2", instance=""), disk(3, 5, node="cn2", component="tape", instance="däta")])
    for reopened in (False, True):
        if reopened:
            store.close()
            store = open_store()
        assert store.components(T0 + 2 * S + 1, T0 + 5 * S) == [
            Heard("cn1", "block_device", "sda", T0 + 2 * S, T0 + 6 * S),
            Heard("cn1", "block_device", "sdb/part 1", T0 + 3 * S, T0 + 4 * S),
            Heard("cn2", "block_device", "sda", T0 + 4 * S, T0 + 5 * S),
            Heard("cn2", "tape", "däta", T0 + 5 * S, T0 + 6 * S),
        ]
        assert [one.instance for one in store.components(T0, T0 + 10**15, "cn2")] == ["", "sda", "däta"]
        assert [(one.component, one.instance) for one in store.components(T0 + 13 * S, T0 + 15 * S, "cn1")] == [("", "cn1"), ("agent", "cn1")]
        assert store.components(T0, T0 + 10**15, "cn3") == [] == store.components(T0 - 9, T0 - 1)


def test_samples_of_instances_come_back_by_time(open_store):
    store = open_store()
    store.append([disk(n, at_s) for n, at_s in ((1, 7), (2, 3), (3, 5))] + [disk(4, 5, instance="sdb"), disk(5, 5, component="tape"), sample_event(6)])
    store.append([disk(1, 4, node="cn2", boot="ff"), disk(2, 4, node="cn2", instance="sdb"), disk(7, 5, period_s=3)])
    found = store.samples("block_device", [("cn1", "sda")], T0 + 4 * S, T0 + 7 * S)
    assert rows(found, "node", "boot", "instance", "start", "end") == [
        ("cn1", 0xDEADBEEF, "sda", T0 + at_s * S, T0 + end_s * S) for at_s, end_s in ((3, 4), (5, 6), (5, 8), (7, 8))
    ]
    assert [dict(values) for (values,) in rows(found, "values")] == [{"read_bytes": n * 10, "queue_length": 0.5} for n in (2, 3, 7, 1)]
    of = [("cn1", "sdb"), ("cn2", "sda"), ("cn9", "sda")]
    assert rows(store.samples("block_device", of, T0, T0 + 99 * S), "node", "instance", "boot") == [("cn2", "sda", 255), ("cn1", "sdb", 0xDEADBEEF)]
    assert rows(store.samples("agent", [("cn1", "cn1")], T0, T0 + 99 * S), "start") == [(T0 + 6 * S,)]
    assert store.samples("block_device", [], 0, T0 + 99 * S).equals(SAMPLES.empty_table())
    assert rows(store.samples("block_device", [("cn1", "sda")], T0 + 9 * S, T0 + 10**15), "start") == []


def test_some_values_of_samples_come_back_as_columns(open_store):
    store = open_store()
    store.append(
        [disk(n, n, values={"read_bytes": n, "writes": n / 2} | ({"it's": 7} if n == 2 else {})) for n in (1, 2, 3)]
        + [disk(4, 2, instance="sdb", values={"reads": 1})]
    )
    names = ["writes", "it's", "none"]
    found = store.samples("block_device", [("cn1", "sda"), ("cn1", "sdb")], T0 + 2 * S, T0 + 3 * S, names=names)
    assert found.schema == named_samples(names)
    told = sorted(tuple(row[name] for name in ("instance", "start", *names)) for row in found.to_pylist())
    assert told == [
        ("sda", T0 + S, 0.5, None, None),
        ("sda", T0 + 2 * S, 1, 7, None),
        ("sda", T0 + 3 * S, 1.5, None, None),
        ("sdb", T0 + 2 * S, None, None, None),
    ]
    assert store.samples("block_device", [], 0, T0, names=names).equals(named_samples(names).empty_table())
    assert store.samples("tape", [("cn1", "sda")], 0, T0, names=names).num_rows == 0


def test_samples_beyond_the_bound_are_refused_with_how_far_one_may_ask(open_store, monkeypatch):
    store = open_store()
    store.append([disk(n, n) for n in range(1, 41)])
    of = [("cn1", "sda")]
    assert store.samples("block_device", of, T0, T0 + 60 * S, most=40).num_rows == 40
    with pytest.raises(TooManySamples, match="more than 25 samples of component 'block_device'") as caught:
        store.samples("block_device", of, T0, T0 + 60 * S, most=25)
    assert T0 + 25 * S <= caught.value.until_ns < T0 + 26 * S
    assert store.samples("block_device", of, T0, caught.value.until_ns, most=25).num_rows == 25
    for module in ("duckdb_samples", "elastic.components"):
        monkeypatch.setattr(f"pipeline.store.{module}.SAMPLE_VALUES_MAX", 60)
        monkeypatch.setattr(f"pipeline.store.{module}.COMPONENTS_MAX", 0)
    assert store.samples("block_device", of, T0, T0 + 60 * S, names=["reads"]).num_rows == 40, "80 values are not read"
    with pytest.raises(TooManySamples) as caught:
        store.samples("block_device", of, T0, T0 + 60 * S, names=["reads", "writes"])
    assert T0 + 30 * S <= caught.value.until_ns < T0 + 31 * S
    with pytest.raises(TooManySamples) as caught:
        store.samples("block_device", of, T0, T0 + 60 * S)
    assert caught.value.until_ns < T0 + 40 * S
    with pytest.raises(TooManyComponents, match="more than 0 components"):
        store.components(T0, T0 + 60 * S)


def test_what_was_stored_comes_out_on_steps(open_store):
    store = open_store()
    store.append([disk(n, 2 * n, period_s=2, values={"read_bytes": 100, "queue_length": n}) for n in range(1, 6)])
    samples = store.samples("block_device", [("cn1", "sda")], T0 - on_steps.MARGIN_NS, T0 + 20 * S + on_steps.MARGIN_NS)
    found = on_steps.steps(samples, "block_device", T0, T0 + 20 * S, 4 * S)
    by_name = {value.told.value.name: value for value in found.values}
    assert [None if x != x else x for x in by_name["read_bytes"].per_s.tolist()] == [50, 50, 50, None, None]
    assert by_name["read_bytes"].total == 500 and by_name["queue_length"].max[:3].tolist() == [1, 3, 5]


def test_what_was_stored_makes_a_layers_figures(open_store):
    store = open_store()
    store.append(
        [
            sample_event(
                n, component="gluster_server", instance="_b1", start=T0 + n * S, end=T0 + (n + 1) * S, values={"read_bytes": 100, "read": 2, "read_ns": S}
            )
            for n in range(1, 9)
        ]
    )
    for names in (None, COMPONENTS["gluster_server"].names({"": ("read_bytes", "read", "read_ns")})):
        samples = lambda from_ns, to_ns, names=names: [store.samples("gluster_server", [("cn1", "_b1")], from_ns, to_ns, names=names)]  # noqa: E731
        (found,) = measured("gluster_server", samples, [[(T0 + 3 * S, T0 + 5 * S + S // 2)]], Grid(T0, T0 + 60 * S, 10 * S))
        assert figures(found)["read_bytes"] == 250 and figures(found)["read_latency"]["mean_s"] == 0.5 and found.known_s.tolist() == [2.5, 0, 0, 0, 0, 0]


def test_of_tens_of_thousands_of_a_kind_some_are_found_by_name(open_store):
    store = open_store()
    names = ["ost1 4711", "ost1 4711.0", "ost1 4711.batch", "ost1 47110", "ost1 4711_3", "ost2 4711", "ost1 4711x.0", "ost1 ör.1000", ""]
    store.append([disk(n, n, component="lustre_job", instance=name) for n, name in enumerate(names, 1)] + [disk(10, 0, instance="ost1 4711"), sample_event(11)])
    store.append([disk(1, 5, node="oss2", component="lustre_job", instance="ost1 4711"), disk(2, 90, node="oss2", component="lustre_job", instance="ost1 4711")])

    def found(nodes, asked, stems=(), from_s=0, to_s=60):
        return [(one.node, one.instance) for one in store.called("lustre_job", nodes, asked, stems, T0 + from_s * S, T0 + to_s * S)]

    assert found(["cn1", "oss2"], ["ost1 4711", "ost3 4711"]) == [("cn1", "ost1 4711"), ("oss2", "ost1 4711")]
    assert found(["cn1"], ["ost1 4711"], ["ost1 4711"]) == [("cn1", "ost1 4711"), ("cn1", "ost1 4711.0"), ("cn1", "ost1 4711.batch")]
    assert found(["cn1"], [], ["ost1 4711_3", "ost1 ör"]) == [("cn1", "ost1 ör.1000")] and found(["cn1"], [], []) == [] == found([], ["ost1 4711"])
    assert found(["cn1"], ["ost1 4711"], (), 3, 60) == [], "not in this time"
    assert store.called("lustre_job", ["oss2"], ["ost1 4711"], (), T0, T0 + 99 * S) == [Heard("oss2", "lustre_job", "ost1 4711", T0 + 5 * S, T0 + 91 * S)]
    assert store.telling("lustre_job", ["cn1", "oss2", "oss3"], T0, T0 + 60 * S) == {"cn1", "oss2"}
    assert store.telling("lustre_job", ["cn1", "oss2"], T0 + 60 * S, T0 + 99 * S) == {"oss2"} and store.telling("tape", ["cn1"], T0, T0 + 99 * S) == set()
    assert [one.component for one in store.components(T0, T0 + 99 * S, "cn1", ["block_device", "tape", "agent"])] == ["agent", "block_device"]
    assert store.components(T0, T0 + 99 * S, None, []) == []
    assert {(one.node, one.component) for one in store.components(T0, T0 + 99 * S, but=["agent", "lustre_job"])} == {("cn1", "block_device")}


def test_what_servers_count_of_one_job_is_its_own(open_store):
    store = open_store()
    told = [("ost1 4711", 0, {"read_bytes": 100, "reads": 1}), ("ost1 4711.0", 5, {"read_bytes": 60, "reads": 1, "getattr": 3, "getattr_ns": 6 * S}), ("ost1 4711.0", 15, {"writes": 9})]
    told += [(f"ost1 {job}", 0, {"read_bytes": 10**6}) for job in (4710, 47110, "x.4711", "4711.x")]
    store.append([disk(n, at_s, period_s=10, component="lustre_job", instance=name, values=values) for n, (name, at_s, values) in enumerate(told, 1)])
    from_ns, to_ns, targets = T0, T0 + 10 * S, [("cn1", "lustre_ost", f"ost{n}") for n in (1, 2)]
    named = each.of_job(store, ["4711"], targets, from_ns, to_ns)
    assert named.of == {targets[0]: ("4711", "4711.0")} and each.of_job(store, ["4712"], targets, from_ns, to_ns) is None
    parts = [Part(Served("fs", "storage", *target, "t", True, ((from_ns, to_ns),), None), Jobs.of(()), True, None, named.at(target)) for target in targets]
    grid = Grid(from_ns, to_ns, 2 * S)
    wholes = [Amounts(np.full(5, 2.0), {"read_bytes": np.ones(5), "write_ops": np.ones(5)}) for _ in parts]
    first, second = map(figures, counted(parts, wholes, Reader(Plan(from_ns, to_ns, True, (), None, ()), store, 100), grid))
    assert (first["read_bytes"], first["write_ops"], first["metadata"]) == (160, 0, [{"name": "getattr", "ops": 3, "mean_s": pytest.approx(2)}]), "a look that reaches beyond its end, too; none after it"
    assert (second["read_bytes"], second["write_ops"], second["write_bytes"]) == (0, 0, None), "it names jobs, and not this one"
    assert counted(parts, wholes, Reader(Plan(from_ns, to_ns, True, (), None, ()), store, 1), grid)[0] is None, "too many samples"


def test_what_instances_of_a_beginning_add_up_to(open_store, monkeypatch):
    store = open_store()
    told = [("ost1 a", 0, {"reads": 1, "writes": 5}), ("ost1 a", 10, {"reads": 2}), ("ost1 b", 0, {"writes": 3, "other": 9}), ("ost1 c", 90, {"reads": 9}), ("ost10 a", 0, {"reads": 1})]
    store.append([disk(n, at_s, period_s=10, component="lustre_export", instance=name, values=values) for n, (name, at_s, values) in enumerate(told, 1)])
    asked = ("lustre_export", "cn1", "ost1 ", ["reads", "writes"], T0, T0 + 60 * S)
    assert store.sums_of(*asked) == {"ost1 a": {"reads": 3, "writes": 5}, "ost1 b": {"writes": 3}}
    assert store.sums_of("lustre_export", "cn2", "ost1 ", ["reads"], T0, T0 + 60 * S) == {} == store.sums_of("tape", "cn1", "", ["reads"], T0, T0 + 60 * S)
    for module in ("duckdb_samples", "elastic.components"):
        monkeypatch.setattr(f"pipeline.store.{module}.SUMMED_MAX", 2)
    with pytest.raises(TooManySamples, match="more than 2 samples"):
        store.sums_of(*asked)
