"""The one place where it is decided who may ask what: before any route runs, and refusing whatever is not named here."""

import hashlib
import hmac
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, g, request

from jobdb.accounts import Accounts
from jobdb.repository import JobDB

from .callers import Caller, caller_of
from .errors import ApiError, no_job
from .security import user_name
from .viewer import Viewer, VisibleJobs

# Answered to anyone who can reach the server, so that another user's commands can tell a server from a dead port.
OPEN = frozenset({"system.health"})
# Answered to anyone who may sign in: the pages hold nothing but code.
SIGN_IN = frozenset({"session.sign_in", "pages.page"})
# Answered to whoever shows the scrape token, too: figures of the server, and no names of users or jobs.
SCRAPE = frozenset({"metrics.metrics"})
# Answered to every account, of a job's routes those of own jobs. All other routes are an administrator's.
USER = frozenset(
    {
        "jobs.list_jobs", "jobs.one_job", "traffic.job_series", "traffic.job_files", "traffic.job_processes", "traffic.job_nodes",
        "layers.job_layers", "layers.layer_series", "deep.job_heat", "deep.job_timeline", "deep.job_offsets", "deep.job_trace",
        "findings.list_findings", "findings.one_finding",
        "session.who_am_i", "session.sign_out", "session.list_tokens", "session.add_token", "session.revoke_token", "system.openapi",
    }
)  # fmt: skip
JOB_KEY_LENGTH_MAX = 500
SECRET_LENGTH_MAX = 200
# A page of another site cannot send it along without asking first, and is told no.
CSRF_HEADER = "X-Bellrock"
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def register(app: Flask, jobdb: JobDB, peer_uid: Callable[[Mapping[str, Any]], int | None], *, trusts_owner: bool, key: str, scrape_token: str = "") -> None:
    """Refuse every request that nobody has a right to; of the others `g.caller` and `g.viewer` tell who asks (viewer None: nobody yet), and a
    route with a `job_id` is given the `job` itself.

    peer_uid: tells from a WSGI environment whose process asks, or None. trusts_owner: whether this process's user and root, as the kernel knows
    them, are administrators without signing in. key: who shows it is one, too; "": none. scrape_token: opens SCRAPE; "": none.
    """
    key_digest = hashlib.sha256(key.encode()).digest() if key else None
    scrape_digest = hashlib.sha256(scrape_token.encode()).digest() if scrape_token else None

    @app.before_request
    def check() -> None:
        if request.endpoint in OPEN:
            return
        g.caller = caller = caller_of(request.environ, peer_uid)
        if request.endpoint in SCRAPE and _may_scrape():
            g.viewer = None
            return
        g.viewer = viewer = _viewer(caller)
        if request.endpoint is not None and request.method not in _SAFE_METHODS and "Authorization" not in request.headers:
            _check_same_site()
        if viewer is None:
            if request.endpoint not in SIGN_IN or not _may_sign_in(caller):
                raise _refusal(caller)
        # What has no endpoint is an address or a method that does not exist, which everybody may know.
        elif not viewer.is_admin and request.endpoint is not None and request.endpoint not in USER | SIGN_IN:
            raise ApiError(403, "admins_only", "this is for administrators", "ask for your own jobs, or an administrator for help")
        if request.view_args is not None and "job_id" in request.view_args:
            given = request.view_args.pop("job_id")
            job = VisibleJobs(jobdb, viewer).job(given) if len(given) <= JOB_KEY_LENGTH_MAX else None
            if job is None:
                raise no_job(given)
            request.view_args["job"] = job

    def _viewer(caller: Caller) -> Viewer | None:
        """A token counts before a cookie, and that before what the kernel says: who shows who they are wants to be that one."""
        accounts = jobdb.accounts
        given = request.headers.get("Authorization")
        if given is not None:
            return _by_token(accounts, caller, given)
        found = accounts.session(cookie(caller), caller.door)
        if found is not None:
            return Viewer(found[0].name, found[0].role, "session", *found)
        if trusts_owner and caller.is_servers_user:
            return Viewer(user_name(caller.uid), "admin", "owner")
        return None

    def _by_token(accounts: Accounts, caller: Caller, given: str) -> Viewer:
        scheme, _, secret = given.partition(" ")
        if scheme.lower() == "bearer" and 0 < len(secret) <= SECRET_LENGTH_MAX:
            digest = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
            if key_digest is not None and caller.door != "proxy" and hmac.compare_digest(digest, key_digest):
                return Viewer(user_name(os.geteuid()), "admin", "owner")
            found = accounts.token(secret)
            if found is not None:
                return Viewer(found[0].name, found[0].role, "token", found[0])
        message = "the token is unknown, has expired, or was revoked"
        raise ApiError(401, "bad_token", message, "get another with `bellrock login`", {"WWW-Authenticate": 'Bearer error="invalid_token"'})

    def _may_scrape() -> bool:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        digest = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
        return scrape_digest is not None and scheme.lower() == "bearer" and hmac.compare_digest(digest, scrape_digest)

    def _may_sign_in(caller: Caller) -> bool:
        return caller.peer is not None and jobdb.accounts.exist()

    def _refusal(caller: Caller) -> ApiError:
        if caller.door == "proxy" or _may_sign_in(caller) or (caller.is_servers_user and not trusts_owner):
            hint = "sign in on the page, or run `bellrock login`; an account is made with `bellrock account add` on the server's machine"
            return ApiError(401, "sign_in", "this is for those who have signed in", hint, {"WWW-Authenticate": "Bearer"})
        owner = user_name(os.geteuid())
        port = request.environ.get("SERVER_PORT", "PORT")
        hint = (
            f"for your own jobs run `bellrock server`; as {owner}, from another machine, `ssh -L {port}:127.0.0.1:{port} {owner}@{socket.gethostname()}` works"
        )
        return ApiError(403, "not_your_server", f"this is the Bellrock server of {owner}: it answers {owner} and root only", hint)


def cookie_name(caller: Caller) -> str:
    """The session cookie's. Browsers take one with this prefix from TLS only, and for no other host or path."""
    return "__Host-bellrock" if caller.secure else "bellrock"


def cookie(caller: Caller) -> str:
    """The secret of the session that a request bears, or "". Of several cookies of that name none counts: one of them is not ours."""
    given = request.cookies.getlist(cookie_name(caller))
    return given[0] if len(given) == 1 and len(given[0]) <= SECRET_LENGTH_MAX else ""


def _check_same_site() -> None:
    """Cookies, and what the kernel says of a browser, come along whoever has it ask: what changes anything must come from our own pages."""
    origin = request.headers.get("Origin")
    same = origin is None or urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()
    if not (same and request.headers.get(CSRF_HEADER) and request.headers.get("Sec-Fetch-Site", "same-origin") in ("same-origin", "none")):
        message = "a request that changes something must come from Bellrock's own pages"
        raise ApiError(403, "cross_site", message, f"programs send the header `{CSRF_HEADER}: 1`, or a token")
