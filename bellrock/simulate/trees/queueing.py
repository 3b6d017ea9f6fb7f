"""How busy servers are, and how long requests wait for them.

A server with `threads` that take `service` seconds for a request is busy for a share rho of its time; a request then waits, on the average,
service * rho ** (sqrt(2 * (threads + 1)) - 1) / (threads * (1 - rho)): Sakasegawa's approximation for M/M/c (1977), which is service * rho / (1 - rho) for
one thread (Kleinrock, Queueing Systems I, 3.2). No more than all clients but one can wait before it, so no wait is longer than they take.
"""

import math
from collections.abc import Sequence

import numpy as np

from bellrock.simulate.faults import SLOWS, Fault

# No server is taken for busier.
RHO_MAX = 0.999
# No request finds more before it.
DEPTH_MAX = 10_000
# Parts of an exponential distribution are whole multiples of one by this, so that no two processors, and no two ways of cutting the time, round differently.
PARTS = 1_000_000


def busy(begin_ms: np.ndarray, end_ms: np.ndarray, work_s: np.ndarray, seconds: int) -> np.ndarray:
    """Seconds of work in each second of the clock, of loads that do theirs evenly, shape (seconds,)."""
    rate = work_s / (end_ms - begin_ms)
    instants = np.concatenate((begin_ms, end_ms))
    change = np.concatenate((rate, -rate))
    order = np.argsort(instants, kind="stable")
    instants = instants[order]
    slope = np.cumsum(change[order])
    done = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(instants)))) if len(instants) else np.zeros(0)
    grid = np.arange(seconds + 1) * 1000
    return np.diff(np.interp(grid, instants, done)) if len(instants) else np.zeros(seconds)


def slowness(faults: Sequence[Fault], layer: str, component: int, seconds: int) -> np.ndarray:
    """How many times its usual time a server of a layer takes for its work, in each second, shape (seconds,). Faults may begin before the first of these."""
    factor = np.ones(seconds)
    for fault in faults:
        if SLOWS.get(fault.kind) == layer and fault.component == component:
            factor[max(int(fault.begin_s), 0) : math.ceil(max(min(fault.end_s, seconds), 0))] /= fault.factor
    return factor


def waits(rho: np.ndarray, threads: int, clients: int) -> np.ndarray:
    """How many times its service a request waits where a server is so busy."""
    rho = np.clip(rho, 0.0, RHO_MAX)
    power = math.sqrt(2 * (threads + 1)) - 1
    return np.minimum(rho**power / (threads * (1 - rho)), max(clients - 1, 0) / threads)


def told(wait_s: np.ndarray | float, service_s: np.ndarray | float, threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What a service of so many threads counts for each request: how long it waited and was served, us, how many it found before it (Little's law), and how
    many were with it; whole numbers."""
    wait_s, service_s = np.asarray(wait_s), np.asarray(service_s)
    before = np.minimum(np.rint(np.divide(wait_s, service_s, out=np.zeros_like(service_s), where=service_s > 0)), DEPTH_MAX).astype(np.int64)
    wait_us, service_us = (np.rint(times_s * 1e6).astype(np.int64) for times_s in (wait_s, service_s))
    return wait_us, service_us, before, np.minimum(before + 1, threads)


def over(values: np.ndarray, weight: np.ndarray, every: int) -> np.ndarray:
    """Means of so many values each, weighted; 0 where nothing has weight. The last may be of fewer."""
    begins = np.arange(0, len(values), every)
    weights = np.add.reduceat(weight, begins)
    return np.divide(np.add.reduceat(values * weight, begins), weights, out=np.zeros(len(begins)), where=weights > 0)


def drawn(seed: int, *of: int) -> np.random.Generator:
    """Draws what requests of a server took; of: which server and what of it, a sequence of its own each."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 << 31, 6, *of)))


def spread(count: np.ndarray, mean: np.ndarray, bounds: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """How many of `count` requests last up to each bound, and beyond the last, where each one's time is drawn from an exponential distribution around `mean`; each sums up
    to its count, shape (n, bounds + 1). Drawn in order: cut into several calls it comes to the same."""
    ratio = np.array(bounds) / np.maximum(mean, 1e-12)[:, None]
    share = PARTS - np.rint(np.exp(-np.minimum(ratio, 700.0)) * PARTS)
    parts = np.diff(np.column_stack((np.zeros(len(count)), share, np.full(len(count), float(PARTS)))), axis=1)
    return rng.multinomial(count, parts / PARTS)
