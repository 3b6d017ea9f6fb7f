"""What is known of one boot's sequence numbers: up to where they came, and which of those did not."""

from dataclasses import dataclass

Key = tuple[str, int]  # node, boot
# Gaps of a boot whose numbers are known; beyond it the two oldest become one range in which some numbers are missing.
GAPS_MAX = 64


@dataclass(frozen=True, slots=True)
class Gap:
    """`missing` numbers of `first` to `last` have not come: all of them, or, where gaps were merged, some, which is not known.

    since_ns, until_ns: between these (the store's clock) the last record before the gap and the first after it were appended.
    is_old: merged when the file was brought up from a version that kept no gaps: what comes there has nearly always come before."""

    first: int
    last: int
    missing: int
    since_ns: int
    until_ns: int
    is_old: bool = False

    @property
    def is_merged(self) -> bool:
        """Whether it is not known which of its numbers are missing."""
        return self.missing < self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Mark:
    """What came of one (node, boot). `seq`: the highest number that did; `gaps`: those below it that did not, in order.

    Of what came: `jobs` (job events) and `letters` (dead letters, late ones into a merged gap left out) have no row, so that
    seq - missing - jobs - letters is the number of its rows. Besides: `duplicates` that were dropped, `conflicts` (the number `seq` came again
    with another record), `late` (records that ended more than a day before they came). first_ns, last_ns: when `seq` rose first and last.
    fingerprint: of the record `seq`, 0 where not known. clock_offset_ns: end of the agent's newest sample less the store's clock when it came;
    None before the first. ended: that sample is the record `seq`, and was the agent's last word before it ended as asked.
    """

    seq: int
    gaps: tuple[Gap, ...] = ()
    jobs: int = 0
    letters: int = 0
    duplicates: int = 0
    conflicts: int = 0
    late: int = 0
    first_ns: int = 0
    last_ns: int = 0
    fingerprint: int = 0
    clock_offset_ns: int | None = None
    ended: bool = False

    @property
    def missing(self) -> int:
        """Numbers that have not come."""
        return sum(gap.missing for gap in self.gaps)

    @property
    def rows(self) -> int:
        """Rows that there must be."""
        return self.seq - self.missing - self.jobs - self.letters


def find(gaps: tuple[Gap, ...], seq: int) -> int | None:
    """The place in `gaps` of the one that `seq` lies in."""
    return next((place for place, gap in enumerate(gaps) if gap.first <= seq <= gap.last), None)


def opened(gaps: tuple[Gap, ...], gap: Gap) -> tuple[Gap, ...]:
    """The gaps with one more, which lies above them all."""
    return _bounded((*gaps, gap))


def filled(gaps: tuple[Gap, ...], place: int, seq: int) -> tuple[Gap, ...]:
    """The gaps once `seq`, in the one at `place`, has come. That one must not be merged."""
    gap = gaps[place]
    parts = ((gap.first, seq - 1), (seq + 1, gap.last))
    rest = [Gap(first, last, last - first + 1, gap.since_ns, gap.until_ns) for first, last in parts if first <= last]
    return _bounded((*gaps[:place], *rest, *gaps[place + 1 :]))


def _bounded(gaps: tuple[Gap, ...]) -> tuple[Gap, ...]:
    while len(gaps) > GAPS_MAX:
        a, b = gaps[:2]
        gaps = (Gap(a.first, b.last, a.missing + b.missing, min(a.since_ns, b.since_ns), max(a.until_ns, b.until_ns), a.is_old or b.is_old), *gaps[2:])
    return gaps
