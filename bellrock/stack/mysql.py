"""MySQL 8.0 of `artifacts`."""

from collections.abc import Sequence
from pathlib import Path

from bellrock.stack.artifacts import MYSQL, unpacked
from bellrock.stack.sql import INIT_LIMIT_S, SqlServer


class MySql(SqlServer):
    """A MySQL of its own."""

    title = "MySQL"

    @property
    def client(self) -> Path:
        """The program `mysql` that belongs to it."""
        return unpacked(MYSQL) / "bin/mysql"

    def make_data(self, data: Path) -> None:
        base = unpacked(MYSQL)
        self.run_once([str(base / "bin/mysqld"), "--no-defaults", "--initialize-insecure", f"--basedir={base}", f"--datadir={data}"], INIT_LIMIT_S)

    def command(self) -> Sequence[str]:
        base = unpacked(MYSQL)
        return [str(base / "bin/mysqld"), "--no-defaults", f"--basedir={base}", *self.common_options(self.folder / "data"), "--mysqlx=OFF", "--skip-log-bin"]
