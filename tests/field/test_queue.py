"""Whose I/O it was, with a real Slurm: the user types sbatch, the rest is told by prologs, records and accounting."""

from __future__ import annotations

import json
import os

import pytest

from tests.field.machine import ADA, BOB, Machine
from tests.wait import until


MIB = 1 << 20
S = 10**9


def wrote(name: str, mib: int) -> str:
    """A program that writes so much, in requests of 1 MiB."""
    return f"dd if=/dev/zero of={name} bs=1M count={mib} status=none"


def figures(found: dict) -> tuple[int, int, int]:
    profile = found["profile"]
    return profile["write_bytes"], profile["write_ops"], profile["nodes"]


@pytest.fixture(scope="module")
def early(machine: Machine) -> dict[str, str]:
    """Jobs that run at once, by what they are: settling takes the server 15 s."""
    two_nodes = f"srun -n 2 -N 2 sh -c '{wrote('a.$SLURM_PROCID', 32)}'\n{wrote('a.batch', 8)}"
    return {
        "exact": machine.submit(two_nodes, "-N", "2", "-w", "cn[1-2]", "-J", "exact"),
        "failed": machine.submit("exit 3", "-w", "cn1", "-n", "1"),
        "array": machine.submit(wrote("c.$SLURM_ARRAY_TASK_ID", 5), "--array=1-3", "-w", "cn2", "-n", "1"),
        "mine": machine.submit(f"{wrote('e.mine', 6)}\nsleep 2", "-w", "cn1", "-n", "1"),
        "his": machine.submit(f"{wrote('e.his', 7)}\nsleep 2", "-w", "cn1", "-n", "1", user=BOB),
    }


def test_a_job_on_two_nodes_is_exact(machine: Machine, early: dict[str, str]) -> None:
    job = early["exact"]
    found = machine.settled(job)
    assert figures(found) == (72 * MIB, 72, 2)
    assert (found["job"]["state"], found["job"]["exit_code"], found["job"]["unheard_nodes"]) == ("completed", 0, 0)
    assert (found["job"]["node_names"], found["job"]["queued"]["name"], found["job"]["user"]) == (["cn1", "cn2"], "exact", "games")
    files = machine.client.get(f"/api/v1/jobs/{job}/files")["files"]
    written = {os.path.basename(row["file"]): row["write_bytes"] for row in files if row["write_bytes"]}
    assert written == {"a.0": 32 * MIB, "a.1": 32 * MIB, "a.batch": 8 * MIB}


def test_it_is_seen_while_it_runs_and_how_it_ended_is_told(machine: Machine, early: dict[str, str]) -> None:
    job = machine.submit(f"{wrote('b', 4)}\nsleep 300", "-w", "cn1")
    until(lambda: (found := machine.job(job)) and found["profile"]["write_bytes"] == 4 * MIB and found["job"]["state"] == "running", "it is seen")
    machine.slurm.ask("scancel", job)
    assert machine.settled(job)["job"]["state"] == "cancelled"
    found = machine.settled(early["failed"])["job"]
    assert (found["state"], found["exit_code"]) == ("failed", 3)


def test_tasks_of_an_array_are_jobs_of_their_own_on_the_same_node(machine: Machine, early: dict[str, str]) -> None:
    job = early["array"]
    for task in (1, 2, 3):
        found = machine.settled(f"{job}_{task}")
        assert figures(found) == (5 * MIB, 5, 1) and found["job"]["queued"]["array"] == job


def test_a_requeued_job_is_one_job_for_each_of_its_runs(machine: Machine) -> None:
    job = machine.submit(f'if [ "$SLURM_RESTART_COUNT" ]; then {wrote("d", 3)}; else {wrote("d", 2)}; sleep 300; fi', "-w", "cn1", "--requeue")
    until(lambda: (found := machine.job(job)) and found["profile"]["write_bytes"] == 2 * MIB, "its first run is seen")
    machine.slurm.ask("scontrol", "requeue", job)

    def runs() -> list[dict]:
        found = [run for run in machine.client.get("/api/v1/jobs", search=job, sort="start")["jobs"] if run["job_id"].partition("@")[0] == job]
        return found if len(found) == 2 else []

    keys = [run["job_id"] for run in until(runs, "both of its runs are told", 200)]
    assert keys[0] == job and keys[1].startswith(f"{job}@")
    found = [machine.settled(key, 200) for key in keys]
    assert [run["job"]["state"] for run in found] == ["requeued", "completed"]
    assert [run["profile"]["write_bytes"] for run in found] == [2 * MIB, 3 * MIB]


def test_two_users_on_one_node_are_told_apart(machine: Machine, early: dict[str, str]) -> None:
    assert figures(machine.settled(early["mine"]))[0] == 6 * MIB and figures(machine.settled(early["his"]))[0] == 7 * MIB


def test_what_lost_its_environment_is_the_jobs_where_it_was_alone(machine: Machine) -> None:
    job = machine.submit("while [ ! -e f.done ]; do sleep 0.1; done", "-w", "cn2", "--exclusive")
    until(lambda: (found := machine.job(job)) and found["job"]["state"] == "running", "it runs")
    # As over ssh: watched, on the job's node, by its user, and nothing says so.
    environ = {"PATH": os.defpath, "LD_PRELOAD": str(machine.folder / "libbellrock.so")}
    machine.nodes["cn2"].run(
        "env", "-i", *(f"{name}={value}" for name, value in environ.items()), "sh", "-c", f"cd {machine.shared}; {wrote('f', 9)}; touch f.done", user=ADA
    )
    assert machine.settled(job)["profile"]["write_bytes"] == 9 * MIB


def test_a_node_whose_agent_comes_late_is_waited_for(machine: Machine) -> None:
    job = machine.submit(f"srun -n 2 -N 2 sh -c '{wrote('g.$SLURM_PROCID', 4)}'", "-N", "2", "-w", "cn2,cn3")
    ended = until(lambda: (found := machine.job(job)) and found["job"]["queued"] and found["job"]["state"] == "completed" and found, "it ended")
    assert not ended["job"]["settled"] and ended["profile"]["write_bytes"] == 4 * MIB
    machine.agents["cn3"].start()
    found = machine.settled(job, 120)
    assert figures(found) == (8 * MIB, 8, 2) and found["job"]["unheard_nodes"] == 0


def test_a_node_whose_clock_is_90_s_ahead_is_corrected(machine: Machine) -> None:
    until(lambda: any(agent["node"] == "cn4" and (agent["clock_offset_s"] or 0) > 80 for agent in agents(machine)), "its agent was heard")
    job = machine.submit(f"srun -n 2 -N 2 sh -c '{wrote('h.$SLURM_PROCID', 4)}; sleep 2; {wrote('h2.$SLURM_PROCID', 4)}'", "-N", "2", "-w", "cn1,cn4")
    found = machine.settled(job)["job"]

    def corrected() -> bool:
        rows = machine.client.get(f"/api/v1/jobs/{job}/nodes")["nodes"]
        return len(rows) == 2 and all(found["start_ns"] - S <= row["first_ns"] and row["last_ns"] <= found["end_ns"] + 2 * S for row in rows)

    until(corrected, f"its records lie in the job's time: {machine.client.get(f'/api/v1/jobs/{job}/nodes')['nodes']}")
    assert figures(machine.settled(job)) == (16 * MIB, 16, 2)
    # One phase after the other on both nodes: not apart by a minute and a half.
    assert machine.settled(job)["profile"]["phases"] == 1
    series = machine.client.get(f"/api/v1/jobs/{job}/series", points=1000, node="cn4")
    assert sum(rate * series["step_s"] for rate in series["write_bytes_per_s"] if rate) == pytest.approx(8 * MIB)


def agents(machine: Machine) -> list[dict]:
    return machine.client.get("/api/v1/audit")["boots"]


def test_the_status_page_says_that_slurm_answers(machine: Machine) -> None:
    status = machine.client.get("/api/v1/status")["queue"]
    assert status["error"] is None and status["problems"] == 0 and status["jobs"] > 0, json.dumps(status)
