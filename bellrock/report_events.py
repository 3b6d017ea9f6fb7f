"""What `bellrock events` prints: a pure function from the API's answer to what rich renders."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from bellrock import text


def listed(found: Sequence[dict[str, Any]]) -> Table:
    """A line for each event. Words may be anybody's: nothing of them reaches the terminal but text."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ID", justify="right", no_wrap=True)
    for name in ("BEGIN", "END", "EVENT", "NODE", "SOURCE"):
        table.add_column(name, no_wrap=name != "NODE")
    table.add_column("TEXT", overflow="fold")
    for one in found:
        end = "it lasts" if one["end_ns"] is None else text.instant(one["end_ns"])
        source = one["source"] if one["author"] is None else f"{one['source']}, {one['author']}"
        words = (one["node"] or "(all)", source, one["text"])
        table.add_row(str(one["id"]), text.instant(one["begin_ns"]), end, text.plain(one["kind"]), *(Text(text.plain(word)) for word in words))
    return table
