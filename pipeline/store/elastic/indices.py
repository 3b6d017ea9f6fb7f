"""A group's indices, made with all their settings before they are written to."""

import logging
import time
from collections.abc import Iterable
from typing import Any

from pipeline.store import StoreError
from pipeline.store.elastic import names
from pipeline.store.elastic.client import Client
from pipeline.store.elastic.templates import definition

log = logging.getLogger(__name__)

# An index that is known to be there may be dropped, and is made again with all its settings after so long at the latest; until then its template does.
MADE_KNOWN_S = 600.0
# A new index has a node within this, or is told to find none.
PLACED_WITHIN_S = 20


class Indices:
    """Owner: whoever writes into them."""

    def __init__(self, client: Client, group: str) -> None:
        self._client, self._group = client, group
        self._made: set[tuple[str, str, str]] = set()  # those that are there
        self._made_until = 0.0
        self._told = False  # that an alias is refused

    def forget(self) -> None:
        """What is there is looked for anew."""
        self._made.clear()

    def see_to(self, wanted: Iterable[tuple[str, str, str]]) -> None:
        """Sees that indices (kind, layer, period) are there. Raises StoreError."""
        if time.monotonic() > self._made_until:
            self._made.clear()
            self._made_until = time.monotonic() + MADE_KNOWN_S
        for kind, layer, period in wanted:
            if (kind, layer, period) not in self._made:
                index, body = names.index(kind, layer, self._group, period), definition(kind, layer, self._group)
                if not self.make(index, body):
                    # An earlier version made it, and may have known fewer fields. One that somebody made otherwise stays as it is: what does not fit
                    # becomes a dead letter.
                    status, found = self._client.answer("PUT", f"/{index}/_mapping", body["mappings"], fine=(400,))
                    if status == 400:
                        log.warning("store: %s", self._client.explain(status, found, f"PUT /{index}/_mapping"))
                self._made.add((kind, layer, period))

    def make(self, index: str, body: dict[str, Any]) -> bool:
        """Makes an index. False where it is there. Raises StoreError."""
        path = f"/{index}?wait_for_active_shards=1&timeout={PLACED_WITHIN_S}s"
        status, found = self._client.answer("PUT", path, body, fine=(400, 403))
        if status == 403:
            # Perhaps the alias alone: a role of an earlier version knows none of a kind that is new.
            refused = self._client.explain(status, found, f"PUT /{index}")
            status, found = self._client.answer("PUT", path, body | {"aliases": {}}, fine=(400, 403))
            if status == 403:
                raise StoreError(refused)
            if not self._told:
                log.warning("store: %s; its indices are made all the same", refused)
            self._told = True
        if status == 400 and "resource_already_exists_exception" not in str(found)[:1000]:
            raise StoreError(self._client.explain(status, found, f"PUT /{index}"))
        if status < 300 and not found.get("shards_acknowledged", True):
            raise StoreError(
                f"Elasticsearch at {self._client.where}: index {index} finds no node: one must have `node.attr.group: {self._group}` in its elasticsearch.yml, "
                "and disk space below the watermarks; `GET /_cluster/allocation/explain` tells"
            )
        return status < 300
