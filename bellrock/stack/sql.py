"""What MySQL and MariaDB have in common: a private data folder, databases and accounts made at each start."""

import re
import secrets
import socket
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bellrock.stack.process import HOST, Server
from bellrock.stack.tls import Tls

ASK_S = 5.0
INIT_LIMIT_S = 300.0
# A Unix socket's path has at most so many bytes.
SOCKET_PATH_MAX = 107
WORD = re.compile(r"[a-z][a-z0-9_]{0,31}")
BUFFER_POOL_MIB = 64


@dataclass(frozen=True)
class Account:
    """An account for connections of this machine, and what it may do: "SELECT ON bellrock.*"."""

    name: str
    password: str = field(repr=False)
    grants: tuple[str, ...] = ()


class SqlServer(Server):
    """On 127.0.0.1 and on a Unix socket in its folder. `root`, whose password is `root_password`, may do everything, and connects from this machine only."""

    ready_s = 120.0

    def __init__(
        self,
        folder: Path,
        *,
        databases: Sequence[str] = ("bellrock",),
        accounts: Sequence[Account] = (),
        root_password: str | None = None,
        tls: Tls | None = None,
        port: int | None = None,
    ) -> None:
        """Without a `root_password` one is made, other at each start. With `tls` an account over TCP must use it."""
        super().__init__(folder, port)
        for word in [*databases, *(account.name for account in accounts)]:
            if not WORD.fullmatch(word):
                raise ValueError(f"not a name for a database or an account: {word!r}")
        self.databases = tuple(databases)
        self.accounts = tuple(accounts)
        self.root_password = root_password or secrets.token_urlsafe(18)
        self.tls = tls

    @property
    def socket(self) -> Path:
        return self.folder / "run/sql.sock"

    @property
    def ca(self) -> Path | None:
        """The authority by which a client knows the server, None where there is no TLS of ours."""
        return self.tls.ca if self.tls else None

    def url(self, account: str, database: str = "bellrock") -> str:
        """For SQLAlchemy with PyMySQL, without the password."""
        return f"mysql+pymysql://{account}@{HOST}:{self.port}/{database}"

    @abstractmethod
    def make_data(self, data: Path) -> None:
        """Fills an empty data folder; its root has no password yet."""

    def settings(self) -> str:
        return "\n".join([*self.command(), self._init_sql()])

    def prepare(self) -> None:
        data = self.folder / "data"
        made = self.folder / "data.made"  # a data folder that was begun only is begun again
        if not made.exists():
            if data.exists():
                data.rename(self.folder / f"data.broken-{secrets.token_hex(4)}")
            self.make_data(self.make("data"))
            made.touch()
        self.make("files")
        self.make("run")
        self.write("init.sql", self._init_sql())
        if self.tls:
            for name, path in (("ca.crt", self.tls.ca), ("server.crt", self.tls.cert), ("server.key", self.tls.key)):
                self.write(name, path.read_text())

    def common_options(self, data: Path) -> list[str]:
        if len(str(self.socket)) > SOCKET_PATH_MAX:
            raise ValueError(f"{self.socket}: longer than the {SOCKET_PATH_MAX} bytes that a socket's path may have; take a shorter folder")
        options = [
            f"--datadir={data}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'run/sql.pid'}",
            f"--bind-address={HOST}",
            f"--port={self.port}",
            f"--init-file={self.folder / 'init.sql'}",
            f"--innodb-buffer-pool-size={BUFFER_POOL_MIB}M",
            "--performance-schema=OFF",
            "--character-set-server=utf8mb4",
            "--local-infile=OFF",
            f"--secure-file-priv={self.folder / 'files'}",
        ]
        if self.tls:
            options += [
                f"--ssl-ca={self.folder / 'ca.crt'}",
                f"--ssl-cert={self.folder / 'server.crt'}",
                f"--ssl-key={self.folder / 'server.key'}",
                "--require-secure-transport=ON",
            ]
        return options

    def answers(self) -> bool:
        """It greets who connects only once it has carried out init.sql."""
        try:
            with socket.create_connection((HOST, self.port), timeout=ASK_S) as connection:
                greeting = connection.recv(5)
        except OSError:
            return False
        return len(greeting) == 5 and greeting[4] == 10

    def _init_sql(self) -> str:
        """A statement a line; done at each start, so that each may be done again."""
        lines = [f"CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4" for name in self.databases]
        lines.append(f"ALTER USER 'root'@'localhost' IDENTIFIED BY {_quoted(self.root_password)}")
        for account in self.accounts:
            who = f"'{account.name}'@'localhost'"
            lines += [
                f"CREATE USER IF NOT EXISTS {who} IDENTIFIED BY {_quoted(account.password)}",
                f"ALTER USER {who} IDENTIFIED BY {_quoted(account.password)}",
            ]
            lines += [f"GRANT {grant} TO {who}" for grant in account.grants]
        return "".join(f"{line};\n" for line in lines)


def _quoted(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.~-]+", text):
        raise ValueError("a password here has letters, digits and -_.~ only")
    return f"'{text}'"
