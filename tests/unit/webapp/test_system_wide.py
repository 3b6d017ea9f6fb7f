"""The detector of the system as such on a store in memory: what it finds, and that it comes to the same however it is killed."""

import random
import threading

import pytest

from anomaly.system import CACHE_THRASHING, FORWARDING_LOAD, KINDS, METADATA_PRESSURE
from bellrock import report_findings
from jobdb.findings import Sought
from jobdb.topology.facts import ADDRESS, CLASS, KINDS as FACTS, NID, FileSystem, Forwarder, Forwarding, Member, Site
from pipeline.served import MINUTE_NS
from pipeline.store import StoreError, TooManyComponents
from tests.unit.webapp.fakes import FakeStore
from tests.unit.webapp.test_slow_servers import jobdb_at
from webapp.api.system_wide import Settings, SystemWide

DAY = 1440
FIRST, MINUTES = 19_000 * DAY, DAY + 200  # from midnight on
THRASHED, STORM = (1000, 1030), (1100, 1150)
GB = 10**9
SETTINGS = Settings(peak_per_s=1e9)


# Up to here samples are of an hour, as nothing happens, then of a minute.
COARSE = 960


def told(minute, node, component, instance, lasts=1, **values):
    start = (FIRST + minute) * MINUTE_NS
    return {"node": node, "component": component, "instance": instance, "start": start, "end": start + lasts * MINUTE_NS, "values": {name: value * lasts for name, value in values.items()}}


def steps(first, last):
    return [(minute, 60) for minute in range(first, min(COARSE, last), 60)] + [(minute, 1) for minute in range(max(first, COARSE), last)]


def mounts(nodes=("fwd1", "fwd2", "spare1"), first=0, last=MINUTES):
    rows = []
    for minute, lasts in steps(first, last):
        for node in nodes:
            is_thrashed = node == "fwd2" and THRASHED[0] <= minute < THRASHED[1]
            pages = {"readahead_hits": 10**5, "readahead_misses": 10**5 if is_thrashed else 400, "readahead_discards": 2 * 10**5 if is_thrashed else 0}
            moved = 57 * GB if node == "fwd1" and minute < DAY else 3 * GB
            rows.append(told(minute, node, "lustre_client", "work", lasts, read_bytes=moved, write_bytes=1e6, **pages))
    return rows


def requests(first=0, last=MINUTES):
    rows = []
    for minute, lasts in steps(first, last):
        rows.append(told(minute, "mds1", "lustre_mdt", "work-MDT0000", lasts, open=1))
        for address, ops in (("10.0.0.1@tcp", 30_000), ("10.0.0.2@o2ib", 600 if not STORM[0] <= minute < STORM[1] else 120_000), ("10.0.0.9@tcp", 100)):
            # Who asks for nothing tells nothing.
            if minute % 3 != 1 or address != "10.0.0.2@o2ib" or STORM[0] <= minute < STORM[1]:
                rows.append(told(minute, "mds1", "lustre_export", f"work-MDT0000 {address}", lasts, open=ops / 2, close=ops / 2, open_ns=1e6))
        rows.append(told(minute, "oss1", "lustre_export", "work-OST0000 10.0.0.2@o2ib", lasts, punch=10**7))
    return rows


def with_topology(jobdb, from_minute=-FIRST):
    facts = {kind: frozenset() for kind in FACTS} | {
        FileSystem: frozenset({FileSystem("work", "lustre", "/work")}), Forwarder: frozenset({Forwarder(node, "work") for node in ("fwd1", "fwd2", "spare1")}),
        Forwarding: frozenset({Forwarding(f"cn{number}", "work", f"fwd{number}") for number in (1, 2)}),
        Member: frozenset({Member("fwd1", ADDRESS, "10.0.0.1"), Member("login1", NID, "10.0.0.2@o2ib"), Member("login1", CLASS, "login"), Member("cn1", CLASS, "compute")}),
    }  # fmt: skip
    jobdb.topology.apply(Site(facts), (FIRST + from_minute) * MINUTE_NS, "ada")


@pytest.fixture
def jobdb(tmp_path):
    made = jobdb_at(tmp_path)
    with_topology(made)
    yield made
    made.close()


def store_of(*rows):
    store = FakeStore()
    store.sample_rows = [one for some in rows for one in some]
    return store


def look(jobdb, store, at_minute=MINUTES + 1, settings=SETTINGS):
    detector = SystemWide(jobdb, store, settings, lambda: (FIRST + at_minute) * MINUTE_NS)
    look_on(detector)
    return detector


def look_on(detector):
    """Turns until there is nothing more to look at: on a busy machine one turn does not get far."""
    reached: list[int | None] | None = None
    while True:
        detector.look(threading.Event())
        before, reached = reached, [one["until_ns"] for one in detector.status().values()]
        if reached == before:
            return


def findings(jobdb):
    return {(one.found.kind, one.found.key): one.found for one in jobdb.findings.page(Sought(), 100)[0]}


def of_kind(jobdb, kind):
    (one,) = [one for (of, _), one in findings(jobdb).items() if of == kind]
    return one


def span(minutes):
    return tuple((FIRST + minute) * MINUTE_NS for minute in minutes)


def arithmetic(one):
    return dict(report_findings._lines(report_findings._arithmetic(one.kind, one.evidence)))


def test_each_kind_is_found_with_what_it_rests_on_and_explained(jobdb):
    detector = look(jobdb, store_of(mounts(), requests()))
    assert sorted(kind for kind, _ in findings(jobdb)) == sorted(KINDS)
    thrashed = of_kind(jobdb, CACHE_THRASHING)
    assert (thrashed.node, thrashed.component, thrashed.instance, thrashed.begin_ns, thrashed.end_ns, thrashed.severity) == ("fwd2", "lustre_client", "work", *span(THRASHED), "warning")
    shown = arithmetic(thrashed)
    assert shown["dropped unread"] == "6,000,000 pages × 4,096 B = 24,576,000,000 B" and shown["fetched for each missed"].endswith("= 3 times") and shown["had to be fetched"].endswith("= 0.5")
    pressed = of_kind(jobdb, METADATA_PRESSURE)
    assert (pressed.node, pressed.component, pressed.instance, pressed.begin_ns, pressed.end_ns) == ("mds1", "lustre_mdt", "work-MDT0000", *span(STORM))
    assert (pressed.evidence["class"], pressed.evidence["usual_ops_per_s"], pressed.times) == ("login", 10, 200)
    assert arithmetic(pressed)["a second"] == "6,000,000 requests ÷ (50 minutes × 60 s) = 2,000" and arithmetic(pressed)["of all"] == "6,000,000 ÷ 7,505,000 requests = 0.7995"
    # One that waits to serve is none that idles.
    load = of_kind(jobdb, FORWARDING_LOAD)
    assert (load.begin_ns, load.end_ns, load.is_reported, load.severity) == (*span((0, DAY)), True, "warning") and arithmetic(load)["high hours"] == "24 ÷ 48 hours of all nodes = 0.5"
    assert [row["node"] for row in load.evidence["by_node"]] == ["fwd1", "fwd2"]
    status = detector.status()
    assert (status["forwarding"]["components"], status["metadata"]["components"], status["forwarding"]["findings"], status["metadata"]["findings"]) == (2, 1, 2, 1)
    # Who told a moment ago is waited for.
    for one, until in zip(status.values(), (MINUTES, MINUTES - 1), strict=True):
        assert (one["until_ns"], one["lasting"], one["minutes"], one["left_out"]) == ((FIRST + until) * MINUTE_NS, 0, until, 0)
    report_findings.looked({"jobs": 1, "findings": 0, "took_s": 0.0, "runs": {"usual": 1}, "skipped": 0, "failed": 0, "error": None, "slow_servers": {}, "large_jobs": {}, "system": status})


class StopAfterOne(threading.Event):
    """A turn that ends with its first minutes."""

    def is_set(self):
        had, _ = super().is_set(), self.set()
        return had


def test_a_map_that_begins_later_than_what_is_told_holds_nothing_up(tmp_path):
    jobdb = jobdb_at(tmp_path)
    with_topology(jobdb, from_minute=300)
    store = store_of(mounts(last=400))
    begun = SystemWide(jobdb, store, SETTINGS, lambda: (FIRST + 401) * MINUTE_NS)
    begun.look(StopAfterOne())
    assert begun.status()["forwarding"]["until_ns"] < (FIRST + 300) * MINUTE_NS
    # Another one goes on, from an hour of which the map knows nothing.
    assert look(jobdb, store, 401).status()["forwarding"]["until_ns"] >= (FIRST + 400) * MINUTE_NS
    jobdb.close()


def test_looked_at_live_and_killed_at_any_moment_it_finds_the_same(tmp_path):
    every, found = mounts() + requests(), []
    for name in ("whole", "live"):
        (tmp_path / name).mkdir()
        jobdb, rng, store, minute, detector, clock = jobdb_at(tmp_path / name), random.Random(3), store_of(every), 990, None, [0]
        with_topology(jobdb)
        while name == "live" and minute < MINUTES:
            clock[0] = (FIRST + minute) * MINUTE_NS + 1
            store.sample_rows = [one for one in every if one["end"] <= clock[0]]
            if detector is None or rng.random() < 0.5:
                detector = SystemWide(jobdb, store, SETTINGS, lambda clock=clock: clock[0])
            look_on(detector)
            if minute == THRASHED[0] + 15:
                lasting = of_kind(jobdb, CACHE_THRASHING)
                assert (lasting.begin_ns, lasting.end_ns) == ((FIRST + THRASHED[0]) * MINUTE_NS, None) and detector.status()["forwarding"]["lasting"] == 1
            minute += 5 if minute < 1200 else 97
        store.sample_rows = every
        look(jobdb, store)
        found.append(findings(jobdb))
        jobdb.close()
    assert found[0] == found[1] and len(found[0]) == 3


def test_without_a_topology_lwfs_servers_are_forwarding_nodes_and_no_class_presses_anybody(tmp_path):
    jobdb = jobdb_at(tmp_path)
    logs = [told(minute, node, "lwfs_server", "/var/log/lwfs", lasts, read_exe_to_100=1) for node, first in (("fwd1", 0), ("fwd2", THRASHED[0] + 4)) for minute, lasts in steps(first, MINUTES)]
    look(jobdb, store_of(mounts(), requests(), logs))
    assert {kind for kind, _ in findings(jobdb)} == {CACHE_THRASHING, FORWARDING_LOAD}
    # It is one from when it told of itself on.
    assert of_kind(jobdb, CACHE_THRASHING).begin_ns == (FIRST + THRASHED[0] + 4) * MINUTE_NS
    jobdb.close()
    (tmp_path / "other").mkdir()
    jobdb = jobdb_at(tmp_path / "other")
    assert look(jobdb, store_of(mounts())).status()["forwarding"]["until_ns"] is None and not findings(jobdb), "nobody forwards"
    jobdb.close()


def test_turned_off_nothing_is_asked_and_what_lasts_ends(jobdb):
    store = store_of(mounts(last=THRASHED[1] - 5))
    look(jobdb, store, THRASHED[1] - 4)
    lasting = of_kind(jobdb, CACHE_THRASHING)
    assert lasting.end_ns is None
    asked = store.components_asked
    assert look(jobdb, store, settings=Settings(())).status() == {} and store.components_asked == asked
    assert of_kind(jobdb, CACHE_THRASHING).end_ns == lasting.evidence["until_ns"]
    # So does what other bounds would not find.
    look(jobdb, store, THRASHED[1] - 4)
    look(jobdb, store, THRASHED[1] - 4, settings=Settings(discarded_bytes=10**15))
    assert not jobdb.findings.lasting(CACHE_THRASHING)


def test_one_that_cannot_be_looked_at_leaves_the_other_its_turn(jobdb):
    class Crowded(FakeStore):
        def components(self, *args, kinds, **more):
            if kinds == ["lustre_client"]:
                raise TooManyComponents("too many")
            return super().components(*args, kinds=kinds, **more)

    store = Crowded()
    store.sample_rows = mounts() + requests()
    with pytest.raises(TooManyComponents):
        look(jobdb, store)
    assert {kind for kind, _ in findings(jobdb)} == {METADATA_PRESSURE}


def test_a_store_that_is_away_takes_nothing_back(jobdb):
    store = store_of(mounts(), requests())
    detector = look(jobdb, store, 1010)
    detector._clock_ns = lambda: (FIRST + MINUTES + 1) * MINUTE_NS

    def fails(*args, **more):
        raise StoreError("away")

    store.samples = fails
    with pytest.raises(StoreError):
        detector.look(threading.Event())
    del store.samples
    look_on(detector)
    assert sorted(kind for kind, _ in findings(jobdb)) == sorted(KINDS)


def test_too_many_samples_are_read_in_parts_and_minutes_with_far_too_many_left_out(jobdb):
    store = store_of(mounts(first=COARSE, last=1050), requests(first=COARSE, last=1160))
    store.samples_max = 20
    look(jobdb, store)
    assert of_kind(jobdb, CACHE_THRASHING).evidence["minutes"] == 30
    assert of_kind(jobdb, METADATA_PRESSURE).evidence["minutes"] == 50
    store.sample_rows, store.samples_max = requests(first=1200, last=1230), 0
    assert look(jobdb, store).status()["metadata"]["until_ns"] == (FIRST + 1230) * MINUTE_NS


def test_what_makes_no_sense_counts_for_nothing_and_is_told(jobdb):
    bad = [
        told(30, "fwd1", "lustre_client", "work", readahead_hits=float("nan"), readahead_misses=-1, readahead_discards=float("inf"), read_bytes=float("inf"), write_bytes=-5),
        told(31, "fwd1", "lustre_client", "work") | {"start": (FIRST + 32) * MINUTE_NS, "end": (FIRST + 31) * MINUTE_NS},
        told(30, "mds1", "lustre_export", "work-MDT0000 nobody", open=float("inf"), close=-7),
        told(30, "mds1", "lustre_export", "work-MDT0000", open=7), told(30, "mds1", "lustre_export", " ", open=7), told(30, "mds1", "lustre_mdt", " "),
    ]  # fmt: skip
    detector = look(jobdb, store_of(mounts(last=60), requests(last=60), bad))
    assert findings(jobdb) == {} and [detector.status()[name]["left_out"] for name in ("forwarding", "metadata")] == [1, 1]
