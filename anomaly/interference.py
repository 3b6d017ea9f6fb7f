"""Who slowed a job: which of those that its servers served then took what it lacked, while requests waited there. docs/detection.md says how."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

# Axis of amounts: bytes, reads and writes, and metadata operations, each a second.
BYTES, OPS, METADATA = range(3)
# More nodes than these on one shared file are in others' way by the threads that they hold, FLOOD_SHARE of a forwarding node's (Beacon, NSDI'19, section 4.3; the share is ours).
FLOOD_NODES, FLOOD_SHARE = 32, 0.9
# Nobody does more a second: what is told so makes no sense, and counts for nothing.
RATE_MOST = 1e24
# What a request costs a server besides its bytes, in bytes.
REQUEST_BYTES = 16 * 1024
# Who explains less of the loss is not named; nor who is the sixth.
EXPLAINS_MIN, NAMED_MAX = 0.15, 5
# Where nothing tells how many requests waited, time alone has to tell: in so much of the victim's time the neighbour must have been busy, and in so much of its work not; and what is
# lost in the best so much of that work, too, is lost to something else.
APART_MIN = 0.1


class Trait(StrEnum):
    """How one is in others' way."""

    SHARED_FILE = "one file from more than 32 nodes"
    METADATA = "metadata operations"
    BANDWIDTH = "bandwidth"
    IOPS = "operations"


@dataclass(frozen=True)
class Server:
    """What one of the victim's servers did for jobs in bins of the victim's I/O; all amounts by BYTES, OPS and METADATA, a second.

    loads: of neighbours, shape (neighbours, bins, 3), 0 of those that it did not serve. own: the victim's, shape (bins, 3). uses: whether the victim asked it for anything in the phase that
    a bin is of, shape (bins,). flood, own_flood: share of the time in which a neighbour, or the victim, had one file open from more than FLOOD_NODES nodes through this server, shapes (neighbours, bins) and
    (bins,). waiting: how many requests waited there on the average, shape (bins,), NaN where it is not known. targets: that share its queue, each of which works by itself."""

    loads: np.ndarray
    own: np.ndarray
    uses: np.ndarray
    flood: np.ndarray
    own_flood: np.ndarray
    waiting: np.ndarray
    targets: int = 1


@dataclass(frozen=True)
class Named:
    """A neighbour in the victim's way. lost_s: the time that the victim would have been spared without it, s; explains: ÷ all that it lost. share: mean share of what its server did for jobs, while the
    victim was slowed; waiting: how many requests waited there meanwhile, NaN where it is not known. server: place of the one where it was most in the way."""

    neighbour: int
    explains: float
    lost_s: float
    share: float
    waiting: float
    server: int
    traits: tuple[Trait, ...]


def is_full(waiting: np.ndarray) -> np.ndarray:
    """How surely a target was full where so many requests waited for it on the average: n ÷ (n + 1), which of one that does one after the other is the part of the time in which it is busy. Any shape; NaN stays."""
    return 1 - 1 / (1 + np.maximum(np.asarray(waiting, dtype=float), 0.0))


def taken(server: Server) -> tuple[np.ndarray, np.ndarray]:
    """What part of all that a server did for jobs each neighbour took, 0 to 1, and by which trait most (place in `Trait`), both shape (neighbours, bins).

    Of bytes, with REQUEST_BYTES for each request. Who has one file open from more than FLOOD_NODES nodes has FLOOD_SHARE of the threads, few as its requests are; several share that, and all
    others what is left."""
    loads, own = (np.where((values >= 0) & (values <= RATE_MOST), values, 0.0) for values in (server.loads, server.own))
    cost = np.array([1.0, REQUEST_BYTES, REQUEST_BYTES])
    work = loads * cost
    total = work.sum(axis=(0, 2)) + own @ cost
    parts = np.divide(work, total[:, None], out=np.zeros_like(work), where=total[:, None] > 0)
    flood = np.clip(np.nan_to_num(server.flood), 0.0, 1.0)
    floods = flood.sum(axis=0) + np.clip(np.nan_to_num(server.own_flood), 0.0, 1.0)
    held = FLOOD_SHARE * flood / np.maximum(floods, 1.0)
    parts = parts * (1 - FLOOD_SHARE * np.minimum(floods, 1.0))[:, None]
    found = np.concatenate([held[..., None], parts[..., [METADATA, BYTES, OPS]]], axis=-1)
    return found.sum(axis=-1), found.argmax(axis=-1)


def rank(speed: np.ndarray, seconds: np.ndarray, servers: Iterable[Server]) -> list[Named]:
    """The neighbours but for whom a victim would have lost less, who cost it most first; none where that is nobody.

    speed: the victim's rate ÷ what was expected of it in bins of its I/O, those in which it was as fast as ever, too; NaN: not known. seconds: how long each bin is. Both shape (bins,). servers: looked at
    one after the other, all of one number of neighbours.

    While a server is full, those that ask it for something get on at one share of their speed. Without one who took the part s of what it did the victim's requests would have been done in 1 − s of their time,
    and no faster than usual: the smaller of s and the loss, 1 − speed, is spared. As the slowest of its servers sets the pace, the least that any full server would have spared counts, each as surely as it was full.
    Servers of which nothing tells whether requests waited do not set the pace; who is named for them must have begun to be in the way."""
    counts = np.isfinite(speed) & np.isfinite(seconds) & (seconds > 0)
    loss = np.where(counts, 1 - np.clip(np.nan_to_num(speed), 0.0, 1.0), 0.0)
    weight = np.where(counts, np.nan_to_num(seconds), 0.0)
    lost_s = float((weight * loss).sum())
    if lost_s <= 0:
        return []
    ways = _Ways(loss, weight)
    for place, server in enumerate(servers):
        if server.loads.shape[0]:
            ways.add(place, server)
    return ways.named(lost_s)


class _Ways:
    """What each neighbour would have spared the victim, server after server. All shape (neighbours, bins) but `loss` and `weight`, shape (bins,)."""

    def __init__(self, loss: np.ndarray, weight: np.ndarray) -> None:
        self._loss, self._weight = loss, weight
        self._count = 0
        # What the servers so far let be spared at most; the most that one of them has in it, which one, and of that one the rest; and the highest share of those that do not tell who waits.
        self._bound = self._best = self._share = self._untold = self._waiting = self._present = np.zeros((0, len(loss)))
        self._at = self._trait = np.zeros((0, len(loss)), dtype=np.intp)

    def add(self, place: int, server: Server) -> None:
        if not self._count:
            self._count = len(server.loads)
            shape = (self._count, len(self._loss))
            self._bound, self._best = np.tile(self._loss, (self._count, 1)), np.zeros(shape)
            self._share, self._untold, self._present, self._waiting = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.full(shape, np.nan)
            self._at, self._trait = np.full(shape, place), np.zeros(shape, dtype=np.intp)
        share, trait = taken(server)
        full = np.where(server.uses, is_full(server.waiting / server.targets), 0.0)
        is_told = ~np.isnan(full)
        spared = np.minimum(self._loss, share)
        self._bound = np.minimum(self._bound, np.where(is_told, (1 - full) * self._loss + full * spared, self._loss))
        here = np.where(is_told, full, 1.0) * spared
        self._present = np.maximum(self._present, np.where(is_told, 0.0, share))
        is_more = here > self._best
        for held, value in ((self._best, here), (self._share, share), (self._at, place), (self._trait, trait), (self._untold, ~is_told), (self._waiting, server.waiting)):
            np.copyto(held, value, where=is_more, casting="unsafe")

    def named(self, lost_s: float) -> list[Named]:
        if not self._count:
            return []
        spared = np.minimum(self._bound, self._best)
        untold = (self._weight * spared * self._untold).sum(axis=1) * 2 > (self._weight * spared).sum(axis=1)
        work = self._weight * (1 - self._loss)
        spared = np.where(untold[:, None], np.maximum(spared - _always(self._loss, work), 0.0), spared)
        may = ~untold | _is_told_apart(self._present, self._weight, work)
        cost_s = np.where(may, (self._weight * spared).sum(axis=1), 0.0)
        order = np.argsort(-cost_s, kind="stable")[:NAMED_MAX]
        return [self._one(int(place), float(cost_s[place]), spared[place], lost_s) for place in order if cost_s[place] >= EXPLAINS_MIN * lost_s]

    def _one(self, place: int, cost_s: float, spared: np.ndarray, lost_s: float) -> Named:
        time = self._weight * spared
        at = int(np.bincount(self._at[place], weights=time).argmax())
        here = np.where(self._at[place] == at, time, 0.0)
        by_trait = np.bincount(self._trait[place], weights=time, minlength=len(Trait))
        traits = sorted((number for number in range(len(Trait)) if by_trait[number] > 0.1 * cost_s), key=lambda number: -by_trait[number])
        names = tuple(Trait)
        known = np.where(np.isnan(self._waiting[place]), 0.0, here)
        waiting = float((known * np.nan_to_num(self._waiting[place])).sum() / known.sum()) if known.sum() > 0 else float("nan")
        return Named(place, cost_s / lost_s, cost_s, float((here * self._share[place]).sum() / here.sum()), waiting, at, tuple(names[number] for number in traits))


def _is_told_apart(load: np.ndarray, weight: np.ndarray, work: np.ndarray) -> np.ndarray:
    """Whether a neighbour was busy in some of the victim's time and not in another part of its work: one that was always there did not begin to be in the way."""
    highest = load.max(axis=1, keepdims=True)
    busy = (weight * (load >= highest / 2)).sum(axis=1) / weight.sum()
    idle = (work * (load < highest / 10)).sum(axis=1) / max(work.sum(), 1e-9)
    return (highest[:, 0] > 0) & (busy >= APART_MIN) & (idle >= APART_MIN)


def _always(loss: np.ndarray, work: np.ndarray) -> float:
    """The loss that the victim had in the best APART_MIN of its work, too."""
    order = np.argsort(loss, kind="stable")
    upto = np.cumsum(work[order])
    return float(loss[order][min(int(np.searchsorted(upto, APART_MIN * upto[-1])), len(order) - 1)])
