"""The demo's programs on a miniature site: an agent for a node of each log server's group, pages at the central server."""

import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bellrock import console, paths
from bellrock.agent import AgentChild
from bellrock.client import Client
from bellrock.errors import Unavailable
from bellrock.stack.site import GROUPS, Site, site_dir
from bellrock.state import find

# When the demo ends, how long an agent may take to deliver its last records, s.
DRAIN_S = 60
# What it keeps on disk meanwhile.
SPOOL_BYTES_MAX = 256 << 20


class StackLease:
    """The site's central server to ask, as `bellrock.embedded.Lease`, and its nodes in turn. `own`: set when the site was started here, and ends with
    the demo."""

    def __init__(self, client: Client, rings: dict[str, Path], own: Site | None) -> None:
        self.client = client
        self.own = own
        self._nodes = itertools.cycle(rings.items())

    def next_node(self) -> str:
        """What is run next runs on the node of this name: it is its agent that sees it."""
        node, rings = next(self._nodes)
        os.environ["BELLROCK_RINGS"] = str(rings)
        return node


@contextmanager
def on_stack() -> Iterator[StackLease]:
    """Brings the site up where it is not, and an agent for each of its groups. Each step is told, and how long the start took."""
    site = Site(site_dir())
    ran = {row["name"] for row in site.status() if row["state"] != "down"}
    began = time.monotonic()
    site.up(_Steps().tell)
    console.say(f"the stack of {len(site.parts())} processes is ready after {time.monotonic() - began:.0f} s, {len(ran)} of them ran before")
    agents: list[tuple[str, AgentChild]] = []
    rings = {f"node-{group}": Path(tempfile.mkdtemp(prefix="bellrock-rings-", dir="/dev/shm")) for group in GROUPS}
    before = os.environ.get("BELLROCK_RINGS")
    try:
        for group, (node, folder) in zip(GROUPS, rings.items(), strict=True):
            agents.append((node, start_agent(site, group, node, folder)))
            console.say(f"{node} is a node of log server {group}: its agent delivers over TLS to {site.part(f'ingest-{group}').address}")
        found = find(site.folder / "server/state")
        if found is None:
            raise Unavailable("the central server does not answer", "look with `bellrock stack status`")
        yield StackLease(Client(found.url, token=found.key), rings, None if ran else site)
    finally:
        for node, agent in agents:
            if not agent.stop(DRAIN_S):
                console.warn(f"the agent of {node} did not deliver all within {DRAIN_S} s; it waits in {agent.spool} for the next demo")
        if before is None:
            os.environ.pop("BELLROCK_RINGS", None)
        else:
            os.environ["BELLROCK_RINGS"] = before
        for folder in rings.values():
            shutil.rmtree(folder, ignore_errors=True)
        if ran:
            console.say("the stack runs on, as it did before; end it with `bellrock stack down`")
        else:
            console.say("ending the stack")
            site.down()


class _Steps:
    """Says each step once."""

    def __init__(self) -> None:
        self._last = ""

    def tell(self, what: str) -> None:
        if what != self._last:
            console.say(what)
        self._last = what


def start_agent(site: Site, group: str, node: str, rings: Path) -> AgentChild:
    """The agent of a node of a group, which reads `rings`; one that a killed demo left is replaced. Raises BellrockError and OSError."""
    tls = site.node_certificate(node)
    state = paths.private_dir(site.folder / f"agent-{node}")
    server = site.part(f"ingest-{group}").server
    settings = {
        "node": node,
        "rings": str(rings),
        "spool": str(paths.private_dir(state / "spool")),
        "spool_max_bytes": SPOOL_BYTES_MAX,
        "server": f"127.0.0.1:{server.port}",
    }
    files = {"ca": str(tls.ca), "cert": str(tls.cert), "key": str(tls.key)}
    # JSON's strings and numbers are TOML's.
    lines = [
        *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
        "[tls]",
        *(f"{name} = {json.dumps(value)}" for name, value in files.items()),
    ]
    paths.write_atomically(state / "agent.toml", "\n".join(lines) + "\n")
    agent = AgentChild(paths.artefact(paths.AGENT), state / "agent.toml", state)
    agent.replace_orphan()
    agent.start()
    return agent
