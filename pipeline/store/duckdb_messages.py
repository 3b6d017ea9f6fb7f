"""The messages of nodes' system logs in the DuckDB file."""

from typing import Any

import duckdb
import pyarrow as pa

from pipeline.store import ANY_EVENT, MESSAGES, MESSAGES_SOUGHT_MAX


def messages(
    cursor: duckdb.DuckDBPyConnection, node: str, from_ns: int, to_ns: int, severity: int, event: str | None, skip: int, most: int
) -> tuple[pa.Table, int]:
    """See `pipeline.store.Store.messages`."""
    params: dict[str, Any] = {"node": node, "from": from_ns, "to": to_ns, "severity": severity}
    where = 'node = $node AND "start" <= $to AND "end" >= $from AND severity <= $severity'
    if event == ANY_EVENT:
        where += " AND event IS NOT NULL"
    elif event is not None:
        where, params = f"{where} AND event = $event", params | {"event": event}
    table = f'FROM (SELECT * FROM messages WHERE {where} ORDER BY "start" DESC, boot, seq DESC LIMIT {MESSAGES_SOUGHT_MAX})'
    ((total,),) = cursor.execute(f"SELECT count(*) {table}", params).fetchall()
    columns = ", ".join(f'"{name}"' for name in MESSAGES.names)
    found = cursor.sql(f'SELECT {columns} {table} ORDER BY "start" DESC, boot, seq DESC LIMIT {most} OFFSET {skip}', params=params)
    return found.to_arrow_table().cast(MESSAGES), total
