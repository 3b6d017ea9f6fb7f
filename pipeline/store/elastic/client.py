"""Requests to Elasticsearch, and what its errors mean."""

import logging
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import elastic_transport
import orjson

from pipeline.secret import SecretError, read_secret
from pipeline.store import StoreError

log = logging.getLogger(__name__)
# It tells of each request.
logging.getLogger("elastic_transport").setLevel(logging.WARNING)

# No request is larger; Elasticsearch itself refuses over 100 MB.
REQUEST_BYTES_MAX = 8 << 20
# A request that is told "too many" (429) is sent again after waits that double, this often at most.
BUSY_TRIES_MAX = 6
BUSY_WAIT_FIRST_S = 0.2
# One that finds no shard or no cluster yet (503), as for a moment after an index was made or a node came up, this often.
AWAY_TRIES_MAX = 4
# Of what Elasticsearch says, so much is passed on.
REASON_CHARACTERS_MAX = 400

_JSON = {"content-type": "application/json", "accept": "application/json"}
_NDJSON = {"content-type": "application/x-ndjson", "accept": "application/json"}


@dataclass(frozen=True)
class Settings:
    """Where Elasticsearch is. password_file, ca: paths; "" where there is none. urls: tried in turn. period: of new indices. days: how long
    records are kept, by class, for the shard budget."""

    urls: Sequence[str]
    user: str = ""
    password_file: str = ""
    ca: str = ""
    timeout_s: float = 60.0
    period: str = "month"
    bulk_threads: int = 4
    days: Mapping[str, int] = field(default_factory=dict)


class Client:
    """Any thread may ask. `send` is what carries a request (tests put a faulty one in its place)."""

    def __init__(self, settings: Settings) -> None:
        self.where = ", ".join(settings.urls)
        self._transport = elastic_transport.Transport(
            [_node(url, settings) for url in settings.urls],
            serializers={"application/json": elastic_transport.OrjsonSerializer(), "application/x-ndjson": elastic_transport.NdjsonSerializer()},
            max_retries=1,
            retry_on_status=(),
            retry_on_timeout=False,
        )
        self._auth = _auth(settings)
        self.send: Callable[[str, str, Any, dict[str, str]], tuple[int, Any]] = self._send

    def ask(self, method: str, path: str, body: Any = None, *, fine: Collection[int] = ()) -> Any:
        """The answer (parsed JSON). Raises StoreError for what is no success and not in `fine`, and where nobody answers; who is told to wait does."""
        return self.answer(method, path, body, fine)[1]

    def answer(self, method: str, path: str, body: Any = None, fine: Collection[int] = ()) -> tuple[int, Any]:
        """Like `ask`, with the status before it. body: a value, or lines of JSON as bytes."""
        headers = (_NDJSON if type(body) is bytes else _JSON) if body is not None else {"accept": "application/json"}
        wait_s = BUSY_WAIT_FIRST_S
        for tries in range(1, BUSY_TRIES_MAX + 1):
            try:
                status, found = self.send(method, path, body, headers | self._auth)
            except elastic_transport.TransportError as error:
                raise StoreError(self._unreachable(error)) from error
            if status < 300 or status in fine:
                return status, found
            bound = {429: BUSY_TRIES_MAX, 503: AWAY_TRIES_MAX}.get(status, 0)
            if tries >= bound or is_blocked(status, found):
                break
            time.sleep(wait_s)
            wait_s *= 2
        raise StoreError(self.explain(status, found, f"{method} {path.split('?')[0]}"))

    def close(self) -> None:
        self._transport.close()

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        found = self._transport.perform_request(method, path, body=body, headers=headers)
        return found.meta.status, found.body

    def _unreachable(self, error: elastic_transport.TransportError) -> str:
        if isinstance(error, elastic_transport.TlsError):
            return f"Elasticsearch at {self.where}: no TLS connection: {_cut(error)}; elasticsearch.ca must name the authority of its certificate"
        if isinstance(error, elastic_transport.ConnectionTimeout):
            return f"Elasticsearch at {self.where} did not answer in time; `curl {self._first()}/_cluster/health` tells how it is"
        return f"Elasticsearch at {self.where} cannot be reached: {_cut(error)}; see that it runs and that elasticsearch.urls names it"

    def explain(self, status: int, body: Any, what: str) -> str:
        """What, where and what to do, of an answer that is no success."""
        reason = reason_of(body)
        told = f"Elasticsearch at {self.where}: {what}: {reason} (HTTP {status})"
        if status == 401:
            return f"{told}; look at elasticsearch.user and the password in elasticsearch.password_file"
        if is_blocked(status, body):
            hint = f"free disk space there, then `curl -X PUT {self._first()}/bellrock-*/_settings` with index.blocks.read_only_allow_delete null"
            return f"{told}; an index takes nothing (disk over the flood stage, or set read-only): {hint}"
        if status == 403:
            return f"{told}; the user's role lacks a privilege: see roles.yml in docs/elasticsearch.md"
        if status == 429:
            return f"{told}; it has too much to do or too little memory: `curl {self._first()}/_nodes/stats/breaker,thread_pool`"
        if status == 503:
            return f"{told}; a node may be down: `curl {self._first()}/_cat/shards/bellrock-*?v`"
        return f"{told}; see its log"

    def _first(self) -> str:
        return self.where.split(",")[0]


def reason_of(body: Any) -> str:
    """What an error says, and the innermost of what it says was the cause."""
    error = body.get("error", body) if isinstance(body, dict) else body
    told: list[str] = []
    while isinstance(error, dict):
        told.append(f"{error.get('type', 'error')}: {error.get('reason', '')}")
        causes = error.get("failed_shards") or error.get("root_cause") or [None]
        cause = error.get("caused_by") or causes[0]
        if isinstance(cause, dict) and isinstance(cause.get("reason"), dict):
            cause = cause["reason"]
        error = cause if cause is not error and isinstance(cause, dict) else None
    if not told:
        return _cut(error)
    return _cut(told[0] if told[-1] == told[0] else f"{told[0]}; {told[-1]}")


def is_blocked(status: int, body: Any) -> bool:
    """Whether an answer, or the error of an item, says that an index may not be written. With 503 it is the cluster that is not up yet, or has no
    master: that passes."""
    return status != 503 and "cluster_block_exception" in str(body)[:2000]


# Answered with 400, which otherwise says that a document cannot be taken.
_OF_INDEX = frozenset(("index_closed_exception", "validation_exception", "invalid_index_name_exception", "invalid_alias_name_exception"))


def is_of_index(error: Any) -> bool:
    """Whether an item's `error` is of its index or cluster, so that the document may be taken another time. By the type alone: a reason may hold what a
    document says."""
    return isinstance(error, dict) and error.get("type") in _OF_INDEX


def _cut(error: object) -> str:
    return str(error)[:REASON_CHARACTERS_MAX]


def _node(url: str, settings: Settings) -> elastic_transport.NodeConfig:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise StoreError(f"elasticsearch.urls has {url!r}, which is no URL such as https://es1:9200")
    if parts.username or parts.password:
        raise StoreError("elasticsearch.urls names a user: write elasticsearch.user and elasticsearch.password_file in its stead")
    port = parts.port or (443 if parts.scheme == "https" else 9200)
    context = None
    if parts.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=settings.ca or None)
        except (OSError, ssl.SSLError) as error:
            raise StoreError(f"elasticsearch.ca: {settings.ca} cannot be read: {error}") from error
    return elastic_transport.NodeConfig(
        parts.scheme, parts.hostname, port, parts.path.rstrip("/"), request_timeout=settings.timeout_s, ssl_context=context, connections_per_node=16
    )


def _auth(settings: Settings) -> dict[str, str]:
    if not settings.user:
        return {}
    try:
        password = read_secret(Path(settings.password_file))
    except SecretError as error:
        raise StoreError(f"elasticsearch.password_file: {error}") from error
    return {"authorization": elastic_transport.client_utils.basic_auth_to_header((settings.user, password))}


def in_path(text: str) -> str:
    """An id as a part of a path."""
    return quote(text, safe="")


def dumps(value: Any) -> bytes:
    return orjson.dumps(value)
