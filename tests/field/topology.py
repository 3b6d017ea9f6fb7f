"""What an administrator of the machine would write down of it (docs/topology.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.field.gluster import VOLUME, Gluster
from tests.field.network import Node


def site(gluster: Gluster, mount: Path, clients: Sequence[Node], as_lustre: bool) -> str:
    """The text of its one file. Nodes reach all bricks by themselves; beneath each brick is a disk. as_lustre: bricks are targets of Lustre's."""
    names, kind = [node.name for node in clients], "lustre" if as_lustre else "gluster"
    blocks = [
        f'[[class]]\nname = "compute"\nnodes = "{",".join(names)}"',
        f'[[file_system]]\nname = "{VOLUME}"\nkind = "{kind}"\nmounts = "{mount}"',
    ]
    blocks.append(f'[[address]]\nnodes = "{",".join(names)}"\naddresses = "{",".join(node.address for node in clients)}"')
    for number, (name, brick) in enumerate(gluster.bricks.items()):
        of = f'file_system = "{VOLUME}"\nservers = "{name}"\n'
        if as_lustre:
            blocks += [f'[[target]]\n{of}kind = "{of_lustre}"\nnumbers = "{number}"' for of_lustre in ("ost", "mdt")]
        else:
            blocks.append(f'[[target]]\n{of}kind = "brick"\nnames = "brick-{name}"\ncomponent = "gluster_server"\ninstance = "{brick.instance}"')
        blocks.append(f'[[target]]\n{of}kind = "disk"\nnames = "disk-{name}"\ncomponent = "block_device"\ninstance = "{brick.disk.device}"')
    return "\n\n".join(blocks) + "\n"
