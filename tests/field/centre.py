"""Where the machine's records go, and who answers about them: the embedded server, or the log servers and the centre of a whole site. Both follow Slurm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from bellrock.client import Client
from bellrock.stack.bellrock import Bellrock, Settings
from bellrock.stack.process import HOST, Server
from bellrock.stack.site import GROUPS, Site
from bellrock.state import find
from tests.wait import until


FOLLOWS: Settings = {"scheduler": {"kind": "slurm", "every_s": 1}}


class Centre(Protocol):
    # Whether agents must be on this machine's network to reach it.
    on_loopback: bool
    # The central server, whose configuration is `bellrock`'s, too.
    server: Server

    def start(self, environ: Mapping[str, str]) -> None:
        """environ: what Slurm's commands need."""

    def stop(self) -> None: ...

    def agent_settings(self, node: str) -> str:
        """Lines of an agent's settings, the last ones: whom it delivers to."""

    @property
    def client(self) -> Client: ...


class Embedded:
    """One `bellrock server`."""

    on_loopback = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, environ: Mapping[str, str]) -> None:
        self.server: Server = Bellrock(self._folder, "server", {"agent": {"run": False}, **FOLLOWS}, ("http", "port"), environ=environ)
        self.server.start()

    def stop(self) -> None:
        if hasattr(self, "server"):
            self.server.stop()

    def agent_settings(self, node: str) -> str:
        return f'server = "unix:{self.server.folder}/state/ingest.sock"\n'

    @property
    def client(self) -> Client:
        return _client(self.server)


class OnSite:
    """The stack (docs/stack.md): nodes belong to its groups in turn."""

    on_loopback = True

    def __init__(self, folder: Path) -> None:
        self._folder, self._nodes = folder, 0
        self._site = Site(folder)

    def start(self, environ: Mapping[str, str]) -> None:
        self._site = Site(self._folder, FOLLOWS, environ)
        self._site.up()
        self.server = self._site.part("server").server

    def stop(self) -> None:
        self._site.down()

    def agent_settings(self, node: str) -> str:
        ingest = self._site.part(f"ingest-{GROUPS[self._nodes % len(GROUPS)]}").server
        self._nodes += 1
        tls = self._site.node_certificate(node)
        files = {"ca": str(tls.ca), "cert": str(tls.cert), "key": str(tls.key)}
        # JSON's strings are TOML's.
        return f'server = "{HOST}:{ingest.port}"\n[tls]\n' + "".join(f"{name} = {json.dumps(value)}\n" for name, value in files.items())

    @property
    def client(self) -> Client:
        return _client(self.server)


def _client(server: Server) -> Client:
    found = until(lambda: find(server.folder / "state"), "the server is up")
    return Client(found.url, token=found.key)
