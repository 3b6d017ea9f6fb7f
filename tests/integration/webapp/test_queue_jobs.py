"""Whose I/O it was, by the batch system: from records and its word to the figures of the API."""

import time
from dataclasses import replace

import pytest

from jobdb.queue import COMPLETED, REQUEUED, RUNNING, QueueJob, Step
from tests.integration.webapp.test_real_store import Node, Server
from webapp.api.heard import settle_ended

S = 10**9
MIB = 1 << 20
# Old enough to be final, for records of today.
T0 = (time.time_ns() // S - 7200) * S


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    made.close()


def told(job_id="42", nodes=("n1", "n2"), start_s=0, end_s=100, **more):
    fields = {
        "cluster": "c", "job_id": job_id, "submit_ns": T0 - 100 * S, "user": "ada", "uid": 1000, "state": COMPLETED, "start_ns": T0 + start_s * S,
        "end_ns": T0 + end_s * S, "exit_code": 0, "nodes": nodes, "claims": (job_id,),
    }  # fmt: skip
    return QueueJob(**fields | more)


def heard(node, after_s):
    """A sample of the node's agent."""
    return node.event("sample", component="agent", instance="agent", start=T0 + (after_s - 10) * S, end=T0 + after_s * S, values={"lost": 0})


def write(node, at_s, mib, **more):
    return node.run("write", T0 + int(at_s * S), T0 + int((at_s + 1) * S), size=MIB, count=mib, **more)


def profile(server, key):
    return server.get(f"/jobs/{key}")["profile"]


def test_records_need_no_claim_where_the_job_was_alone(server):
    n1, n2, n3 = (Node(name, boot=f"{number:016x}") for number, name in enumerate(("n1", "n2", "n3"), 1))
    server.jobdb.take_queue([told(), told("43", ("n3",), uid=1001, user="bob")])
    server.take([
        write(n1, 1, 8, job="42"),
        write(n1, 5, 4, job=None, process="2.2"),  # started over ssh: the environment was lost
        write(n2, 5, 2, job="777", process="3.3"),  # claims what the batch system does not know
        write(n2, 50, 64, job="42", uid=1001, process="4.4"),  # another user's claim
        write(n3, 50, 128, job="42", process="5.5"),  # a node that was not the job's
        write(n1, 300, 256, job="42", process="6.6"),  # long after its end
        heard(n1, 400), heard(n2, 400),
    ])  # fmt: skip
    settle_ended(server.jobdb, server.store)
    found = server.get("/jobs/42")
    assert found["job"]["settled"] and found["job"]["queued"]["job_id"] == "42" and found["job"]["unheard_nodes"] == 0
    assert (found["profile"]["write_bytes"], found["profile"]["nodes"], found["profile"]["processes"]) == (14 * MIB, 2, 3)
    assert profile(server, "43")["write_bytes"] == 0
    series = server.get("/jobs/42/series?points=100")
    assert sum(rate * series["step_s"] for rate in series["write_bytes_per_s"] if rate) == pytest.approx(14 * MIB)


def test_on_nodes_that_two_jobs_of_a_user_share_claims_decide(server):
    node = Node("n1")
    server.jobdb.take_queue([told("42", ("n1",)), told("43", ("n1",))])
    server.take([
        write(node, 1, 1, job="42"), write(node, 2, 2, job="43", process="2.2"), write(node, 3, 4, job=None, process="3.3"),
        node.run("write", T0 + 4 * S, T0 + 5 * S, size=MIB, count=8, job=None, process="node", uid=None), heard(node, 400),
    ])  # fmt: skip
    assert profile(server, "42")["write_bytes"] == MIB and profile(server, "43")["write_bytes"] == 2 * MIB


def test_what_claims_nothing_over_the_seam_of_two_jobs_counts_once(server):
    """For the one in which it began; what claims one of them is that one's, whenever it was."""
    n1, n2 = Node("n1"), Node("n2", boot="bb")
    # They begin and end in one second, of which the batch system tells no parts; the second has n1 alone.
    server.jobdb.take_queue([told("42", ("n1", "n2"), end_s=50), told("43", ("n1",), start_s=50, end_s=100)])
    server.take([
        write(n1, -0.5, 1, job=None), write(n1, 49.5, 2, job=None), write(n1, 50, 4, job=None), write(n1, 50.5, 8, job=None), write(n1, 100.5, 16, job=None),
        write(n1, 50.7, 32, job="42", process="2.2"), write(n1, 49.5, 64, job="43", process="3.3"), write(n2, 50.5, 128, job=None), write(n2, 51.5, 256, job=None),
        heard(n1, 400), heard(n2, 400),
    ])  # fmt: skip
    settle_ended(server.jobdb, server.store)
    assert profile(server, "42")["write_bytes"] == (2 + 32 + 128) * MIB
    assert profile(server, "43")["write_bytes"] == (4 + 8 + 16 + 64) * MIB


def test_what_a_nodes_client_did_is_the_jobs_that_had_the_node_alone(server):
    n1, n2 = Node("n1"), Node("n2", boot="bb")
    server.jobdb.take_queue([told("42"), told("43", ("n2",), uid=1001, user="bob")])
    of_node = {"size": MIB, "job": None, "process": "node", "uid": None}
    server.take([
        n1.run("write", T0 + 4 * S, T0 + 5 * S, count=8, **of_node), n2.run("write", T0 + 4 * S, T0 + 5 * S, count=16, **of_node), heard(n1, 400), heard(n2, 400),
    ])  # fmt: skip
    found = profile(server, "42")
    assert (found["write_bytes"], found["granularity"]) == (8 * MIB, "node")


def test_what_a_client_tells_in_whole_seconds_is_of_one_job_where_another_begins_in_the_next(server):
    node = Node("n1")
    server.jobdb.take_queue([told("42", ("n1",), end_s=49), told("43", ("n1",), start_s=50, end_s=99, uid=1001, user="bob")])
    of_node = {"size": MIB, "job": None, "process": "node", "uid": None}
    server.take([*(node.run("write", T0 + at_s * S, T0 + (at_s + 1) * S, count=count, **of_node) for at_s, count in ((49, 1), (50, 2), (99, 4), (100, 8))), heard(node, 400)])
    assert (profile(server, "42")["write_bytes"], profile(server, "43")["write_bytes"]) == (MIB, (2 + 4) * MIB)


def test_a_launch_does_not_show_what_clients_did_for_other_users_jobs(server):
    """Its user says when it began: so it may seem to have been there before."""
    n1, n2 = Node("n1", "a1"), Node("n2", "a2")
    of_node = {"size": MIB, "job": None, "process": "node", "uid": None}
    server.take([node.run("write", T0 + 4 * S, T0 + 5 * S, count=count, **of_node) for node, count in ((n1, 8), (n2, 2))])

    def launched(job):
        for node in (n1, n2):
            server.take([node.job("start", T0 - 1000 * S, job=job, uid=1001), node.job("end", T0 + 500 * S, job=job, uid=1001, exit_code=0)])
        return profile(server, job)["write_bytes"]

    assert launched("before") == 10 * MIB
    server.jobdb.take_queue([told("44", ("n2",), uid=1001, user="bob"), told("42", ("n1",))])
    assert launched("own") == 2 * MIB
    series = server.get("/jobs/own/series?points=100")
    assert sum(rate * series["step_s"] for rate in series["write_bytes_per_s"] if rate) == pytest.approx(2 * MIB)


def test_runs_of_a_requeued_job_are_told_apart_by_their_times(server):
    node = Node("n1")
    server.jobdb.take_queue([
        told("42", ("n1",), end_s=50, state=REQUEUED, exit_code=None), told("42", ("n1",), start_s=60, end_s=100, submit_ns=T0 + 50 * S),
    ])  # fmt: skip
    server.take([write(node, 10, 1), write(node, 70, 2, process="2.2"), heard(node, 400)])
    keys = [job["job_id"] for job in server.get("/jobs?sort=start")["jobs"]]
    assert [profile(server, key)["write_bytes"] for key in keys] == [MIB, 2 * MIB] and keys[0] == "42" and keys[1].startswith("42@")


def test_a_running_job_grows_and_its_end_changes_what_is_its(server):
    node = Node("n1")
    running = told("42", ("n1",), state=RUNNING, end_ns=None, exit_code=None)
    server.jobdb.take_queue([running])
    server.take([write(node, 1, 1, job=None)])
    assert profile(server, "42")["write_bytes"] == MIB
    server.take([write(node, 500, 2, job=None, process="2.2"), heard(node, 900)])
    server.jobdb.take_queue([told("42", ("n1",), end_s=400)])
    settle_ended(server.jobdb, server.store)
    assert profile(server, "42")["write_bytes"] == MIB and server.get("/jobs/42")["job"]["settled"]


def test_a_node_that_says_nothing_is_told(server):
    n1 = Node("n1")
    server.jobdb.take_queue([told()])
    server.take([write(n1, 1, 1), heard(n1, 400)])
    settle_ended(server.jobdb, server.store)
    found = server.get("/jobs/42")["job"]
    assert (found["settled"], found["unheard_nodes"]) == (True, 1)


def test_ranks_that_no_environment_told_follow_from_the_steps(server):
    """Of a job of four tasks that began in a container; and of none where the batch system tells no steps, or takes them back."""
    n1, n2 = Node("n1"), Node("n2", boot="bb")
    ran = Step("0", "sim", T0 + S, T0 + 90 * S, ("n2", "n1"), 4)
    server.jobdb.take_queue([told(steps=(Step("batch", "batch", T0, T0 + 100 * S, ("n2",), 1), ran))])
    server.take([
        *(write(node, at_s, 1, process=f"{pid}.{pid}", parent=parent) for node, parent in ((n1, 50), (n2, 60)) for at_s, pid in ((20, 100), (10, 101))),
        write(n2, 3, 1, process="70.70", parent=1), heard(n1, 400), heard(n2, 400),
    ])  # fmt: skip

    def ranks():
        found = {(row["node"], row["process"]): (row["rank"], row["rank_inferred"]) for row in server.get("/jobs/42/processes")["processes"]}
        assert found.pop(("n2", "70.70")) == (None, False)
        return found

    # One more of that program ran while the step did.
    assert set(ranks().values()) == {(None, False)}
    server.jobdb.take_queue([told(steps=(replace(ran, start_ns=T0 + 5 * S),))])
    settle_ended(server.jobdb, server.store)
    assert ranks() == {("n2", "100.100"): (0, True), ("n2", "101.101"): (1, True), ("n1", "100.100"): (2, True), ("n1", "101.101"): (3, True)}
    rows = server.get("/jobs/42/processes?sort=-rank")["processes"]
    assert [row["rank"] for row in rows] == [3, 2, 1, 0, None]
    found = profile(server, "42")
    assert found["processes"] == 5 and found["slowest_op"]["rank_inferred"] == (found["slowest_op"]["rank"] is not None)
    server.jobdb.take_queue([told(steps=(replace(ran, start_ns=T0 + 5 * S, tasks=8),))])
    assert set(ranks().values()) == {(None, False)}
