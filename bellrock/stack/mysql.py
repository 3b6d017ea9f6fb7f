"""MySQL 8.0 of `artifacts`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bellrock.stack import Missing
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

    def prepare(self) -> None:
        self._libaio()
        super().prepare()

    def environment(self) -> Mapping[str, str]:
        return {"LD_LIBRARY_PATH": str(self.folder / "lib")} if (self.folder / "lib").is_dir() else {}

    def _libaio(self) -> None:
        """Debian 13 and Ubuntu 24.04 have this library by another name, with the same calls on 64 bits."""
        if any(Path("/usr/lib").glob("*/libaio.so.1")):
            return
        renamed = next(Path("/usr/lib").glob("*/libaio.so.1t64"), None)
        if renamed is None:
            raise Missing("MySQL needs libaio.so.1, which is missing", "run `apt-get install libaio1` (on Debian 13 and Ubuntu 24.04 libaio1t64)")
        link = self.make("lib") / "libaio.so.1"
        link.unlink(missing_ok=True)
        link.symlink_to(renamed)

    def command(self) -> Sequence[str]:
        base = unpacked(MYSQL)
        return [str(base / "bin/mysqld"), "--no-defaults", f"--basedir={base}", *self.common_options(self.folder / "data"), "--mysqlx=OFF", "--skip-log-bin"]
