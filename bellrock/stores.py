"""Opens the store that the settings name."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

from bellrock.config import Config
from bellrock.errors import UsageError

log = logging.getLogger(__name__)


def open_store(config: Config, state: Path) -> Any:
    """The store of [store] kind; on Elasticsearch it takes records of the group of [group], without one it only reads those of all. Raises StoreError where it cannot be opened, UsageError for settings that cannot be."""
    if config.store.kind == "elasticsearch":
        from pipeline.store import StoreError
        from pipeline.store.elastic.client import Settings
        from pipeline.store.elastic.store import ElasticsearchStore

        try:
            return ElasticsearchStore(Settings(**dataclasses.asdict(config.elasticsearch), days=config.retention.days), config.group.name or None)
        except StoreError as error:
            raise UsageError(str(error), "the settings are those of [elasticsearch] in server.toml") from error
    from pipeline.store.duckdb import DuckDBStore

    return DuckDBStore(state / "records.duckdb")


def check_shards(store: Any) -> None:
    """Tells in the log where the groups' shards are too many for the cluster. Raises UsageError where they are, and this group would be a new one."""
    from pipeline.store import StoreError
    from pipeline.store.elastic.budget import DoesNotFit

    try:
        store.check_shards()
    except DoesNotFit as error:
        raise UsageError(str(error), "set that, or `cluster.max_shards_per_node` at Elasticsearch, then start it again") from error
    except StoreError as error:
        log.warning("whether Elasticsearch takes all shards could not be looked at: %s", error)
