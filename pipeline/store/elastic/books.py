"""A group's books: commits, and the table of marks that is made from them.

One index a group, `bellrock-books-GROUP`. Its documents: `group` (the floor and the periods of indices, and up to which commit the table of
marks is made), `commit/NUMBER` (created, never written over: marks that moved, and totals), `mark/NODE/BOOT`.
A number is used once: who opens the books takes one with an empty commit, so that what another writer, or a request of one's own that was given
up, does later cannot be taken for a commit. `head` is the last number whose documents count.
"""

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.store import StoreError
from pipeline.store.elastic import names
from pipeline.store.elastic.bulk import Bulk, action, removals
from pipeline.store.elastic.client import Client, dumps, in_path
from pipeline.store.elastic.mark_rows import mark_document, mark_id, mark_of, row_of
from pipeline.store.elastic.reader import Reader
from pipeline.store.elastic.templates import definition, templates
from pipeline.store.mark import Key, Mark
from pipeline.store.marks import MARKS_KEPT, Marks

# Commits that the table of marks may be behind.
COMMITS_MAX = 32
# An index that is known to be there may be dropped, and is made again with all its settings after so long at the latest; until then its template does.
MADE_KNOWN_S = 600.0
# A new index has a node within this, or is told to find none.
PLACED_WITHIN_S = 20
TOTALS = ("run", "sample", "job", "duplicates", "dead_letters", "letters_dropped", "missing")


class Books:
    """What the one writer of a group knows. Owner: the store's append lock."""

    def __init__(self, client: Client, bulk: Bulk, reader: Reader, group: str, period: str) -> None:
        self._client, self._bulk, self._reader, self._period = client, bulk, reader, period
        self.group = group
        self._path = f"/{names.books(group)}"
        self._number = 0  # of the last commit document
        self._applied = 0  # the table of marks holds what came up to this one
        self._pending: dict[Key, Mark] = {}  # moved since
        self._made: set[tuple[str, str, str]] = set()  # indices that are there
        self._void: int | None = None  # a number that no batch has, until its sums by second were looked for once more
        self._made_until = 0.0
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
        self._make(names.books(self.group), definition("books", "", self.group))
        self._made.clear()
        self._reader.refresh(names.books(self.group))
        self._read_group()
        last, commits = self._read_commits()
        self.head, self._number = last.get("head", 0), last.get("number", 0)
        self.totals = dict.fromkeys(TOTALS, 0) | last.get("totals", {})
        self._create(self._number + 1, self.head, [], self.totals)
        self._number += 1
        self._void = self._number
        self._roll_back(names.of_group(self.group), {"gt": self.head})
        self._pending = {}
        for commit in commits:
            self._pending |= dict(map(mark_of, commit["marks"]))
        self._write_table([commit["number"] for commit in commits])
        self._reader.refresh(names.books(self.group))
        self.marks = Marks(self._read_table(), self._fetch)

    def make_indices(self, wanted: Iterable[tuple[str, str, str]]) -> None:
        """Sees that indices (kind, layer, period) are there."""
        if time.monotonic() > self._made_until:
            self._made.clear()
            self._made_until = time.monotonic() + MADE_KNOWN_S
        for kind, layer, period in wanted:
            if (kind, layer, period) not in self._made:
                self._make(names.index(kind, layer, self.group, period), definition(kind, layer, self.group))
                self._made.add((kind, layer, period))

    def commit(self, number: int, marks: dict[Key, Mark], totals: dict[str, int]) -> None:
        """Makes the documents of `number` count. Raises StoreError where another writer has taken the number, and then for ever."""
        self._create(number, number, [row_of(key, mark) for key, mark in marks.items()], totals)
        self._number = self.head = number
        self.totals = totals
        self._pending |= marks
        self.marks.move(marks)

    def bring_up(self) -> None:
        """Brings the table of marks up to the last commit, now and then; to fail costs nothing but that it is tried again."""
        if self._number - self._applied >= COMMITS_MAX:
            if self._void is not None:
                # A request of the last writer's that was given up may have been carried out since. Records of it have been overwritten, sums have not.
                self._roll_back(names.index("rollup", "*", self.group, "*"), {"gte": self._void, "lte": self._void})
                self._void = None
            self._write_table(range(self._applied + 1, self._number))

    def _make(self, index: str, body: dict[str, Any]) -> None:
        status, found = self._client.answer("PUT", f"/{index}?wait_for_active_shards=1&timeout={PLACED_WITHIN_S}s", body, fine=(400,))
        if status == 400 and "resource_already_exists_exception" not in str(found)[:1000]:
            raise StoreError(self._client.explain(status, found, f"PUT /{index}"))
        if status < 300 and not found.get("shards_acknowledged", True):
            raise StoreError(
                f"Elasticsearch at {self._client.where}: index {index} finds no node: one must have `node.attr.group: {self.group}` in its elasticsearch.yml, "
                "and disk space below the watermarks; `GET /_cluster/allocation/explain` tells"
            )

    def _read_group(self) -> None:
        now_ns = time.time_ns()
        new = names.Dated((now_ns - names.BEFORE_NS) // 10**9 * 10**9, [(0, self._period)])
        status, found = self._client.answer("GET", f"{self._path}/_doc/group", fine=(404,))
        if status == 404:
            status, _ = self._client.answer("PUT", f"{self._path}/_create/group", self._group_document(new, 0), fine=(409,))
            if status < 300:
                self.dated, self._applied = new, 0
                return
            found = self._client.ask("GET", f"{self._path}/_doc/group")
        known = found["_source"]
        self._applied = known["applied"]
        self.dated = names.Dated(known["floor_ns"], known["periods"])
        changed = self.dated.changed(self._period, now_ns)
        if changed is not None:
            self._client.ask("PUT", f"{self._path}/_doc/group", self._group_document(changed, self._applied))
            self.dated = changed

    def _group_document(self, dated: names.Dated, applied: int) -> dict[str, Any]:
        return {"type": "group", "group": self.group, "floor_ns": dated.floor_ns, "periods": dated.periods, "applied": applied}

    def _create(self, number: int, head: int, marks: list, totals: dict[str, int]) -> None:
        token = secrets.token_hex(8)
        body = {
            "type": "commit",
            "group": self.group,
            "number": number,
            "head": head,
            "time_ns": time.time_ns(),
            "token": token,
            "totals": totals,
            "marks": marks,
        }
        path = f"{self._path}/_create/{in_path(f'commit/{number}')}"
        status, _ = self._client.answer("PUT", path, body, fine=(409,))
        if status == 409:
            # Perhaps it is our own, sent twice as the first answer was lost.
            found = self._client.ask("GET", f"{self._path}/_doc/{in_path(f'commit/{number}')}")
            if found["_source"]["token"] != token:
                raise TakenOver(
                    f"group {self.group}: another process writes into this group's indices of Elasticsearch at {self._client.where} (commit {number} is its own): "
                    "let one `bellrock ingest --queue … --store elasticsearch` alone do so, and give each log server a [group] name of its own"
                )

    def _read_commits(self) -> tuple[dict, list[dict]]:
        """The last commit, and all whose marks the table may lack, in order."""
        query = {"bool": {"filter": [{"term": {"type": "commit"}}, {"range": {"number": {"gt": self._applied}}}]}}
        commits = [hit["_source"] for page in self._reader.hits(names.books(self.group), query) for hit in page]
        commits.sort(key=lambda commit: commit["number"])
        if commits:
            return commits[-1], commits
        status, found = self._client.answer("GET", f"{self._path}/_doc/{in_path(f'commit/{self._applied}')}", fine=(404,))
        if status == 404 and self._applied:
            raise StoreError(
                f"index {names.books(self.group)}: commit {self._applied} is missing: restore the index from a snapshot; do not let ingest begin anew"
            )
        return (found["_source"] if status < 300 else {}), []

    def _roll_back(self, pattern: str, commits: dict[str, int]) -> None:
        """Removes what was written under numbers that no commit has: it will come again, perhaps in other batches."""
        self._reader.refresh(pattern)
        for page in self._reader.hits(pattern, {"range": {"commit": commits}}, source=False):
            self._bulk.send(removals(page))

    def _write_table(self, done: Sequence[int]) -> None:
        """Writes marks into the table, then removes the commits `done` that it holds by now, but for the last one."""
        number = self._number
        rows = [
            action(names.books(self.group), mark_id(key), version=number, version_type="external_gte") + dumps(mark_document(self.group, key, mark)) + b"\n"
            for key, mark in self._pending.items()
        ]
        refused = self._bulk.send(rows)
        if refused:
            raise StoreError(f"index {names.books(self.group)} does not take marks: {next(iter(refused.values()))}")
        self._client.ask("PUT", f"{self._path}/_doc/group", self._group_document(self.dated, number))
        before, self._applied, self._pending = self._applied, number, {}
        old = {before, *done} - {0, number}
        self._bulk.send(removals([{"_index": names.books(self.group), "_id": f"commit/{n}"} for n in sorted(old)]))

    def _read_table(self) -> list[tuple[Key, Mark]]:
        query = {"bool": {"filter": [{"term": {"type": "mark"}}]}}
        pages = self._reader.hits(names.books(self.group), query, sort=[{"last_ns": "desc"}, {"_shard_doc": "asc"}], limit=MARKS_KEPT + 1)
        return [mark_of(hit["_source"]["mark"]) for page in pages for hit in page]

    def _fetch(self, key: Key) -> Mark | None:
        if key in self._pending:
            return self._pending[key]
        status, found = self._client.answer("GET", f"{self._path}/_doc/{in_path(mark_id(key))}", fine=(404,))
        return mark_of(found["_source"]["mark"])[1] if status < 300 else None


class TakenOver(StoreError):
    """Another process writes into the group."""
