"""A server elsewhere, and the token that it knows a person by. Tokens lie in a file that nobody else can read, each for the server that gave it out."""

import json
import os
import socket
import stat
import urllib.parse
from pathlib import Path
from typing import Any

from bellrock import paths
from bellrock.client import Client
from bellrock.errors import ApiError, BellrockError, UsageError

SIGN_IN_TIMEOUT_S = 30.0
FILE_BYTES_MAX = 1 << 20


def tokens_file() -> Path:
    """Where tokens lie: $XDG_CONFIG_HOME/bellrock/tokens.json, else below ~/.config. Raises UsageError for a user without a home directory."""
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        # The base directory specification: a relative path there is to be ignored.
        folder = Path(base) if base and os.path.isabs(base) else Path.home() / ".config"
    except RuntimeError:
        raise UsageError(f"user {os.getuid()} has no home directory to keep a token in", "set HOME, or give the token in BELLROCK_TOKEN") from None
    return folder / "bellrock" / "tokens.json"


def client(url: str, timeout_s: float = 15.0) -> Client:
    """A client of the server at `url`, with the token of $BELLROCK_TOKEN, else with the one that it gave this user. Raises UsageError where
    there is neither, where others can read the file, and for an address without TLS."""
    url = address(url)
    token = os.environ.get("BELLROCK_TOKEN") or _read().get(url, {}).get("token")
    if not token:
        raise UsageError(f"there is no token for {url}", f"`bellrock --server {url} login NAME`, or set BELLROCK_TOKEN")
    return Client(url, timeout_s, token)


def address(url: str) -> str:
    """The server's address as tokens are kept by it. Raises UsageError for what is none."""
    parts = urllib.parse.urlsplit(url)
    try:
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(f"--server {url}: not the address of a server", "write https://bellrock.example.org")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def login(url: str, name: str, password: str, days: int) -> dict[str, Any]:
    """Sign in, have a token made, and keep it in place of an earlier one, which is revoked. Returns {"id", "expires_ns", …}, without the token."""
    url = address(url)
    kept = _read()
    asking = Client(url, SIGN_IN_TIMEOUT_S)
    _, headers = asking.send("POST", "/api/v1/session", {"name": name, "password": password})
    cookie = {"Cookie": (headers.get("Set-Cookie") or "").split(";", 1)[0]}
    try:
        made, _ = asking.send("POST", "/api/v1/tokens", {"label": f"bellrock login on {socket.gethostname()}"[:100], "days": days}, cookie)
    finally:
        asking.send("DELETE", "/api/v1/session", headers=cookie)
    token = made.pop("token")
    before = kept.get(url)
    _write({**kept, url: {"token": token, "id": made["id"]}})
    if before is not None:
        _revoke(url, before)
    return made


def logout(url: str) -> None:
    """Revoke the token that is kept for a server, and forget it. Raises UsageError where there is none."""
    url = address(url)
    kept = _read()
    if url not in kept:
        raise UsageError(f"no token for {url} is kept in {tokens_file()}", "nothing is to be done; one in BELLROCK_TOKEN is revoked with `bellrock token revoke`")
    _revoke(url, kept.pop(url))
    _write(kept)


def _revoke(url: str, token: dict[str, Any]) -> None:
    try:
        Client(url, SIGN_IN_TIMEOUT_S, str(token["token"])).send("DELETE", f"/api/v1/tokens/{int(token['id'])}")
    except ApiError as error:
        if error.status not in (401, 404):  # it has ended already
            raise


def _read() -> dict[str, dict[str, Any]]:
    file = tokens_file()
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise UsageError(f"{file}: others may read or change it (owner {found.st_uid}, {stat.filemode(found.st_mode)})", f"`chmod 600 {file}`, and sign in anew")
            kept = json.loads(opened.read(FILE_BYTES_MAX))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BellrockError(f"{file}: cannot be read: {error.strerror}", f"look with `ls -l {file}`") from error
    except ValueError as error:
        raise UsageError(f"{file}: not JSON: {error}", f"`rm {file}`, and sign in anew") from error
    if not isinstance(kept, dict) or not all(isinstance(one, dict) for one in kept.values()):
        raise UsageError(f"{file}: not a list of tokens", f"`rm {file}`, and sign in anew")
    return kept


def _write(kept: dict[str, dict[str, Any]]) -> None:
    file = tokens_file()
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    paths.private_dir(file.parent)
    paths.write_atomically(file, json.dumps(kept, indent=2))
