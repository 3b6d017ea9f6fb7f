"""From the wire to the store: what a record is (`schema`), how it comes in (`lumberjack`, `ingest`), where it lives (`store`)."""
