"""Amounts over time: each spread evenly over its own time, and added up in bins."""

import numpy as np


def spread(start_ns: np.ndarray, end_ns: np.ndarray, weight: np.ndarray, edges: np.ndarray, step_ns: int | None = None) -> np.ndarray:
    """Amount of `weight` in each bin between ascending `edges`, each element's evenly over [start, end), 0 ≤ start ≤ end.

    An element without length goes wholly into its bin; what lies outside the edges is left out. step_ns: the bins' length where all have one.
    Returns float64, one a bin. Cost: a few passes over the elements and one over the bins, however many bins an element covers.
    """
    return Spread(start_ns, end_ns, edges, step_ns).of(weight)


class Spread:
    """What `spread` works out of the elements' times alone: for many weights of the same elements."""

    def __init__(self, start_ns: np.ndarray, end_ns: np.ndarray, edges: np.ndarray, step_ns: int | None = None) -> None:
        self._edges = edges
        inside = (start_ns < edges[-1]) & ((end_ns > edges[0]) | (start_ns >= edges[0]))
        # None: all of them.
        self._inside = None if inside.all() else inside
        if self._inside is not None:
            start_ns, end_ns = start_ns[inside], end_ns[inside]
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
        self._whole, self._whole_bin = whole, first_bin[whole]
        first_bin, last_bin, low, high = first_bin[~whole], last_bin[~whole], low[~whole], high[~whole]
        self._length, self._first_bin, self._last_bin = length[~whole], first_bin, last_bin
        self._in_first = np.minimum(high, edges[first_bin + 1]) - low
        self._in_last = np.where(last_bin > first_bin, high - edges[last_bin], 0)
        self._between = np.flatnonzero(last_bin > first_bin + 1)

    def of(self, weight: np.ndarray) -> np.ndarray:
        """See `spread`."""
        n_bins = len(self._edges) - 1
        if self._inside is not None:
            weight = weight[self._inside]
        out = np.zeros(n_bins)
        out += np.bincount(self._whole_bin, weights=weight[self._whole], minlength=n_bins)
        if not len(self._length):
            return out
        per_ns = weight[~self._whole] / self._length
        out += np.bincount(self._first_bin, weights=per_ns * self._in_first, minlength=n_bins)
        out += np.bincount(self._last_bin, weights=per_ns * self._in_last, minlength=n_bins)
        if len(self._between):
            begin, until, per_ns = self._first_bin[self._between] + 1, self._last_bin[self._between], per_ns[self._between]
            level = np.cumsum(np.bincount(begin, per_ns, n_bins + 1) - np.bincount(until, per_ns, n_bins + 1))[:-1]
            active = np.cumsum(np.bincount(begin, minlength=n_bins + 1) - np.bincount(until, minlength=n_bins + 1))[:-1]
            # Where none is active the level is 0 but for rounding.
            out += np.where(active > 0, np.maximum(level, 0.0), 0.0) * np.diff(self._edges)
        return out
