"""Bellrock's own processes of a site: `bellrock ingest` of a log server, and the central `bellrock server`."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bellrock.ports import is_free
from bellrock.stack.process import HOST, Server

Settings = Mapping[str, Mapping[str, str | int | bool | list[str]]]


class Bellrock(Server):
    """`bellrock VERB` with its state in the folder, as the user that starts it. `sections` are those of its server.toml; `port_of` names
    the setting that gets its port; `environ`: further variables."""

    ready_s = 120.0
    unprivileged = False

    def __init__(
        self, folder: Path, verb: str, sections: Settings, port_of: tuple[str, str], *, port: int | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder, port)
        self.title = f"bellrock {verb} ({folder.name})"
        self._verb = verb
        self._sections = sections
        self._port_of = port_of
        self._environ_more = dict(environ or {})

    def settings(self) -> str:
        return self._toml()

    def prepare(self) -> None:
        self.make("state")
        self.write("server.toml", self._toml())

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "bellrock", self._verb, "--config", str(self.folder / "server.toml")]

    def environment(self) -> Mapping[str, str]:
        return {"BELLROCK_STATE": str(self.folder / "state"), **self._environ_more}

    def answers(self) -> bool:
        """Whether somebody listens at its port: a connection would be counted as an agent's."""
        return self.running and not is_free(HOST, self.port)

    def _toml(self) -> str:
        """Strings of JSON are those of TOML, as long as they are ASCII."""
        section, name = self._port_of
        sections = {**self._sections, section: {**self._sections.get(section, {}), name: self.port}}
        return "".join(f"[{title}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()) for title, values in sections.items())
