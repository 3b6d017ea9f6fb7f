"""Amounts over time: each spread evenly over its own time, and added up in bins."""

import numpy as np


def spread(start_ns: np.ndarray, end_ns: np.ndarray, weight: np.ndarray, edges: np.ndarray, step_ns: int | None = None) -> np.ndarray:
    """Amount of `weight` in each bin between ascending `edges`, each element's evenly over [start, end), 0 ≤ start ≤ end.

    An element without length goes wholly into its bin; what lies outside the edges is left out. step_ns: the bins' length where all have one.
    Returns float64, one a bin. Cost: a few passes over the elements and one over the bins, however many bins an element covers.
    """
    n_bins = len(edges) - 1
    out = np.zeros(n_bins)
    inside = (start_ns < edges[-1]) & ((end_ns > edges[0]) | (start_ns >= edges[0]))
    if not inside.all():
        start_ns, end_ns, weight = start_ns[inside], end_ns[inside], weight[inside]
    if not len(start_ns):
        return out
    length = np.maximum(end_ns - start_ns, 1).astype(np.float64)
    low, high = np.maximum(start_ns, edges[0]), np.minimum(end_ns, edges[-1])
    # The last instant that belongs to the element: its end is not part of it, unless it has no length.
    latest = np.maximum(high - 1, low)
    if step_ns is not None:
        first_bin, last_bin = (low - edges[0]) // step_ns, (latest - edges[0]) // step_ns
    else:
        first_bin = np.searchsorted(edges, low, side="right") - 1
        last_bin = np.searchsorted(edges, latest, side="right") - 1
    whole = (first_bin == last_bin) & (low == start_ns) & (high == end_ns)
    out += np.bincount(first_bin[whole], weights=weight[whole], minlength=n_bins)
    if whole.all():
        return out
    first_bin, last_bin, low, high = first_bin[~whole], last_bin[~whole], low[~whole], high[~whole]
    per_ns = weight[~whole] / length[~whole]
    in_first = np.minimum(high, edges[first_bin + 1]) - low
    in_last = np.where(last_bin > first_bin, high - edges[last_bin], 0)
    out += np.bincount(first_bin, weights=per_ns * in_first, minlength=n_bins)
    out += np.bincount(last_bin, weights=per_ns * in_last, minlength=n_bins)
    between = last_bin > first_bin + 1
    if between.any():
        begin, until, per_ns = first_bin[between] + 1, last_bin[between], per_ns[between]
        level = np.cumsum(np.bincount(begin, per_ns, n_bins + 1) - np.bincount(until, per_ns, n_bins + 1))[:-1]
        active = np.cumsum(np.bincount(begin, minlength=n_bins + 1) - np.bincount(until, minlength=n_bins + 1))[:-1]
        # Where none is active the level is 0 but for rounding.
        out += np.where(active > 0, np.maximum(level, 0.0), 0.0) * np.diff(edges)
    return out
