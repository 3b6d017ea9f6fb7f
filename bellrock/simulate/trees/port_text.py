"""What the fabric's tools, and the kernel of a node, write of ports, as far as the agent reads it (collectors/agent/src/sources/{switch_port,fabric_port})."""

from collections.abc import Iterable, Iterator

from bellrock.simulate.description import LINKS
from bellrock.simulate.fat_tree import FatTree

# Numbers that the maker would have burnt in, and the subnet manager given: switches have the lowest LIDs.
SWITCH_GUID, NODE_GUID = 0x0002C90300200000, 0x0002C90300400000
DEVICE = "mlx5_0"
SYS = f"sys/class/infiniband/{DEVICE}/ports/1"
# Words sent, words received, packets sent, packets received, ticks waited.
COUNTED = 5
_KERNEL = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_xmit_wait")
_ERRORS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_discards",
    "port_xmit_constraint_errors", "port_rcv_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
)  # fmt: skip
_NO_ERRORS = "".join(
    f"{name + ':':.<33}0\n"
    for name in (
        "SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "PortXmitDiscards",
        "PortXmitConstraintErrors", "PortRcvConstraintErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors", "VL15Dropped",
    )
)  # fmt: skip


def lid(switch: int) -> int:
    """The address of a switch in its subnet."""
    return switch + 1


def perfquery(switch: int, port: int, counted: list[int]) -> str:
    """What `perfquery -x` says of a port of a switch that has 64 bits for all its counters."""
    words_out, words_in, packets_out, packets_in, waited = counted
    return (
        f"# Port extended counters: Lid {lid(switch)} port {port} (CapMask: 0x5A00 CapMask2: 0x0000016)\n"
        f"PortSelect:......................{port}\nCounterSelect:...................0x0000\n"
        f"PortXmitData:....................{words_out}\nPortRcvData:.....................{words_in}\n"
        f"PortXmitPkts:....................{packets_out}\nPortRcvPkts:.....................{packets_in}\n"
        f"PortUnicastXmitPkts:.............{packets_out}\nPortUnicastRcvPkts:..............{packets_in}\n"
        "PortMulticastXmitPkts:...........0\nPortMulticastRcvPkts:............0\nCounterSelect2:..................0x00000000\n"
        f"{_NO_ERRORS}PortXmitWait:....................{waited}\nQP1Dropped:......................0\n"
    )


def ibnetdiscover(fabric: FatTree) -> str:
    """What `ibnetdiscover` says of it."""
    link = f"4x{fabric.machine.fabric.speed}"
    lines = ["#", "# Topology file: a virtual machine's", "#"]
    places = {fabric.name(switch): switch for switch in range(fabric.switches)}
    first = fabric.switches + 1
    for switch in range(fabric.switches):
        guid = SWITCH_GUID + switch
        lines += _head(guid, "switch") + [f'Switch\t{fabric.machine.fabric.ports} "S-{guid:016x}"\t\t# "{fabric.name(switch)}" enhanced port 0 lid {lid(switch)} lmc 0']
        for port, peer, at in fabric.ports(switch):
            if peer in places:
                lines.append(f'[{port}]\t"S-{SWITCH_GUID + places[peer]:016x}"[{at}]\t\t# "{peer}" lid {lid(places[peer])} {link}')
            else:
                node = switch * fabric.half + port - 1
                lines.append(f'[{port}]\t"H-{_node_guid(node):016x}"[{at}]({_node_guid(node):x}) \t\t# "{peer} {DEVICE}" lid {first + node} {link}')
    for node, name in enumerate(fabric.nodes):
        guid, (leaf, port) = _node_guid(node), fabric.port_of(node)
        lines += _head(guid, "ca") + [f'Ca\t1 "H-{guid:016x}"\t\t# "{name} {DEVICE}"']
        lines.append(f'[1]({guid:x}) \t"S-{SWITCH_GUID + leaf:016x}"[{port}]\t\t# lid {first + node} lmc 0 "{fabric.name(leaf)}" lid {lid(leaf)} {link}')
    return "\n".join(lines) + "\n"


def _node_guid(node: int) -> int:
    return NODE_GUID + 16 * node


def _head(guid: int, kind: str) -> list[str]:
    return ["", "vendid=0x2c9", "devid=0x0", f"sysimgguid={guid:#x}", f"{kind}guid={guid:#x}({guid:x})"]


def kernel_first(fabric: FatTree) -> Iterator[tuple[str, str]]:
    """What the kernel tells of a node's port that does not change, and what is not counted here."""
    speed = fabric.machine.fabric.speed
    told = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": "InfiniBand", "rate": f"{LINKS[speed][0]} Gb/sec (4X {speed})"}
    yield from ((f"{SYS}/{name}", f"{text}\n") for name, text in told.items())
    yield from ((f"{SYS}/counters/{name}", "0\n") for name in _ERRORS)


def kernel(counted: Iterable[int], before: Iterable[int | None]) -> Iterator[tuple[str, str]]:
    """What it has counted, where that is something else than before."""
    for name, now, then in zip(_KERNEL, counted, before, strict=True):
        if now != then:
            yield f"{SYS}/counters/{name}", f"{now}\n"
