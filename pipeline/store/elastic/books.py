"""A group's books: commits, and the table of marks that is made from them.

One index a group, `bellrock-books-GROUP`. Its documents: `group` (the floor and the periods of indices), `mark/NODE/BOOT`, and `slot/K`, which hold
the last commits: marks that moved, and totals. Commit NUMBER is written into slot NUMBER % SLOTS with its number as the document's version, which
Elasticsearch takes only where a lower one is there. Slots are never removed, so a number that was used, or passed over, is refused for ever, however
late it comes: after a time-out, or by a writer that was stopped.

Who opens the books takes a number with an empty commit, so that what the last writer has begun cannot be committed any more: such a number is void.
`head` is the last number whose documents count.
"""

import logging
import secrets
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from pipeline.store import StoreError
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import Bulk, action, removals
from pipeline.store.elastic.client import Client, dumps, in_path
from pipeline.store.elastic.indices import Indices
from pipeline.store.elastic.mark_rows import mark_document, mark_id, mark_of, row_of
from pipeline.store.elastic.reader import PAGE, Reader
from pipeline.store.elastic.templates import definition, templates
from pipeline.store.mark import Key, Mark
from pipeline.store.marks import MARKS_KEPT, Marks

log = logging.getLogger(__name__)

# Commits are written into this many documents in turn. To change it would let a writer in that was stopped before.
SLOTS = 64
# Commits that the table of marks may be behind: fewer than SLOTS, as a commit may not be written over before the table has its marks.
COMMITS_MAX = 32
# Marks that are written into the table at once: of a whole machine's nodes their documents would take more room than the marks themselves.
MARKS_AT_ONCE = 4096
# How often a group's books are tried to be taken while another process writes.
TAKINGS_MAX = 5
# What is there under void numbers is looked for so often, and under so many spans of them; a span is of the openings between two batches.
CLEANED_EVERY_S = 60.0
VOID_SPANS_MAX = 100
TOTALS = ("run", "sample", "job", "message", "duplicates", "dead_letters", "letters_dropped", "missing")


class Books:
    """What the one writer of a group knows. Owner: the store's append lock."""

    def __init__(self, client: Client, bulk: Bulk, reader: Reader, group: str, period: str) -> None:
        self._client, self._bulk, self._reader, self._period = client, bulk, reader, period
        self.group = group
        self._path = f"/{names.books(group)}"
        self._number = 0  # of the last commit
        self._behind: list[int] = []  # commits whose marks are in slots
        self._pending: dict[Key, tuple[int, Mark]] = {}  # those marks, and by which commit each moved
        self._void: list[list[int]] = []  # spans of numbers that no batch has
        self._clean_at = 0.0
        self._indices = Indices(client, group)
        self.head = 0
        self.dated = names.Dated(0, [(0, period)])
        self.totals = dict.fromkeys(TOTALS, 0)
        self.marks = Marks([], self._fetch)

    @property
    def next(self) -> int:
        """The number of the commit to come."""
        return self._number + 1

    def open(self) -> None:
        """Takes the group over: what another writer has begun and not committed will not be taken, what is half written is removed."""
        for name, template in templates(self.group).items():
            self._client.ask("PUT", f"/_index_template/{name}", template)
        self._indices.make(names.books(self.group), definition("books", "", self.group))
        self._indices.forget()
        self._take()
        self._roll_back()
        self._read_group()
        self._reader.refresh(names.books(self.group))
        self.marks = Marks(self._read_table(), self._fetch)
        self._clean_at = 0.0

    def make_indices(self, wanted: Iterable[tuple[str, str, str]]) -> None:
        """Sees that indices (kind, layer, period) are there."""
        self._indices.see_to(wanted)

    def commit(self, number: int, marks: dict[Key, Mark], totals: dict[str, int]) -> None:
        """Makes the documents of `number` count. Raises StoreError where another writer has taken the number, and then for ever."""
        if not self._write(number, number, [row_of(key, mark) for key, mark in marks.items()], totals):
            raise self._taken_over(number)
        self.totals = totals
        self._pending |= {key: (number, mark) for key, mark in marks.items()}
        self.marks.move(marks)

    def bring_up(self) -> None:
        """Brings the table of marks up to the last commit, now and then; to fail costs nothing but that it is tried again."""
        if len(self._behind) > COMMITS_MAX:
            self._write_table()
        if time.monotonic() >= self._clean_at:
            self._clean_at = time.monotonic() + CLEANED_EVERY_S
            try:
                self._clean()
            except StoreError:
                log.warning("store: sums of group %s that were never committed could not be looked for", self.group, exc_info=True)

    def _take(self) -> None:
        """Makes us the writer: whatever anybody else is about to commit is refused from here on."""
        for _ in range(TAKINGS_MAX):
            self._reader.refresh(names.books(self.group))
            hits = self._read_commits()
            commits = [hit["_source"] for hit in hits]
            last = commits[-1] if commits else {}
            self._number, self.head = last.get("number", 0), last.get("head", 0)
            self.totals = dict.fromkeys(TOTALS, 0) | last.get("totals", {})
            self._behind = [commit["number"] for commit in commits]
            self._pending = {}
            for commit in commits:
                self._pending |= {key: (commit["number"], mark) for key, mark in map(mark_of, commit["marks"])}
            # Before the books are ours: what commits say is so, whoever writes it into the table. So openings that fail later on use no slots up.
            self._write_table()
            self._void = _with(last.get("void", []), self.next)
            if self._write(self.next, self.head, [], self.totals):
                # Books once had a document a commit, which were removed.
                self._bulk.send([action(names.books(self.group), hit["_id"], "delete") for hit in hits if hit["_id"].startswith("commit/")])
                return
            # Another writer was faster, or a request of our own that was given up.
        raise self._taken_over(self.next)

    def _read_group(self) -> None:
        now_ns = time.time_ns()
        path = f"{self._path}/_doc/group"
        new = names.Dated((now_ns - names.BEFORE_NS) // 10**9 * 10**9, [(0, self._period)])
        status, found = self._client.answer("GET", path, fine=(404,))
        if status == 404:
            status, _ = self._client.answer("PUT", f"{self._path}/_create/group", self._group_document(new), fine=(409,))
            if status < 300:
                self.dated = new
                return
            found = self._client.ask("GET", path)
        known = found["_source"]
        self.dated = names.Dated(known["floor_ns"], known["periods"])
        changed = self.dated.changed(self._period, now_ns)
        if changed is not None:
            self._client.ask("PUT", f"{path}?if_seq_no={found['_seq_no']}&if_primary_term={found['_primary_term']}", self._group_document(changed))
            self.dated = changed

    def _group_document(self, dated: names.Dated) -> dict[str, Any]:
        return {"type": "group", "group": self.group, "floor_ns": dated.floor_ns, "periods": dated.periods}

    def _write(self, number: int, head: int, marks: list, totals: dict[str, int]) -> bool:
        """Commits `number`, which is ours then. False where it, or a later one, is another's."""
        token = secrets.token_hex(8)
        body = {
            "type": "commit",
            "group": self.group,
            "number": number,
            "head": head,
            "time_ns": time.time_ns(),
            "token": token,
            "totals": totals,
            "void": self._void,
            "marks": marks,
        }
        path = f"{self._path}/_doc/{in_path(slot_id(number))}"
        status, _ = self._client.answer("PUT", f"{path}?version={number}&version_type=external", body, fine=(409,))
        # Perhaps it is our own, sent twice as the first answer was lost.
        if status == 409 and self._client.ask("GET", path)["_source"].get("token") != token:
            return False
        self._number, self.head = number, head
        self._behind.append(number)
        return True

    def _taken_over(self, number: int) -> "TakenOver":
        return TakenOver(
            f"group {self.group}: another process writes into this group's indices of Elasticsearch at {self._client.where} (commit {number} is not ours): "
            "let one `bellrock ingest --queue … --store elasticsearch` alone do so, and give each log server a [group] name of its own"
        )

    def _read_commits(self) -> list[dict]:
        """The last commit, and all whose marks the table may lack, in order."""
        hits = [hit for page in self._reader.hits(names.books(self.group), {"term": {"type": "commit"}}) for hit in page]
        if not hits and self._client.answer("HEAD", f"{self._path}/_doc/group", fine=(404,))[0] < 300:
            raise StoreError(f"index {names.books(self.group)}: its commits are missing: restore the index from a snapshot; do not let ingest begin anew")
        return sorted(hits, key=lambda hit: hit["_source"]["number"])

    def _roll_back(self) -> None:
        """Removes what was written after the last commit, up to our own number: it will come again, perhaps in other batches. No later numbers, and
        nothing that was written again since it was found: who is stopped amid this, and goes on as another has taken over, does no harm."""
        pattern = names.of_group(self.group)
        query = {"range": {"commit": {"gt": self.head, "lte": self._number}}}
        body = {"query": query, "size": PAGE, "_source": False, "seq_no_primary_term": True, "track_total_hits": False}
        while True:
            self._reader.refresh(pattern)
            found = self._reader.search(pattern, body)["hits"]["hits"]
            self._bulk.send(removals(found))
            if len(found) < PAGE:
                return

    def _clean(self) -> None:
        """Removes sums and letters under void numbers: a request that was given up may be carried out at any time, and a writer that was stopped may
        go on. Their ids are places in a commit; records, and letters with a record's id, overwrite themselves when they come again, and stay."""
        pattern = f"{names.index('rollup', '*', self.group, '*')},{names.index('letter', '*', self.group, '*')}"
        spans = [{"range": {"commit": {"gte": first, "lte": last}}} for first, last in self._void]
        for page in self._reader.hits(pattern, {"bool": {"should": spans, "minimum_should_match": 1}}, source=False):
            self._bulk.send(removals([hit for hit in page if hit["_id"].count("/") == 1]))

    def _write_table(self) -> None:
        """Writes marks into the table, then empties the slots of the commits that it holds by now, but for the last one, which tells the head."""
        index = names.books(self.group)
        pending = iter(self._pending.items())
        while part := list(islice(pending, MARKS_AT_ONCE)):
            refused = self._bulk.send(
                [
                    action(index, mark_id(key), version=number, version_type="external_gte") + dumps(mark_document(self.group, key, mark)) + b"\n"
                    for key, (number, mark) in part
                ]
            )
            if refused:
                raise StoreError(f"index {index} does not take marks: {next(iter(refused.values()))}")
        # Only what still holds its commit: the numbers stay, so that nobody can commit them again.
        done = [(number, dumps({"type": "slot", "group": self.group, "number": number})) for number in self._behind[:-1]]
        self._bulk.send([action(index, slot_id(number), version=number, version_type="external_gte") + body + b"\n" for number, body in done])
        self._behind, self._pending = self._behind[-1:], {}

    def _read_table(self) -> list[tuple[Key, Mark]]:
        query = {"bool": {"filter": [{"term": {"type": "mark"}}]}}
        pages = self._reader.hits(names.books(self.group), query, sort=[{"last_ns": "desc"}, {"_shard_doc": "asc"}], limit=MARKS_KEPT + 1)
        return [mark_of(hit["_source"]["mark"]) for page in pages for hit in page]

    def _fetch(self, key: Key) -> Mark | None:
        if key in self._pending:
            return self._pending[key][1]
        status, found = self._client.answer("GET", f"{self._path}/_doc/{in_path(mark_id(key))}", fine=(404,))
        return mark_of(found["_source"]["mark"])[1] if status < 300 else None


class TakenOver(StoreError):
    """Another process writes into the group."""


def slot_id(number: int) -> str:
    return f"slot/{number % SLOTS}"


def _with(spans: list[list[int]], number: int) -> list[list[int]]:
    """Spans of void numbers with one more."""
    if spans and spans[-1][1] == number - 1:
        return [*spans[:-1], [spans[-1][0], number]]
    return [*spans, [number, number]][-VOID_SPANS_MAX:]
