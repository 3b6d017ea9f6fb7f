"""Exact integer sums by group, without a Python loop."""

import numpy as np

DENSE_MIN = 1 << 22


def compact(codes: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of `codes` (0 ≤ code < size), ascending, and for each element the place of its value there."""
    if size <= max(DENSE_MIN, 4 * len(codes)):
        seen = np.zeros(size, dtype=bool)
        seen[codes] = True
        distinct = np.flatnonzero(seen)
        place = np.empty(size, dtype=np.int64)
        place[distinct] = np.arange(len(distinct))
        return distinct, place[codes]
    return np.unique(codes, return_inverse=True)


def group(*columns: tuple[np.ndarray, int]) -> tuple[list[np.ndarray], np.ndarray]:
    """Group rows by several columns, each an (array of codes, size) pair with 0 ≤ code < size.

    Returns the columns' values of each distinct group, ordered by column, and each row's group number.
    """
    distinct, codes = compact(*columns[0])
    parts = [distinct]
    for column, size in columns[1:]:
        joined, codes = compact(codes * size + column, max(len(parts[0]) * size, 1))
        parts = [part[joined // size] for part in parts] + [joined % size]
    return parts, codes


def sums(groups: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """int64 sum of `values` for each group number below `size`."""
    out = np.zeros(size, dtype=np.int64)
    np.add.at(out, groups, values)
    return out


def counts(groups: np.ndarray, size: int) -> np.ndarray:
    """Number of rows of each group number below `size`."""
    return np.bincount(groups, minlength=size)


def highest(groups: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """int64 maximum of non-negative `values` for each group number below `size`; 0 where a group has none."""
    out = np.zeros(size, dtype=np.int64)
    np.maximum.at(out, groups, values)
    return out


def lowest(groups: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """int64 minimum of `values` for each group number below `size`; the largest int64 where a group has none."""
    out = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(out, groups, values)
    return out
