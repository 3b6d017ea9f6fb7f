"""The archive as documents in Elasticsearch, on the nodes of one group of their own.

A block's id tells whose it is, `SUBJECT/GENERATION/WRITING/NUMBER`; one of over PIECE_BYTES is divided. The states lie in an index of their own, each under `SUBJECT`, and are
written last: Elasticsearch syncs its log before it answers, so that what a state tells of is there. Beside them lies a document for each writing under way.
"""

import base64
import binascii
import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tracepack.archive import Head

from pipeline.archive import ArchiveError, Damaged, Overtaken, State, new_writing
from pipeline.store import StoreError
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import action, removals
from pipeline.store.elastic.client import AWAY_TRIES_MAX, BUSY_WAIT_FIRST_S, Client, Settings, dumps, in_path
from pipeline.store.sought import DAY_NS

log = logging.getLogger(__name__)

# Of a block in one document; in base64 it is a third more, and a request may have 8 MiB.
PIECE_BYTES = 4 << 20
# Heads that are got at once, and documents that are removed.
HEADS_AT_ONCE, REMOVED_AT_ONCE = 500, 1000
STATES_AT_ONCE = 1000
# Elasticsearch takes ids of 512 bytes.
SUBJECT_BYTES_MAX = 400
INDICES, STATES = "bellrock-archive-all-*", "bellrock-archive-all-states"
# A writing that took longer is not sealed, so that after a day more, which clocks may differ by, what is left of it can be removed.
WRITES_FOR_MAX_NS, LEFT_AFTER_NS = 6 * DAY_NS, 7 * DAY_NS
LEFT_AT_ONCE = 100
_KEYWORD, _LONG, _BINARY = {"type": "keyword", "ignore_above": 8191}, {"type": "long"}, {"type": "binary"}
# `block`, `head` and `state` are kept in the document alone; by the others a person can search.
MAPPING: dict[str, Any] = {
    "dynamic": False,
    "properties": {
        "type": _KEYWORD, "subject": _KEYWORD, "generation": _LONG, "writing": _KEYWORD, "begun_ns": _LONG, "number": _LONG, "piece": _LONG, "rows": _LONG, "bytes": _LONG, "start": _LONG, "end": _LONG, "head": _BINARY, "block": _BINARY,
        "node_first": _KEYWORD, "node_last": _KEYWORD, "file_first": _KEYWORD, "file_last": _KEYWORD, "offset_first": _LONG, "offset_last": _LONG, "op": _KEYWORD,
        "read_bytes": _LONG, "write_bytes": _LONG, "operations": _LONG, "errors": _LONG, "state": {"type": "object", "enabled": False},
    },
}  # fmt: skip
_STRICT = "ignore_unavailable=true&allow_no_indices=true&allow_partial_search_results=false"


class ElasticArchive:
    """An `Archive` in the Elasticsearch of `settings`, on nodes with node.attr.group `group`. Nothing is asked before it is needed."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._client, self._group = Client(settings), group
        self.where = self._client.where

    def states(self, subjects: Sequence[str]) -> dict[str, State]:
        """See `Archive.states`."""
        found: dict[str, State] = {}
        for at in range(0, len(subjects), STATES_AT_ONCE):
            part = {_id(subject): subject for subject in subjects[at : at + STATES_AT_ONCE]}
            for told in self._got(list(part)):
                if told.get("found"):
                    state = State.of(told["_source"].get("state"))
                    if state.subject == part.get(told["_id"]):
                        found[state.subject] = state
        return found

    def _got(self, ids: Sequence[str]) -> list[dict]:
        """Documents with states, as they were written last, refreshed or not."""
        wait_s = BUSY_WAIT_FIRST_S
        for tries in range(1, AWAY_TRIES_MAX + 1):
            docs = self._client.ask("POST", f"/{STATES}/_mget?_source=state", {"ids": list(ids)})["docs"]
            failed = next((told for told in docs if told.get("error", {}).get("type") not in (None, "index_not_found_exception")), None)
            if failed is None:
                return docs
            if tries < AWAY_TRIES_MAX:
                # As for a moment after somebody made the index; the client sees an answer here.
                time.sleep(wait_s)
                wait_s *= 2
        raise ArchiveError(self._client.explain(503, failed, f"index {STATES}: POST /_mget"))

    def write(self, subject: str, generation: int, from_ns: int, blocks: Iterable[bytes]) -> str:
        """See `Archive.write`."""
        writing = new_writing()
        about = {"subject": subject, "generation": generation, "writing": writing}
        self._make(STATES)
        self._put(STATES, _writing_id(subject, writing), {"type": "writing", **about, "begun_ns": time.time_ns()})
        try:
            index = f"bellrock-archive-all-{names.period_of(from_ns, 'year')}"
            self._make(index)
            for number, block in enumerate(blocks):
                for piece, begin in enumerate(range(0, len(block), PIECE_BYTES)):
                    more = _about(block) if piece == 0 else {}
                    document = {"type": "block", **about, "number": number, "piece": piece, **more, "block": _text(block[begin : begin + PIECE_BYTES])}
                    self._put(index, _block_id(subject, generation, writing, number, piece), document)
        except BaseException:
            self._give_up(subject, writing)
            raise
        return writing

    def seal(self, state: State, before: State | None) -> None:
        """See `Archive.seal`."""
        subject, path = state.subject, f"/{STATES}/_doc/{in_path(_id(state.subject))}"
        kept = self._client.ask("GET", path, fine=(404,))
        is_as_read = (State.of(kept["_source"].get("state")) if kept.get("found") else None) == before
        is_sealed = False
        if is_as_read and self._may_seal(subject, state.writing):
            document = {"type": "state", "subject": subject, "generation": state.generation, "rows": state.rows, "bytes": state.bytes, "state": state.json()}
            unless = f"if_seq_no={kept['_seq_no']}&if_primary_term={kept['_primary_term']}" if kept.get("found") else "op_type=create"
            status, _ = self._client.answer("PUT", f"{path}?{unless}", document, fine=(409,))
            # A conflict may be with what this very request wrote, where its answer was lost and it was sent again.
            is_sealed = status < 300 or self.states([subject]).get(subject) == state
        if not is_sealed:
            self._give_up(subject, state.writing)
            raise Overtaken(subject)
        self._remove_others(state)
        self._remove_left()
        self._forget(subject, state.writing)

    def _may_seal(self, subject: str, writing: str) -> bool:
        """Whether nobody takes a writing's blocks for what is left of a killed one's."""
        found = self._client.ask("GET", f"/{STATES}/_doc/{in_path(_writing_id(subject, writing))}", fine=(404,))
        return found.get("found", False) and time.time_ns() - found["_source"]["begun_ns"] < WRITES_FOR_MAX_NS

    def _remove_others(self, state: State) -> None:
        """What no state will tell of once this one is there: whoever writes the same generation, or one before, finds it when sealing."""
        query = {"bool": {"filter": [{"range": {"generation": {"lte": state.generation}}}], "must_not": [{"term": {"writing": state.writing}}]}}
        self._remove(state.subject, query)

    def _remove_left(self) -> None:
        """What writers left that were killed, or that could not remove it."""
        query = {"bool": {"filter": [{"term": {"type": "writing"}}, {"range": {"begun_ns": {"lt": time.time_ns() - LEFT_AFTER_NS}}}]}}
        for hit in self._found(query, True, LEFT_AT_ONCE):
            subject, writing = hit["_source"]["subject"], hit["_source"]["writing"]
            state = self.states([subject]).get(subject)
            if state is not None and state.writing == writing:
                self._remove_others(state)
            else:
                self._remove(subject, {"term": {"writing": writing}})
            self._forget(subject, writing)

    def _give_up(self, subject: str, writing: str) -> None:
        try:
            self._remove(subject, {"term": {"writing": writing}})
            self._forget(subject, writing)
        except StoreError as error:
            log.warning("archive: what was written of %s in vain is removed in some days: %s", subject[:200], error)

    def _forget(self, subject: str, writing: str) -> None:
        self._client.ask("DELETE", f"/{STATES}/_doc/{in_path(_writing_id(subject, writing))}", fine=(404,))

    def heads(self, state: State) -> Iterator[bytes]:
        """See `Archive.heads`."""
        for at in range(0, len(state.blocks), HEADS_AT_ONCE):
            places = range(at, min(at + HEADS_AT_ONCE, len(state.blocks)))
            found = self._pieces(state, [(place, 0) for place in places], "head")
            yield from (found[place, 0] for place in places)

    def blocks(self, state: State, places: Sequence[int]) -> Iterator[bytes]:
        """See `Archive.blocks`."""
        for place in places:
            pieces = [(place, piece) for piece in range(-(-state.blocks[place][0] // PIECE_BYTES))]
            yield b"".join(self._pieces(state, [one], "block")[one] for one in pieces)

    def close(self) -> None:
        """See `Archive.close`."""
        self._client.close()

    def _pieces(self, state: State, wanted: Sequence[tuple[int, int]], name: str) -> dict[tuple[int, int], bytes]:
        """A field of some pieces, by block and piece."""
        ids = {_block_id(state.subject, state.generation, state.writing, *one): one for one in wanted}
        found: dict[tuple[int, int], bytes] = {}
        for hit in self._found({"ids": {"values": list(ids)}}, [name], len(ids)):
            try:
                found[ids[hit["_id"]]] = base64.b64decode(hit["_source"][name], validate=True)
            except (KeyError, TypeError, binascii.Error) as error:
                raise Damaged(f"the archive of {state.subject[:200]!r}: document {hit['_id'][:200]} has no {name} that can be read") from error
        if lacking := [one for one in wanted if one not in found]:
            raise ArchiveError(f"the archive of {state.subject[:200]!r}: block {lacking[0][0]} is not there: a newer generation has taken its place, or somebody removed it; ask again")
        return found

    def _found(self, query: dict[str, Any], source: list[str] | bool, size: int, keys: str = "hits.hits._id,hits.hits._source") -> list[dict]:
        body = {"query": query, "_source": source, "size": size, "track_total_hits": False}
        return self._client.ask("POST", f"/{INDICES}/_search?{_STRICT}&filter_path={keys}", body).get("hits", {}).get("hits", [])

    def _put(self, index: str, identity: str, document: dict[str, Any]) -> None:
        found = self._client.ask("POST", "/_bulk?filter_path=items.*.status,items.*.error", action(index, identity) + dumps(document) + b"\n")
        told = found["items"][0]["index"]
        if told["status"] >= 300:
            raise StoreError(self._client.explain(told["status"], {"error": told.get("error")}, f"index {index}: POST /_bulk"))

    def _remove(self, subject: str, which: dict[str, Any]) -> None:
        """Removes blocks of a subject that no state tells of."""
        query = {"bool": {"filter": [{"term": {"subject": subject}}, {"term": {"type": "block"}}, which]}}
        while True:
            self._refresh()
            found = self._found(query, False, REMOVED_AT_ONCE, "hits.hits._id,hits.hits._index")
            if not found:
                return
            self._client.ask("POST", "/_bulk?filter_path=errors", b"".join(removals(found)))

    def _refresh(self) -> None:
        self._client.ask("POST", f"/{INDICES}/_refresh?ignore_unavailable=true&allow_no_indices=true", fine=(404,))

    def _make(self, index: str) -> None:
        """Makes an index where it is missing."""
        if self._client.answer("HEAD", f"/{index}", fine=(404,))[0] == 404:
            settings = {
                "number_of_shards": 1, "auto_expand_replicas": "0-1", "refresh_interval": "30s", "codec": "default", "routing.allocation.require.group": self._group,
            }  # fmt: skip
            # 400: another one made it meanwhile; else the next request says what is wrong.
            status, found = self._client.answer("PUT", f"/{index}?wait_for_active_shards=1", {"settings": {"index": settings}, "mappings": MAPPING}, fine=(400,))
            if status < 300 and not found.get("shards_acknowledged"):
                raise ArchiveError(f"index {index} finds no node: none of Elasticsearch's data nodes that are there has `node.attr.group: {self._group}`; see archive.group in server.toml")


def _about(block: bytes) -> dict[str, Any]:
    """What a block is about, to search by."""
    head = Head.read(block)
    sums = head.ops
    moved = {f"{op}_bytes": sums[op].bytes for op in ("read", "write") if op in sums}
    bounds = {
        f"{name}_{which}": bound[at] for name, bound in (("node", head.nodes), ("file", head.files), ("offset", head.offsets)) if bound for at, which in enumerate(("first", "last"))
    }
    counted = {"operations": sum(one.operations for one in sums.values()), "errors": sum(one.errors for one in sums.values())}
    return {"rows": head.rows, "bytes": head.bytes, "start": head.start_ns, "end": head.end_ns, "op": sorted(sums), **bounds, **moved, **counted, "head": _text(block[: head.head_bytes])}


def _text(part: bytes) -> str:
    return base64.b64encode(part).decode()


def _id(subject: str) -> str:
    """A long subject stands as its digest, which no other subject is called."""
    encoded = subject.encode("utf-8", "surrogatepass")
    return subject if len(encoded) <= SUBJECT_BYTES_MAX else f"long {hashlib.sha256(encoded).hexdigest()}"


def _block_id(subject: str, generation: int, writing: str, number: int, piece: int) -> str:
    return f"{_id(subject)}/{generation}/{writing}/{number}" + (f"/{piece}" if piece else "")


def _writing_id(subject: str, writing: str) -> str:
    return f"{_id(subject)}/{writing}"
