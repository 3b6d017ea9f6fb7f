"""One shape for every error: {"error": {"code", "message", "hint"}}."""

import logging

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from jobdb.repository import JobDBAway
from pipeline.store import StoreError, TooManyComponents, TooManyRuns

log = logging.getLogger(__name__)


# When to ask again after "busy".
RETRY_AFTER_S = 2


class Busy(Exception):
    """All threads that may compute do so, or one has this job in hand for long; ask again later."""


class ApiError(Exception):
    """An answer that is an error. code: short, stable name; message: what is wrong and where; hint: what to do next; headers: further ones."""

    def __init__(self, status: int, code: str, message: str, hint: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint, self.headers = status, code, message, hint, headers or {}


def bad_parameter(name: str, given: str, allowed: str) -> ApiError:
    """400 for a query parameter; `allowed` says what it may be."""
    message = f"parameter {name}: got {given[:100]!r}, expected {allowed}"
    return ApiError(400, "bad_parameter", message, "see /api/v1/openapi.json for every parameter")


def no_job(key: str) -> ApiError:
    """404 for a job."""
    return ApiError(404, "no_job", f"there is no job {key[:200]!r}", "run `bellrock jobs` to list those that are known")


def no_node(name: str) -> ApiError:
    """404 for a node."""
    return ApiError(404, "no_node", f"nothing has come from a node {name[:200]!r}", "`bellrock status` lists nodes that were heard of")


def error_response(status: int, code: str, message: str, hint: str) -> Response:
    """The error as a response."""
    response = jsonify({"error": {"code": code, "message": message, "hint": hint}})
    response.status_code = status
    return response


def register(app: Flask) -> None:
    """Make every error of `app` answer in that shape."""

    @app.errorhandler(ApiError)
    def api_error(error: ApiError) -> Response:
        response = error_response(error.status, error.code, error.message, error.hint)
        response.headers.update(error.headers)
        return response

    @app.errorhandler(Busy)
    def busy(error: Busy) -> Response:
        response = error_response(503, "busy", str(error), f"ask again in {RETRY_AFTER_S} s")
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
        return response

    @app.errorhandler(TooManyRuns)
    def too_many_runs(error: TooManyRuns) -> Response:
        hint = "no figures are worked out for a job of this size; split it into several jobs (`bellrock run --name`)"
        return error_response(422, "too_many_runs", str(error), hint)

    @app.errorhandler(TooManyComponents)
    def too_many_components(error: TooManyComponents) -> Response:
        return error_response(422, "too_many_components", str(error), "ask for those of one node: `node`")

    @app.errorhandler(StoreError)
    def store_error(error: StoreError) -> Response:
        log.error("%s %s: %s", request.method, request.path, error)
        return error_response(503, "store_unavailable", f"the record store cannot answer: {error}", "look at the server's log, then ask again")

    @app.errorhandler(JobDBAway)
    def jobdb_away(error: JobDBAway) -> Response:
        log.error("%s %s: %s", request.method, request.path, error)
        return error_response(503, "jobdb_unavailable", "the job database does not answer", "the server's log tells why; ask again in a moment")

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        response = error_response(
            status, error.name.lower().replace(" ", "_"), f"{request.method} {request.path[:200]}: {error.description}",
            "see /api/v1/openapi.json for every address",
        )  # fmt: skip
        for name, value in error.get_headers():
            if name == "Allow":
                response.headers[name] = value
        return response

    @app.errorhandler(Exception)
    def bug(error: Exception) -> Response:
        log.exception("%s %s failed", request.method, request.path)
        what = f"{request.method} {request.path[:200]} failed: {type(error).__name__}"
        return error_response(500, "internal_error", what, "the server's log has the details")
