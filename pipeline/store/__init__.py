"""Where records live: what every store can do. `pipeline.store.duckdb.DuckDBStore` is for one machine, `pipeline.store.elastic.store.ElasticsearchStore`
for a site."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
import pyarrow as pa

from pipeline.schema import KINDS
from pipeline.store.mark import Key, Mark
from pipeline.store.parts import Droppable
from pipeline.store.sought import Orderly
from pipeline.store.summaries import Summarisable
from pipeline.store.window import Given, Window

# How far somebody has read: a text that only the store that gave it understands. It may be kept as long as the records are; where some were dropped
# since, the store may raise PlaceLost.
Place = str
BEGIN: Place = ""
# Of what is no JSON, so much is kept.
UNDECODABLE_CHARACTERS_MAX = 4096
# The first word of the reason why a record is refused whose number another record had.
CONFLICT = "id"
# Runs that are given out at once. Measured: 200 bytes a run in Arrow, 450 at the peak of working a profile out, so 1.8 GB.
RUNS_MAX = 4_000_000
# Steps of time that `seconds` gives out at once.
SECONDS_STEPS_MAX = 50_000
# Samples that `samples` gives out at once, unless asked for fewer: a day of one component, a second each, is 86,400. Their values, all together: 250 MB.
SAMPLES_MAX, SAMPLE_VALUES_MAX = 100_000, 10_000_000
# Samples that `sums_of` adds up.
SUMMED_MAX = 1_000_000
# Components that `components` tells of.
COMPONENTS_MAX = 100_000
# Messages that `messages` gives out, and how many it goes through at most.
MESSAGES_MAX, MESSAGES_SOUGHT_MAX = 1000, 10_000
# What `messages` gives out.
MESSAGES = KINDS["message"].arrow
# What `doings` gives out, and of how many at most.
DOINGS = pa.schema([("job", pa.string()), ("uid", pa.int64()), ("node", pa.string()), *((name, pa.int64()) for name in ("read_ops", "read_bytes", "write_ops", "write_bytes", "metadata_ops"))])
DOINGS_MAX = 100_000
# In the place of an event's name: any event.
ANY_EVENT = "*"
# What `samples` gives out.
SAMPLES = pa.schema([KINDS["sample"].arrow.field(name) for name in ("node", "boot", "instance", "start", "end", "values")])


def named_samples(names: Sequence[str]) -> pa.Schema:
    """What `samples` gives out of some values: in place of `values` a column for each, null where a sample does not bear it."""
    return pa.schema([*(field for field in SAMPLES if field.name != "values"), *(pa.field(name, pa.float64()) for name in names)])


class StoreError(Exception):
    """The store could not do what was asked (disk full, file unreadable, held by another process). Nothing of the batch may be taken
    as stored; to append the same events again is safe."""


class PlaceLost(StoreError):
    """Records were dropped since a place was given, and it does not say any more what has been read: begin anew."""


class TooManyRuns(StoreError):
    """A job has more runs than can be held in memory at once."""


class TooManySamples(StoreError):
    """There are more samples than are given out at once. until_ns: up to there they are not too many."""

    def __init__(self, component: str, most: int, until_ns: int) -> None:
        self.until_ns = until_ns
        super().__init__(f"there are more than {most} samples of component {component[:100]!r} in this time, or they have more than {SAMPLE_VALUES_MAX} values")


class TooManyComponents(StoreError):
    """There are more components than can be told of at once."""


@dataclass(frozen=True)
class Undecodable:
    """An event that came and is no JSON, as it is handed to `append`, where it becomes a dead letter. A type of its own: no peer can send one."""

    text: str
    error: str


def decoded(payload: bytes) -> Any:
    """The event that a payload is the JSON of; Undecodable where it is none."""
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        return Undecodable(as_text(payload), str(error))


def as_text(payload: bytes) -> str:
    """The beginning of what is no JSON, as it is kept."""
    return payload[:UNDECODABLE_CHARACTERS_MAX].decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Appended:
    """What became of a batch: `runs + samples + jobs + messages + duplicates + dead_letters` is its length. `missing` counts sequence numbers that
    it jumped over, `filled` those that had been jumped over and came now. `refused`: the places in the batch of what became dead letters.
    events: by place, what came, decoded, but for runs that were not looked at one by one."""

    runs: int = 0
    samples: int = 0
    jobs: int = 0
    messages: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    missing: int = 0
    filled: int = 0
    refused: frozenset[int] = field(default=frozenset(), compare=False)
    events: Mapping[int, Any] = field(default_factory=dict, compare=False)

    @property
    def records(self) -> dict[str, int]:
        """How many were stored, by kind."""
        return {"run": self.runs, "sample": self.samples, "job": self.jobs, "message": self.messages}


@dataclass(frozen=True)
class Letters:
    """Dead letters of one boot (None: they bear no id) for one reason. cause: the reason's first word; reason, raw, seq: the newest one's. raw
    is None where it was not asked for."""

    node: str | None
    boot: int | None
    cause: str
    count: int
    first_ns: int
    last_ns: int
    seq: int | None
    reason: str
    raw: str | None


@dataclass(frozen=True)
class Progress:
    """How far counting is: rows that are read, of all that there are."""

    read: int
    of: int


@dataclass(frozen=True)
class Proof:
    """What counting all rows shows. boots: (node, boot) → rows that there must be, are, and bear different numbers. days: rows by day of
    their start."""

    boots: dict[tuple[str, int], tuple[int, int, int]]
    days: dict[str, int]


@dataclass(frozen=True, order=True)
class Heard:
    """A component of which samples touch a time. first_ns: when the first of them begins; last_ns: when the last one ends."""

    node: str
    component: str
    instance: str
    first_ns: int
    last_ns: int


class Store(Droppable, Orderly, Summarisable, Protocol):
    """All methods may be called from any thread; `append` calls wait for each other, readers wait for nobody. All raise StoreError.

    What one store object has appended it finds at once; one in another process, where there can be one, within 3 s.

    few_runs: so many runs are read and drawn in about a tenth of a second. is_grouped: it keeps groups of nodes apart, so that `known` (see `runs`) spares it
    something. seconds_of: the class of data that `seconds` is worked out of."""

    few_runs: int
    is_grouped: bool
    seconds_of: str

    def append(self, events: Sequence[dict | Undecodable]) -> Appended:
        """Stores a batch in one transaction; on return it is durable.

        An event of a (node, boot) whose number has come is a duplicate and dropped; what comes late into a gap fills it. An event that
        breaks the schema, or whose times cannot be, becomes a dead letter, and its number, where it bears one, counts as come. These become
        dead letters, too, and count for nothing else: one that is further beyond the mark than numbers ever jump, one that comes into a
        gap of which it is not known any more which numbers are missing (a duplicate where an older version left that open), and another record with
        the mark's number. Job events get no row.
        Where records would be refused as ahead of the server's clock only since that went back by more than a day, it raises instead.
        """
        ...

    def take(self, payloads: Sequence[bytes], decode: Callable[[bytes], Any] = decoded) -> Appended:
        """`append` of events as they came in JSON, in less time: few are decoded. decode: makes an event, or Undecodable, of a payload that is not a
        good run at first sight."""
        ...

    def begin_anew(self) -> None:
        """Before the next append, reads again what it rests on: another process may have written in between. Returns at once."""
        ...

    def runs(
        self,
        job: str,
        columns: Sequence[str] | None = None,
        window: Window | None = None,
        span: tuple[int, int] | None = None,
        *,
        known: Sequence[str] | None = None,
        most: int | None = None,
    ) -> pa.Table:
        """All runs that claim `job` (see `Given` for where that is not enough, or too much; of a window only those that begin in `Window.claims`), in any order, notices
        included, and all of `window` that are a node's (process "node"); columns as in docs/records.md, all by default.
        span: only those that touch [span[0], span[1]], ns since the epoch.
        known: the nodes that all of them are known to come from: a store that keeps groups of nodes apart asks no other group.
        Of a large job, runs may come merged where that changes no figure of a profile and `columns` leave out what would be lost.
        Raises KeyError for a column that does not exist, and TooManyRuns where there are more than `most`, or than the store gives out at once."""
        ...

    def sample_totals(self, component: str, nodes: Sequence[str], after: Place = BEGIN) -> tuple[list[tuple[str, str, float, float]], Place]:
        """What the samples of a kind of component add up to on some nodes, counting those that were appended since a place: rows of
        node, name of the value, sum, and the value appended last; and the place to go on from. BEGIN: all."""
        ...

    def sample_sums(self, component: str, names: Sequence[str], nodes: Sequence[str], from_ns: int, to_ns: int) -> dict[tuple[str, int], dict[str, float]]:
        """By (node, boot), the sum of each of the values called `names` over the samples whose interval touches [from_ns, to_ns]. Boots and
        values without any are left out."""
        ...

    def sample_sums_by_time(
        self, component: str, names: Sequence[str], after: Place, grain_ns: int, limit: int
    ) -> tuple[list[tuple[Key, int, str, float]], Place]:
        """Of all samples of a kind of component that were appended since a place, the sums of the values called `names`, as far as they
        are not 0: rows of (node, boot), when the samples begin in whole grains of `grain_ns` since the epoch, name, sum; `limit` rows at most.
        And the place to go on from."""
        ...

    def components(self, from_ns: int, to_ns: int, node: str | None = None, kinds: Sequence[str] | None = None, but: Sequence[str] = ()) -> list[Heard]:
        """The components (of a node, of some kinds, or of none of some) whose samples touch [from_ns, to_ns], by node, component and instance; of a time of which
        samples were dropped, as summaries tell, to the hour. Raises TooManyComponents for more than COMPONENTS_MAX."""
        ...

    def called(self, component: str, nodes: Sequence[str], names: Sequence[str], stems: Sequence[str], from_ns: int, to_ns: int) -> list[Heard]:
        """As `components`, of a kind of component on some nodes the instances that are called one of `names`, or one of `stems`, a dot, and anything: of kinds of which a node
        has tens of thousands. A stem has no dot."""
        ...

    def telling(self, component: str, nodes: Sequence[str], from_ns: int, to_ns: int) -> set[str]:
        """Those of some nodes that have samples of a kind of component which touch [from_ns, to_ns]."""
        ...

    def samples(
        self, component: str, of: Sequence[tuple[str, str]], from_ns: int, to_ns: int, most: int = SAMPLES_MAX, names: Sequence[str] | None = None
    ) -> pa.Table:
        """The samples of a kind of component, of the instances `of` (node, instance), whose interval touches [from_ns, to_ns], by start, as SAMPLES.
        names: in any order, as `named_samples`: of the values only these, which takes far less time. Raises TooManySamples for more than `most`, or with more
        than SAMPLE_VALUES_MAX values, of which with `names` each sample counts as having all."""
        ...

    def sums_of(self, component: str, node: str, begins: str, names: Sequence[str], from_ns: int, to_ns: int) -> dict[str, dict[str, float]]:
        """Of the instances of a kind of component on a node that are called `begins` and more: by instance, the sum of each of the values called `names`, where any is known, over
        the samples whose interval touches [from_ns, to_ns]; of a time of which samples were dropped, over the whole hours that do, as summaries tell of counters. Raises
        TooManySamples for more than SUMMED_MAX, and TooManyComponents."""
        ...

    def messages(
        self, node: str, from_ns: int, to_ns: int, severity: int = 7, event: str | None = None, skip: int = 0, most: int = MESSAGES_MAX
    ) -> tuple[pa.Table, int]:
        """The messages of a node that touch [from_ns, to_ns], of a severity up to this one, and of an event (ANY_EVENT: any; None: of none, too): `most` of them
        after `skip`, the last begun first, as MESSAGES; and how many there are, MESSAGES_SOUGHT_MAX at most, beyond which none are given out."""
        ...

    def messages_since(self, events: Sequence[str] | None, from_ns: int, after: Place = BEGIN, limit: int = MESSAGES_SOUGHT_MAX) -> tuple[pa.Table, Place]:
        """Messages that came since a place, of all nodes, that tell of one of some events (None: all), none that were written last before from_ns; about `limit` of them, as
        MESSAGES, and the place to go on from: where that is another one there may be more. The same one may come twice. Raises PlaceLost."""
        ...

    def missing(self, nodes: Sequence[str], from_ns: int, to_ns: int) -> dict[str, int]:
        """By node, how many sequence numbers are missing, where the records before and after the gap came at times between which some
        instant of [from_ns, to_ns] lies. Nodes without any are left out."""
        ...

    def changes(self, nodes: Sequence[str], from_ns: int, to_ns: int) -> str | None:
        """A text that is another one whenever records of some nodes that touch [from_ns, to_ns] became more or fewer, or what is missing of them did;
        perhaps also when not. Ask for it before the answer that it is to stand for. None where that cannot be told."""
        ...

    def boots(self, node: str | None = None, since_ns: int = 0) -> list[tuple[Key, Mark]]:
        """What came of each boot (of a node) that anything new came of since a time, and of each node's newest, whenever that was: a node that
        has been silent since is to be seen. The last appended first, of a bounded number of boots."""
        ...

    def boot_count(self, node: str | None = None, since_ns: int = 0) -> int:
        """Of how many boots `boots` would tell if that were not bounded."""
        ...

    def letters(self, node: str | None = None, since_ns: int = 0, raw: bool = False) -> list[Letters]:
        """The dead letters that are kept (of a node), received since a time, by boot and cause, the most frequent first, a bounded number.
        With `raw` also how the newest ones came."""
        ...

    def dropped_letters(self) -> dict[Key, tuple[int, int]]:
        """By boot, how many of its dead letters retention has dropped, and how many of its conflicts."""
        ...

    def proof(self, node: str | None = None, since_ns: int = 0) -> Iterator[Progress | Proof]:
        """Counts the rows of all boots that `boots` would tell of, each whole; those that retention dropped need not be there. The days are those of rows that begin since the time. Takes long:
        it tells how far it is, at once and after each part, and what it found at last. To close the iterator ends it."""
        ...

    def nodes(self, job: str, uid: int) -> list[str]:
        """The nodes from which runs of processes of user `uid` claim `job`, by name."""
        ...

    def seconds(
        self,
        job: str | None,
        uid: int | None,
        nodes: Sequence[str] | None,
        from_s: int,
        to_s: int,
        step_s: int = 1,
        *,
        of_nodes: bool = False,
        since_s: int | None = None,
        known: Sequence[str] | None = None,
        given: Given | None = None,
    ) -> pa.Table:
        """What was done over time, summed over the runs that claim `job` (None: all runs, with a job or without), are user `uid`'s or nobody's (None:
        anybody's), and come from `nodes` (None: all): those of processes, or (`of_nodes`) those that no process did.

        Rows as `pipeline.rollup.SCHEMA`: amounts in [second, second + seconds), s since the epoch, spread evenly over them, by second. Single seconds are put
        together to steps of `step_s` that begin at its multiples; the middle of runs of over two seconds is a row of its own length, given whole. Rows that
        touch [from_s, to_s), widened to whole steps. Such middles are sought from a week before `since_s` on (default: from_s). known: as `runs`. given: as
        `Window.given` of the job; the time is [from_s, to_s).
        Raises ValueError for more than SECONDS_STEPS_MAX steps, and TooManyRuns where they have to be worked out of more runs than can be held."""
        ...

    def doings(self, from_ns: int, to_ns: int) -> pa.Table:
        """Who did how much of late: by the job that runs claim and their user, and, of those that claim none, by node and user (null: nobody's), the amounts of all that touch
        [from_ns, to_ns] and succeeded, each whole. As DOINGS, the busiest by operations first, DOINGS_MAX of them; in one pass over the runs of that time, however many jobs there are. Groups
        of nodes that are away are left out."""
        ...

    def version(self, job: str, window: Window | None = None) -> int:
        """A number that grows whenever the runs that `runs` would give become more, and is no less than there are. Ask for it before the runs that it is to stand for."""
        ...

    def versions(self, asked: Sequence[tuple[str, Window | None]]) -> list[int | None]:
        """`version` of each of many jobs, in about the time of one; None where it cannot be told, since records of the job's nodes are away."""
        ...

    def away(self) -> list[str]:
        """The groups of nodes whose records cannot be had now: of jobs on their nodes `runs` and `version` raise, and of other jobs all is told but what
        such nodes did for them without the job database's knowledge. `seconds` of a job is of the others: ask for its `version` first."""
        ...

    def partial(self) -> int:
        """How many answers so far were of some groups only. Who keeps an answer asks before what it rests on and after it: where the number grew, it may
        lack something."""
        ...

    def status(self) -> dict[str, Any]:
        """`records` ({run, sample, job, message}: all that ever came), `records_dropped` (of these, by retention), `dead_letters` (`dead_letters_dropped` of them are not kept any more), `duplicates`, `missing`,
        `last_append_ns` (None: not since it was opened), `error` (text while the last append failed, else None), and `high_water`: a list
        of {node, boot (hex), seq, missing, last_append_ns, clock_offset_ns, ended} (see pipeline.store.mark.Mark), the last appended first,
        of a bounded number of boots."""
        ...

    def close(self) -> None:
        """Ends all use; what was appended stays."""
        ...
