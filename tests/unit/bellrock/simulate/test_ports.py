"""What switches, and nodes' own ports, would have shown of a virtual machine: each load is counted once at each port on its way, and nowhere else."""

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

from bellrock.simulate.description import read_machine
from bellrock.simulate.fat_tree import FatTree
from bellrock.simulate.model import METADATA_OPS
from bellrock.simulate.schedule import Plan
from bellrock.simulate.traffic import loads
from bellrock.simulate.trees import ports
from bellrock.simulate.trees.activity import OTHERS_MIX, Sight, gather
from bellrock.simulate.trees.looks import read_looks
from bellrock.simulate.trees.write import write_servers
from bellrock.simulate.virtual import VirtualMachine

START = 1_767_225_600 * 10**9
EVERY_S = 30
COUNTERS = {"PortXmitData": "transmit_bytes", "PortRcvData": "receive_bytes", "PortXmitPkts": "transmit_packets", "PortRcvPkts": "receive_packets", "PortXmitWait": "transmit_wait"}
KERNEL = {"port_xmit_data": "transmit_bytes", "port_rcv_data": "receive_bytes", "port_xmit_packets": "transmit_packets", "port_rcv_packets": "receive_packets"}


def machine(ports_each=8):
    described = read_machine("taihulight").scaled(0.025)
    return VirtualMachine(Plan(replace(described, fabric=replace(described.fabric, ports=ports_each)), 1, 0.02, 4.0, [], START))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A machine, and the folder of its trees."""
    folder = tmp_path_factory.mktemp("trees")
    described = machine()
    write_servers(described, folder, EVERY_S)
    return described, folder


def looks_of(folder, node):
    """By second what files held, one after the other."""
    with open(folder / "nodes" / f"{node}.looks.tar", "rb") as file:
        for second, name, data in read_looks(file):
            yield second, name, data.decode()


def answered(text):
    """By port what `perfquery -x` says of it."""
    found = {}
    for part in text.split("# Port extended counters: ")[1:]:
        port = int(re.match(r"Lid \d+ port (\d+) ", part)[1])
        found[port] = {COUNTERS[name]: int(value) * (4 if name.endswith("Data") else 1) for name, value in re.findall(r"^(\w+):\.+(\d+)$", part, re.M) if name in COUNTERS}
    return found


def switch_of(tree, name):
    return int(name.removeprefix("fabric/perfquery-x-")) - 1


def test_each_load_is_counted_at_each_port_on_its_way(written):
    """Held against the loads themselves, one after the other, each on its way from port to port."""
    described, folder = written
    plan = described.plan
    tree, fabric = FatTree(plan.machine), plan.machine.fabric
    places = {tree.name(switch): switch for switch in range(tree.switches)}
    links = {(switch, port): (peer, at) for switch in range(tree.switches) for port, peer, at in tree.ports(switch)}
    sums = defaultdict(Counter)

    def send(source, target, words, packets):
        at, port = tree.port_of(source)
        while True:
            into, out = (int(found[0]) for found in tree.passes(at, np.array([source]), np.array([target])))
            assert into == port
            sums[f"{tree.name(at)}/{into}"].update(receive_bytes=4 * words, receive_packets=packets)
            sums[f"{tree.name(at)}/{out}"].update(transmit_bytes=4 * words, transmit_packets=packets)
            peer, port = links[at, out]
            if peer not in places:
                assert peer == tree.nodes[target]
                return
            at = places[peer]

    flows = Counter()
    for job in described.jobs():
        for load in loads(plan.machine, job.model, job.number, job.first_node, job.start_ns - plan.start_ns, plan.faults, by_source=True):
            if load.layer == "forwarding":
                continue
            for component, source, amount, count in zip(*(getattr(load, name).tolist() for name in ("component", "source", "bytes", "operations")), strict=True):
                serves = tree.first_metadata if load.op in METADATA_OPS else tree.first_server + component // plan.machine.storage.targets
                data = np.array([-(-amount // 4), -(-amount // fabric.packet_bytes)])
                messages = count * np.array([fabric.message_bytes // 4, 1])
                for way in ((source, serves), (serves, source)):
                    is_data = load.op == "write" and way[0] == source or load.op == "read" and way[0] == serves
                    for which, value in enumerate((messages + data * is_data).tolist()):
                        flows[*way, which] += value
    activity = gather(plan.machine, plan.faults, described.jobs(), plan.start_ns)
    for place, others in enumerate(plan.machine.others):
        first = tree.nodes.index(f"{others.class_}001")
        for _, share in OTHERS_MIX:
            count = round(others.operations_s * activity.end_ms / 1000 * share / 1000)
            assert others.nodes == 1 and place < 2
            for way in ((first, tree.first_metadata), (tree.first_metadata, first)):
                flows[*way, 0] += count * fabric.message_bytes // 4
                flows[*way, 1] += count
    for source, target in {(source, target) for source, target, _ in flows}:
        send(source, target, flows[source, target, 0], flows[source, target, 1])
    told = json.loads((folder / "switches.json").read_text())
    assert set(told) == {f"{tree.name(switch)}/{port}" for switch, port in links} and len(told) > 30
    for instance, figures in told.items():
        name, port = instance.split("/")
        assert figures.pop("peer") == links[places[name], int(port)][0]
        assert figures == {name: sums[instance][name] for name in figures}, instance
    assert any(name.startswith("ibspine") and of["transmit_bytes"] for name, of in told.items())


def test_counters_only_grow_and_end_at_the_sums(written):
    described, folder = written
    tree, told = FatTree(described.plan.machine), json.loads((folder / "switches.json").read_text())
    last = {}
    for _, name, text in looks_of(folder, "ibwatch1"):
        if name == "fabric/ibnetdiscover":
            continue
        for port, counted in answered(text).items():
            key = f"{tree.name(switch_of(tree, name))}/{port}"
            assert set(counted) == set(COUNTERS.values()) and all(counted[each] >= value for each, value in last.get(key, {}).items()), key
            last[key] = counted
    assert set(last) == set(told)
    for key, counted in last.items():
        assert {name: counted[name] for name in counted if name != "transmit_wait"} == {name: value for name, value in told[key].items() if name != "peer"}
    assert any(counted["transmit_wait"] for counted in last.values())


def test_what_a_node_sent_its_switch_received(written):
    described, folder = written
    tree, told = FatTree(described.plan.machine), json.loads((folder / "switches.json").read_text())
    for node in ("fwd001", "oss003", "mds1", "mds2"):
        texts = {name: text for _, name, text in looks_of(folder, node) if name.startswith("sys/")}
        counted = {KERNEL[name.split("/")[-1]]: int(text) for name, text in texts.items() if name.split("/")[-1] in KERNEL}
        leaf, port = tree.port_of(tree.nodes.index(node))
        other = told[f"{tree.name(leaf)}/{port}"]
        assert other["peer"] == node
        for mine, theirs in (("transmit", "receive"), ("receive", "transmit")):
            assert (counted[f"{mine}_bytes"] * 4, counted[f"{mine}_packets"]) == (other[f"{theirs}_bytes"], other[f"{theirs}_packets"]), node
        assert (counted["transmit_bytes"] > 0) == (node != "mds2")
        rate = texts["sys/class/infiniband/mlx5_0/ports/1/rate"]
        assert rate == "56 Gb/sec (4X FDR)\n"


def test_ports_wait_as_the_formula_says():
    described = machine()
    plan = described.plan
    tree = FatTree(plan.machine)
    activity = gather(plan.machine, [], [], plan.start_ns)
    sight = Sight(plan.machine, [], replace(activity, end_ms=20_000), plan.start_ns // 10**9, 10, True)
    # 40 % of a link in the first look, nothing in the second.
    words = int(0.4 * 10 * tree.bytes_s / 4)
    one = ports.flows(sight, tree).take(slice(0, 1))
    rows = replace(one, begin_ms=np.array([0]), end_ms=np.array([10_000]), bytes=np.array([words]), operations=np.array([1]))
    counted = ports.Ports(sight, tree, rows, np.array([[1]]), np.array([[0]]), 2)
    assert list(counted.looks()) == [(1, [0, 1])]
    # 0.4 of the time packets leave, and wait as long as 0.4 / 0.6 of them.
    assert counted.counted[0, ports.WAITED] == pytest.approx(10 * 0.4 * (0.4 / 0.6) * 1e9 / 22, rel=1e-6) and counted.counted[1, ports.WAITED] == 0


def test_each_tree_that_is_written_is_told(tmp_path):
    told = []
    write_servers(machine(), tmp_path, 600, tell=lambda done, count: told.append((done, count)))
    trees = sum(1 for path in (tmp_path / "nodes").iterdir() if path.is_dir())
    assert told == [(done, trees) for done in range(1, trees + 1)] and trees == 7 + 2 + 2 + 1


def test_an_idle_machine_counts_nothing():
    idle = replace(machine().plan.machine, others=())
    sight, tree = Sight(idle, [], gather(idle, [], [], START), START // 10**9, 10, True), FatTree(idle)
    flows = ports.flows(sight, tree)
    files = list(ports.watcher_looks(sight, tree, flows, 0))
    assert len(flows) == 0 and {look for look, *_ in files} == {0} and len(files) == 1 + tree.switches
    assert not any(figures["receive_packets"] for figures in ports.totals(tree, flows).values())
