"""The history of a topology, its questions, and layouts of files, on each database."""

import itertools
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from jobdb.models import PlaceRow
from jobdb.repository import JobDB
from jobdb.topology import FOREVER_NS, TopologyError
from jobdb.topology.facts import KINDS, Failover, FileSystem, Forwarder, Forwarding, Held, Member, Port, Server, Serving, Site, Target
from jobdb.topology.layouts import Layout, Part
from jobdb.topology.models import MODELS, ChangeRow, FailoverRow, LayoutRow, MoveRow, ServingRow
from jobdb.topology.repository import ChangedMeanwhile
from jobdb.topology.site import load

EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples/topology"
S = 10**9
MARCH = 1_772_366_400 * S  # 2026-03-01T12:00:00Z


@pytest.fixture
def db(url):
    database = JobDB(url)
    yield database
    database.close()


@pytest.fixture
def topology(db):
    return db.topology


def site(*facts, failovers=()):
    return Site({kind: frozenset(fact for fact in facts if type(fact) is kind) for kind in KINDS}, frozenset(failovers))


def pair(target="OST0000", servers=("o1", "o2")):
    """A target and its servers."""
    return Target("fs", target, "ost", int(target[3:], 16), "ost", target), *(Server("fs", target, place, server) for place, server in enumerate(servers))


_forwarding = st.dictionaries(st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from(["a", "b"])), st.sampled_from(["f1", "f2"]))
_servers = st.dictionaries(st.sampled_from(["t1", "t2"]), st.permutations(["o1", "o2"]).flatmap(lambda names: st.integers(1, 2).map(lambda count: names[:count])))
_facts = st.tuples(_forwarding, _servers, st.dictionaries(st.sampled_from(["n1", "n2"]), st.sampled_from(["c1", "C1", "c1 "])))


def _site(drawn):
    forwarding, servers, classes = drawn
    return site(
        *(Forwarding(*key, forwarder) for key, forwarder in forwarding.items()), *(Server("fs", target, place, name) for target, names in servers.items() for place, name in enumerate(names)),
        *(Target("fs", target, "ost", None, "ost", target) for target in servers), *(Member(node, "class", name) for node, name in classes.items()),
    )  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 6), _facts), min_size=1, max_size=7))
def test_each_instant_is_what_was_applied_last_before_it(db, applied):
    """In any order, with the past changed and changed again; and no two rows say what one could."""
    with db._engine.begin() as connection:
        for model in (*MODELS.values(), ChangeRow, FailoverRow, LayoutRow, MoveRow, ServingRow):
            connection.execute(delete(model))
    versions = {0: site()}

    def expected(at_ns):
        return versions[max(begin for begin in versions if begin <= at_ns)].facts

    for at_ns, drawn in applied:
        wanted = _site(drawn)
        is_news = expected(at_ns) != wanted.facts
        change = db.topology.apply(wanted, at_ns, "me")
        assert (change is not None) == is_news
        if is_news:
            versions[at_ns] = wanted
            later = [begin for begin in versions if begin > at_ns]
            assert change.until_ns == (min(later) if later else FOREVER_NS)
    for at_ns in range(9):
        assert db.topology.site(at_ns).facts == expected(at_ns)
    with db._engine.connect() as connection:
        for kind, model in MODELS.items():
            rows = connection.execute(select(*(getattr(model, name) for name in kind._fields), model.from_ns, model.to_ns)).all()
            assert all(row.from_ns < row.to_ns for row in rows)
            for one, other in itertools.permutations(rows, 2):
                assert one[:-2] != other[:-2] or one.to_ns < other.from_ns or other.to_ns < one.from_ns
    served = {(one.fact.target, at_ns): one.fact.server for at_ns in range(9) for one in db.topology.serving(at_ns, at_ns + 1)}
    assert served == {(fact.target, at_ns): fact.server for at_ns in range(9) for fact in expected(at_ns)[Server] if fact.place == 0}


def test_who_applied_what_when(topology):
    first, second = load(EXAMPLES / "small"), site(*pair())
    assert topology.version() == 0 and topology.changes(9) == []
    change = topology.apply(first, 10 * S, "ada@centre", "/etc/site", "commit 1")
    assert (change.at_ns, change.until_ns, change.applied_by, change.source, change.note, change.digest) == (10 * S, FOREVER_NS, "ada@centre", "/etc/site", "commit 1", first.digest)
    assert change.added == sum(map(len, first.facts.values())) + 1 and change.removed == 0 and abs(change.applied_ns - time.time_ns()) < 60 * S
    assert topology.apply(first, 20 * S, "ben") is None and topology.version() == 1
    topology.apply(second, 5 * S, "ben")
    assert [(one.at_ns, one.until_ns, one.applied_by) for one in topology.changes(9)] == [(10 * S, FOREVER_NS, "ada@centre"), (5 * S, 10 * S, "ben")]
    assert topology.version() == 2 and len(topology.changes(1)) == 1
    with pytest.raises(TopologyError, match="still to come"):
        topology.apply(second, time.time_ns() + 3600 * S, "me")


def test_what_was_not_shown_is_not_applied(topology):
    wanted = site(*pair())
    shown, _ = topology.compare(wanted, 10 * S)
    topology.apply(site(*pair("OST0001")), 5 * S, "another")
    with pytest.raises(ChangedMeanwhile, match="somebody else"):
        topology.apply(wanted, 10 * S, "me", expected=shown)
    shown, _ = topology.compare(wanted, 10 * S)
    assert topology.apply(wanted, 10 * S, "me", expected=shown) is not None


def test_several_at_once_come_one_after_the_other(url, db):
    """Each applies another site at another instant; all are in the history afterwards."""
    sites = [site(Forwarding("n1", "fs", f"f{number}"), Forwarder(f"f{number}", "fs")) for number in range(8)]
    others = [JobDB(url) for _ in range(2)]
    threads = [threading.Thread(target=others[number % 2].topology.apply, args=(sites[number], (number + 1) * S, "me")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()
    assert [db.topology.site((number + 1) * S).facts for number in range(8)] == [one.facts for one in sites]
    assert db.topology.version() == 8 == len(db.topology.changes(99))


def servers_of(topology, target="OST0000", begin=0, end=FOREVER_NS):
    return [(one.fact.server, one.fact.is_failover, one.from_ns, one.to_ns) for one in topology.serving(begin, end, "fs", target)]


def test_moves_in_any_order(db):
    """Told as they come, late, twice: the same answer as in order."""
    moves = [(20, "o2"), (30, "o3"), (40, ""), (60, "o3")]
    expected = [("o1", False, 10, 20), ("o2", True, 20, 30), ("o3", True, 30, 40), ("o1", False, 40, 60), ("o3", True, 60, FOREVER_NS)]
    for number, order in enumerate([moves, moves[::-1], [moves[2], moves[0], moves[3], moves[1], moves[0]]]):
        target = f"OST000{number}"
        db.topology.apply(site(*(fact for n in range(number + 1) for fact in pair(f"OST000{n}", ("o1", "o2", "o3")))), 10, "me")
        for at_ns, server in order:
            db.topology.move("fs", target, server, at_ns, "samples")
        assert servers_of(db.topology, target) == expected
    version = db.topology.version()
    db.topology.move("fs", "OST0000", "o2", 20, "samples")
    assert db.topology.version() == version
    db.topology.move("fs", "OST0000", "o3", 20, "samples")
    assert servers_of(db.topology)[1] == ("o3", True, 20, 40)
    for target, server, at_ns in (("OST0000", "o9", 20), ("OST0009", "o1", 20), ("OST0000", "o2", 9)):
        with pytest.raises(TopologyError, match="say so in the site's files first"):
            db.topology.move("fs", target, server, at_ns, "samples")


def test_too_many_moves_are_refused(db, monkeypatch):
    monkeypatch.setattr("jobdb.topology.repository.MOVES_MAX", 3)
    db.topology.apply(site(*pair()), 1, "me")
    for at_ns in (2, 3, 4):
        db.topology.move("fs", "OST0000", "o2", at_ns, "samples")
    with pytest.raises(TopologyError, match="moved 3 times"):
        db.topology.move("fs", "OST0000", "o2", 5, "samples")
    db.topology.move("fs", "OST0000", "o1", 4, "samples")
    assert servers_of(db.topology)[-1] == ("o1", False, 4, FOREVER_NS)


def test_failovers_of_files(topology):
    def files(*failovers, withdrawn=()):
        found = site(*pair(), failovers=[Failover("fs", "OST0000", *failover) for failover in failovers])
        return Site(found.facts, found.failovers, frozenset(("fs", "OST0000", at_ns) for at_ns in withdrawn))

    topology.apply(files((20, 30, "o2")), 10, "me")
    there_and_back = [("o1", False, 10, 20), ("o2", True, 20, 30), ("o1", False, 30, FOREVER_NS)]
    assert servers_of(topology) == there_and_back
    # What a source tells of that time does not stand against the files.
    topology.move("fs", "OST0000", "o1", 22, "samples")
    assert servers_of(topology) == there_and_back
    # Nothing is forgotten for not being listed: in the newest files, nor in old ones that are applied for the past.
    assert topology.apply(files(), 40, "me") is None and servers_of(topology) == there_and_back
    assert topology.apply(files(), 15, "me") is None
    # The end was another one; one more; and the first one was none.
    topology.apply(files((20, 25, "o2")), 50, "me")
    assert servers_of(topology)[1] == ("o2", True, 20, 25)
    topology.apply(files((60, FOREVER_NS, "o2")), 70, "me")
    assert servers_of(topology)[1:] == [("o2", True, 20, 25), ("o1", False, 25, 60), ("o2", True, 60, FOREVER_NS)]
    with pytest.raises(TopologyError, match="at o2 from 1970-01-01T00:00:00.000000021Z overlap"):
        topology.compare(files((21, 24, "o2")), 80)
    topology.apply(files((21, 24, "o2"), withdrawn=(20, 5)), 80, "me")
    assert servers_of(topology)[:3] == [("o1", False, 10, 21), ("o2", True, 21, 24), ("o1", False, 24, 60)]
    # The target goes: what is known of its past stays.
    topology.apply(site(*pair("OST0001")), 90, "me")
    assert servers_of(topology)[-1] == ("o2", True, 60, 90)


def test_a_failover_ends_with_the_servers_that_may(topology):
    topology.apply(site(*pair(), failovers=[Failover("fs", "OST0000", 20, FOREVER_NS, "o2")]), 10, "me")
    topology.apply(site(*pair(servers=("o3", "o1"))), 40, "me")
    assert servers_of(topology, begin=15, end=50) == [("o1", False, 15, 20), ("o2", True, 20, 40), ("o3", False, 40, 50)]


def test_what_served_nodes_in_an_interval(topology):
    topology.apply(load(EXAMPLES / "small"), 10 * S, "me")
    moved = load(EXAMPLES / "small")
    moved.facts[Forwarding] = frozenset(fact._replace(forwarder="fwd2") for fact in moved.facts[Forwarding])
    topology.apply(moved, MARCH + 3600 * S, "me")
    begin, end = MARCH - 60 * S, MARCH + 7200 * S
    way = topology.way(["cn2", "cn9"], begin, end)
    assert way.forwarding == [
        Held(Forwarding("cn2", "work", "fwd1"), begin, MARCH + 3600 * S), Held(Forwarding("cn2", "work", "fwd2"), MARCH + 3600 * S, end),
    ] == topology.forwarding(["cn2"], begin, end)  # fmt: skip
    assert [one for one in way.serving if one.fact.file_system == "home"] == [
        Held(Serving("home", "home1", "nas1", False), begin, MARCH), Held(Serving("home", "home1", "nas2", True), MARCH, end),
    ]  # fmt: skip
    assert way.ports == [Held(Port("cn2", "leaf1", "2", False), begin, end)] == topology.ports(["cn2"], begin, end)
    assert [one.fact for one in way.members] == [Member("cn2", "class", "compute"), Member("cn2", "group", "g1")] == [one.fact for one in topology.memberships(["cn2"], begin, end)]
    assert [one.fact.target for one in way.targets] == ["home1", "brick1", "brick2"] and [one.fact.file_system for one in way.file_systems] == ["home", "work"]
    assert topology.way([], begin, end).forwarding == [] and topology.way(["cn2"], 0, 10 * S).targets == []
    assert {one.fact.node for one in topology.clients("fwd2", begin, MARCH)} == {"cn3", "cn4"}
    assert {one.fact.node for one in topology.clients("fwd2", begin, end)} == {"cn1", "cn2", "cn3", "cn4"} and topology.clients("fwd2", begin, end, "home") == []
    assert {one.fact.peer for one in topology.connected("leaf1", begin, end)} == {"cn1", "cn2", "cn3", "cn4", "fwd1", "fwd2"}
    assert {one.fact.node for one in topology.members("group", "g1", begin, end)} == {"cn1", "cn2", "cn3", "cn4", "login1"}


def test_samples_and_paths_find_their_place(topology):
    topology.apply(load(EXAMPLES / "small"), 10 * S, "me")
    for node in ("nas1", "nas2"):
        assert topology.target_of(node, "block_device", "sdb", MARCH).target == "home1"
    assert topology.target_of("fwd2", "gluster_server", "_bricks_b2", MARCH) == Target("work", "brick2", "brick", 2, "gluster_server", "_bricks_b2")
    for node, component, instance, at_ns in (("fwd1", "gluster_server", "_bricks_b2", MARCH), ("nas1", "block_device", "sda", MARCH), ("nas1", "block_device", "sdb", 5 * S)):
        assert topology.target_of(node, component, instance, at_ns) is None
    for path, found in (("/scratch/a/b", "work"), ("/scratch", "work"), ("/scratchpad", None), ("/home/ada", "home"), ("/tmp", None)):
        assert topology.file_system_of(path, MARCH) == found
    topology.apply(site(FileSystem("root", "nfs", "/"), FileSystem("deep", "lustre", "/a\n/a/b/c")), 20 * S, "me")
    assert [topology.file_system_of(path, 20 * S) for path in ("/x", "/a/b", "/a/b/c/d")] == ["root", "deep", "deep"]


def test_all_that_is_known_of_a_name(topology):
    topology.apply(load(EXAMPLES / "small"), 10 * S, "me")
    about = topology.about("nas2", MARCH)
    assert [one.fact for one in about.serving] == [Serving("home", "home1", "nas2", True)] and [one.fact.place for one in about.may_serve] == [1]
    assert [one.fact.server for one in topology.about("home/home1", MARCH - S).serving] == ["nas1"] and not topology.about("nas2", 5 * S)
    fwd = topology.about("fwd1", MARCH)
    assert [one.fact.node for one in fwd.clients] == ["cn1", "cn2"] and fwd.forwarder[0].fact == Forwarder("fwd1", "work") and fwd.ports[0].fact.port == "23"
    assert {one.fact.target for one in topology.about("work", MARCH).targets} == {"brick1", "brick2"} and not topology.about("none", MARCH)


def test_layouts_of_files(topology):
    topology.apply(site(FileSystem("fs", "lustre", "/fs"), Target("fs", "fast1", "ost", 1, "ost", "x")), 5, "me")
    one, other = (Part(0, 100, 10, (1, 2)), Part(100, FOREVER_NS, 20, (3,))), (Part(0, FOREVER_NS, 10, ("mirror",)),)
    told = (Part(0, 100, 10, ("fast1", "OST0002")), Part(100, FOREVER_NS, 20, ("OST0003",)))

    def of(path="/fs/a", begin=0, end=FOREVER_NS):
        return [(held.fact.parts, held.from_ns, held.to_ns) for held in topology.layouts.of([path], begin, end)]

    assert topology.layouts.put([Layout("/fs/a", one), Layout("/fs/b", one)], 20) == 2 and topology.layouts.put([Layout("/fs/a", one)], 25) == 0
    assert topology.layouts.put([Layout("/fs/a", other)], 30) == 1
    assert of() == [(told, 20, 30), (other, 30, FOREVER_NS)] and of("/fs/b") == [(told, 20, FOREVER_NS)] and of("/fs/c") == [] and of(begin=22, end=29) == [(told, 22, 29)]
    # Of the time before; then again the same, and the instant itself anew.
    assert topology.layouts.put([Layout("/fs/a", one)], 10) == 1
    assert of() == [(told, 10, 30), (other, 30, FOREVER_NS)]
    assert topology.layouts.put([Layout("/fs/a", one)], 30) == 1
    assert of() == [(told, 10, FOREVER_NS)]
    assert [held.fact.path for held in topology.layouts.of(["/fs/b", "/fs/a"], 0, FOREVER_NS)] == ["/fs/a", "/fs/b"]
    # Records elsewhere may know the id alone; two paths of one id stay apart.
    number = Layout("/fs/d", ()).id
    assert topology.layouts.put([Layout(None, one, int(number, 16))], 20, "fs") == 1
    assert of("/fs/d") == [(told, 20, FOREVER_NS)]
    assert topology.layouts.put([Layout("/fs/e", other, int(number, 16))], 20) == 1 and of("/fs/d") == [(told, 20, FOREVER_NS)]
    with pytest.raises(TopologyError, match="in no file system"):
        topology.layouts.put([Layout("/fs/f", one), Layout("/elsewhere", one)], 20)
    assert of("/fs/f") == []
    with pytest.raises(TopologyError, match="256 parts"):
        topology.layouts.put([Layout("/fs/f", one * 200)], 20)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3)), min_size=1, max_size=8))
def test_a_layout_holds_until_the_next_instant_told(db, told):
    with db._engine.begin() as connection:
        connection.execute(delete(LayoutRow))
    said = {}
    for at_ns, target in told:
        here = [began for began in said if began <= at_ns]
        is_news = not here or said[max(here)] != target
        assert db.topology.layouts.put([Layout("/fs/a", (Part(targets=(target,)),))], at_ns, "fs") == is_news
        if is_news:
            said[at_ns] = target
    held = db.topology.layouts.of(["/fs/a"], 0, 9)
    for at_ns in range(9):
        here = [began for began in said if began <= at_ns]
        expected = [f"OST000{said[max(here)]}"] if here else []
        assert [one.fact.parts[0].targets[0] for one in held if one.from_ns <= at_ns < one.to_ns] == expected
    assert all(one.fact.parts != other.fact.parts for one, other in itertools.pairwise(held))


def test_layouts_are_bounded(db):
    from jobdb.topology.layout_rows import Layouts

    layouts = Layouts(db._transactions, rows_max=10)
    for begin in range(0, 30, 5):
        layouts.put([Layout(f"/fs/{number}", (Part(targets=(number,)),)) for number in range(begin, begin + 5)], 20, "fs")
    assert [held.fact.path for held in layouts.of([f"/fs/{number}" for number in range(30)], 0, 99)] == [f"/fs/{number}" for number in range(20, 30)]


def check_peers(topology):
    """Of taihulight/, on both sides of a failover."""

    def peers(name, at_ns=MARCH - 1):
        return {(found.role, found.of): found.names for found in topology.peers(name, at_ns, at_ns + 1)}

    assert len(peers("fwd3")["forwarding node", "online1"]) == 79 and "fwd85" not in peers("fwd3")["forwarding node", "online1"]
    assert peers("online1/MDT0000") == {("mdt", "online1"): []} and len(peers("online1/OST0003")["ost", "online1"]) == 143
    assert peers("mds1") == {("server of mdt", "online2"): []}
    assert len(peers("oss3")["server of ost", "online1"]) == 143 and peers("nobody") == {}
    # oss17 serves nothing while oss16 stands in.
    assert "oss17" not in peers("oss3", MARCH)["server of ost", "online1"] and peers("oss17", MARCH) == {}


@pytest.mark.parametrize("kind", ["sqlite", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("mariadb", "mysql"))], indirect=True)
def test_the_largest_machine(topology):
    """40,960 nodes: applied and asked for whole within seconds, of processor time here."""
    began = time.process_time()
    whole = load(EXAMPLES / "taihulight")
    assert topology.apply(whole, MARCH - S, "me").added == sum(map(len, whole.facts.values())) + 1
    assert topology.apply(whole, MARCH, "me") is None
    check_peers(topology)
    nodes = [f"vn{number}" for number in range(40_960)]
    way = topology.way(nodes, MARCH, MARCH + S)
    assert len(way.forwarding) == 81_920 and len(way.members) == 122_880 and len(way.serving) == 290
    remapped = Site(whole.facts | {Forwarding: frozenset(fact._replace(forwarder="fwd95") for fact in whole.facts[Forwarding])}, whole.failovers)
    assert topology.apply(remapped, MARCH + S, "me").removed == 81_920
    assert time.process_time() - began < 60
    began = time.process_time()
    assert len(topology.clients("fwd3", MARCH, MARCH + S)) == 512 and len(topology.way(nodes[:512], MARCH, MARCH + 2 * S).forwarding) == 2048
    assert topology.move("online1", "OST0011", "oss17", MARCH + S, "samples") is None
    assert time.process_time() - began < 5


def test_a_place_of_others_is_left_alone(db):
    with db._engine.begin() as connection:
        connection.execute(PlaceRow.__table__.insert().values(name="job_events", json="[1]"))
    db.topology.apply(site(*pair()), 1, "me")
    assert db.place("job_events") == [1]
