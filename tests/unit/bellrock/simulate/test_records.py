"""Simulated records are such as an agent sends, and follow from the seed alone."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bellrock.simulate.expand import expand
from bellrock.simulate.kinds import KINDS
from bellrock.simulate.machine import jobs
from bellrock.simulate.records import Numbering, table
from bellrock.simulate.volume import Plan, simulate
from pipeline.schema import KINDS as RECORDS
from pipeline.schema import check

START = 1_767_225_600 * 10**9


def made(seed=1, count=14, nodes=8, records=20_000):
    return list(jobs(seed, count, nodes, records, list(KINDS), START))


def tables(all_jobs, seed=1, nodes=8):
    numbering = Numbering(seed, nodes, START)
    return [table(job, expand(job), numbering) for job in all_jobs]


def test_each_record_is_well_formed():
    for records in tables(made(count=7, records=700)):
        for row in records.to_pylist():
            hexed = {name: f"{row[name]:016x}" for name in ("boot", "file_id") if row[name] is not None}
            check({"kind": "run", **row, **hexed})


def test_columns_are_the_schemas():
    for records in tables(made(count=7, records=700)):
        assert records.column_names == RECORDS["run"].arrow.names
        for field in RECORDS["run"].arrow:
            dtype = records.schema.field(field.name).type
            assert (dtype.value_type if pa.types.is_dictionary(dtype) else dtype) in (field.type, pa.null())
            assert field.nullable or not records[field.name].null_count


def test_numbers_of_a_node_rise_by_one_through_all_jobs():
    together = pa.concat_tables(tables(made()))
    boots = set()
    for node in pc.unique(together["node"].cast(pa.string())).to_pylist():
        own = together.filter(pc.equal(together["node"].cast(pa.string()), node))
        assert own["seq"].to_pylist() == list(range(1, own.num_rows + 1))
        boots.add(tuple(pc.unique(own["boot"]).to_pylist()))
    assert len(boots) == 8 and all(len(boot) == 1 for boot in boots)


def test_a_job_is_the_same_whoever_makes_it_and_when():
    one, other = made(), made()
    backwards = {job.number: expand(job) for job in reversed(other)}
    for job in one:
        again = expand(job)
        for name, values in vars(again).items():
            assert np.array_equal(values, getattr(backwards[job.number], name)), name
    assert tables(one) == tables(other)
    # A job's doings hang on its number and share alone, not on the machine that others filled.
    assert tables(made(seed=2))[0] != tables(one)[0]


def test_jobs_of_a_node_follow_each_other():
    free = {}
    for job in made(count=70):
        assert len(job.node_names) == job.model.nodes and set(job.node_names) <= {f"cn{number:04d}" for number in range(1, 9)}
        for node in job.node_names:
            assert job.start_ns > free.get(node, START)
            free[node] = job.end_ns
        runs = expand(job)
        assert runs.start.min() >= job.start_ns and runs.end.max() <= job.end_ns


def test_a_run_adds_up():
    for job in made(records=50_000):
        runs = expand(job)
        assert (runs.start <= runs.end).all() and (runs.offset >= 0).all() and (runs.offset + runs.stride * (runs.count - 1) >= 0).all()
        assert (runs.slow_ns * runs.count >= runs.busy_ns - runs.count).all() and (runs.slow_ns <= runs.busy_ns).all()
        took = runs.end - runs.start
        assert (runs.busy_ns <= took).all() and (runs.busy_ns == took)[runs.count == 1].all()
        # All of a run's operations lie in the bucket of the slowest, which is what a record without a histogram says.
        mean, bounds = runs.busy_ns // runs.count, 10 ** np.arange(4, 11)
        assert (np.searchsorted(bounds, mean, side="right") == np.searchsorted(bounds, runs.slow_ns, side="right")).all()


@pytest.mark.parametrize(("count", "nodes", "records"), [(28, 64, 1_000_000), (7, 8, 10_000), (50, 1000, 400_000)])
def test_there_are_about_as_many_records_as_asked_for(count, nodes, records):
    assert sum(job.model.rows for job in jobs(1, count, nodes, records, list(KINDS), START)) == pytest.approx(records, rel=0.05)


class Sink:
    def __init__(self, folder):
        self.folder, self.portions = folder, []

    def write(self, some, records):
        self.portions.append((len(some), records))


def test_portions_change_nothing(tmp_path, monkeypatch):
    plan = Plan(seed=3, jobs=10, nodes=8, records=20_000)
    whole, parts = Sink(tmp_path), Sink(tmp_path)
    done = simulate(plan, [whole])
    monkeypatch.setattr("bellrock.simulate.volume.PORTION_RECORDS", 1000)
    heard = []
    simulate(plan, [parts], tell=heard.append)
    assert len(whole.portions) == 1 < len(parts.portions) == len(heard)
    together = pa.concat_tables([records for _, records in parts.portions])
    assert together.to_pylist() == whole.portions[0][1].to_pylist() and together.num_rows == done.records
    assert sum(jobs for jobs, _ in parts.portions) == heard[-1].jobs == 10
