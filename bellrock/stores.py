"""Opens the store that the settings name."""

import dataclasses
from pathlib import Path
from typing import Any

from bellrock.config import Config
from bellrock.errors import UsageError


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
