"""Phases: spans of sustained I/O."""

import numpy as np

GAP_S = 5.0
LATEST_NS = 2**63 - 1


def find_phases(start_ns, end_ns, gap_s: float = GAP_S) -> np.ndarray:
    """Spans of operations without a gap longer than `gap_s`.

    A gap is measured from the latest end so far to the next start, so a long operation bridges it.

    Parameters
    ----------
    start_ns, end_ns: int arrays of one length, ns since the epoch, any order. An end before its start counts as
        the start, a time before the epoch as the epoch.
    gap_s: longest pause within a phase, seconds; must not be negative.

    Returns
    -------
    int64 array, shape (phases, 2): start and end of each, in order, disjoint. Empty input gives shape (0, 2).

    Raises ValueError for arrays of unlike length or a negative gap.

    Source: DESIGN "Phase"; Beacon (NSDI'19, §4.1) finds them by wavelets instead.
    """
    start_ns = np.maximum(np.asarray(start_ns, dtype=np.int64), 0)
    end_ns = np.maximum(np.asarray(end_ns, dtype=np.int64), start_ns)
    if gap_s < 0:
        raise ValueError(f"gap_s is {gap_s}: it must not be negative")
    if start_ns.shape != end_ns.shape or start_ns.ndim != 1:
        raise ValueError(f"start_ns and end_ns must be flat and of one length: got {start_ns.shape} and {end_ns.shape}")
    if not len(start_ns):
        return np.empty((0, 2), dtype=np.int64)
    gap_ns = min(round(gap_s * 1e9), LATEST_NS)
    order = np.argsort(start_ns, kind="stable")
    start_ns = start_ns[order]
    latest_end_ns = np.maximum.accumulate(end_ns[order])
    first = np.concatenate(([0], np.flatnonzero(start_ns[1:] - latest_end_ns[:-1] > gap_ns) + 1))
    last = np.concatenate((first[1:] - 1, [len(start_ns) - 1]))
    return np.column_stack((start_ns[first], latest_end_ns[last]))
