"""What servers of one kind should take for a demand, learnt from what most of them took, and how much slower one was.

A request should take `operation_s` and `byte_s` for each of its bytes. Service times are looked at and not waits: a server that is asked for much lets wait, and is well.
Source: Beacon (NSDI'19, section 4.2) compares servers within one job alone; a cost by demand lets all that serve anything be compared, whatever runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Rows by mean size of a minute's requests, four to an octave; row 0 is that of requests without bytes. 2^44 bytes and more share the last.
ROWS_OCTAVE, ROWS = 4, 4 * 44 + 1
# Cells by the logarithm of a request's mean time, s.
CELL, LEAST, MOST = 0.05, np.log(1e-8), np.log(1e4)
CELLS = int((MOST - LEAST) / CELL) + 1
# A row keeps so many minutes' worth, and forgets in proportion what is more: a year of one busy server, or a week of a hundred.
ROW_KEPT = 500_000.0
# No cost is told from fewer minutes, and no row of fewer is looked at.
FIT_LEAST, ROW_LEAST = 30.0, 5.0
FIT_STEPS = 30
# Rows that are off by more (logarithm) count for less and less: most of their minutes were of a server that is slow.
ROW_OFF = 0.1
# Minutes of a healthy server never agree better (logarithm).
SPREAD_LEAST = 0.05
# A standard deviation is so many median deviations, of a normal distribution.
MAD = 1.4826


@dataclass(frozen=True)
class Cost:
    """What a request should take: `operation_s`, and `byte_s` for each byte, s. spread: how far minutes of one server lie about that, standard deviation of the logarithm.
    peak_bytes_s: bytes for each second of service at the largest requests that are usual; 0 where none have bytes."""

    operation_s: float
    byte_s: float
    spread: float
    peak_bytes_s: float

    def expected_s(self, ops: np.ndarray, bytes_: np.ndarray) -> np.ndarray:
        """Seconds of service that so many requests with so many bytes in all should take, any one shape."""
        return ops * self.operation_s + bytes_ * self.byte_s


class Past:
    """What servers of one kind took so far, in bounded memory: minutes by size and time of their requests."""

    def __init__(self) -> None:
        self._minutes = np.zeros((ROWS, CELLS))
        # Of each row the sum of the logarithms of its minutes' sizes.
        self._sizes = np.zeros(ROWS)

    def add(self, ops: np.ndarray, bytes_: np.ndarray, service_s: np.ndarray) -> None:
        """Takes in minutes of servers: requests, their bytes and their summed service, s, one shape. Those without requests or time, or with figures that are none, are left out."""
        ops, bytes_, service_s = (np.asarray(values, dtype=float).ravel() for values in (ops, bytes_, service_s))
        used = (ops > 0) & (bytes_ >= 0) & (service_s > 0) & np.isfinite(ops) & np.isfinite(bytes_) & np.isfinite(service_s)
        size, each_s = bytes_[used] / ops[used], service_s[used] / ops[used]
        size_ln = np.log(np.maximum(size, 1.0))
        row = np.where(size > 0, np.clip(size_ln * (ROWS_OCTAVE / np.log(2)) + 1, 1, ROWS - 1), 0).astype(np.intp)
        cell = np.clip((np.log(each_s) - LEAST) / CELL, 0, CELLS - 1).astype(np.intp)
        np.add.at(self._minutes, (row, cell), 1.0)
        np.add.at(self._sizes, row, size_ln)
        kept = np.minimum(ROW_KEPT / np.maximum(self._minutes.sum(axis=1), 1.0), 1.0)
        self._minutes *= kept[:, None]
        self._sizes *= kept

    def cost(self) -> Cost | None:
        """What most of them took: the median time of each size, and through these a robust fit with no part below 0, weighted by the minutes' square root. None where too
        little is known."""
        count = self._minutes.sum(axis=1)
        rows = np.flatnonzero(count >= ROW_LEAST)
        if count[rows].sum() < FIT_LEAST:
            return None
        count, minutes = count[rows], self._minutes[rows]
        size = np.where(rows > 0, np.exp(self._sizes[rows] / count), 0.0)
        median = np.array([_median(one) for one in minutes])
        operation_s, byte_s = _fit(size, np.exp(median), np.sqrt(count))
        middle = LEAST + (np.arange(CELLS) + 0.5) * CELL
        off, weight = np.abs(middle - median[:, None]).ravel(), minutes.ravel()
        order = np.argsort(off)
        until = np.cumsum(weight[order])
        spread = MAD * float(off[order][np.searchsorted(until, until[-1] / 2)])
        largest = size[np.searchsorted(np.cumsum(count), 0.99 * count.sum())]
        peak = float(largest / (operation_s + byte_s * largest)) if largest else 0.0
        return Cost(operation_s, byte_s, max(spread, SPREAD_LEAST), peak)

    def to_dict(self) -> dict[str, Any]:
        """All of it, fit for JSON; `from_dict` goes on from there."""
        rows, cells = np.nonzero(self._minutes)
        return {"rows": rows.tolist(), "cells": cells.tolist(), "minutes": self._minutes[rows, cells].tolist(), "sizes": self._sizes.tolist()}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Past:
        past = cls()
        past._minutes[kept["rows"], kept["cells"]] = kept["minutes"]
        past._sizes[:] = kept["sizes"]
        return past


def slowness(service_s: np.ndarray, expected_s: np.ndarray, ops: np.ndarray, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """How many times as long as it should a demand took, as a logarithm, and how sure that is: 1 ÷ variance. Any one shape; NaN and 0 where there was nothing to serve.
    Requests are taken for exponentially distributed, so that n of them add a variance of 1 ÷ n to that of minutes (`Cost.spread`)."""
    used = (ops > 0) & (expected_s > 0) & (service_s > 0)
    times = np.log(np.divide(service_s, expected_s, out=np.ones(np.shape(service_s)), where=used))
    return np.where(used, times, np.nan), np.where(used, 1 / (spread**2 + 1 / np.maximum(ops, 1)), 0.0)


def _median(minutes: np.ndarray) -> float:
    """The median of a row, shape (CELLS,), between cells' edges."""
    until = np.cumsum(minutes)
    half = until[-1] / 2
    cell = int(np.searchsorted(until, half))
    return float(LEAST + (cell + (half - (until[cell] - minutes[cell])) / minutes[cell]) * CELL)


def _fit(size: np.ndarray, each_s: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """a and b, neither below 0, for which (a + b · size) ÷ each_s is closest to 1; shapes (rows,)."""
    parts = np.stack([1 / each_s, size / each_s], axis=1)
    # Columns of like size, so that no part is lost to rounding.
    scale = np.maximum(np.abs(parts).max(axis=0), 1e-300)
    parts = parts / scale
    trust = np.ones(len(size))
    for _ in range(FIT_STEPS):
        best = _least_squares(parts, weight * trust)
        off = np.abs(np.log(np.maximum(parts @ best, 1e-12)))
        trust = np.minimum(1.0, ROW_OFF / np.maximum(off, 1e-12))
    operation_s, byte_s = best / scale
    return float(operation_s), float(byte_s)


def _least_squares(parts: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x, shape (2,), not below 0, that brings parts · x closest to 1; parts: shape (rows, 2)."""
    root = np.sqrt(weight)
    both, *_ = np.linalg.lstsq(parts * root[:, None], root, rcond=None)
    if (both >= 0).all():
        return both
    choices = []
    for column in range(2):
        one = np.zeros(2)
        one[column] = (weight * parts[:, column]).sum() / max((weight * parts[:, column] ** 2).sum(), 1e-300)
        choices.append(one)
    return min(choices, key=lambda one: float((weight * (parts @ one - 1) ** 2).sum()))
