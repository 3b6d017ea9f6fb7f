"""Names of a virtual machine's nodes, servers and targets, by number from 0."""

from bellrock.simulate.description import Machine
from bellrock.simulate.model import node_name

__all__ = ["address", "forwarder", "leaf", "metadata_server", "metadata_target", "node_name", "nodes_of", "other", "server", "spine", "target", "watcher"]

# Networks of compute nodes, forwarding nodes, and others that use the file system; each has room for 65,536 addresses.
COMPUTE_NET, FORWARDING_NET, OTHERS_NET = "10.1", "10.2", "10.3"


def forwarder(number: int) -> str:
    return f"fwd{number + 1:03d}"


def server(number: int) -> str:
    return f"oss{number + 1:03d}"


def target(number: int) -> str:
    return f"OST{number:04x}"


def metadata_server(number: int) -> str:
    return f"mds{number + 1}"


def metadata_target(number: int) -> str:
    return f"MDT{number:04x}"


def other(class_: str, number: int) -> str:
    """A node of one of `machine.others`."""
    return f"{class_}{number + 1:03d}"


def leaf(number: int) -> str:
    """A switch of the fabric that nodes are at."""
    return f"ibleaf{number + 1:02d}"


def spine(number: int) -> str:
    """A switch of the fabric that leaves are at."""
    return f"ibspine{number + 1:02d}"


def watcher(number: int) -> str:
    """A node that asks switches."""
    return f"ibwatch{number + 1}"


def address(net: str, number: int) -> str:
    """The address of a network's so-manieth node."""
    return f"{net}.{(number + 1) >> 8}.{(number + 1) & 255}"


def nodes_of(machine: Machine) -> dict[str, list[str]]:
    """All nodes, by what they are: compute, forwarding (those in use and those that wait), storage, metadata, and each class of others."""
    return {
        "compute": [node_name(number) for number in range(machine.compute.nodes)],
        "forwarding": [forwarder(number) for number in range(machine.forwarders + machine.forwarding.spare)],
        "storage": [server(number) for number in range(machine.storage.servers)],
        "metadata": [metadata_server(number) for number in range(machine.metadata.servers)],
        **{others.class_: [other(others.class_, number) for number in range(others.nodes)] for others in machine.others},
    }
