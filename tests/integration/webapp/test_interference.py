"""Who slowed a job, end to end: a virtual machine's records in a real store, the topology of its site, and the jobs beside it."""

import json
import threading
from dataclasses import replace

import numpy as np
import pytest

from anomaly.interference import Trait
from bellrock.simulate.command import read_start, virtual_machine
from bellrock.simulate.to_site import write_topology
from bellrock.simulate.to_state import StateSink
from bellrock.simulate.virtual import VirtualMachine
from bellrock.simulate.volume import simulate
from jobdb.findings import AGGRESSOR, VICTIM, Found, Sought
from jobdb.repository import JobDB
from jobdb.topology.site import load
from pipeline.store.duckdb import DuckDBStore
from webapp.api.analysis import Analyses
from webapp.api.interference import Expected, who_slowed
from webapp.api.threads import Threads

START = read_start("2026-01-01")
S = 10**9


class Part:
    """Some jobs of a virtual machine, for whoever writes them: those that ran beside one, since all of them take half a minute."""

    def __init__(self, machine, beside):
        self._machine, self._beside = machine, beside
        self.seed, self.nodes, self.start_ns, self.count = machine.seed, machine.nodes, machine.start_ns, machine.count

    def places(self):
        begin_s, end_s = self._beside.start_s, self._beside.end[-1]
        for run, place in zip(self._machine.runs, self._machine.places(), strict=True):
            if run.start_s < end_s and run.start_s + run.wall_s > begin_s and run.application.name != "Shentu":
                yield place


def slowed_by(machine):
    """The run that lost most to an aggressor, and that."""
    by_number = {run.number: run for run in machine.runs if run.at_forwarder is not None}
    lost = [(of, run, by_number[number]) for run in machine.runs if run.at_forwarder is None for number, of in run.lost_s.items() if number in by_number]
    return max(lost, key=lambda one: one[0])[1:]


@pytest.fixture(scope="module")
def machine():
    plan = virtual_machine("taihulight", 0.025, 2.0, 1.0, ["n-1-aggressor:2"], 13, START).plan
    # All that a process does to a file in a step is one run, so that there are few records.
    applications = tuple(replace(one, run=10**6) for one in plan.machine.application)
    return VirtualMachine(replace(plan, machine=replace(plan.machine, application=applications), tells_lost=True))


@pytest.fixture(scope="module")
def site(machine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("machine")
    sink = StateSink(folder / "state", False)
    simulate(Part(machine, slowed_by(machine)[0]), [sink])
    sink.close()
    write_topology(machine.plan.machine, folder / "site", names_jobs=True)
    store, jobdb = DuckDBStore(folder / "state" / "records.duckdb"), JobDB(f"sqlite:///{folder / 'state' / 'jobs.db'}", user_name=lambda uid: None)
    jobdb.topology.apply(load(folder / "site"), START, "root")
    # As the server does once a job has settled.
    analyses = Analyses(store, jobdb, Threads(1, threading.Semaphore(1)))
    for run in slowed_by(machine):
        job = jobdb.job(key(run))
        jobdb.put_profile(job.key, 1, analyses.profile(job)[0])
    yield store, jobdb
    jobdb.close()
    store.close()


def asked(site, run, usual_s):
    """Who slowed a run, by how long its steps usually take."""
    store, jobdb = site
    phases = [Expected(START + round(begin * S), START + round(end * S), usual) for begin, end, usual in zip(run.begin, run.end, usual_s, strict=True)]
    return who_slowed(jobdb.job(key(run)), phases, store, jobdb, Analyses(store, jobdb, Threads(1, threading.Semaphore(1))))


def key(run):
    return str(100_000 + run.number)


def lasted_s(run):
    return np.subtract(run.end, run.begin)


def test_the_aggressor_is_named_in_the_finding(machine, site):
    victim, aggressor = slowed_by(machine)
    # Its checkpoints are as large as each other, and its input twice as large.
    least_s = lasted_s(victim)[1:].min()
    found = asked(site, victim, [2 * least_s, *[least_s] * (len(victim.end) - 1)])
    assert found.jobs[0] == key(aggressor), found
    first = found.evidence["aggressors"][0]
    assert (first["job"], first["traits"], first["server"]) == (key(aggressor), [Trait.SHARED_FILE], "fwd001") and first["explained_share"] > 0.5
    assert found.evidence["neighbours_at_work"] > 2 and json.dumps(found.evidence, allow_nan=False)
    told = found.told(Found("slow-job", key(victim), "warning", START, START + S, "slow", {"x": 1}, jobs=((key(victim), VICTIM),)))
    site[1].findings.record([told])
    (kept,) = site[1].findings.page(Sought(job=key(aggressor)), 10)[0]
    assert kept.found.jobs[:2] == ((key(victim), VICTIM), (key(aggressor), AGGRESSOR)) and key(aggressor) not in kept.found.cause and "32 nodes" in kept.found.cause


def test_nobody_is_named_where_nobody_was_in_the_way(machine, site):
    well = [run for run in machine.runs if site[1].job(key(run)) and run.at_forwarder is None and len(run.end) > 2 and sum(run.lost_s.values()) < 0.02 * lasted_s(run).sum()]
    assert len(well) > 2
    for run in well[:3]:
        # As if it were twice as slow as its program is, by itself.
        assert asked(site, run, lasted_s(run) / 2).jobs == (), run.number
        assert asked(site, run, lasted_s(run) * 1.2).evidence == {"neighbours_at_work": 0}
