"""The kinds of record, each defined once in a TOML file beside this one, and what is made of them where they are stored (`ROLLUP`, `SUMMARY`).

`KINDS` maps a kind's name to its `Kind`. From the same fields come the Arrow schema, the DuckDB table, the check and docs/records.md.
What the values of samples are, by component, is in components.toml (`pipeline.schema.components`).
A nullable field may be absent. Keys that the schema does not know are ignored, so that a newer agent can talk to an older server.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

import pyarrow as pa

from pipeline.schema import components
from pipeline.schema.checker import HISTOGRAM_BINS, RecordError, describe, make_row
from pipeline.schema.times import DAY_SQL, day_of, implausible

__all__ = [
    "DAY_SQL",
    "HISTOGRAM_BINS",
    "KINDS",
    "ROLLUP",
    "SUMMARY",
    "Field",
    "Kind",
    "RecordError",
    "check",
    "day_of",
    "describe",
    "identity",
    "implausible",
    "kind_of",
    "markdown",
]

# What a summary tells of each value.
SUMMARISED = ("min", "max", "mean", "sum", "known_s")
_ARROW = {
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "hex64": pa.uint64(),
    "numbers": pa.map_(pa.string(), pa.float64()),
    "histogram": pa.list_(pa.int64(), HISTOGRAM_BINS),
    "bool": pa.bool_(),
    "second": pa.int64(),
    "counts": pa.list_(pa.int64()),
    "amounts": pa.list_(pa.float64()),
    "summaries": pa.map_(pa.string(), pa.struct([(name, pa.list_(pa.float64())) for name in SUMMARISED])),
}
_DUCKDB = {
    "string": "VARCHAR",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "hex64": "UBIGINT",
    "numbers": "MAP(VARCHAR, DOUBLE)",
    # An array of that length would take room in every row and a quarter of the time of storing it, and mostly there is none.
    "histogram": "BIGINT[]",
    "counts": "BIGINT[]",
    "amounts": "DOUBLE[]",
    "summaries": "MAP(VARCHAR, STRUCT({}))".format(", ".join(f"{name} DOUBLE[]" for name in SUMMARISED)),
}
# What Elasticsearch keeps of a field: the document's text alone; also its values by column, for sums and filters; also an index, to find it by.
ELASTIC = ("source", "values", "index")
# The layer of the I/O path that a kind of component belongs to; others are of the layer OTHER_LAYER.
COMPONENT_LAYERS = {"agent": "agent"}
OTHER_LAYER = "other"


@dataclass(frozen=True)
class Field:
    """One field of a record. `type` is the type on the wire: `hex64` is a string of 1 to 16 hex digits there and a uint64 in the store;
    `numbers` is an object of numbers there and a map of doubles in the store; `histogram` is a list of HISTOGRAM_BINS counts in both; `bool` and
    `second` (an instant, s since the epoch) are Elasticsearch's alone; `counts`, `amounts` and `summaries` (name → lists of numbers) come from no agent.
    elastic: what Elasticsearch keeps of it besides the document, one of ELASTIC."""

    name: str
    type: str
    doc: str
    unit: str | None = None
    nullable: bool = False
    min: int | None = None
    max: int | None = None
    max_length: int | None = None
    values: tuple[str, ...] | None = None
    elastic: str = "source"

    def __post_init__(self) -> None:
        if self.type not in _ARROW:
            raise ValueError(f"field {self.name}: unknown type {self.type!r}; known: {', '.join(_ARROW)}")
        if self.elastic not in ELASTIC:
            raise ValueError(f"field {self.name}: elastic is {self.elastic!r}; known: {', '.join(ELASTIC)}")

    @property
    def duckdb(self) -> str:
        """Type of its column."""
        return _DUCKDB[self.type]


@dataclass(frozen=True)
class Kind:
    """One kind of record. `times` names the fields that say when it began and ended (one field for both where it is an instant). `table` is None
    where the record store keeps no rows of it. `searched` names those of its `values` that Elasticsearch keeps besides the document."""

    name: str
    doc: str
    fields: tuple[Field, ...]
    times: tuple[str, str]
    table: str | None = None
    searched: tuple[str, ...] = ()

    @cached_property
    def arrow(self) -> pa.Schema:
        """Schema of the table that the store takes in and gives out."""
        return pa.schema([pa.field(f.name, _ARROW[f.type], f.nullable) for f in self.fields])

    @property
    def ddl(self) -> str:
        """CREATE TABLE for DuckDB. Raises ValueError for a kind without a table."""
        if self.table is None:
            raise ValueError(f"records of kind {self.name} have no table")
        columns = ", ".join(f'"{f.name}" {f.duckdb}{"" if f.nullable else " NOT NULL"}' for f in self.fields)
        return f'CREATE TABLE IF NOT EXISTS "{self.table}" ({columns})'

    @cached_property
    def row(self) -> Callable[[dict], tuple]:
        """Function: event → its values in the order of `fields`, as the store holds them; raises RecordError."""
        return make_row(self.fields)

    @cached_property
    def time_places(self) -> tuple[int, int]:
        """Where in a row its `times` are."""
        names = [field.name for field in self.fields]
        return names.index(self.times[0]), names.index(self.times[1])


def _load_fields(text: dict) -> tuple[Field, ...]:
    return tuple(Field(**{**f, "values": tuple(f["values"])} if "values" in f else f) for f in text["field"])


def _read(name: str) -> dict:
    return tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text("utf-8"))


def _load_kind(name: str, envelope: tuple[Field, ...]) -> Kind:
    text = _read(name)
    return Kind(text["kind"], text["doc"], envelope + _load_fields(text), tuple(text["times"]), text.get("table"), tuple(text.get("searched", ())))


ENVELOPE = _load_fields(_read("envelope"))
KINDS: dict[str, Kind] = {name: _load_kind(name, ENVELOPE) for name in ("run", "sample", "job", "message")}
ROLLUP = _load_kind("rollup", ())
SUMMARY = _load_kind("summary", ())

_identity_row = make_row(ENVELOPE)


def kind_of(event: object) -> Kind:
    """The kind that an event says it is of. Raises RecordError where it is no object or of no known kind."""
    if type(event) is not dict:
        raise RecordError(f"expected an object, got {type(event).__name__}")
    name = event.get("kind")
    kind = KINDS.get(name) if type(name) is str else None
    if kind is None:
        raise RecordError(f"kind: expected one of {', '.join(KINDS)}, got {describe(name)}")
    return kind


def check(event: object, now_ns: int | None = None) -> None:
    """Raises RecordError, saying which field and why, where the event is not a well-formed record of its kind; with `now_ns`, the receiver's
    clock, also where its times cannot be."""
    kind = kind_of(event)
    row = kind.row(event)
    if now_ns is not None:
        start, end = kind.time_places
        reason = implausible(row[start], row[end], now_ns)
        if reason is not None:
            raise RecordError(reason)


def identity(event: object) -> tuple[str, int, int] | None:
    """(node, boot, seq) of an event, perhaps one that is otherwise bad; None where it bears no usable id."""
    if type(event) is not dict:
        return None
    try:
        return _identity_row(event)
    except RecordError:
        return None


def markdown() -> str:
    """The text of docs/records.md."""
    lines = [
        "# Records",
        "",
        "Generated from `pipeline/schema/*.toml` by `python -m pipeline.schema > docs/records.md`; do not edit.",
        "",
        "In Elasticsearch: `index` can be searched by and summed, `values` summed and filtered by, `source` is in the document alone.",
        "",
        "Type is the type in JSON on the wire. `hex64` is a string of 1 to 16 hex digits; the store holds it as an unsigned 64-bit number.",
        f"`numbers` is an object of numbers of at most 2^53 either way, `histogram` a list of {HISTOGRAM_BINS} counts. A field with `null` may be absent. Unknown keys are ignored.",
    ]
    for kind in (*KINDS.values(), ROLLUP, SUMMARY):
        where = f"Table `{kind.table}`." if kind.table else "No table."
        searched = f" Of `values`, Elasticsearch indexes {', '.join(f'`{name}`' for name in kind.searched)}." if kind.searched else ""
        lines += ["", f"## {kind.name}", "", f"{kind.doc} {where}{searched}", ""]
        lines += ["| field | type | unit | null | Elasticsearch | what |", "| --- | --- | --- | --- | --- | --- |"]
        for f in kind.fields:
            values = f" One of {', '.join(f'`{v}`' for v in f.values)}." if f.values else ""
            least = f" At least {f.min}." if f.min is not None else ""
            most = f" At most {f.max}." if f.max is not None else ""
            longest = f" At most {f.max_length} characters." if f.max_length is not None else ""
            null = "yes" if f.nullable else ""
            lines.append(f"| `{f.name}` | {f.type} | {f.unit or ''} | {null} | {f.elastic} | {f.doc}{values}{least}{most}{longest} |")
    return "\n".join(lines + components.markdown()) + "\n"
