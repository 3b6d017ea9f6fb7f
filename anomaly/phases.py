"""Phases: spans of sustained I/O, parted by pauses, and by a wavelet from what goes on beneath them (docs/detection.md)."""

from dataclasses import dataclass

import numpy as np
import pywt

from jobdb.drawn import Drawn
from jobdb.grouping import counts, highest, lowest, sums
from pipeline.rollup import METADATA_OPS
from pipeline.spread import spread

S = 10**9
LATEST_NS = 2**63 - 1
# A pause that is longer parts two phases.
PAUSE_S = 5
# What moved less than this share of the volume of the largest is no phase, nor what moved less than `LITTLE` of it at less than this share of its bandwidth.
SHARE_MIN = 1e-4
LITTLE = 0.01
# So much of a span's volume is no part of it where it leads or trails at less than `LITTLE` of the span's bandwidth, for longer than this, and as much again
# takes less than half as long.
END_S = 1
# A metadata operation counts as so many bytes.
METADATA_BYTES = 1024
# A direction counts in full from this share of the bandwidth of the busiest kind, below it in proportion.
KIND_SHARE = 0.01
# What makes a level the background: the bandwidth that the average byte sees is so many times as high as the usual level, or as the lowest.
USUAL_CONTRAST, LOWEST_CONTRAST = 100.0, 1000.0
# Details of 2, 4 and 8 steps: the first block that is longer than any pause within a span, so that no block is empty.
WAVELET, LEVELS = "haar", 3
BLOCK = 1 << LEVELS
# Of a normal distribution the median absolute deviation is so much of the standard deviation.
MAD_SIGMA = 0.6745
# Steps that are looked at in one job, at most: 48 days of I/O without a pause by the second; of more the step is longer.
STEPS_MAX = 1 << 22
KINDS = READ, WRITE, OTHER = range(3)


@dataclass(frozen=True)
class Found:
    """spans: int64 array, shape (phases, 2), start and end of each in ns, in order and more than `PAUSE_S` apart. skipped: runs that were left out,
    as they have no time or no amount (NaN, infinite, negative)."""

    spans: np.ndarray
    skipped: int


def find_phases(runs: Drawn) -> np.ndarray:
    """The phases of a job: `Found.spans` of its runs that succeeded. Each begins with a run's start and ends with a run's end."""
    done = ~runs.failed
    read, write, metadata = runs.mask("read"), runs.mask("write"), runs.mask(*METADATA_OPS)
    kind = np.where(read, READ, np.where(write, WRITE, OTHER)).astype(np.int8)
    # The least of an operation is a byte: a read at the end of a file is one, too.
    amount = np.where(metadata, METADATA_BYTES * runs.count.astype(np.float64), np.maximum(np.where(read | write, runs.bytes, 0), runs.count))
    if done.all():
        return phases_of(runs.start_ns, runs.end_ns, amount, kind).spans
    return phases_of(runs.start_ns[done], runs.end_ns[done], amount[done], kind[done]).spans


def phases_of(start_ns, end_ns, amount, kind) -> Found:
    """Phases of runs, one element each, in any order.

    1. Spans: runs without a pause of more than `PAUSE_S` between the latest end so far and the next start, less the little that lies apart at their ends.
    2. In a span of at least two blocks the amounts by the second, each run's spread evenly over its time, go through a Haar wavelet. Where bursts stand
       out of a background that goes on between them, the bursts are the phases; else the whole span is one.
    3. What has less than `SHARE_MIN` of the volume of the largest is dropped.

    Parameters
    ----------
    start_ns, end_ns: ns since the epoch. An end before its start counts as the start, a time before the epoch as the epoch.
    amount: bytes, or what stands for them; at least 0. kind: `READ`, `WRITE` or `OTHER`, each of which has a series of its own.

    Cost: a sort of the runs, some passes over them, and over the seconds of spans, never over silence; about 100 bytes a run and 200 a second.

    Raises ValueError for arrays of unlike length.

    Source: wavelets for bursts: Beacon (NSDI'19, appendix B) after IOSI (Liu et al., FAST'14). The rules around them are ours: IOSI's series are servers' and
    never silent, a job's are exact and mostly 0.
    """
    columns = [np.asarray(column) for column in (start_ns, end_ns, amount, kind)]
    if any(column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        raise ValueError(f"start_ns, end_ns, amount and kind must be flat and of one length: got {', '.join(str(column.shape) for column in columns)}")
    good = _is_good(*columns[:3])
    skipped = len(good) - int(good.sum())
    start_ns, end_ns, amount, kind = (column[good] for column in columns) if skipped else columns
    if not len(start_ns):
        return Found(np.empty((0, 2), dtype=np.int64), skipped)
    start_ns = np.maximum(start_ns.astype(np.int64, copy=False), 0)
    end_ns = np.maximum(end_ns.astype(np.int64, copy=False), start_ns)
    if (start_ns[1:] < start_ns[:-1]).any():
        order = np.argsort(start_ns, kind="stable")
        start_ns, end_ns, amount, kind = start_ns[order], end_ns[order], amount[order], kind[order]
    is_tied = start_ns[1:] == start_ns[:-1]
    if is_tied.any():
        # In an order of their own, so that the order in which runs are given changes nothing.
        tied = np.flatnonzero(np.append(is_tied, False) | np.append(False, is_tied))
        order = np.arange(len(start_ns))
        order[tied] = tied[np.lexsort((kind[tied], amount[tied], end_ns[tied], start_ns[tied]))]
        end_ns, amount, kind = end_ns[order], amount[order], kind[order]
    spans, first, last = _trimmed(start_ns, end_ns, amount)
    bursts, whole = _bursts(start_ns, end_ns, amount, kind, spans, first, last)
    return Found(_considerable(_joined(np.concatenate((spans[whole], bursts))), start_ns, end_ns, amount), skipped)


def _is_good(start_ns: np.ndarray, end_ns: np.ndarray, amount: np.ndarray) -> np.ndarray:
    good = amount >= 0
    for column in (start_ns, end_ns, amount):
        if column.dtype.kind == "f":
            # A float beyond 64 bits is no time.
            good &= np.abs(column) < LATEST_NS if column is not amount else np.isfinite(column)
    return good


def _starts(start_ns: np.ndarray, latest_ns: np.ndarray) -> np.ndarray:
    """Places of elements, by ascending start, that begin more than `PAUSE_S` after the latest end of those before, and of the first."""
    return np.concatenate(([0], np.flatnonzero(start_ns[1:] - latest_ns[:-1] > PAUSE_S * S) + 1))


def _joined(spans: np.ndarray) -> np.ndarray:
    """Joins spans that lie no more than `PAUSE_S` apart; any order."""
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    latest_ns = np.maximum.accumulate(spans[:, 1])
    first = _starts(spans[:, 0], latest_ns)
    return np.column_stack((spans[first, 0], latest_ns[np.concatenate((first[1:], [len(spans)])) - 1]))


def _trimmed(start_ns: np.ndarray, end_ns: np.ndarray, amount: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spans of runs, shape (spans, 2), and the first and the last run of each, without those that were cut off at its ends."""
    latest_ns = np.maximum.accumulate(end_ns)
    first = _starts(start_ns, latest_ns)
    last = np.concatenate((first[1:], [len(start_ns)])) - 1
    until = np.cumsum(amount)
    before = until[first] - amount[first]
    volume, length_ns = until[last] - before, latest_ns[last] - start_ns[first]
    # The sums' rounding must not lead out of the span.
    head, head_twice = (np.clip(np.searchsorted(until, before + share * volume, side="right"), first, last) for share in (SHARE_MIN, 2 * SHARE_MIN))
    tail, tail_twice = (np.clip(np.searchsorted(until, until[last] - share * volume, side="left"), head, last) for share in (SHARE_MIN, 2 * SHARE_MIN))
    for cut_ns, twice_ns, moved, at, place in (
        (start_ns[head] - start_ns[first], start_ns[head_twice] - start_ns[first], until[head] - amount[head] - before, first, head),
        (latest_ns[last] - latest_ns[tail], latest_ns[last] - latest_ns[tail_twice], until[last] - until[tail], last, tail),
    ):
        is_end = (cut_ns > END_S * S) & (twice_ns < 1.5 * cut_ns) & (moved * length_ns < LITTLE * volume * cut_ns)
        at[is_end] = place[is_end]
    return np.column_stack((start_ns[first], latest_ns[last])), first, last


def _considerable(phases: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """Those with a volume worth a look; a run belongs to the first that it touches."""
    # By their starts the runs of each phase, and of the time before it, follow each other.
    until = np.searchsorted(start_ns, phases[:, 1], side="right")
    begin = np.concatenate(([0], until[:-1]))
    touches = end_ns[: until[-1]] >= np.repeat(phases[:, 0], until - begin)
    volume = np.add.reduceat(np.where(touches, amount[: until[-1]], 0.0), begin)
    bandwidth = volume / np.maximum(phases[:, 1] - phases[:, 0], 1)
    largest = volume.argmax()
    is_little = (volume < LITTLE * volume[largest]) & (bandwidth < SHARE_MIN * bandwidth[largest])
    return phases[(volume >= SHARE_MIN * volume[largest]) & ~is_little]


@dataclass(frozen=True)
class _Steps:
    """The time of some spans in equal steps, one span after the other, each from its first run's start on and filled up to whole blocks.

    step_ns: length of a step. at: first step of each span, and their number in the end. used: of each span, how many are not filling.
    """

    step_ns: int
    at: np.ndarray
    used: np.ndarray

    @property
    def number(self) -> int:
        return int(self.at[-1])

    def each(self, of_spans: np.ndarray, level: int = 0) -> np.ndarray:
        """A value a span → one a step, or a coefficient of a level."""
        return np.repeat(of_spans, np.diff(self.at) >> level)

    def total(self, of_steps: np.ndarray) -> np.ndarray:
        """A value a step → their sum a span."""
        return np.add.reduceat(of_steps, self.at[:-1])


def _steps(spans: np.ndarray) -> tuple[_Steps | None, np.ndarray]:
    """Steps of the spans that are long enough for a look inside, and which these are; None without any, and where a broken clock has them last for
    centuries."""
    length_ns, step_ns = spans[:, 1] - spans[:, 0], S
    while True:
        is_long = length_ns >= 2 * BLOCK * step_ns
        used = length_ns[is_long] // step_ns + 1
        filled = -(-used // BLOCK) * BLOCK
        if filled.sum() <= STEPS_MAX:
            break
        step_ns *= 2
    total = int(filled.sum())
    if not 0 < total * step_ns <= LATEST_NS // 2:
        return None, np.zeros(len(spans), dtype=bool)
    return _Steps(step_ns, np.concatenate(([0], np.cumsum(filled))), used), is_long


def _bursts(
    start_ns: np.ndarray, end_ns: np.ndarray, amount: np.ndarray, kind: np.ndarray, spans: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The bursts that stand out of a background, shape (bursts, 2), and a mask of the spans that have no background. first, last: runs of each span."""
    whole = np.ones(len(spans), dtype=bool)
    steps, is_long = _steps(spans)
    if steps is None:
        return np.empty((0, 2), dtype=np.int64), whole
    runs_of = (last - first + 1)[is_long]
    chosen = np.repeat(first[is_long] - (np.cumsum(runs_of) - runs_of), runs_of) + np.arange(runs_of.sum())
    origin_ns = steps.at[:-1] * steps.step_ns - spans[is_long, 0]
    shift_ns = np.repeat(origin_ns, runs_of)
    start_ns, end_ns = start_ns[chosen] + shift_ns, end_ns[chosen] + shift_ns
    level = _level(start_ns, end_ns, amount[chosen], kind[chosen], steps)
    floor = _floor(level, steps)
    has_background = np.isfinite(floor)
    if not has_background.any():
        return np.empty((0, 2), dtype=np.int64), whole
    stretches = _stretches(level, _denoised(level, floor, steps), floor, steps)
    bursts = _edges(stretches, start_ns, end_ns, steps)
    span_of = np.searchsorted(steps.at, stretches[:, 0], side="right") - 1
    whole[np.flatnonzero(is_long)[has_background]] = False
    return bursts - origin_ns[span_of][:, None], whole


def _level(start_ns: np.ndarray, end_ns: np.ndarray, amount: np.ndarray, kind: np.ndarray, steps: _Steps) -> np.ndarray:
    """How high the I/O is in each step: the sum over kinds, each as a part of the bandwidth that the kind's average byte sees in its span."""
    edges = np.arange(steps.number + 1) * steps.step_ns
    series = []
    for one in KINDS:
        of = kind == one
        series.append(spread(start_ns[of], end_ns[of], amount[of], edges, steps.step_ns) if of.any() else np.zeros(steps.number))
    typical = np.array([_typical(one, steps) for one in series])
    scale = np.maximum(typical, KIND_SHARE * typical.max(axis=0))
    # What stands for bytes is too rough to count in full.
    scale[OTHER] = typical.max(axis=0)
    return sum(one / steps.each(np.where(unit > 0, unit, 1.0)) for one, unit in zip(series, scale, strict=True))


def _typical(series: np.ndarray, steps: _Steps) -> np.ndarray:
    """The level that the average byte of each span sees; a few quiet hours, unlike in a mean over time, do not change it."""
    total = steps.total(series)
    return steps.total(series * series) / np.where(total > 0, total, 1.0)


def _floor(level: np.ndarray, steps: _Steps) -> np.ndarray:
    """What parts bursts from the background in each span: the geometric mean of both's levels; NaN where there is no background."""
    blocks = level.reshape(-1, BLOCK).mean(axis=1)
    at, full = steps.at[:-1] // BLOCK, steps.used // BLOCK
    last = steps.at[1:] // BLOCK - 1
    # Of a block that is filled up nothing can be told: it goes to the end.
    blocks[last[full <= last - at]] = np.inf
    ordered = blocks[np.lexsort((blocks, steps.each(np.arange(len(at)), LEVELS)))]
    typical, usual, low = _typical(level, steps), ordered[at + (full - 1) // 2], _lowest(level, steps)
    background = np.where(typical >= USUAL_CONTRAST * usual, usual, np.where(typical >= LOWEST_CONTRAST * low, low, np.nan))
    return np.sqrt(np.where(typical > 0, background, np.nan) * typical)


def _lowest(level: np.ndarray, steps: _Steps) -> np.ndarray:
    """The lowest mean over a block's length in each span, wherever it begins: blocks alone would miss a lull across their edge."""
    windows = np.full(len(level), np.inf)
    windows[: 1 - BLOCK] = np.lib.stride_tricks.sliding_window_view(level, BLOCK).mean(axis=1)
    windows[np.arange(len(level)) > steps.each(steps.at[:-1] + steps.used - BLOCK)] = np.inf
    return np.minimum.reduceat(windows, steps.at[:-1])


def _denoised(level: np.ndarray, floor: np.ndarray, steps: _Steps) -> np.ndarray:
    """The level without what the background's own ups and downs explain: details below the universal threshold are cut."""
    approximation, *details = pywt.wavedec(level, WAVELET, mode="periodization", level=LEVELS)
    is_quiet = approximation / np.sqrt(BLOCK) <= steps.each(floor, LEVELS)
    finest, span = np.abs(details[-1]), steps.each(np.arange(len(floor)), 1)
    quiet = np.repeat(is_quiet, BLOCK // 2)
    noise = _medians(finest[quiet], span[quiet], len(floor))
    # Where most pairs of seconds are alike (a line of log every five) the median tells nothing: then it is that of the others.
    some = quiet & (finest > 0)
    noise = np.where(noise > 0, noise, _medians(finest[some], span[some], len(floor)))
    threshold = np.minimum(noise / MAD_SIGMA * np.sqrt(2 * np.log(steps.used)), floor / 2)
    kept = [np.where(np.abs(one) > steps.each(threshold, LEVELS - place), one, 0.0) for place, one in enumerate(details)]
    return pywt.waverec([approximation, *kept], WAVELET, mode="periodization")


def _medians(values: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """The lower median of each group; 0 where it has none."""
    number = counts(group, size)
    ordered = values[np.lexsort((values, group))]
    out, has = np.zeros(size), number > 0
    out[has] = ordered[(np.cumsum(number) - number + (number - 1) // 2)[has]]
    return out


def _stretches(level: np.ndarray, denoised: np.ndarray, floor: np.ndarray, steps: _Steps) -> np.ndarray:
    """First and last step of each burst: steps above the floor, one after the other, one of which the wavelet marks; joined over pauses."""
    above = steps.each(np.nan_to_num(floor, nan=np.inf))
    high = np.flatnonzero(level > above)
    span_of = np.searchsorted(steps.at, high, side="right") - 1
    is_first = np.concatenate(([True], (np.diff(high) > 1) | (np.diff(span_of) > 0)))
    piece = np.cumsum(is_first) - 1
    marked = sums(piece, denoised[high] > above[high], int(piece[-1]) + 1) > 0
    high, span_of = high[marked[piece]], span_of[marked[piece]]
    pause = PAUSE_S * S // steps.step_ns
    begins = np.concatenate(([True], (np.diff(high) - 1 > pause) | (np.diff(span_of) > 0)))
    ends = np.concatenate((begins[1:], [True]))
    return np.column_stack((high[begins], high[ends]))


def _edges(stretches: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray, steps: _Steps) -> np.ndarray:
    """From the first start of a run in a stretch's first step, or in the one before if it lasts into it, to the last end likewise."""
    begin, until = start_ns // steps.step_ns, np.maximum(end_ns - 1, start_ns) // steps.step_ns
    size = steps.number + 1
    on, after = until > begin, np.minimum(begin + 1, size - 1)
    first = np.minimum(lowest(begin, start_ns, size), lowest(after[on], start_ns[on], size))
    last = np.maximum(highest(until, end_ns, size), highest(until[on] - 1, end_ns[on], size))
    begins_ns, ends_ns = first[stretches[:, 0]], last[stretches[:, 1]]
    # Where rounding alone lifts a level above the floor no run begins or ends there: then the step does.
    begins_ns = np.where(begins_ns == LATEST_NS, stretches[:, 0] * steps.step_ns, begins_ns)
    ends_ns = np.where(ends_ns == 0, (stretches[:, 1] + 1) * steps.step_ns, ends_ns)
    return np.column_stack((begins_ns, ends_ns))
