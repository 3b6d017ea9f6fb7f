"""Tables of who may sign in. Types are plain and texts of bounded length."""

from sqlalchemy import BigInteger, ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .models import Base
from .types import Exact

NAME_LENGTH_MAX = 64
LABEL_LENGTH_MAX = 100
DOOR_LENGTH_MAX = 64
_SHA256_LENGTH = 64  # in hex


class AccountRow(Base):
    """Somebody who may sign in. `uid` is the cluster's user that the account owns the jobs of; without one it owns none.
    `disabled_ns`: since when it may not, or null."""

    __tablename__ = "accounts"
    __table_args__ = (UniqueConstraint("name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(Exact(NAME_LENGTH_MAX))
    uid: Mapped[int | None] = mapped_column(BigInteger)
    password: Mapped[str] = mapped_column(Exact(255))
    role: Mapped[str] = mapped_column(Exact(16))
    created_ns: Mapped[int] = mapped_column(BigInteger)
    disabled_ns: Mapped[int | None] = mapped_column(BigInteger)


class TokenRow(Base):
    """A token for API and command line. Only its hash is kept."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("hash"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    account: Mapped[int] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    label: Mapped[str] = mapped_column(Exact(LABEL_LENGTH_MAX))
    hash: Mapped[str] = mapped_column(Exact(_SHA256_LENGTH))
    created_ns: Mapped[int] = mapped_column(BigInteger)
    expires_ns: Mapped[int] = mapped_column(BigInteger)
    used_ns: Mapped[int | None] = mapped_column(BigInteger)


class SessionRow(Base):
    """A browser that signed in. Only the hash of its cookie is kept; `door` is the way that it came, and holds for no other."""

    __tablename__ = "sessions"
    __table_args__ = (UniqueConstraint("hash"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    account: Mapped[int] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    hash: Mapped[str] = mapped_column(Exact(_SHA256_LENGTH))
    door: Mapped[str] = mapped_column(Exact(DOOR_LENGTH_MAX))
    created_ns: Mapped[int] = mapped_column(BigInteger)
    expires_ns: Mapped[int] = mapped_column(BigInteger)
    used_ns: Mapped[int] = mapped_column(BigInteger)
