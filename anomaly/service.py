"""What servers of one kind should take for a demand, learnt from what most of them took, and how much slower one was.

A request should take `operation_s` and `byte_s` for each of its bytes. Service times are looked at and not waits: a server that is asked for much lets wait, and is well.
Source: Beacon (NSDI'19, section 4.2) compares servers within one job alone; a cost by demand lets all that serve anything be compared, whatever runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Rows by mean size of a minute's requests, four to an octave; row 0 is that of requests without bytes. SIZE_MOST bytes and more share the last.
ROWS_OCTAVE, ROWS, SIZE_MOST = 4, 4 * 44 + 1, 2.0**44
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
# What is off by more tells of no server's work, or a fit by which most minutes are is none.
ROW_ASTRAY = 1.0
# Fewer requests in a minute tell nothing: one in a year, which no sample lasts longer than, is more.
OPS_LEAST = 1e-6
# Nothing is told to be slower, or faster, than so many times (logarithm): what a server says of itself may be anything.
TIMES_MOST = np.log(1e12)
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
        used = (ops >= OPS_LEAST) & (bytes_ >= 0) & (service_s > 0) & np.isfinite(ops) & np.isfinite(bytes_) & np.isfinite(service_s)
        size, each_s = np.minimum(bytes_[used] / ops[used], SIZE_MOST), np.maximum(service_s[used] / ops[used], np.exp(LEAST))
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
        operation_s, byte_s = _fit(size, np.exp(median), count)
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
    """How many times as long as it should a demand took, as a logarithm, TIMES_MOST at most, and how sure that is: 1 ÷ variance. Any one shape; NaN and 0 where there was nothing to serve.
    Requests are taken for exponentially distributed, so that n of them add a variance of 1 ÷ n to that of minutes (`Cost.spread`)."""
    used = (ops > 0) & (expected_s > 0) & (service_s > 0)
    times = np.log(np.where(used, service_s, 1.0)) - np.log(np.where(used, expected_s, 1.0))
    return np.where(used, np.clip(times, -TIMES_MOST, TIMES_MOST), np.nan), np.where(used, 1 / (spread**2 + 1 / np.maximum(ops, 1)), 0.0)


def _median(minutes: np.ndarray) -> float:
    """The median of a row, shape (CELLS,), between cells' edges."""
    until = np.cumsum(minutes)
    half = until[-1] / 2
    cell = int(np.searchsorted(until, half))
    return float(LEAST + (cell + (half - (until[cell] - minutes[cell])) / minutes[cell]) * CELL)


def _fit(size: np.ndarray, each_s: np.ndarray, count: np.ndarray) -> tuple[float, float]:
    """a and b, neither below 0, for which (a + b · size) ÷ each_s is closest to 1; shapes (rows,). count: minutes of each row."""
    parts, weight = np.stack([1 / each_s, size / each_s], axis=1), np.sqrt(count)
    # Columns of like size, so that no part is lost to rounding.
    scale = np.maximum(np.abs(parts).max(axis=0), 1e-300)
    best, off = _followed(parts / scale, weight, np.ones(len(size)))
    if 2 * count[off > ROW_ASTRAY].sum() > count.sum():
        # Rows of sizes that one server alone tells of, and of times that are none, led away from what most took: again from the rows that hold most minutes.
        order = np.argsort(-count, kind="stable")
        most = order[: int(np.searchsorted(np.cumsum(count[order]), count.sum() / 2)) + 1]
        of_most, own = parts[most], np.maximum(np.abs(parts[most]).max(axis=0), 1e-300)
        begun, _ = _followed(of_most / own, weight[most], np.ones(len(most)))
        scale = own
        best, _ = _followed(parts / own, weight, _trust(parts / own @ begun))
    operation_s, byte_s = best / scale
    return float(operation_s), float(byte_s)


def _followed(parts: np.ndarray, weight: np.ndarray, trust: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x, shape (2,), that brings most of parts · x close to 1, from some trust in rows on; and how far each row is off, logarithm."""
    for _ in range(FIT_STEPS):
        best = _least_squares(parts, weight * trust)
        trust = _trust(parts @ best)
    return best, np.abs(np.log(np.maximum(parts @ best, 1e-12)))


def _trust(times: np.ndarray) -> np.ndarray:
    """How much each row counts by how many times as long as it took it should have taken. Of one that should have taken far longer the error has no bound, as it has the other way round: it is given one."""
    off = np.abs(np.log(np.maximum(times, 1e-12)))
    return np.minimum(1.0, ROW_OFF / np.maximum(off, 1e-12)) / np.maximum(times / np.exp(ROW_ASTRAY), 1.0) ** 2


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
