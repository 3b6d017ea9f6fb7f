"""Who may sign in: accounts, tokens and sessions in the job database. Passwords come hashed, and of secrets only hashes are kept."""

import hashlib
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Row, bindparam, delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from .account_models import DOOR_LENGTH_MAX, LABEL_LENGTH_MAX, NAME_LENGTH_MAX, AccountRow, SessionRow, TokenRow
from .engine import Transactions
from .recent import Recent

T = TypeVar("T")

ROLES = ("user", "admin")
_S = 10**9
# A session ends so long after the sign-in, and after so long without a request.
SESSION_NS = 12 * 3600 * _S
IDLE_NS = 2 * 3600 * _S
# Of one account; one more session ends the oldest, one more token is refused.
SESSIONS_MAX = 20
TOKENS_MAX = 100
TOKEN_DAYS_MAX = 366
# What another process changes, such as a token that it revokes, is heeded after so long at the latest.
SHOWN_S = 1.0
# That a secret was used is written down at most so often.
USED_EVERY_NS = 60 * _S
TOKEN_PREFIX = "brk_"  # by which scanners of published code can tell one
_SECRET_BYTES = 32
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.@-]{{0,{NAME_LENGTH_MAX - 1}}}", re.ASCII)


class AccountError(ValueError):
    """What was asked of an account or token cannot be done; the text says why."""


@dataclass(frozen=True)
class Account:
    """Somebody who may sign in, unless `disabled`. `uid`: the cluster's user that it owns the jobs of, or None; role: one of `ROLES`."""

    id: int
    name: str
    uid: int | None
    role: str
    created_ns: int
    disabled: bool


@dataclass(frozen=True)
class Token:
    """A token of the account `name`, but for the secret, which nobody has kept. Instants are ns since the epoch."""

    id: int
    name: str
    label: str
    created_ns: int
    expires_ns: int
    used_ns: int | None


def is_name(name: str) -> bool:
    """Whether an account may be called so: what user names are made of, at most 64 characters."""
    return _NAME.fullmatch(name) is not None


class Accounts:
    """Accounts, tokens and sessions in the tables that `JobDB` made. All methods may be called from any thread.

    All raise JobDBAway where the database does not answer.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._shown = Recent(age_s=SHOWN_S)  # by kind and hash, the row of a secret

    def _write(self, work: Callable[[Session], T]) -> T:
        try:
            return self._transactions.write(work)
        finally:
            self._shown.changed(None)

    # -- accounts

    def add(self, name: str, password_hash: str, role: str, uid: int | None) -> Account:
        """A new account. Raises AccountError for a name that is taken or that none may bear, and an unknown role."""
        if not is_name(name):
            raise AccountError(f"{name[:100]!r} is no name of an account: letters, digits, '_', '.', '@' and '-', at most {NAME_LENGTH_MAX}")
        if role not in ROLES:
            raise AccountError(f"{role[:100]!r} is no role; there are {', '.join(ROLES)}")

        def work(session: Session) -> Account:
            if _row(session, name) is not None:
                raise AccountError(f"there is an account {name!r} already")
            row = AccountRow(name=name, uid=uid, password=password_hash, role=role, created_ns=time.time_ns())
            session.add(row)
            session.flush()
            return _account(row)

        try:
            return self._write(work)
        except IntegrityError as error:
            raise AccountError(f"there is an account {name!r} already") from error

    def every(self) -> list[Account]:
        """All accounts by name."""

        def work(session: Session):
            return [_account(row) for row in session.scalars(select(AccountRow).order_by(AccountRow.name))]

        return self._transactions.read(work)

    def exist(self) -> bool:
        """Whether there is any account."""

        def work(session: Session):
            return session.scalar(select(AccountRow.id).limit(1)) is not None

        return self._transactions.read(work)

    def credentials(self, name: str) -> tuple[Account, str] | None:
        """The account of that name, disabled or not, with the hash of its password; or None."""

        def work(session: Session):
            row = _row(session, name)
            return None if row is None else (_account(row), row.password)

        return self._transactions.read(work)

    def set_password(self, name: str, password_hash: str) -> None:
        """Another password; all sessions and tokens of the account end, since who knew the old one may have made them. Raises AccountError."""

        def work(session: Session):
            row = _known(session, name)
            row.password = password_hash
            _forget_secrets(session, row.id)

        self._write(work)

    def rehash(self, account: Account, password_hash: str) -> None:
        """Keep the same password under another hash."""

        def work(session: Session):
            row = session.get(AccountRow, account.id)
            if row is not None:
                row.password = password_hash

        self._write(work)

    def set_disabled(self, name: str, disabled: bool) -> None:
        """Let an account in no longer, or again; the sessions and tokens of one that is disabled are gone for good. Raises AccountError."""

        def work(session: Session):
            row = _known(session, name)
            row.disabled_ns = (row.disabled_ns or time.time_ns()) if disabled else None
            if disabled:
                _forget_secrets(session, row.id)

        self._write(work)

    def remove(self, name: str) -> None:
        """The account is gone, with its tokens and sessions. Raises AccountError."""

        def work(session: Session):
            row = _known(session, name)
            _forget_secrets(session, row.id)
            session.delete(row)

        self._write(work)

    # -- sessions

    def begin_session(self, account: Account, door: str, now_ns: int | None = None) -> tuple[str, int]:
        """A new session of somebody who came by `door`: its secret, and when it ends at the latest."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        secret, expires_ns = secrets.token_urlsafe(_SECRET_BYTES), now_ns + SESSION_NS

        def work(session: Session):
            session.execute(delete(SessionRow).where(SessionRow.expires_ns <= now_ns))
            kept = session.scalars(select(SessionRow.id).where(SessionRow.account == account.id).order_by(SessionRow.id.desc())).all()
            session.execute(delete(SessionRow).where(SessionRow.id.in_(kept[SESSIONS_MAX - 1 :])))
            session.add(
                SessionRow(account=account.id, hash=_hash(secret), door=door[:DOOR_LENGTH_MAX], created_ns=now_ns, expires_ns=expires_ns, used_ns=now_ns)
            )

        self._write(work)
        return secret, expires_ns

    def session(self, secret: str, door: str, now_ns: int | None = None) -> tuple[Account, int] | None:
        """Whose session it is, and when it ends; None where it has ended, where the account is disabled, and where it came by another door."""
        if not secret:
            return None
        now_ns = time.time_ns() if now_ns is None else now_ns
        found = self._found(SessionRow, secret)
        if found is None:
            return None
        row, account = found
        if account.disabled or now_ns >= min(row.expires_ns, row.used_ns + IDLE_NS) or row.door != door:
            return None
        self._used(SessionRow, row, now_ns)
        return account, row.expires_ns

    def end_session(self, secret: str) -> None:
        """Forget a session; one that is not known is no error."""

        def work(session: Session):
            session.execute(delete(SessionRow).where(SessionRow.hash == _hash(secret)))

        self._write(work)

    # -- tokens

    def add_token(self, name: str, label: str, days: int, now_ns: int | None = None) -> tuple[str, Token]:
        """A new token of an account, for so many days: its secret, which is not kept, and the rest. Raises AccountError."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        if not 0 < len(label) <= LABEL_LENGTH_MAX or not label.isprintable():
            raise AccountError(f"a token's label has 1 to {LABEL_LENGTH_MAX} characters that can be printed")
        if not 1 <= days <= TOKEN_DAYS_MAX:
            raise AccountError(f"a token holds for 1 to {TOKEN_DAYS_MAX} days, not {days}")
        secret = TOKEN_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)

        def work(session: Session):
            account = _known(session, name)
            session.execute(delete(TokenRow).where(TokenRow.account == account.id, TokenRow.expires_ns <= now_ns))
            if session.scalar(select(func.count()).select_from(TokenRow).where(TokenRow.account == account.id)) >= TOKENS_MAX:
                raise AccountError(f"{name} has {TOKENS_MAX} tokens, and no more may be: revoke one")
            row = TokenRow(account=account.id, label=label, hash=_hash(secret), created_ns=now_ns, expires_ns=now_ns + days * 86400 * _S)
            session.add(row)
            session.flush()
            return secret, _token(row, account.name)

        return self._write(work)

    def token(self, secret: str, now_ns: int | None = None) -> tuple[Account, int] | None:
        """Whose token it is, and its id; None where it is unknown or has expired, and where the account is disabled."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        found = self._found(TokenRow, secret)
        if found is None or found[1].disabled or now_ns >= found[0].expires_ns:
            return None
        self._used(TokenRow, found[0], now_ns)
        return found[1], found[0].id

    def tokens(self, name: str | None = None) -> list[Token]:
        """The tokens of an account, or of all; expired ones too, until another is made."""
        query = select(TokenRow, AccountRow.name).join(AccountRow, AccountRow.id == TokenRow.account).order_by(AccountRow.name, TokenRow.id)

        def work(session: Session):
            return [_token(row, owner) for row, owner in session.execute(query) if name in (None, owner)]

        return self._transactions.read(work)

    def revoke_token(self, number: int, name: str | None = None) -> bool:
        """Forget a token, if it is there and, where a name is given, of that account; whether it was."""

        def work(session: Session):
            row = session.get(TokenRow, number)
            if row is None or (name is not None and session.get(AccountRow, row.account).name != name):
                return False
            session.delete(row)
            return True

        return self._write(work)

    def _found(self, kind: type, secret: str) -> tuple[Row, Account] | None:
        """The columns of a secret's row, and its account."""
        hashed = _hash(secret)

        def read() -> Row | None:
            return self._transactions.read(lambda session: session.execute(_OF_SECRET[kind], {"hash": hashed}).one_or_none())

        found = self._shown.get((kind, hashed), read)
        if found is None:
            return None
        return found, Account(found.account, found.name, found.uid, found.role, found.created_ns, found.disabled_ns is not None)

    def _used(self, kind: type, row: Row, now_ns: int) -> None:
        if row.used_ns is not None and now_ns < row.used_ns + USED_EVERY_NS:
            return

        def work(session: Session):
            still = session.get(kind, row.id)
            if still is not None:
                still.used_ns = now_ns

        self._write(work)


# Asked at each request: plain columns, put into SQL once, take a third of the time that objects do.
_OF_SECRET = {
    kind: select(
        *(getattr(kind, name) for name in ("id", "account", "expires_ns", "used_ns", "door") if hasattr(kind, name)),
        *(getattr(AccountRow, name) for name in ("name", "uid", "role", "created_ns", "disabled_ns")),
    )
    .join(AccountRow, AccountRow.id == kind.account)
    .where(kind.hash == bindparam("hash"))
    for kind in (SessionRow, TokenRow)
}


def _hash(secret: str) -> str:
    """Secrets have 256 random bits: nothing slower is needed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _row(session: Session, name: str) -> AccountRow | None:
    row = session.scalar(select(AccountRow).where(AccountRow.name == name)) if is_name(name) else None
    # Some databases compare without regard to case.
    return row if row is not None and row.name == name else None


def _known(session: Session, name: str) -> AccountRow:
    row = _row(session, name)
    if row is None:
        raise AccountError(f"there is no account {name[:100]!r}")
    return row


def _forget_secrets(session: Session, account: int) -> None:
    for kind in (SessionRow, TokenRow):
        session.execute(delete(kind).where(kind.account == account))


def _account(row: AccountRow) -> Account:
    return Account(row.id, row.name, row.uid, row.role, row.created_ns, row.disabled_ns is not None)


def _token(row: TokenRow, name: str) -> Token:
    return Token(row.id, name, row.label, row.created_ns, row.expires_ns, row.used_ns)
