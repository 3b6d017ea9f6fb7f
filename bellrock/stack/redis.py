"""A Redis: every write on disk before it is answered, a password, a bound on its memory."""

import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from bellrock.stack import Missing
from bellrock.stack.process import HOST, Server

MEMORY_MIB = 256
ASK_S = 5.0


class Redis(Server):
    """On 127.0.0.1 and on a Unix socket in its folder. A password of "" lets everybody of this machine in at the port."""

    title = "Redis"
    ready_s = 60.0

    def __init__(self, folder: Path, *, password: str = "", memory_mib: int = MEMORY_MIB, durable: bool = True, port: int | None = None) -> None:
        """`durable`: an append-only file, synced at every write; without it nothing is kept, as a cache needs it."""
        super().__init__(folder, port)
        if any(character.isspace() or character in "\"'\\" for character in password):
            raise ValueError("a Redis password here has no blanks, quotes or backslashes")
        self.password = password
        self.memory_mib = memory_mib
        self.durable = durable

    @property
    def url(self) -> str:
        """redis://127.0.0.1:PORT/0, without the password."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def socket(self) -> Path:
        return self.folder / "run/redis.sock"

    def settings(self) -> str:
        return self._conf()

    def prepare(self) -> None:
        self.make("data")
        self.make("run")
        self.write("redis.conf", self._conf())

    def command(self) -> Sequence[str]:
        program = shutil.which("redis-server")
        if program is None:
            raise Missing("`redis-server` is missing", "run `apt-get install redis-server`")
        return [program, str(self.folder / "redis.conf")]

    def answers(self) -> bool:
        return self.ask("PING") == "+PONG"

    def ask(self, command: str) -> str:
        """The first line of the answer to an inline command, "" where none comes."""
        try:
            with socket.create_connection((HOST, self.port), timeout=ASK_S) as connection, connection.makefile("rb") as answers:
                if self.password:
                    connection.sendall(f"AUTH {self.password}\r\n".encode())
                    answers.readline()
                connection.sendall(f"{command}\r\n".encode())
                return answers.readline().decode(errors="replace").rstrip("\r\n")
        except OSError:
            return ""

    def _conf(self) -> str:
        settings = {
            "bind": HOST,
            "port": self.port,
            "unixsocket": self.socket,
            "unixsocketperm": "700",
            "protected-mode": "yes",
            "dir": self.folder / "data",
            "daemonize": "no",
            # Its own title would take the place of the environment, by which it is found again.
            "set-proc-title": "no",
            "maxmemory": f"{self.memory_mib}mb",
            # A queue refuses what it cannot keep; a cache makes room.
            "maxmemory-policy": "noeviction" if self.durable else "allkeys-lru",
            "appendonly": "yes" if self.durable else "no",
            "appendfsync": "always",
            "save": '""',
        }
        if self.password:
            settings["requirepass"] = self.password
        return "".join(f"{key} {value}\n" for key, value in settings.items())
