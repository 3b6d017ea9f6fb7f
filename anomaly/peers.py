"""Which of the servers that are asked for alike amounts at the same time stand out as slow.

Beacon (NSDI'19, section 4.2, appendix B) clusters the forwarding nodes and OSTs of one large job. With few of them (three in its Figure 7) there are no clusters; then each is
held against the others, and of two each against what its demand should take (`anomaly.service`). Here they need be of no job.
"""

from __future__ import annotations

import math

import numpy as np
from sklearn.cluster import DBSCAN

# Clusters from so many peers on.
CLUSTER_LEAST = 8
# Peers that are well lie no closer than this about their median (logarithm); in units of their spread neighbours are no further apart than `NEAR`, with so many about them.
SPREAD_LEAST, NEAR, NEIGHBOURS = 0.1, 2.5, 3
# What stands out is slower by so much, and among few by more (logarithms).
SLOWER, SLOWER_FEW = math.log(1.3), math.log(2.0)
# Demands that differ by less are alike (logarithm).
ALIKE = math.log(2.0)
MAD = 1.4826


def outliers(rate: np.ndarray, latency: np.ndarray) -> np.ndarray:
    """Whether each peer stands out as slow, shape (peers,). rate: what it did a second, latency: how long its requests took, both ÷ what its demand would make of a server that
    is well, so 1 for that; shape (peers,). Peers with a figure that is none, or not above 0, have nothing to say. No peer stands out where not more than half of them agree."""
    rate, latency = np.asarray(rate, dtype=float), np.asarray(latency, dtype=float)
    known = np.flatnonzero(np.isfinite(rate) & np.isfinite(latency) & (rate > 0) & (latency > 0))
    points = np.log(np.stack([rate[known], latency[known]], axis=1))
    stands_out = np.zeros(len(rate), dtype=bool)
    stands_out[known] = _of_many(points) if len(known) >= CLUSTER_LEAST else _of_few(_slow(points))
    return stands_out


def alike(ops: np.ndarray, bytes_: np.ndarray, one: int) -> np.ndarray:
    """Which of some servers were asked for like amounts at the same time as one of them, shape (servers,), itself among them: for no more than twice, nor less than half, as many requests and bytes. ops, bytes_: what they were asked for, shape
    (servers,). Who was asked for nothing is like no other."""
    amounts = np.stack([np.asarray(ops, dtype=float), np.maximum(np.asarray(bytes_, dtype=float), 1.0)])
    mine, least = amounts[:, [one]], math.exp(-ALIKE)
    return (amounts[0] > 0) & (mine[0] > 0) & (amounts >= mine * least).all(axis=0) & (amounts * least <= mine).all(axis=0)


def stands_out(times: np.ndarray, one: int) -> bool:
    """Whether one of some peers stands out. times: how many times as long each took as its demand should take, shape (peers,): rate and latency both say that of servers which tell of their service time alone. In little time where it does not."""
    return bool(times[one] >= math.exp(SLOWER) * np.median(times)) and bool(outliers(1 / times, times)[one])


def _slow(points: np.ndarray) -> np.ndarray:
    """How slow each is by both figures, logarithm, shape (peers,); points: (log rate, log latency), shape (peers, 2)."""
    return (points[:, 1] - points[:, 0]) / 2


def _of_many(points: np.ndarray) -> np.ndarray:
    off = points - np.median(points, axis=0)
    spread = np.maximum(MAD * np.median(np.abs(off), axis=0), SPREAD_LEAST)
    group = DBSCAN(eps=NEAR, min_samples=NEIGHBOURS).fit_predict(off / spread)
    sizes = np.bincount(group[group >= 0], minlength=1)
    if 2 * sizes.max() <= len(points):
        return np.zeros(len(points), dtype=bool)
    usual = group == sizes.argmax()
    slow = _slow(points)
    return ~usual & (slow - np.median(slow[usual]) >= SLOWER)


def _of_few(slow: np.ndarray) -> np.ndarray:
    if len(slow) <= 2:
        return slow >= SLOWER_FEW
    stands_out = np.zeros(len(slow), dtype=bool)
    for one in range(len(slow)):
        others = np.delete(slow, one)
        middle = np.median(others)
        # Most of the others agree: else one that is fast would make the rest slow.
        agree = 2 * np.count_nonzero(np.abs(others - middle) < SLOWER_FEW / 2) > len(others)
        stands_out[one] = agree and slow[one] - middle >= SLOWER_FEW
    return stands_out
