"""On each store: jobs' records packed by themselves, dropped by retention, and answered for as before."""

import os
import random
import time

import pytest

from jobdb.models import ClockRow
from jobdb.queue import COMPLETED, QueueJob
from jobdb.repository import JobDB, JobDBError
from pipeline.archive import ArchiveError, of_job, of_rest
from pipeline.archive import read as archive_read
from pipeline.archive.elastic import ElasticArchive
from pipeline.archive.files import FileArchive
from pipeline.archive.pack import Stopped
from pipeline.archive.read import tables
from pipeline.retention import Keeper
from pipeline.store import StoreError, duckdb
from pipeline.store.elastic import store as elastic_store
from pipeline.store.sought import DAY_NS
from tests.integration.webapp.test_real_store import Node
from webapp.api import create_app, deep_answers
from webapp.api.job_records import JobRecords
from webapp.api.second_pass import SecondPass

S = 10**9
TODAY = time.time_ns() // DAY_NS * DAY_NS
# The day of the jobs here, which is over.
T0 = TODAY - 28 * DAY_NS + 7 * 3600 * S
# What the clock of a node says whose battery is empty.
LONG_AGO = 978_307_200 * S
PATHS = (
    "", "/files?limit=100", "/processes?limit=100", "/nodes?limit=100", "/series?points=100", f"/series?from_ns={T0 + 10 * S}&to_ns={T0 + 14 * S}&points=100", "/layers",
    "/heat?measure=write_bytes", "/heat?by=rank&measure=ops", "/timeline", "/timeline?by=file", "/offsets", "/offsets?file=/scratch/f1", "/trace?limit=20000",
    # A question of its own: for the one before, all has been looked at.
    "/trace?order=node&layer=compute",
)  # fmt: skip


class Site:
    """Store, job database, archive and API, as a server has them."""

    def __init__(self, store, archive, folder):
        self.store, self.archive, self.folder = store, archive, folder
        self.jobdb = JobDB(f"sqlite:///{folder / 'jobs.db'}", user_name=lambda uid: None)
        self.begin()

    def begin(self):
        """As a server that was started just now: nothing is kept in memory."""
        self.second_pass = SecondPass(self.jobdb, self.store, self.archive, 0, 30)
        self.keeper = Keeper(self.store, {"runs": 20, "rollups": 20}, self.second_pass)
        status = lambda: {"version": "0", "started_ns": 1, "ingest": None}  # noqa: E731
        config = {"FRONTEND_DIR": self.folder, "PEER_UID": lambda environ: os.geteuid()}
        parts = {"store": self.store, "jobdb": self.jobdb, "status": status, "keeper": self.keeper, "second_pass": self.second_pass}
        self.client = create_app(config, **parts).test_client()

    def take(self, events):
        self.store.append(events)
        for event in events:
            if event["kind"] == "job":
                self.jobdb.apply_event(event)

    def get(self, path, status=200):
        response = self.client.get("/api/v1" + path)
        assert response.status_code == status, response.text
        return response.get_json()

    def shown(self, job):
        # How many records were looked at follows from where they lie.
        return {path: {name: told for name, told in self.get(f"/jobs/{job}{path}").items() if name != "read"} for path in PATHS}

    def state(self, job):
        return self.archive.states([of_job(job)]).get(of_job(job))


# Indices of a day each, so that some have ended.
PERIOD = "day"


@pytest.fixture
def site(store, tmp_path, request):
    is_elastic = request.node.callspec.params["open_store"] == "elasticsearch"
    archive = ElasticArchive(request.getfixturevalue("elastic"), "g1") if is_elastic else FileArchive(tmp_path / "archive")
    made = Site(store, archive, tmp_path)
    yield made
    made.jobdb.close()
    archive.close()


def rows_of(site, subject):
    """What an archive holds: (node, seq) of each record."""
    state = site.archive.states([subject]).get(subject)
    return None if state is None else [(row["node"], row["seq"]) for table in tables(site.archive, state) for row in table.select(["node", "seq"]).to_pylist()]


def in_order(events, job="7"):
    """The ids of a job's runs as an archive holds them."""
    return [(f"n{node}", seq) for node, seq in sorted((int(event["node"][1:]), event["seq"]) for event in events if event["kind"] == "run" and event["job"] == job)]


def written(site, job):
    """Bytes that the sums by second of a job's whole time come to."""
    records, found = JobRecords(site.store, site.jobdb, site.archive), site.jobdb.job(job)
    return sum(records.seconds(found, "", found.start_ns, found.end_ns + S, 1, None)["write_bytes"].to_pylist())


def dropped(went):
    return sum(part.records for part in went if part.data == "runs")


def run_job(rng, nodes=3, runs=60, job="7", start=T0):
    """A job of some nodes, its records in any order."""
    made = [Node(f"n{number}", boot=f"{number:016x}") for number in (1, 2, 10)[:nodes]]
    events = [node.event("job", event="start", job=job, launch="l", uid=1000, user="ada", program="app", command="app", time=start, exit_code=None, cluster=None) for node in made]
    for _ in range(runs):
        node, at = rng.choice(made), start + rng.randrange(100 * S)
        process = f"{rng.randrange(3) + 2}.{node.name[1:]}"
        events.append(node.run(
            rng.choice(("read", "write", "open", "stat")), at, at + rng.randrange(3 * S), size=4096, count=rng.randrange(1, 50), job=job, process=process,
            file=f"/scratch/f{rng.randrange(6)}", errno=rng.choice((0, 0, 0, 2)), rank=None,
        ))  # fmt: skip
    last = [node.event("job", event="end", job=job, launch="l", uid=1000, user="ada", program="app", command="app", time=start + 110 * S, exit_code=0, cluster=None) for node in made]
    return made, [*events, *last]


def test_a_job_is_shown_as_before_once_its_records_are_gone(site):
    rng = random.Random(1)
    _, events = run_job(rng)
    site.take(events)
    assert site.get("/jobs/7")["job"]["settled"]
    before = site.shown("7")
    site.second_pass.look()
    state = site.state("7")
    assert (state.generation, state.rows, len(state.blocks)) == (1, 60, 1)
    went, left = site.keeper.apply()
    assert dropped(went) == 60 and not left and site.store.run_days(TODAY) == {}
    site.begin()
    after = site.shown("7")
    for path in PATHS:
        assert after[path] == before[path], path
    assert site.get("/jobs/7")["records_dropped"] is False
    assert rows_of(site, of_job("7")) == in_order(events) and rows_of(site, of_rest(T0, "" if isinstance(site.archive, FileArchive) else "g1")) == []


def test_the_heat_map_of_a_large_job_comes_of_what_its_archive_has_summed(site, monkeypatch):
    site.take(run_job(random.Random(4))[1])
    before = {measure: site.get(f"/jobs/7/heat?measure={measure}&rows=2") for measure in ("read_bytes", "write_bytes", "ops", "metadata_ops")}
    site.second_pass.look()
    site.get("/jobs/7")
    monkeypatch.setattr(type(site.store), "few_runs", 0)
    monkeypatch.setattr(deep_answers, "SUMS_FROM", 0)
    site.begin()
    monkeypatch.setattr(site.store, "runs", None)  # nobody needs them
    for measure, was in before.items():
        now = site.get(f"/jobs/7/heat?measure={measure}&rows=2")
        assert now["is_stored"] and not was["is_stored"] and now["total"] == was["total"] == sum(sum(one["cells"]) for one in now["rows"])


@pytest.mark.parametrize(("off_s", "is_stored"), [(1, True), (-1, True), (40, False)])
def test_both_ways_to_a_heat_map_agree_within_a_bin_where_a_clock_is_off(site, monkeypatch, off_s, is_stored):
    """An archive's sums are of the nodes' clocks; here a bin of it is a second."""
    # So many that each node has sums of its own.
    runs = [event for event in run_job(random.Random(5), runs=3000, job=None)[1] if event["kind"] == "run"]
    site.take([run | {time: run[time] + off_s * S for time in ("start", "end")} if run["node"] == "n2" else run for run in runs])
    site.jobdb.take_queue([QueueJob(
        cluster="c", job_id="8", submit_ns=T0, user="ada", uid=1000, state=COMPLETED, start_ns=T0, end_ns=T0 + 110 * S, exit_code=0, nodes=("n1", "n2", "n10"), claims=("8",),
    )])  # fmt: skip
    site.jobdb.put_clocks([ClockRow(node="n2", from_ns=T0, offset_ns=off_s * S)])
    site.jobdb.settle(site.jobdb.job("8"), time.time_ns(), 0)
    before = site.get("/jobs/8/heat?measure=write_bytes&rows=3")
    site.second_pass.look()
    site.get("/jobs/8")
    monkeypatch.setattr(type(site.store), "few_runs", 0)
    monkeypatch.setattr(deep_answers, "SUMS_FROM", 0)
    site.begin()
    after = site.get("/jobs/8/heat?measure=write_bytes&rows=3&bins=301")
    assert (before["is_stored"], after["is_stored"]) == (False, is_stored) and before["step_s"] == after["step_s"] == 1
    for was, now in zip(before["rows"], after["rows"], strict=True):
        assert (now["first"], now["last"], now["members"], now["total"]) == (was["first"], was["last"], was["members"], was["total"]) and now["total"] > 0
        # What has passed by a bin's end, beside what rounding moves, and that charts draw a run on to the next one.
        slack = was["total"] // 100
        by_end = {at: sum(was["cells"][: before["t_ns"].index(at) + 1]) for at in before["t_ns"]}
        passed = 0
        for at, cell in zip(after["t_ns"], now["cells"], strict=True):
            passed += cell
            assert by_end.get(at - S, 0) - slack <= passed <= by_end.get(at + S, was["total"]) + slack


def test_a_job_of_the_batch_system_is_shown_as_before(site):
    """Its records need no claim, and its nodes' clocks are off."""
    rng = random.Random(2)
    made, events = run_job(rng, job=None)
    end_ns = T0 + 110 * S
    site.jobdb.take_queue([QueueJob(cluster="c", job_id="8", submit_ns=T0, user="ada", uid=1000, state=COMPLETED, start_ns=T0, end_ns=end_ns, exit_code=0, nodes=("n1", "n2", "n10"), claims=("8",))])
    site.take([event for event in events if event["kind"] == "run"])
    site.jobdb.settle(site.jobdb.job("8"), time.time_ns(), 0)
    before = site.shown("8")
    assert before[""]["profile"]["write_bytes"] > 0
    site.second_pass.look()
    assert dropped(site.keeper.apply()[0]) == 60
    site.begin()
    after = site.shown("8")
    for path in PATHS:
        assert after[path] == before[path], path


def test_killed_at_any_moment_it_is_done_again_with_the_same_result(site, monkeypatch):
    _, events = run_job(random.Random(3))
    site.take(events)
    for step in ("write", "seal"):
        monkeypatch.setattr(site.archive, step, lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            site.second_pass.look()
        monkeypatch.undo()
        assert site.state("7") is None
        site.begin()
    # After some of its blocks were written.
    write = site.archive.write
    monkeypatch.setattr(site.archive, "write", lambda subject, generation, from_ns, blocks: write(subject, generation, from_ns, (block if not number else 1 / 0 for number, block in enumerate([*blocks] * 2))))
    site.second_pass.look()
    assert site.state("7") is None and site.second_pass.status()["failed"] == 1
    monkeypatch.undo()
    site.second_pass.ask("7")
    site.second_pass.look()
    first = site.state("7")
    assert rows_of(site, of_job("7")) == in_order(events)
    # It was sealed, and how far it has looked was not kept: nothing is done twice.
    site.jobdb.put_place("archive", [0, 0])
    site.begin()
    site.second_pass.look()
    assert site.state("7") == first


def test_told_to_end_it_ends_amid_a_job(site):
    _, events = run_job(random.Random(4))
    site.take(events)
    site.second_pass.stop()
    with pytest.raises(Stopped):
        site.second_pass.look()
    assert site.state("7") is None


def test_late_records_make_it_anew_before_and_after_the_rest_has_gone(site):
    made, events = run_job(random.Random(5))
    site.take(events[:40] + events[-3:])
    site.second_pass.look()
    assert (site.state("7").generation, site.state("7").rows) == (1, len(in_order(events[:40])))
    site.second_pass.look()
    assert site.state("7").generation == 1
    site.take(events[40:-3])
    # Before they would go they are packed, too.
    assert dropped(site.keeper.apply()[0]) == 60 and site.state("7").generation == 2 and rows_of(site, of_job("7")) == in_order(events)
    before = site.shown("7")
    late = made[0].run("write", T0 + 5 * S, T0 + 6 * S, size=4096, count=1000, job="7", process="9.9", file="/late")
    site.take([late])
    assert dropped(site.keeper.apply()[0]) == 1 and site.state("7").generation == 3
    assert rows_of(site, of_job("7")) == in_order([*events, late]) and site.state("7").version > 60
    site.begin()
    assert {row["file"] for row in site.get("/jobs/7/files?limit=100")["files"]} == {row["file"] for row in before["/files?limit=100"]["files"]} | {"/late"}
    assert site.keeper.apply() == ([], [])


def test_a_job_of_which_some_records_are_gone_is_shown_as_before(site, monkeypatch):
    """And so large that its runs are merged, and more are left than the store gives out at once."""
    for module in (archive_read, duckdb):
        monkeypatch.setattr(module, "MERGE_ABOVE", 20)
    midnight = T0 // DAY_NS * DAY_NS + DAY_NS
    _, events = run_job(random.Random(14), runs=120, start=midnight - 50 * S)
    site.take(events)
    site.second_pass.look()
    before, drawn = site.shown("7"), written(site, "7")
    site.keeper.days["runs"] = site.keeper.days["rollups"] = (TODAY - midnight) // DAY_NS
    went = dropped(site.keeper.apply()[0])
    assert 0 < went < 120 and site.store.version("7") == 120 - went
    for most in (duckdb.RUNS_MAX, 10):
        for module in (duckdb, elastic_store):
            monkeypatch.setattr(module, "RUNS_MAX", most)
        site.begin()
        after = site.shown("7")
        # Elasticsearch's store merges nothing: there charts are as of a large job only once the archive has a part in it.
        for path in PATHS if isinstance(site.archive, FileArchive) else ("",):
            assert after[path] == before[path], path
        assert written(site, "7") == drawn


def test_what_claims_a_job_a_day_from_its_time_is_its_own_and_is_packed_with_it(site):
    made, events = run_job(random.Random(15))
    near = [made[0].run("write", at, at + S, size=4096, job="7", file="/near", uid=1000) for at in (T0 - DAY_NS, T0 + 110 * S + DAY_NS)]
    far = [made[0].run("write", at, at + S, size=4096, job="7", file="/far", uid=1000) for at in (T0 - DAY_NS - 1, T0 + 110 * S + DAY_NS + S)]
    site.take([*events, *near, *far])
    before = site.get("/jobs/7/files?limit=100")
    assert {row["file"] for row in before["files"]} & {"/near", "/far"} == {"/near"}
    assert dropped(site.keeper.apply()[0]) == 64
    site.begin()
    assert rows_of(site, of_job("7")) == in_order([*events, *near]) and site.get("/jobs/7/files?limit=100") == before
    group = "" if isinstance(site.archive, FileArchive) else "g1"
    days = [rows_of(site, of_rest(event["start"] // DAY_NS * DAY_NS, group)) for event in far]
    assert days == [[("n1", event["seq"])] for event in far]


def test_a_job_whose_end_was_told_late_is_found_and_so_are_its_late_records(site):
    start = time.time_ns() - 3 * 3600 * S
    _, later = run_job(random.Random(12), job="8", start=start)
    site.take(later)
    site.second_pass.look()
    made, events = run_job(random.Random(13), start=start - 3600 * S)
    for event in events:
        event |= {"node": f"m{event['node'][1:]}"}
    site.take([*events[:20], *events[-3:]])
    site.second_pass._again_at_ns = 0
    site.second_pass.look()
    assert site.state("7").generation == 1
    site.take(events[20:-3])
    site.second_pass._again_at_ns = 0
    site.second_pass.look()
    assert (site.state("7").generation, site.state("7").rows, site.state("8").generation) == (2, 60, 1)


def test_what_came_late_and_is_not_packed_yet_is_shown_with_what_is(site):
    made, events = run_job(random.Random(6))
    site.take(events)
    site.keeper.apply()
    site.begin()
    known, drawn = site.get("/jobs/7/files?limit=100")["total"], written(site, "7")
    site.take([made[0].run("write", T0 + 5 * S, T0 + 6 * S, size=4096, job="7", file="/late")])
    assert site.get("/jobs/7/files?limit=100")["total"] == known + 1
    assert written(site, "7") == drawn + 4096
    # The same once more changes nothing: it has one number.
    assert len(rows_of(site, of_job("7"))) == 60


def test_nothing_goes_that_is_not_archived_until_it_was_waited_for(site, monkeypatch):
    made, events = run_job(random.Random(7))
    running = [event for event in run_job(random.Random(8), job="9", start=T0 + 2 * DAY_NS)[1] if not (event["kind"] == "job" and event["event"] == "end")]
    for event in running:
        event |= {"node": f"m{event['node'][1:]}"}
    site.take([*events, *running])
    # A job that runs on: what began before the day before it goes, and no more, as it may claim that.
    went, _ = site.keeper.apply()
    assert dropped(went) == 60 and site.state("9") is None
    report = site.keeper.report()
    assert report["unarchived_ns"] == T0 // DAY_NS * DAY_NS + DAY_NS and report["expired"] == []
    assert {count for count in site.store.run_counts(site.second_pass._records.sought(site.jobdb.job("9"))[0]).values()} and dropped(site.keeper.apply()[0]) == 0
    site.second_pass._patience_ns = 4 * DAY_NS
    assert dropped(site.keeper.apply()[0]) == 60


def test_what_belongs_to_no_job_is_packed_by_days(site):
    made, events = run_job(random.Random(9))
    others = [made[0].run("write", T0 + day * DAY_NS, T0 + day * DAY_NS + S, size=10, job=None, process="5.5", uid=2000) for day in (0, 0, 1)]
    site.take([*events, *others])
    site.keeper.apply()
    group = "" if isinstance(site.archive, FileArchive) else "g1"
    assert rows_of(site, of_rest(T0, group)) == [("n1", event["seq"]) for event in others[:2]]
    assert rows_of(site, of_rest(T0 + DAY_NS, group)) == [("n1", others[2]["seq"])]
    site.take([made[1].run("read", T0, T0 + S, size=10, job=None, process="5.5", uid=2000)])
    assert dropped(site.keeper.apply()[0]) == 1
    assert len(rows_of(site, of_rest(T0, group))) == 3


def test_what_claims_a_dropped_job_far_from_its_time_holds_up_no_other(site):
    """The store counts it with the job, and gives nothing out."""
    made, events = run_job(random.Random(20))
    site.take(events)
    assert dropped(site.keeper.apply()[0]) == 60
    far = [made[0].run("write", at, at + S, size=10, job="7") for at in (T0 + DAY_NS + 3600 * S, T0 + 2 * DAY_NS)]
    site.take(far)
    assert dropped(site.keeper.apply()[0]) == 2 and site.state("7").generation == 1
    group = "" if isinstance(site.archive, FileArchive) else "g1"
    assert [rows_of(site, of_rest(T0 + days * DAY_NS, group)) for days in (1, 2)] == [[("n1", event["seq"])] for event in far]


def test_a_job_of_whose_neighbour_the_batch_system_tells_late_is_packed_anew(site):
    """What either may have done is neither's then, whether it lies in the store or in the archive."""
    _, events = run_job(random.Random(21), job=None)
    site.take([event for event in events if event["kind"] == "run"])
    for job, begin_s, nodes in (("8", 0, ("n1", "n2", "n10")), ("9", 20, ("n1",))):
        site.jobdb.take_queue([QueueJob(
            cluster="c", job_id=job, submit_ns=T0, user="ada", uid=1000, state=COMPLETED, start_ns=T0 + begin_s * S, end_ns=T0 + 110 * S, exit_code=0, nodes=nodes, claims=(job,),
        )])  # fmt: skip
        site.jobdb.settle(site.jobdb.job(job), time.time_ns(), 0)
        site.second_pass.look()
    assert site.state("8").rows == 60
    site.begin()
    before = site.shown("8")
    assert dropped(site.keeper.apply()[0]) == 60
    site.begin()
    after = site.shown("8")
    for path in PATHS:
        assert after[path] == before[path], path
    assert site.state("8").generation == 2 and 0 < site.state("8").rows < 60


def test_nothing_is_packed_while_runs_are_dropped_and_nothing_goes_that_came_after_the_look(site, monkeypatch):
    made, events = run_job(random.Random(14))
    site.take(events)
    late = made[0].run("write", T0 + 5 * S, T0 + 6 * S, size=4096, job="7", file="/late")
    drop, until_ns, held = site.store.drop, site.second_pass.until_ns, []

    def looked(*args, **kwargs):
        found = until_ns(*args, **kwargs)
        site.take([late] if late not in events else [])
        events.append(late)
        return found

    monkeypatch.setattr(site.store, "drop", lambda part: held.append((part.data, site.second_pass._turn.locked())) or drop(part))
    monkeypatch.setattr(site.second_pass, "until_ns", looked)
    went, left = site.keeper.apply()
    assert dropped(went) == 0 and [part.data for part in left if part.data == "runs"] == ["runs"] and sum(site.store.run_days(TODAY).values()) == 61
    assert dropped(site.keeper.apply()[0]) == 61 and set(rows_of(site, of_job("7"))) == set(in_order(events))
    assert ("runs", True) in held and ("runs", False) not in held


def test_the_rest_of_a_day_is_packed_anew_once_a_job_has_what_it_held(site, monkeypatch):
    _, events = run_job(random.Random(15))
    rest = of_rest(T0, "" if isinstance(site.archive, FileArchive) else "g1")
    site.take(events[:-3])
    site.second_pass._patience_ns = 0
    assert site.second_pass.until_ns(TODAY - 20 * DAY_NS, packs=True) == TODAY - 20 * DAY_NS
    assert len(rows_of(site, rest)) == 60, "the job runs on, and it is not waited for"
    site.take(events[-3:])
    site.second_pass.look()
    assert dropped(site.keeper.apply()[0]) == 60
    assert len(rows_of(site, of_job("7"))) == 60 and rows_of(site, rest) == []


@pytest.mark.parametrize(("error", "told", "lasts"), [(ArchiveError("no room for this one"), "no room", False), (KeyError("nobody thought of this"), "a fault of Bellrock", True)])
def test_one_bad_subject_holds_up_no_other_nor_retention(site, monkeypatch, error, told, lasts):
    for job, seed in (("7", 16), ("8", 17)):
        _, events = run_job(random.Random(seed), job=job)
        site.take([event | {"node": event["node"].replace("n", f"j{job}n")} for event in events])
    write = site.archive.write

    def failing(subject, *args):
        if subject == of_job("7"):
            raise error
        return write(subject, *args)

    monkeypatch.setattr(site.archive, "write", failing)
    site.second_pass.look()
    assert site.state("8").rows == 60 and site.state("7") is None
    assert told in site.get("/archives?subject=job%207")["error"] and site.second_pass.status()["failed"] == 1
    # What it did stays, and it is tried again, however long ago it ended; a fault of ours when somebody asks.
    assert dropped(site.keeper.apply()[0]) == 0 and site.state("7") is None
    monkeypatch.undo()
    site.second_pass._again_at_ns = 0
    assert not lasts or site.second_pass.ask("7")
    site.second_pass.look()
    assert site.state("7").rows == 60 and site.second_pass.status()["failed"] == 0
    assert dropped(site.keeper.apply()[0]) == 120


def test_where_the_archive_does_not_answer_jobs_wait_and_runs_stay(site, monkeypatch):
    _, events = run_job(random.Random(18))
    site.take(events)
    for part, name, error in ((site.archive, "states", ArchiveError("it is away")), (site.jobdb, "touching", JobDBError("it is away"))):
        monkeypatch.setattr(part, name, lambda *args, error=error: (_ for _ in ()).throw(error))
        with pytest.raises((StoreError, JobDBError)):
            site.second_pass.look()
        assert site.keeper.apply() == ([], []) and site.second_pass.status()["error"].endswith("it is away")
        monkeypatch.undo()
        site.begin()
    assert site.jobdb.place("archive") is None or site.state("7") is not None
    site.second_pass.look()
    assert site.state("7").rows == 60


def test_of_a_run_with_a_wrong_date_no_other_time_is_looked_at(site, monkeypatch):
    made, events = run_job(random.Random(19))
    site.take([*events, made[0].run("write", LONG_AGO, LONG_AGO + S, size=10, job=None, process="5.5", uid=2000)])
    touching, spans = site.jobdb.touching, []
    monkeypatch.setattr(site.jobdb, "touching", lambda from_ns, to_ns, *more: spans.append((from_ns, to_ns)) or touching(from_ns, to_ns, *more))
    assert dropped(site.keeper.apply()[0]) >= 60
    assert all(to_ns - from_ns < 5 * DAY_NS for from_ns, to_ns in spans) and min(spans)[0] < LONG_AGO


def test_damage_is_an_error_and_no_wrong_figure(site, monkeypatch):
    _, events = run_job(random.Random(10))
    site.take(events)
    site.keeper.apply()
    site.begin()
    blocks = site.archive.blocks
    monkeypatch.setattr(site.archive, "blocks", lambda state, places: (block[:-5] for block in blocks(state, places)))
    assert "--verify" in site.get("/jobs/7/files?limit=100", status=503)["error"]["message"]
    (told,) = site.get("/archives/check?subject=job%207")["damaged"]
    assert told["block"] == 0
    with pytest.raises(ArchiveError):
        rows_of(site, of_job("7"))


def test_the_api_packs_a_job_when_asked_and_tells_of_it(site):
    _, events = run_job(random.Random(11))
    site.take(events)
    assert site.get("/archives?subject=job%207") == {"subject": "job 7", "archive": None, "waits": False, "at_work": None, "error": None}
    assert site.client.post("/api/v1/archives?subject=job%207").status_code == 403  # from another site's page
    assert site.client.post("/api/v1/archives?subject=job%207", headers={"X-Bellrock": "1"}).status_code == 409
    site.second_pass.start()
    assert site.client.post("/api/v1/archives?subject=job%207", headers={"X-Bellrock": "1"}).status_code == 202
    deadline = time.monotonic() + 60
    while (told := site.get("/archives?subject=job%207"))["waits"] or told["at_work"]:
        assert time.monotonic() < deadline
    assert site.client.post("/api/v1/archives?subject=job%208", headers={"X-Bellrock": "1"}).status_code == 404
    site.second_pass.stop()
    assert (told["archive"]["rows"], told["archive"]["generation"], told["error"]) == (60, 1, None) and told["archive"]["ratio"] > 1
    assert site.get("/archives/check?subject=job%207") == {"subject": "job 7", "generation": 1, "blocks": 1, "checked": 1, "damaged": [], "next": None}
    assert site.get("/status")["archive"]["packed"] == 1
    for query in ("", "subject=7", "subject=job%207&more=1"):
        assert site.client.get(f"/api/v1/archives?{query}").status_code == 400
