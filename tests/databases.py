"""Private MariaDB and MySQL servers for tests, each started once a session, on a Unix socket and a loopback port."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

ROOT = Path(__file__).resolve().parent.parent
START_S = 120


class Server:
    """One server. `kind` is "mariadb" or "mysql". Its root account has no password and is reached by the socket."""

    def __init__(self, kind: str, home: Path, port: int) -> None:
        self.kind, self.port = kind, port
        self.data, self.socket = home / "data", home / "s"
        self._log = home / "log"
        self._process: subprocess.Popen | None = None
        # Neither of them runs as root.
        self._run = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._run:
            os.chown(home, pwd.getpwnam("nobody").pw_uid, -1)
        if kind == "mariadb":
            init = ["mariadb-install-db", "--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
            self._command = ["mariadbd", "--no-defaults"]
        else:
            base = ROOT / "build" / "mysql"
            init = [str(base / "bin/mysqld"), "--no-defaults", "--initialize-insecure", f"--basedir={base}", f"--datadir={self.data}"]
            self._command = [str(base / "bin/mysqld"), "--no-defaults", f"--basedir={base}", "--mysqlx=OFF"]
        self._home = home
        with open(self._log, "ab") as log:
            subprocess.run(init, check=True, stdout=log, stderr=log, timeout=START_S, cwd=home, **self._run)

    def start(self) -> None:
        """Returns when it answers."""
        command = [
            *self._command, f"--datadir={self.data}", f"--socket={self.socket}", f"--pid-file={self.data}/pid", f"--port={self.port}",
            "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M",
        ]  # fmt: skip
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._home, **self._run)
        until = time.monotonic() + START_S
        while True:
            try:
                self.ask("SELECT 1")
                return
            except pymysql.err.OperationalError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def ask(self, *statements: str) -> list[tuple]:
        """Runs statements as root; the rows of the last."""
        connection = pymysql.connect(unix_socket=str(self.socket), user="root", autocommit=True)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def kill(self) -> None:
        """As a crash would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(START_S)

    def url(self, database: str, user: str = "root") -> str:
        return f"mysql+pymysql://{user}@/{database}?unix_socket={self.socket}"


def available(kind: str) -> bool:
    return shutil.which("mariadbd") is not None if kind == "mariadb" else (ROOT / "build/mysql/bin/mysqld").exists()


@contextmanager
def serving(kind: str, port: int):
    """A server of its own; skips the test where it is not installed."""
    if not available(kind):
        pytest.skip(f"no {kind} on this machine")
    home = Path(tempfile.mkdtemp(prefix=f"br-{kind}-"))
    os.chmod(home, 0o755)
    try:
        server = Server(kind, home, port)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home)
