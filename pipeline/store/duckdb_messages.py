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
    order = '"start" DESC, boot, seq DESC'
    sought = f"SELECT * FROM messages WHERE {where} ORDER BY {order} LIMIT {MESSAGES_SOUGHT_MAX}"
    columns = ", ".join(f'"{name}"' for name in MESSAGES.names)
    page = f"SELECT {columns}, count(*) OVER () AS total FROM ({sought}) ORDER BY {order} LIMIT {most} OFFSET {skip}"
    found = cursor.sql(page, params=params).to_arrow_table()
    if found.num_rows:
        total = found["total"][0].as_py()
    elif skip:  # beyond the last
        ((total,),) = cursor.execute(f"SELECT count(*) FROM ({sought})", params).fetchall()
    else:
        total = 0
    return found.select(MESSAGES.names).cast(MESSAGES), total
