"""The messages of nodes' system logs in the DuckDB file."""

from collections.abc import Sequence
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


def since(cursor: duckdb.DuckDBPyConnection, events: Sequence[str] | None, from_ns: int, first: int, limit: int) -> tuple[pa.Table, int]:
    """See `pipeline.store.Store.messages_since`: of rows from number `first` on; and the number to go on from."""
    # Asked for first: what comes between the two questions is for the next time.
    ((last,),) = cursor.execute("SELECT max(rowid) FROM messages").fetchall()
    if last is None or last < first:
        return MESSAGES.empty_table(), first
    where, params = 'rowid >= $first AND rowid <= $last AND "end" >= $from', {"first": first, "last": last, "from": from_ns, "limit": limit}
    if events is not None:
        where, params = f"{where} AND event IN (SELECT unnest($events::VARCHAR[]))", params | {"events": list(events)}
    columns = ", ".join(f'"{name}"' for name in MESSAGES.names)
    found = cursor.sql(f"SELECT {columns}, rowid AS place FROM messages WHERE {where} ORDER BY rowid LIMIT $limit", params=params).to_arrow_table()
    is_all = found.num_rows < limit
    return found.select(MESSAGES.names).cast(MESSAGES), 1 + (last if is_all else found["place"][-1].as_py())
