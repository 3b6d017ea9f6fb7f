"""The miniature machine to play with: `python -m tests.field up`, then `sbatch`.

    python -m tests.field up        nodes, Slurm, GlusterFS, agents and the embedded server; says what runs where
                         --stack    with the stack instead of that server (docs/stack.md)
                         --lustre   GlusterFS' servers pass for Lustre's
    python -m tests.field status    what runs
    python -m tests.field down      end it, and remove all that it kept

It lies in $BELLROCK_FIELD (default: /srv/bellrock-field). Needs root."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bellrock import paths
from bellrock.errors import BellrockError
from bellrock.stack.process import processes
from tests.field.centre import Embedded, OnSite
from tests.field.machine import ADA, Machine
from tests.field.sweep import claim, sweep

NODES = [f"cn{number}" for number in range(1, 5)]
# Of programs' files below /var or /run nothing would be watched.
PLACE = Path("/srv/bellrock-field")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.field", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start it; what is left of another is ended before")
    up.add_argument("--stack", action="store_true", help="with the servers of a whole site instead of the embedded one (3.2 GB)")
    up.add_argument("--lustre", action="store_true", help="GlusterFS' servers pass for Lustre's, to their agents and in the topology")
    verbs.add_parser("status", help="what runs")
    verbs.add_parser("down", help="end it, and remove all that it kept")
    given = parser.parse_args()
    folder = Path(os.environ.get("BELLROCK_FIELD", PLACE)).absolute()
    if os.geteuid() != 0:
        print("Only root can make namespaces and start Slurm's daemons.", file=sys.stderr)
        return 1
    try:
        if given.verb == "up":
            _up(folder, given.stack, given.lustre)
        elif given.verb == "down":
            ended = sweep(folder)
            print(f"ended: {', '.join(ended)}" if ended else "nothing of the machine was running")
        return _status(folder) if given.verb == "status" else 0
    except BellrockError as error:
        print(f"{error}\nWhat to do: {error.hint}", file=sys.stderr)
        return 1


def _up(folder: Path, stack: bool, as_lustre: bool) -> None:
    """Raises BellrockError; what was begun by then is ended again."""
    sweep(folder)
    claim(folder)
    centre = OnSite(folder / "site") if stack else Embedded(folder / "server")
    machine = Machine(folder / "machine", NODES, forwards=True, centre=centre, as_lustre=as_lustre)
    try:
        machine.start()
    except BaseException:
        machine.stop()
        sweep(folder)
        raise
    _status(folder)
    print(f"""
Pages: {machine.client.url}
Nodes: {", ".join(f"{node.name} {node.address}" for node in machine.nodes.values())}; each mounts GlusterFS at {machine.work}
Disks: {", ".join(f"{name}: {brick.disk.device}, {brick.disk.write_bytes_per_s >> 20} MiB/s" for name, brick in (machine.gluster.bricks if machine.gluster else {}).items())}

To submit a job, as a user who is not root:
    export SLURM_CONF={machine.slurm.conf}
    cd {machine.shared}
    setpriv --reuid={ADA} --regid={ADA} --clear-groups sbatch -N 2 -n 4 --wrap 'mpirun {machine.folder}/mpi_checkpoint {machine.work}'
    squeue; sacct

To look from here, as root:
    export BELLROCK_STATE={machine.centre.server.folder}/state
    bellrock jobs; bellrock layers 1

To end it: python -m tests.field down""")


def _status(folder: Path) -> int:
    """Prints a line for each server; 1 where one does not run, or there is none."""
    rows = []
    for record in sorted(folder.rglob("server.json")):
        found = paths.read_json(record) or {}
        if "mark" in found:  # the other files of this name are a state's
            rows.append((str(record.parent.relative_to(folder)), found["title"], next(iter(processes(found["mark"])), None)))
    for place, title, pid in rows:
        print(f"{place:<34} {title:<28} {'down' if pid is None else f'process {pid}'}")
    if not rows:
        print("there is no machine; begin with `python -m tests.field up`")
    return int(not rows or any(pid is None for *_, pid in rows))


if __name__ == "__main__":
    sys.exit(main())
