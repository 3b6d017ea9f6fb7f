"""`bellrock replay`."""

import time
from pathlib import Path

import click

from bellrock import console, output
from bellrock.errors import EXIT_CODES, BellrockError


@click.command(
    short_help="Play a virtual machine to the true agents.",
    help=f"""Play what `bellrock simulate --trees DIR` wrote to the true agents: for each node one reads its logs and, look after look, its files, at the times of the
virtual machine, and delivers to the server as on a real node.

Some nodes are played at a time, as fast as it goes. Broken off by SIGTERM or Ctrl-C, agents deliver what they have; the same command goes on from there.
DIR/replay has each agent's spool and log.

\b
Examples:
  bellrock replay /tmp/machine
  bellrock replay /tmp/machine --server 127.0.0.1:5044 --node oss001 --node mds1
  bellrock replay /tmp/machine --json | jq .done

{EXIT_CODES}""",
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--server", default="127.0.0.1:5044", show_default=True, metavar="HOST:PORT", help="Where agents deliver, on this machine; unix:/PATH for a socket.")
@click.option("--node", "wanted", multiple=True, metavar="NAME", help="Only this node; may be given again.")
@click.option("--at-once", type=click.IntRange(1, 64), default=2, show_default=True, help="How many nodes at a time.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as one JSON object.")
def replay(folder: Path, server: str, wanted: tuple[str, ...], at_once: int, as_json: bool) -> None:
    from bellrock.simulate import replay as player
    from bellrock.simulate.play import play

    folder = folder.absolute()
    times, nodes = player.read_times(folder), player.nodes_of(folder, wanted)
    done = play(player.Replay(folder, times, server, player.agent()), nodes, at_once)
    if as_json:
        output.show_json(done)
    if done["done"] < len(nodes):
        raise BellrockError(f"{len(nodes) - done['done']} of {len(nodes)} nodes are not done", f"go on with: bellrock replay {folder} --server {server}")
    day = time.strftime("%Y-%m-%d", time.gmtime(times.start_s))
    console.say(f"{len(nodes)} nodes are played; look at them with: bellrock components --since {day}")
