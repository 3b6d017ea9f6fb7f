"""A small client of the API: what `bellrock jobs`, `show`, `run` and `demo` ask the server with."""

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any

from bellrock.errors import ApiError, Unavailable, UsageError
from pipeline.listen import is_loopback

# A server sends no more than a page at a time; a bound all the same, since what answers may not be ours.
ANSWER_BYTES_MAX = 64 << 20
# How often a busy server is asked, and how long after it said so at most.
BUSY_TRIES_MAX = 30
RETRY_AFTER_S_MAX = 30
# A proxy of the environment has no business between this machine and itself.
class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follows none: the token is for this server alone."""


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Redirects)


class Client:
    """Calls to one server at `url` (http://127.0.0.1:8425), with a token where there is one. Times out after `timeout_s`.

    on_busy: set, a server that is busy is asked again for what `get` asks, BUSY_TRIES_MAX times in all, each after the time that it names; it is told the first
    time why. Raises Unavailable where nothing answers, ApiError where the server answers with an error, UsageError for a token that would go out unencrypted."""

    def __init__(self, url: str, timeout_s: float = 15.0, token: str = "") -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self.on_busy: Callable[[str], object] | None = None
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise UsageError(f"{self.url}: what goes to another machine must be encrypted", "begin the address with https://")
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def get(self, path: str, **query: Any) -> Any:
        """GET `path` and decode its JSON. Query values that are None are left out."""
        address = self._address(path, query)
        body = self._patiently(address)
        if len(body) > ANSWER_BYTES_MAX:
            raise ApiError(f"{address}: answer of over {ANSWER_BYTES_MAX} bytes", "ask for less with --limit")
        return _decoded(body, address)

    def _patiently(self, address: str) -> bytes:
        tries = 1
        while True:
            try:
                with self._opened(address) as answer:
                    return answer.read(ANSWER_BYTES_MAX + 1)
            except ApiError as error:
                if self.on_busy is None or error.retry_after_s is None or tries >= BUSY_TRIES_MAX:
                    raise
                if tries == 1:
                    self.on_busy(error.what)
                tries += 1
                time.sleep(min(error.retry_after_s, RETRY_AFTER_S_MAX))

    def lines(self, path: str, **query: Any) -> Iterator[Any]:
        """GET `path`, whose answer is a line of JSON at a time, and decode each when it comes: the time-out is that of one line. To close the
        iterator closes the connection, by which the server knows that no more is wanted."""
        address = self._address(path, query)
        with self._opened(address) as answer:
            while line := answer.readline(ANSWER_BYTES_MAX + 1):
                if len(line) > ANSWER_BYTES_MAX:
                    raise ApiError(f"{address}: a line of over {ANSWER_BYTES_MAX} bytes", "ask for less with --limit")
                yield _decoded(line, address)

    def send(self, method: str, path: str, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None) -> tuple[Any, Message]:
        """Ask for a change: the JSON of the answer, or None where it has none, and its headers."""
        address = self._address(path, {})
        more = {"X-Bellrock": "1", **(headers or {})} | ({} if body is None else {"Content-Type": "application/json"})
        with self._opened(address, method, None if body is None else json.dumps(body).encode(), more) as answer:
            text = answer.read(ANSWER_BYTES_MAX)
            return (_decoded(text, address) if text else None), answer.headers

    def _address(self, path: str, query: dict[str, Any]) -> str:
        given = urllib.parse.urlencode({key: value for key, value in query.items() if value is not None})
        return f"{self.url}{path}" + (f"?{given}" if given else "")

    @contextmanager
    def _opened(
        self, address: str, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        request = urllib.request.Request(address, body, {**self._headers, **(headers or {})}, method=method)
        try:
            with _opener.open(request, timeout=self.timeout_s) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            raise _api_error(address, error) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            hint = "is the address right, and does the server run?" if self.url.startswith("https:") else "start a server with `bellrock server`"
            raise Unavailable(f"no answer from {self.url}: {reason}", hint) from error

    def healthy(self) -> bool:
        """Whether the server says that it is well."""
        try:
            self.get("/healthz")
        except (Unavailable, ApiError):
            return False
        return True

    def jobs(
        self, *, search: str | None = None, state: str | None = None, sort: str = "-start", limit: int = 50, cursor: str | None = None
    ) -> dict[str, Any]:
        """One page of jobs: {"jobs": [...], "total", "next_cursor"}."""
        return self.get("/api/v1/jobs", search=search, state=state, sort=sort, limit=limit, cursor=cursor)

    def every_job(self, *, search: str | None = None, state: str | None = None, limit: int, page: int = 200) -> Iterator[dict[str, Any]]:
        """Jobs, newest first, over as many pages as `limit` jobs take."""
        cursor, left = None, limit
        while left > 0:
            answer = self.jobs(search=search, state=state, limit=min(left, page), cursor=cursor)
            yield from answer["jobs"][:left]
            left -= len(answer["jobs"])
            cursor = answer.get("next_cursor")
            if cursor is None or not answer["jobs"]:
                return

    def job(self, job_id: str) -> dict[str, Any]:
        """{"job": …, "profile": …}. Raises ApiError with status 404 for an unknown job."""
        return self.get(f"/api/v1/jobs/{_quoted(job_id)}")

    def series(self, job_id: str, *, points: int = 600, from_ns: int | None = None, to_ns: int | None = None) -> dict[str, Any]:
        """The job's traffic over time, in at most `points` bins."""
        return self.get(f"/api/v1/jobs/{_quoted(job_id)}/series", points=points, from_ns=from_ns, to_ns=to_ns)

    def files(self, job_id: str, *, sort: str = "-bytes", limit: int = 100) -> dict[str, Any]:
        """The job's files: {"files": [...], "total", "next_cursor"}."""
        return self.get(f"/api/v1/jobs/{_quoted(job_id)}/files", sort=sort, limit=limit)

    def processes(self, job_id: str, *, sort: str | None = None, limit: int = 100) -> dict[str, Any]:
        """The job's processes: {"processes": [...], "total", "next_cursor"}."""
        return self.get(f"/api/v1/jobs/{_quoted(job_id)}/processes", sort=sort, limit=limit)

    def trace(self, job_id: str, **asked: Any) -> dict[str, Any]:
        """A page of a job's records: {"rows", "columns", "texts", "at_ns", "read", "next_cursor"}."""
        return self.get(f"/api/v1/jobs/{_quoted(job_id)}/trace", **asked)

    def layers(self, job_id: str) -> dict[str, Any]:
        """What served a job, layer by layer. Raises ApiError with status 404 for an unknown job."""
        return self.get(f"/api/v1/jobs/{_quoted(job_id)}/layers")

    def every_component(
        self, *, node: str | None = None, component: str | None = None, search: str | None = None, from_ns: int | None = None, to_ns: int | None = None, limit: int, page: int = 1000
    ) -> tuple[list[dict[str, Any]], int]:
        """Components by node, over as many pages as `limit` of them take; and how many there are."""
        found: list[dict[str, Any]] = []
        cursor, asked = None, {"node": node, "component": component, "search": search, "from_ns": from_ns, "to_ns": to_ns}
        while True:
            answer = self.get("/api/v1/components", **asked, limit=min(limit - len(found), page), cursor=cursor)
            found += answer["components"]
            cursor = answer["next_cursor"]
            if cursor is None or not answer["components"] or len(found) >= limit:
                return found, answer["total"]

    def every_finding(self, *, limit: int, page: int = 200, **sought: Any) -> Iterator[dict[str, Any]]:
        """Findings, the last begun first, over as many pages as `limit` of them take; `sought`: what the API takes."""
        cursor, left = None, limit
        while left > 0:
            answer = self.get("/api/v1/findings", **sought, limit=min(left, page), cursor=cursor)
            yield from answer["findings"]
            left -= len(answer["findings"])
            cursor = answer["next_cursor"]
            if cursor is None:
                return

    def every_message(
        self, node: str, *, from_ns: int | None = None, to_ns: int | None = None, severity: int | None = None, event: str | None = None, limit: int, page: int = 1000
    ) -> Iterator[dict[str, Any]]:
        """Messages of a node's system log, the last begun first, over as many pages as `limit` of them take. Raises ApiError with status 404 for a node
        that is not known."""
        asked = {"node": node, "from_ns": from_ns, "to_ns": to_ns, "severity": severity, "event": event}
        cursor, left = None, limit
        while left > 0:
            answer = self.get("/api/v1/messages", **asked, limit=min(left, page), cursor=cursor)
            # What comes meanwhile must not move the pages.
            asked |= {"from_ns": answer["from_ns"], "to_ns": answer["to_ns"]}
            yield from answer["messages"]
            left -= len(answer["messages"])
            cursor = answer["next_cursor"]
            if cursor is None:
                return

    def component(
        self, node: str, component: str, instance: str, *, from_ns: int | None = None, to_ns: int | None = None, points: int = 600, step_s: int | None = None
    ) -> dict[str, Any]:
        """One component's values over time. Raises ApiError with status 404 for a node that is not known."""
        asked = {"node": node, "component": component, "instance": instance, "from_ns": from_ns, "to_ns": to_ns, "points": points, "step_s": step_s}
        return self.get("/api/v1/components/series", **asked)

    def component_load(self, node: str, component: str, instance: str, *, from_ns: int | None = None, to_ns: int | None = None) -> dict[str, Any]:
        """For whom a component worked in a time: by class, group, client, user and job, None of what its server does not count."""
        return self.get("/api/v1/components/load", node=node, component=component, instance=instance, from_ns=from_ns, to_ns=to_ns)

    def page(self, job_id: str) -> str:
        """The address of the job's page."""
        return f"{self.url}/jobs/{_quoted(job_id)}"


def _quoted(job_id: str) -> str:
    return urllib.parse.quote(job_id, safe="")


def _decoded(body: bytes, address: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise ApiError(f"{address}: the answer is not JSON", f"is that address Bellrock's? look with `curl {address}`") from error


def _api_error(address: str, error: urllib.error.HTTPError) -> ApiError:
    """The API's own message where it sent one, else what HTTP said."""
    given = error.headers.get("Retry-After", "") if error.code == 503 else ""
    retry_after_s = int(given) if given.isascii() and given.isdecimal() and len(given) <= 4 else None
    try:
        said = json.loads(error.read(1 << 20))["error"]
        return ApiError(str(said["message"]), str(said.get("hint") or ""), status=error.code, code=str(said.get("code", "")), retry_after_s=retry_after_s)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, http.client.HTTPException):
        return ApiError(f"{address}: HTTP {error.code} {error.reason}", "see the server's messages", status=error.code)
