"""Writes what the site of a virtual machine knows of it: its topology, and what Slurm's accounting told of its jobs."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bellrock.simulate import names
from bellrock.simulate.description import Machine
from bellrock.simulate.fat_tree import FatTree
from bellrock.simulate.model import Job
from jobdb.queue.nodelist import folded
from jobdb.queue.slurm import FIELDS

S = 10**9
# Compute nodes that a log server takes the records of, as Beacon's 80 groups of 512.
GROUP_NODES = 512


def write_topology(machine: Machine, folder: Path, *, names_jobs: bool) -> None:
    """The files that `bellrock topology apply` takes, docs/topology.md. names_jobs: forwarding nodes hand jobs' names on."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.toml").write_text(_topology(machine, names_jobs), encoding="utf-8")


def _topology(machine: Machine, names_jobs: bool) -> str:
    nodes = names.nodes_of(machine)
    compute, forwarding = nodes["compute"], nodes["forwarding"]
    serving, waiting = forwarding[: machine.forwarders], forwarding[machine.forwarders :]
    system = machine.file_system
    blocks: list[tuple[str, dict[str, Any]]] = [("class", {"name": "compute", "nodes": folded(compute)})]
    blocks += [("class", {"name": others.class_, "nodes": folded(nodes[others.class_])}) for others in machine.others]
    told = {"name": system, "kind": "lustre", "mounts": machine.mount, "exclusive": True, "names_jobs": names_jobs}
    blocks.append(("file_system", told | ({"standby": folded(waiting)} if waiting else {})))
    each = min(machine.forwarding.each, len(compute))
    blocks.append(("forwarding", {"file_system": system, "nodes": folded(compute), "each": each, "forwarders": [folded(serving)]}))
    blocks.append(
        (
            "target",
            {
                "file_system": system, "kind": "ost", "numbers": _numbers(machine.targets), "servers": folded(nodes["storage"]), "each": machine.storage.targets,
                **({"takeover": 2} if machine.storage.servers % 2 == 0 else {}), "component": "lustre_ost",
            },
        )
    )  # fmt: skip
    first, *backups = nodes["metadata"]
    blocks.append(
        (
            "target",
            {
                "file_system": system, "kind": "mdt", "numbers": "0", "servers": first, **({"backups": folded(backups)} if backups else {}),
                "component": "lustre_mdt",
            },
        )
    )  # fmt: skip
    blocks += [
        ("switch", {"name": f"leaf{number + 1:03d}", "nodes": folded(part)}) for number, part in enumerate(_parts(compute, machine.compute.each_switch))
    ]
    blocks += [("switch", table) for table in _switches(FatTree(machine))]
    blocks += [("group", {"name": f"g{number + 1}", "nodes": folded(part)}) for number, part in enumerate(_parts(compute, GROUP_NODES))]
    blocks.append(("group", {"name": "forwarding", "nodes": folded(forwarding)}))
    blocks.append(("group", {"name": "storage", "nodes": folded([*nodes["storage"], *nodes["metadata"]])}))
    nets = [(names.COMPUTE_NET, compute), (names.FORWARDING_NET, forwarding)]
    nets.append((names.OTHERS_NET, [node for others in machine.others for node in nodes[others.class_]]))
    blocks += [
        ("address", {"nodes": folded(part), "addresses": [names.address(net, number) for number in range(len(part))]}) for net, part in nets if part
    ]
    return f"# {machine.name}, a virtual machine.\n" + "".join(f"\n[[{kind}]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in table.items()) for kind, table in blocks)


def _switches(tree: FatTree) -> Iterator[dict[str, Any]]:
    """The fabric's: spines, and leaves with what their ports lead to."""
    spines = [tree.name(switch) for switch in range(tree.leaves, tree.switches)]
    if spines:
        yield {"name": spines}
    for leaf in range(tree.leaves):
        nodes = tree.nodes[leaf * tree.half : (leaf + 1) * tree.half]
        yield {"name": tree.name(leaf), "ports": {f"1-{len(nodes)}" if len(nodes) > 1 else "1": ",".join(nodes)}, **({"switches": spines} if spines else {})}


def _numbers(count: int) -> str:
    return f"0-{count - 1}" if count > 1 else "0"


def _parts(nodes: list[str], each: int) -> Iterator[list[str]]:
    for begin in range(0, len(nodes), each):
        yield nodes[begin : begin + each]


def _toml(value: Any) -> str:
    """A text, number, truth value or list of these, which JSON writes as TOML does, or a table of them."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def write_accounting(machine: Machine, jobs: Iterable[Job], folder: Path) -> None:
    """What `sacct --json` and `sacct --parsable` (which tells users' numbers, too) would have written once all jobs had ended."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "sacct.json", "w", encoding="utf-8") as json_file, open(folder / "sacct.txt", "w", encoding="utf-8") as text_file:
        json_file.write('{"meta": {"Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"}}, "errors": [], "jobs": [')
        text_file.write("|".join(FIELDS) + "|\n")
        for place, job in enumerate(jobs):
            json_file.write(("," if place else "") + "\n" + json.dumps(_entry(machine, job)))
            text_file.write("|".join(_row(machine, job)) + "|\n")
        json_file.write("\n]}\n")


def _seconds(job: Job) -> tuple[int, int, int]:
    """Submission, start and end in whole seconds, cut, as Slurm counts."""
    return job.submitted_ns // S, job.start_ns // S, job.end_ns // S


def _cores(machine: Machine, job: Job) -> int:
    return job.model.nodes * machine.compute.processes


def _entry(machine: Machine, job: Job) -> dict[str, Any]:
    submitted, start, end = _seconds(job)
    done = {"status": "SUCCESS", "return_code": 0}
    nodes = folded(job.node_names)
    return {
        "account": job.model.kind.lower(), "allocation_nodes": job.model.nodes,
        "array": {"job_id": 0, "limits": {"max": {"running": {"tasks": 0}}}, "task": None, "task_id": None},
        "association": {"account": job.model.kind.lower(), "cluster": machine.name, "partition": None, "user": job.user}, "cluster": machine.name,
        "derived_exit_code": done, "exit_code": done, "flags": ["STARTED_ON_SCHEDULE"], "group": job.user, "het": {"job_id": 0, "job_offset": None},
        "job_id": int(job.job_id), "name": job.model.program, "nodes": nodes, "partition": "batch", "required": {"CPUs": _cores(machine, job), "memory": 0},
        "state": {"current": "COMPLETED", "reason": "None"}, "steps": [],
        "time": {"elapsed": end - start, "eligible": submitted, "end": end, "start": start, "submission": submitted, "suspended": 0, "limit": None},
        "user": job.user,
    }  # fmt: skip


def _row(machine: Machine, job: Job) -> list[str]:
    submitted, start, end = _seconds(job)
    told = {
        "JobID": job.job_id, "JobIDRaw": job.job_id, "Cluster": machine.name, "User": job.user, "UID": job.uid, "Account": job.model.kind.lower(),
        "Partition": "batch", "State": "COMPLETED", "Submit": submitted, "Start": start, "End": end, "Suspended": "00:00:00", "ExitCode": "0:0",
        "NCPUS": _cores(machine, job), "NTasks": job.model.processes, "NodeList": folded(job.node_names), "JobName": job.model.program,
    }  # fmt: skip
    return [str(told[field]) for field in FIELDS]
