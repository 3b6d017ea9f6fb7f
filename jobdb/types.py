"""Column types that mean the same on SQLite, MariaDB and MySQL."""

from sqlalchemy import Text
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

# Lengths of keys, characters of up to 4 bytes each: an index entry of InnoDB has 3,072 bytes.
ID_LENGTH_MAX = 512
NAME_LENGTH_MAX = 255
# Of what is shown only.
TEXT_LENGTH_MAX = 4096


def clean(text: str) -> str:
    """Text that UTF-8 can carry: lone surrogates, which JSON can bring in, become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Exact(TypeDecorator):
    """Text that is compared and sorted by its code points, trailing blanks and case and all, as SQLite does by itself.

    What is longer than `length` characters (None: no bound) is cut, in rows and in questions alike, so that both find each other. Any text may come:
    see `clean`. MySQL and MariaDB each have a collation for this, by different names; utf8mb4_bin, which both have, ignores trailing blanks."""

    impl = Text
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect):
        if dialect.name not in ("mysql", "mariadb"):
            return dialect.type_descriptor(Text())
        collation = "utf8mb4_nopad_bin" if dialect.is_mariadb else "utf8mb4_0900_bin"
        bounded = self.length is not None and self.length <= ID_LENGTH_MAX
        return dialect.type_descriptor(mysql.VARCHAR(self.length, collation=collation) if bounded else mysql.LONGTEXT(collation=collation))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)[: self.length]
