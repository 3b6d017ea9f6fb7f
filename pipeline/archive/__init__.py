"""The archive: packed records that stay once the store has dropped them.

A *subject* is what an archive is of: a job, or the rest of a day, which is what began then in a group and no archived job holds. Each time that it is packed is a
*generation* of it: blocks of the second pass (`tracepack.archive`), and last, once these are durable, one `State`. What has no state is not there.

One at a time is to write. Where two do all the same, each writes blocks of its own: a *writing* has a name drawn by chance, which its blocks bear and its state tells. A
state is sealed only where the one before it is still what its writer had read; the other writer's blocks go.
"""

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from pipeline.schema import day_of
from pipeline.store import StoreError

# Blocks of one archive: 65 billion records.
BLOCKS_MAX = 1_000_000
_WRITING = re.compile(r"[0-9a-f]{16}")


class ArchiveError(StoreError):
    """The archive could not do what was asked; what it says it holds it still holds."""


class Damaged(ArchiveError):
    """A block, or what is known of blocks, is not what was written."""


class Overtaken(ArchiveError):
    """Another writer has sealed a generation meanwhile, or the writing took too long: its blocks are removed, and the archive is as it was."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"the archive of {subject[:200]!r}: somebody else has packed it meanwhile, and what was made here is thrown away; see that one server alone packs (`archive.run`)")


def of_job(key: str) -> str:
    """The subject of a job."""
    return f"job {key}"


def of_rest(day_ns: int, group: str) -> str:
    """The subject of what began on a day (ns since the epoch) in a group and no archived job holds."""
    return f"rest {day_of(day_ns)} {group}".rstrip()


@dataclass(frozen=True)
class State:
    """What is known of an archive that is whole. writing: the name that its blocks bear. counted: how many records the store had, as `Store.version` counts them, before they were
    read. version: of what can be had by now: `counted`, and once the store lacks some of them besides that of the generation before, so that nothing worked out of other records is taken
    for this one's. basis: a text that says what else than records told which are the subject's. rows: records; record_bytes: what they take as Arrow, texts in full; blocks: (size, size of
    the head) of each, bytes; primers: which of these are; from_ns, until_ns: the subject's time; made_ns: when it was begun."""

    subject: str
    generation: int
    writing: str
    version: int
    counted: int
    basis: str
    rows: int
    record_bytes: int
    blocks: tuple[tuple[int, int], ...]
    primers: tuple[int, ...]
    from_ns: int
    until_ns: int
    made_ns: int

    @property
    def bytes(self) -> int:
        """Bytes of all blocks."""
        return sum(size for size, _ in self.blocks)

    def json(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)

    def told(self) -> dict[str, Any]:
        """As the API and `bellrock archive --json` tell it."""
        kept = {name: value for name, value in asdict(self).items() if name not in ("writing", "counted", "basis", "primers", "blocks")}
        return kept | {"blocks": len(self.blocks), "bytes": self.bytes, "ratio": self.record_bytes / self.bytes if self.bytes else None}

    @classmethod
    def of(cls, found: Any) -> "State":
        """Of `json`. Raises Damaged for what is none."""
        try:
            blocks = tuple((int(size), int(head)) for size, head in found["blocks"])
            state = cls(**found | {"blocks": blocks, "primers": tuple(int(place) for place in found["primers"])})
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(f"what is known of an archive cannot be read: {error!r}") from error
        numbers = (state.generation, state.version, state.counted, state.rows, state.record_bytes, state.from_ns, state.until_ns, state.made_ns)
        if type(state.subject) is not str or type(state.writing) is not str or _WRITING.fullmatch(state.writing) is None:
            raise Damaged("what is known of an archive cannot be read: its names are none")
        if not all(type(number) is int and number >= 0 for number in numbers) or len(blocks) > BLOCKS_MAX:
            raise Damaged("what is known of an archive cannot be read: its numbers are none")
        if any(not 0 < head <= size for size, head in blocks) or any(not 0 <= place < len(blocks) for place in state.primers):
            raise Damaged(f"what is known of the archive of {state.subject[:200]!r} cannot be read: sizes of blocks that cannot be")
        return state


def new_writing() -> str:
    """The name of a writing."""
    return secrets.token_hex(8)


class Archive(Protocol):
    """Where archives lie. Any thread may ask. All raise ArchiveError, or another StoreError."""

    def states(self, subjects: Sequence[str]) -> dict[str, State]:
        """The newest generation of each subject that has one."""
        ...

    def write(self, subject: str, generation: int, from_ns: int, blocks: Iterable[bytes]) -> str:
        """Keeps the blocks of a generation to come; on return they are durable. Gives the name of this writing, for the state. What was written goes where it fails; what is left
        of a writer that was killed goes when another one seals, though never what might still be sealed. from_ns: the subject's time begins there."""
        ...

    def seal(self, state: State, before: State | None) -> None:
        """From now on readers find this generation, whose blocks are there; those before it are removed. before: the newest state that the writer had read. Raises Overtaken
        where another one is there by now."""
        ...

    def heads(self, state: State) -> Iterator[bytes]:
        """The heads of all blocks, in turn."""
        ...

    def blocks(self, state: State, places: Sequence[int]) -> Iterator[bytes]:
        """Some blocks, in the order of their places."""
        ...

    def close(self) -> None:
        """Ends all use."""
        ...
