"""The distribution's MariaDB as a child process, for tests: a site of `bellrock stack` has MySQL."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from bellrock.stack import Missing
from bellrock.stack.sql import INIT_LIMIT_S, SqlServer


class MariaDb(SqlServer):
    """A MariaDB of its own."""

    title = "MariaDB"

    @property
    def client(self) -> Path:
        """The program `mariadb` that belongs to it."""
        return Path(_program("mariadb"))

    def make_data(self, data: Path) -> None:
        command = [_program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        self.run_once(command, INIT_LIMIT_S)

    def command(self) -> Sequence[str]:
        return [_program("mariadbd"), "--no-defaults", *self.common_options(self.folder / "data")]


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Missing(f"`{name}` is missing", "run `apt-get install mariadb-server`")
    return found
