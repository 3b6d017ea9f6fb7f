"""Writes the trees of a virtual machine's servers, and what is true of them."""

import json
from collections.abc import Callable
from heapq import merge
from pathlib import Path

from bellrock.simulate import names
from bellrock.simulate.fat_tree import FatTree
from bellrock.simulate.trees import forwarding, metadata, ports, storage
from bellrock.simulate.trees.activity import Sight, gather
from bellrock.simulate.trees.looks import Looks
from bellrock.simulate.trees.server import Files
from bellrock.simulate.virtual import VirtualMachine

S = 10**9
REPLAY = "replay.json"
SERVERS = "servers.json"
SWITCHES = "switches.json"
# Periods of the agent's sources, s; those that a node has are set.
PERIODS = (
    "node_period_s", "block_device_period_s", "nfs_server_period_s", "gluster_server_period_s", "lustre_server_period_s", "lustre_job_period_s",
    "lustre_export_period_s", "lustre_client_period_s", "fabric_port_period_s", "switch_port_period_s",
)  # fmt: skip
# How often an agent tells of itself, which is of no interest here.
OWN_PERIOD_S = 600
LOGS = f'lwfs_server_logs = ["{forwarding.SERVER_LOG}"]\nlwfs_server_time_zone = "UTC"\n'


def write_servers(
    machine: VirtualMachine, folder: Path, every_s: int, *, with_jobs: bool = True, tell: Callable[[int, int], None] = lambda done, count: None
) -> None:
    """Below `folder`/nodes of each server NAME: NAME/, its root with its logs; NAME.looks.tar, what its files held look after look; NAME.agent.toml, its
    agent's settings. In `folder` servers.json, the sums of each component, switches.json, those of each port of a switch, and replay.json, from when to when they
    are to be looked at and how often.

    every_s: between looks. with_jobs: job_stats name jobs. tell: hears how many nodes are written, of how many."""
    plan = machine.plan
    description = plan.machine
    activity = gather(description, plan.faults, machine.jobs(), plan.start_ns)
    sight = Sight(description, plan.holds_up, activity, plan.start_ns // S, every_s, with_jobs, plan.noise, seed=plan.seed)
    nodes = folder / "nodes"
    nodes.mkdir(parents=True, exist_ok=True)
    told: dict[str, dict[str, int]] = {}
    tree = FatTree(description)
    flows = ports.flows(sight, tree)
    queues = [storage.Queue(sight, number) for number in range(description.targets)]

    count = description.storage.servers + description.metadata.servers + description.forwarders + tree.partitions
    done = 0

    def write(name: str, files: Files, settings: str) -> None:
        nonlocal done
        (nodes / name).mkdir(exist_ok=True)
        (nodes / f"{name}.agent.toml").write_text(settings, encoding="utf-8")
        with Looks(nodes / f"{name}.looks.tar") as looks:
            for look, path, text in files:
                looks.add(sight.second(look), path, text)
        done += 1
        tell(done, count)

    def with_port(files: Files, node: int) -> Files:
        return merge(files, ports.node_looks(sight, tree, flows, node), key=lambda file: file[0])

    server = periods(every_s, "lustre_server_period_s", "lustre_job_period_s", "lustre_export_period_s", "fabric_port_period_s")
    for number in range(description.storage.servers):
        write(names.server(number), with_port(storage.server_looks(sight, number, queues, told), tree.first_server + number), server)
    write(names.metadata_server(0), with_port(metadata.server_looks(sight, told), tree.first_metadata), server)
    for number in range(1, description.metadata.servers):
        write(names.metadata_server(number), with_port(metadata.waiting_looks(), tree.first_metadata + number), server)
    for number in range(description.forwarders):
        name = names.forwarder(number)
        log = nodes / name / forwarding.SERVER_LOG.lstrip("/")
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w", encoding="utf-8") as file:
            forwarding.write_log(sight, number, file)
        write(name, with_port(forwarding.server_looks(sight, number, queues, told), number), periods(every_s, "lustre_client_period_s", "fabric_port_period_s") + LOGS)
    for number in range(tree.partitions):
        part = f"switch_port_partition = {number + 1}\nswitch_port_partitions = {tree.partitions}\n"
        write(names.watcher(number), ports.watcher_looks(sight, tree, flows, number), periods(every_s, "switch_port_period_s") + part)
    (folder / SERVERS).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    (folder / SWITCHES).write_text(json.dumps(ports.totals(tree, flows), indent=1) + "\n", encoding="utf-8")
    times = {"start_s": sight.start_s, "look_every_s": every_s, "looks": sight.looks}
    (folder / REPLAY).write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")


def periods(every_s: int, *wanted: str) -> str:
    """Settings of an agent: of its sources only `wanted` look, every so often."""
    return "".join(f"{name} = {every_s if name in wanted else 0}\n" for name in PERIODS) + f"sample_period_s = {OWN_PERIOD_S}\n"
