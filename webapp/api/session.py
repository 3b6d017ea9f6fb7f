"""Signing in and out, and one's own tokens."""

import time

from flask import Blueprint, Response, g, jsonify

from jobdb.accounts import TOKEN_DAYS_MAX, Account, AccountError, Token
from jobdb.passwords import LENGTH_MAX

from . import params
from .bodies import bad_body, body
from .context import context
from .errors import ApiError
from .rights import cookie, cookie_name
from .viewer import Viewer

blueprint = Blueprint("session", __name__)

NAME_LENGTH_MAX = 200
TOKEN_DAYS = 90
_HINT = f"a token's days are 1 to {TOKEN_DAYS_MAX}; see /api/v1/openapi.json"


@blueprint.after_request
def keep_nowhere(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.get("/session")
def who_am_i():
    """Who asks, as the server knows them."""
    params.only()
    return jsonify(_viewer_json(g.viewer))


@blueprint.post("/session")
def sign_in():
    """Sign in with a name and a password; the answer sets the cookie."""
    params.only()
    given = body({"name": str, "password": str}, hint=_HINT)
    name, password = given["name"], given["password"]
    if len(name) > NAME_LENGTH_MAX or not 0 < len(password) <= LENGTH_MAX:
        raise bad_body(f"name has at most {NAME_LENGTH_MAX} characters, password 1 to {LENGTH_MAX}", _HINT)
    if g.caller.peer is None:
        raise ApiError(403, "unknown_peer", "it cannot be told who asks", "connect from this machine, or through the proxy")
    account = context().sign_in.check(name, password, g.caller.peer)
    # Whatever the browser held before is worth nothing any more: a session that somebody put there, too.
    context().accounts.end_session(cookie(g.caller))
    secret, expires_ns = context().accounts.begin_session(account, g.caller.door)
    response = jsonify(_viewer_json(Viewer(account.name, account.role, "session", account, expires_ns)))
    _set_cookie(response, secret, max(0, (expires_ns - time.time_ns()) // 10**9))
    return response


@blueprint.delete("/session")
def sign_out():
    """End the session that the cookie stands for, if any."""
    params.only()
    context().accounts.end_session(cookie(g.caller))
    response = Response(status=204)
    _set_cookie(response, "", 0)
    return response


@blueprint.get("/tokens")
def list_tokens():
    """One's own tokens, but for the secrets, which nobody has kept."""
    params.only()
    return jsonify({"tokens": [_token_json(token) for token in context().accounts.tokens(_account().name)]})


@blueprint.post("/tokens")
def add_token():
    """A token for API and command line. Takes a session: from a token that somebody stole no others shall grow."""
    params.only()
    account = _account()
    if g.viewer.via != "session":
        raise ApiError(403, "session_only", "a token makes no tokens", "sign in with the password: `bellrock login`, or the page")
    given = body({"label": str, "days": int}, {"days": TOKEN_DAYS}, _HINT)
    try:
        secret, token = context().accounts.add_token(account.name, given["label"], given["days"])
    except AccountError as error:
        raise bad_body(str(error), _HINT) from error
    response = jsonify(_token_json(token) | {"token": secret})
    response.status_code = 201
    return response


@blueprint.delete("/tokens/<int:token_id>")
def revoke_token(token_id: int):
    """Revoke one of one's own tokens; also that which asks."""
    params.only()
    if token_id >= 1 << 63 or not context().accounts.revoke_token(token_id, _account().name):
        raise ApiError(404, "no_token", f"you have no token {str(token_id)[:20]}", "GET /api/v1/tokens lists those that you have")
    return Response(status=204)


def _account() -> Account:
    if g.viewer.account is None:
        hint = "make one with `bellrock account add`; `bellrock token` makes tokens for any"
        raise ApiError(403, "no_account", "whom the server knows as its own user has no account here", hint)
    return g.viewer.account


def _viewer_json(viewer: Viewer) -> dict:
    version = context().status()["version"]
    return {"name": viewer.name, "role": viewer.role, "via": viewer.via, "expires_ns": viewer.expires_ns, "version": version}


def _token_json(token: Token) -> dict:
    return {
        "id": token.id, "label": token.label, "created_ns": token.created_ns, "expires_ns": token.expires_ns, "used_ns": token.used_ns,
    }  # fmt: skip


def _set_cookie(response: Response, secret: str, max_age_s: int) -> None:
    # Strict: a link from elsewhere opens the page without it, and the page then asks with it.
    response.set_cookie(cookie_name(g.caller), secret, max_age=max_age_s, path="/", secure=g.caller.secure, httponly=True, samesite="Strict")
