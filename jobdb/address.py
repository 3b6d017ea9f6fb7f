"""Where the job database is, as [jobdb] in server.toml says it. No driver is loaded here: the configuration is read by every command."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from pipeline.listen import is_loopback
from pipeline.secret import SecretError, read_secret

SCHEME = "mysql+pymysql"
FORM = f"{SCHEME}://USER@HOST:PORT/DATABASE, or {SCHEME}://USER@/DATABASE?unix_socket=/PATH"
PORT = 3306

# What accounts and databases may be called.
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True)
class Access:
    """The way to a job database. url: "sqlite:///PATH", or see `parse`; the others are absolute paths, for a server alone."""

    url: str
    password_file: str = ""
    ca: str = ""


class BadAddress(ValueError):
    """An address or a password file that cannot be used. `hint` says what would do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]}; {self.hint}"


@dataclass(frozen=True)
class Address:
    """A MySQL or MariaDB server, an account and a database there. `socket`: the path of its Unix socket, "" where it is reached by TCP.
    ca: path of the authorities, PEM, that its certificate must come from; "" where it is this machine's."""

    user: str
    host: str
    port: int
    socket: str
    database: str
    password_file: str = ""
    ca: str = ""

    def __str__(self) -> str:
        where = f"{self.socket}:" if self.socket else f"{self.host}:{self.port}/"
        return f"{self.user}@{where}{self.database}"


def parse(url: str, password_file: str = "", ca: str = "") -> Address:
    """The address in `url`. Raises BadAddress."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
    except ValueError as error:
        raise BadAddress(f"{url!r} is no address: {error}", f"write {FORM}") from error
    if parts.password is not None:
        raise BadAddress("the address holds a password, which everybody sees who sees the address", "put it into the file that password_file names")
    options = dict(parse_qsl(parts.query))
    database, socket = unquote(parts.path.removeprefix("/")), options.pop("unix_socket", "")
    if parts.scheme != SCHEME or not parts.username or not database or options or parts.fragment:
        raise BadAddress(f"{url!r} is no address of a MySQL or MariaDB database", f"write {FORM}")
    if not NAME.fullmatch(database):
        raise BadAddress(f"{database!r} is no name of a database here", "take a-z, 0-9 and _, beginning with a letter, 32 at most")
    if bool(socket) == bool(parts.hostname) or (socket and not socket.startswith("/")):
        raise BadAddress(f"{url!r} names neither a host alone nor an absolute path of a socket alone", f"write {FORM}")
    host = parts.hostname or ""
    if host and not is_loopback(host) and not ca:
        raise BadAddress(
            f"{host} is another machine, and no ca is set: anybody between could read along", "set ca to the authority of the server's certificate"
        )
    for name, path in (("password_file", password_file), ("ca", ca)):
        if path and not Path(path).is_absolute():
            raise BadAddress(f"{name} = {path!r} is not an absolute path", "begin it with /")
    return Address(unquote(parts.username), host, port, socket, database, password_file, ca)


def read_password(path: str) -> str:
    """The password in a file, see `pipeline.secret.read_secret`; "" stands for no file and no password. Raises BadAddress."""
    try:
        return read_secret(Path(path)) if path else ""
    except SecretError as error:
        raise BadAddress(error.what, error.hint) from error
