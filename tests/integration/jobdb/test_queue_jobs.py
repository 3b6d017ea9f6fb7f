"""What a batch system tells, beside what launches tell: in any order they make the same jobs."""

import itertools
import random
import time
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import text
from sqlalchemy.event import listen

from jobdb import queued
from jobdb.launches import apply
from jobdb.queue import CANCELLED, COMPLETED, RUNNING, SUSPENDED, UNKNOWN, QueueJob, Step
from jobdb.repository import JobDB
from jobdb.sharing import Sharing
from tests.integration.jobdb.test_repository import S, event

T = 1_763_800_000 * S


@pytest.fixture
def db(url):
    database = JobDB(url, user_name={1000: "ada", 1001: "bob"}.get, user_id={"ada": 1000}.get)
    yield database
    database.close()


def told(**more):
    fields = {
        "cluster": "c", "job_id": "7", "submit_ns": T, "user": "ada", "uid": 1000, "name": "run.sh", "queue": "batch", "state": RUNNING, "start_ns": T + 5 * S,
        "nodes": ("cn1", "cn2"), "claims": ("7",),
    }  # fmt: skip
    return QueueJob(**fields | more)


def ended(job, state=COMPLETED, after_s=100, code=0):
    return replace(job, state=state, end_ns=job.start_ns + after_s * S, exit_code=code)


def launch(kind, at_s, **more):
    return event(kind, time=T + at_s * S, **({"node": "cn1"} | more))


def test_a_job_is_known_from_its_start_to_its_end_without_a_launch(db):
    assert db.take_queue([told()]) == {}
    job = db.job("7")
    assert (job.state, job.settled, job.start_ns, job.end_ns, job.user, job.program, job.node_names) == ("running", False, T + 5 * S, None, "ada", "run.sh", ["cn1", "cn2"])
    assert (job.queued.queue, job.queued.submit_ns, job.queue_nodes) == ("batch", T, ("cn1", "cn2"))
    db.take_queue([replace(told(), state=SUSPENDED)])
    assert db.job("7").state == "suspended" and [found.key for found, _ in db.jobs(state="suspended").jobs] == ["7"]
    db.take_queue([ended(replace(told(), suspended_s=12.0), code=3, state="failed")])
    job = db.job("7")
    assert (job.state, job.end_ns, job.exit_code, job.queued.suspended_s, job.settled) == ("failed", T + 105 * S, 3, 12.0, False)


def test_launches_and_the_queue_make_one_job_in_whatever_order_they_come(db):
    launches = [launch("start", 10), launch("end", 90)]
    for number, order in enumerate(itertools.permutations(range(4))):
        if order.index(0) > order.index(1):
            continue
        name = f"j{number}"
        queue = told(job_id=name, claims=(name,), submit_ns=T + number)
        steps = [
            lambda queue=queue: db.take_queue([queue]),
            lambda queue=queue: db.take_queue([ended(queue)]),
            lambda name=name: db.apply_event(launches[0] | {"job": name}),
            lambda name=name: db.apply_event(launches[1] | {"job": name}),
        ]
        for place in order:
            steps[place]()
        job = db.job(name)
        assert (job.state, job.start_ns, job.end_ns, job.program, job.command, job.exit_code) == ("completed", T + 5 * S, T + 105 * S, "prog", "prog -x", 0), order
    assert db.jobs().total == number // 2 + 1


def test_what_was_told_before_changes_nothing(db):
    job = ended(told(steps=(Step("batch", nodes=("cn1",)), Step("0", "prog", T + 6 * S, T + 90 * S, ("cn1", "cn2"), 8))))
    db.take_queue([job])
    db.settle(db.job("7"), T + 200 * S, 0)
    db.put_profile("7", 1, {"read_bytes": 5})
    state = db.state()
    db.take_queue([job])
    assert db.state() == state and db.profile_version("7") == 1 and db.job("7").settled
    db.take_queue([replace(job, steps=(), nodes=("cn1",))])
    assert db.profile_version("7") is None and db.job("7").node_names == ["cn1"] and not db.job("7").settled


def test_an_id_that_was_given_again_is_another_job(db):
    """A requeued job, and a queue that counts from the beginning again."""
    first = ended(told(), state="requeued", after_s=60, code=None)
    again = ended(told(submit_ns=T + 65 * S, start_ns=T + 500 * S))
    for job in (first, again):
        db.take_queue([job])
    db.apply_events([launch("start", 10, launch="a"), launch("end", 20, launch="a"), launch("start", 505, launch="b"), launch("end", 540, launch="b")])
    assert db.jobs().total == 2
    one, two = (job for job, _ in db.jobs(sort="start").jobs)
    assert (one.key, one.state, one.start_ns) == ("7", "requeued", T + 5 * S)
    assert (two.key, two.state, two.start_ns) == ("7@20251122T082745Z", "completed", T + 500 * S)
    assert [found.key for found, _ in db.jobs(search="7@2025").jobs] == [two.key]


def test_launches_of_several_runs_of_an_id_go_to_the_run_whose_they_are(db):
    """Told while nothing was known of the queue."""
    db.apply_events([launch("start", 10, launch="a"), launch("end", 20, launch="a"), launch("start", 5000, launch="b"), launch("end", 5010, launch="b", exit_code=2)])
    assert db.jobs().total == 1
    db.take_queue([ended(told())])
    assert {(job.key, job.state, job.start_ns) for job, _ in db.jobs().jobs} == {("7", "failed", T + 5000 * S), ("7@20251122T082640Z", "completed", T + 5 * S)}
    db.take_queue([ended(told(submit_ns=T + 4000 * S, start_ns=T + 4990 * S), state="timeout", code=None)])
    assert {(job.key, job.state, job.exit_code) for job, _ in db.jobs().jobs} == {("7", "timeout", 2), ("7@20251122T082640Z", "completed", 0)}


def test_tasks_of_an_array_and_components_bear_the_queues_names(db):
    tasks = [told(job_id=f"7_{task}", claims=(str(7 + task),), array="7", nodes=(f"cn{task}",)) for task in (1, 2)]
    parts = [told(job_id=f"20+{part}", claims=(str(20 + part), "20"), het="20", submit_ns=T + S) for part in (0, 1)]
    db.apply_event(launch("start", 10, job="8"))
    db.take_queue([*tasks, *parts])
    assert {job.key for job, _ in db.jobs().jobs} == {"7_1", "7_2", "20+0", "20+1"}
    assert (db.job("7_1").job_id, db.job("7_1").program, db.job("7_1").queued.array, db.job("20+1").queued.het) == ("8", "prog", "7", "20")


def test_two_that_share_id_and_submission_are_two(db):
    """Of two clusters; and tasks that all find the number of the array in their environment."""
    db.take_queue([told(), told(cluster="d"), told(job_id="7[1]"), told(job_id="7[2]")])
    assert db.jobs().total == 4


def test_who_is_not_known_is_told_and_others_are_taken(db):
    problems = db.take_queue([told(uid=None, user="eve"), told(job_id="8", uid=None), told(job_id="9", uid=1001, user="x")])
    assert [str(problem) for problem in problems.values()] == ["job 7: user 'eve' is not known on this machine, and the queue tells no number of his"]
    assert {(job.key, job.uid, job.user) for job, _ in db.jobs().jobs} == {("8", 1000, "ada"), ("9", 1001, "bob")}


def test_a_forgotten_job_ends_and_comes_back_when_it_is_told_again(db):
    db.take_queue([told()])
    db.apply_events([launch("start", 10), launch("end", 90)])
    assert db.unended() == [("c", "7", T)]
    db.end_forgotten({("c", "7", T): T + 50 * S, ("c", "none", T): T})
    assert (db.job("7").state, db.job("7").end_ns, db.unended()) == (UNKNOWN, T + 90 * S, [])
    db.take_queue([ended(told(), CANCELLED, 300, None)])
    assert (db.job("7").state, db.job("7").end_ns) == ("cancelled", T + 305 * S)


def test_nodes_are_told_that_a_job_had_to_itself(db):
    db.take_queue([ended(told(nodes=("cn1", "cn2", "cn3", "cn4")))])
    db.take_queue([
        ended(told(job_id="8", uid=1001, nodes=("cn2",), start_ns=T + 104 * S)),  # another user's, at the same time for a second
        ended(told(job_id="9", nodes=("cn3",), claims=("90",), start_ns=T)),
        ended(told(job_id="10", claims=("10",), nodes=("cn4",), start_ns=T + 105 * S)),  # when the first ended
    ])  # fmt: skip
    db.apply_events([launch("start", 10, job="mine", node="cn1"), launch("start", 10, job="his", node="cn1", uid=1001), launch("start", 1500, job="later", node="cn1")])
    found = db.sharing(db.job("7"))
    assert found.alone == ("cn1", "cn4") and found.own == ("cn1", "cn2", "cn4") and found.others == ("10", "90", "mine")
    assert found.followed == ("cn4",) and db.sharing(db.job("10")).followed == ()
    assert db.sharing(db.job("mine")).own == ()


def test_jobs_of_one_second_share_their_node(db):
    """As tasks of an array may, of which accounting tells the same start and end."""
    db.take_queue([ended(told(job_id=f"7_{task}", claims=(str(task),), nodes=("cn1",)), after_s=0) for task in (1, 2)])
    assert [db.sharing(db.job(f"7_{task}")) for task in (1, 2)] == [Sharing((), (), ("2",)), Sharing((), (), ("1",))]
    db.take_queue([ended(told(job_id="8", nodes=("cn1",), start_ns=T + 6 * S))])
    assert db.sharing(db.job("8")).own == ("cn1",)


def test_a_job_settles_once_its_nodes_were_heard(db):
    db.take_queue([ended(told()), ended(told(job_id="8"), after_s=50), told(job_id="9")])
    assert [job.key for job in db.unsettled(10)] == ["8", "7"] and db.settled_count() == 0
    db.settle(db.job("8"), T + 200 * S, 2)
    db.settle(replace(db.job("7"), end_ns=1), T + 200 * S, 0)  # of an end that is another one by now
    assert [job.key for job in db.unsettled(10)] == ["7"] and [(job.key, job.unheard) for job in db.unheard(0, 10)] == [("8", 2)]
    assert db.unheard(T + 300 * S, 10) == [] and [job.key for job in db.settled(0, 10)[0]] == ["8"]


def test_many_nodes_and_odd_words(db):
    nodes = tuple(f"cn{number}" for number in range(12_000))
    db.take_queue([told(nodes=nodes, name="x" * 5000 + "\udc80", project="ü\0", steps=(Step("s" * 200, nodes=nodes),))])
    assert set(db.job("7").queue_nodes) == set(nodes)
    db.take_queue([told(nodes=nodes[:3])])
    assert db.job("7").node_names == ["cn0", "cn1", "cn2"]


def contents(db):
    """All that is known of jobs and their launches, whatever their keys."""
    found = []
    with db._engine.connect() as connection:
        for job, _ in db.jobs(limit=500).jobs:
            number = connection.scalar(text("SELECT id FROM jobs WHERE `key` = :key"), {"key": job.key})
            launches = connection.execute(text("SELECT launch, node, start_ns, end_ns FROM launches WHERE job = :job ORDER BY launch, node"), {"job": number})
            queue_id = job.queued.job_id if job.queued else ""
            found.append((queue_id, job.job_id, job.state, job.start_ns, job.end_ns, job.program, tuple(job.node_names), tuple(map(tuple, launches))))
    return sorted(found, key=repr)


def facts(rng):
    """What there is to tell of some jobs of a user: the queue's last words, and events of launches on their nodes and elsewhere."""
    jobs, events, at_s = [], [], 0
    for run in range(2):  # an id that began again
        start_s, long_s = at_s + 10, rng.choice((0, 30, 400, 5000))
        jobs.append(ended(told(submit_ns=T + at_s * S, start_ns=T + start_s * S, nodes=(f"cn{rng.randrange(3)}",)), after_s=long_s))
        for name in range(rng.randrange(3)):
            node = rng.choice(jobs[-1].nodes)
            events += [launch("start", start_s + name, launch=f"r{run}.{name}", node=node), launch("end", start_s + max(long_s, name), launch=f"r{run}.{name}", node=node)]
        at_s = start_s + long_s + rng.choice((1, 20, 2000))
    # Tasks of an array that find one number, and components of a heterogeneous job.
    jobs += [ended(told(job_id=f"8[{task}]", claims=("8",), array="8", nodes=(f"cn{task}",))) for task in (1, 2)]
    jobs += [ended(told(job_id=f"20+{part}", claims=(str(20 + part), "20"), het="20", nodes=(f"cn{part + 3}",))) for part in (0, 1)]
    events += [launch("start", 10, job=job, node=f"cn{node}", launch=f"{job}.{node}") for job, node in (("8", 1), ("8", 2), ("20", 3), ("20", 4))]
    return jobs, events


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_told_first_the_same_jobs_come_of_it(new_url, seed):
    rng = random.Random(seed)
    jobs, events = facts(rng)
    outcomes = []
    for _ in range(4):
        db = JobDB(new_url(), user_name={1000: "ada"}.get)
        running = [replace(job, state=RUNNING, end_ns=None, exit_code=None) for job in jobs if rng.random() < 0.5]
        at_once = rng.sample(jobs, rng.randrange(len(jobs)))
        calls = [partial(db.take_queue, [job]) for job in jobs if job not in at_once] + [partial(db.apply_event, one) for one in events]
        calls.append(partial(db.take_queue, at_once))
        early = [partial(db.take_queue, [job]) for job in running]
        rng.shuffle(calls)
        rng.shuffle(early)
        # What was said while a job ran comes before its end, and between the events.
        for call in early + calls:
            call()
        outcomes.append(contents(db))
        db.close()
    assert all(outcome == outcomes[0] for outcome in outcomes)
    launched = {(name, node) for *_, launches in outcomes[0] for name, node, *_ in launches}
    assert launched == {(one["launch"], one["node"]) for one in events}


def test_a_launch_that_is_told_while_its_job_is_taken_is_the_jobs(db, monkeypatch):
    known = queued._known

    def then_told(session, jobs):
        found = known(session, jobs)
        apply(session, [launch("start", 10, job="7")], {1000: "ada"}.get)
        return found

    monkeypatch.setattr(queued, "_known", then_told)
    db.take_queue([told(), told(job_id="8", claims=("8",))])
    assert {(job.job_id, job.program, job.queued is not None) for job, _ in db.jobs().jobs} == {("7", "prog", True), ("8", "run.sh", True)}


def test_new_jobs_are_taken_with_few_questions(db):
    """A first look tells tens of thousands."""
    jobs = [ended(told(job_id=str(number), claims=(str(number),), steps=(Step("0", nodes=("cn1",)),))) for number in range(100)]
    asked = []
    listen(db._engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    db.take_queue(jobs)
    assert len(asked) <= 6 * len(jobs) + 20
    db.take_queue(jobs)
    assert db.jobs(limit=1).total == 100


def test_a_prolog_before_its_run_is_told_does_not_stay_with_the_run_before(db):
    """Hooks tell at once, the queue each 30 s."""
    first = told(nodes=("cn1",))
    db.take_queue([first])
    db.apply_event(launch("start", 10, launch="slurm-7-0", node="cn1", command=None))
    db.apply_event(launch("start", 70, launch="slurm-7-1", node="cn9", command=None))
    db.take_queue([ended(first, state="requeued", after_s=60, code=None), told(submit_ns=T + 61 * S, start_ns=T + 69 * S, nodes=("cn9",))])
    one, two = (job for job, _ in db.jobs(sort="start").jobs)
    assert (one.node_names, two.node_names) == (["cn1"], ["cn9"]) and two.program == "prog"


def test_a_launch_says_what_ran_and_not_the_prolog(db):
    db.take_queue([told()])
    db.apply_events([launch("start", 6, launch="slurm-7-0", program="myjob", command=None), launch("start", 8, launch="x", program="ior", command="ior -w")])
    assert (db.job("7").program, db.job("7").command) == ("ior", "ior -w")


def test_a_job_of_which_only_a_prolog_without_its_name_tells_bears_the_name_that_it_was_submitted_under(db):
    db.apply_event(launch("start", 6, launch="slurm-7-0", program="", command=None))
    db.take_queue([told()])
    assert (db.job("7").program, db.job("7").command) == ("run.sh", "")
    assert [job.job_id for job, _ in db.jobs(search="run.sh").jobs] == ["7"]


def test_a_profile_that_was_worked_out_without_a_neighbour_is_removed(db):
    db.take_queue([ended(told(nodes=("cn1",))), ended(told(job_id="8", claims=("8",), nodes=("cn2",)))])
    for key in ("7", "8"):
        db.settle(db.job(key), T + 200 * S, 0)
        db.put_profile(key, 1, {})
    assert db.sharing(db.job("7")).own == ("cn1",)
    db.take_queue([ended(told(job_id="9", claims=("9",), nodes=("cn1",)))])
    assert db.sharing(db.job("7")).own == () and (db.profile_version("7"), db.profile_version("8")) == (None, 1)


def test_many_nodes_tell_of_their_launches_in_little_time(db):
    count, began_s = 1000, time.monotonic()
    for kind, at_s in (("start", 10), ("end", 20)):
        for begin in range(0, count, 500):
            db.apply_events([launch(kind, at_s, node=f"n{number}") for number in range(begin, begin + 500)])
    assert len(db.job("7").node_names) == count and db.job("7").state == "completed"
    assert time.monotonic() - began_s < 40  # reading all for each took minutes


def test_large_jobs_of_a_time_are_those_of_as_many_nodes_by_the_queue_or_by_launches(db):
    three = tuple(f"cn{number}" for number in range(3))
    db.take_queue([told(), ended(told(job_id="8", claims=("8",), nodes=three)), told(job_id="9", claims=("9",), nodes=three, start_ns=T + 200 * S)])
    for node in three:
        db.apply_event(event("start", job="10", node=node, launch=f"l-{node}", time=T + 300 * S))

    def large(nodes, from_s, to_s, limit=10):
        return [job.key for job in db.large(nodes, T + from_s * S, T + to_s * S, limit)]

    assert large(3, 0, 50) == ["8"] and large(2, 0, 50) == ["7", "8"] and large(4, 0, 1000) == []
    assert large(3, 105, 250) == ["9"], "what ended before, and what begins later, did not run then"
    assert large(3, 0, 1000) == ["8", "9", "10"] and large(3, 0, 1000, 2) == ["9", "10"], "the end of the first may be lost"
