"""What an administrator of the machine would write down of it (docs/topology.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.field.gluster import VOLUME, Gluster
from tests.field.network import Node


def site(gluster: Gluster, mount: Path, clients: Sequence[Node]) -> str:
    """The text of its one file. Nodes reach all bricks by themselves; beneath each brick is a disk."""
    names = [node.name for node in clients]
    blocks = [
        f'[[class]]\nname = "compute"\nnodes = "{",".join(names)}"',
        f'[[file_system]]\nname = "{VOLUME}"\nkind = "gluster"\nmounts = "{mount}"',
    ]
    blocks.append(f'[[address]]\nnodes = "{",".join(names)}"\naddresses = "{",".join(node.address for node in clients)}"')
    for name, brick in gluster.bricks.items():
        of = f'file_system = "{VOLUME}"\nservers = "{name}"\n'
        blocks.append(f'[[target]]\n{of}kind = "brick"\nnames = "brick-{name}"\ncomponent = "gluster_server"\ninstance = "{brick.instance}"')
        blocks.append(f'[[target]]\n{of}kind = "disk"\nnames = "disk-{name}"\ncomponent = "block_device"\ninstance = "{brick.disk.device}"')
    return "\n\n".join(blocks) + "\n"
