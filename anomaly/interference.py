"""Who slowed a job: which of those that its servers served then was in its way, by how well what they did in time explains what it lost. docs/detection.md says how."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

# Axis of amounts: bytes, reads and writes, and metadata operations, each a second.
BYTES, OPS, METADATA = range(3)
# From so many metadata operations a second on they are in others' way (Beacon, NSDI'19, section 4.1), and from more than so many nodes on one shared file is (section 4.3).
MDOPS, FLOOD_NODES = 300.0, 32
# Who explains less of the loss, squared, is not named; nor who is the sixth.
EXPLAINS_MIN, NAMED_MAX = 0.3, 5
# Of others after the first: what they explain of what is left counts from here on.
MORE_MIN = 0.1
# A share of time below which a server's requests waited no longer than they usually do, and the highest share of minutes by which a server is as pressed as its kind ever is.
PRESSED_MIN, PRESSED_HIGH = 0.1, 0.99
# A minute with fewer requests says nothing of how long they wait.
REQUESTS_MIN = 10
# Where nothing is known of servers, time alone has to tell: in so much of the victim's time the neighbour must have been busy, and in so much of its work not; and what is lost in
# the best so much of that work, too, is lost to something else.
APART_MIN = 0.1


class Trait(StrEnum):
    """How one is in others' way."""

    SHARED_FILE = "one file from more than 32 nodes"
    METADATA = "metadata operations"
    BANDWIDTH = "bandwidth"
    IOPS = "operations"


@dataclass(frozen=True)
class Server:
    """What one of the victim's servers, or those of a kind together, did in bins of the victim's I/O; all amounts by BYTES, OPS and METADATA, a second.

    loads: of neighbours, shape (neighbours, bins, 3), 0 of those that it did not serve. own: the victim's, shape (bins, 3). usual: what the victim's would have been in the time that was
    expected, shape (bins, 3). flood: share of the time in which a neighbour had one file open from more than FLOOD_NODES nodes, shape (neighbours, bins). total: of all that the server
    served, where more than these are known, else None. pressed: see `pressed`, shape (bins,), NaN where it is not known. slow: share of the time in which the server itself was slow,
    shape (bins,)."""

    loads: np.ndarray
    own: np.ndarray
    usual: np.ndarray
    flood: np.ndarray
    total: np.ndarray | None = None
    pressed: np.ndarray | None = None
    slow: np.ndarray | None = None


@dataclass(frozen=True)
class Named:
    """A neighbour in the victim's way. explains: share of the loss, squared, that its load explains beside those before it; alone: by itself. factor: what part of its load share was
    lost to the victim, 0 to 1. lost_s: the time that comes to. load: its mean load share while the victim was slowed. server: place of the one where it was most in the way."""

    neighbour: int
    explains: float
    alone: float
    factor: float
    lost_s: float
    load: float
    server: int
    traits: tuple[Trait, ...]


def pressed(wait_s: np.ndarray, service_s: np.ndarray, requests: np.ndarray) -> np.ndarray:
    """How far each minute's requests waited longer than they usually do: 0 as usual, 1 as long as ever at servers of the kind, NaN where there were too few.

    All of one shape (minutes, servers): time waited and time in service, summed over requests, and how many. The new wait's share of the time that a request takes, (wait − usual) ÷
    (wait + service), usual the median of the server's minutes, ÷ the PRESSED_HIGH quantile of that share in all."""
    is_told = (requests >= REQUESTS_MIN) & np.isfinite(wait_s) & np.isfinite(service_s)
    count = np.where(is_told, requests, 1)
    wait, service = (np.where(is_told, np.maximum(values, 0.0) / count, np.nan) for values in (wait_s, service_s))
    if not is_told.any():
        return wait
    usual = np.array([np.median(column[told]) if told.any() else 0.0 for column, told in zip(wait.T, is_told.T, strict=True)])
    took = wait + service
    share = np.where(is_told, np.divide(np.maximum(wait - usual, 0.0), took, out=np.zeros_like(took), where=took > 0), np.nan)
    highest = float(np.quantile(share[is_told], PRESSED_HIGH))
    return np.clip(share / max(highest, PRESSED_MIN), 0.0, 1.0)


def load_shares(server: Server) -> tuple[np.ndarray, np.ndarray]:
    """How much of what a server could do each neighbour took, 0 to 1, and by which trait (place in `Trait`), both shape (neighbours, bins).

    Of bytes, or reads and writes: its share of all that the server did, and no more than its load ÷ what the victim should have had, since who takes less than that cannot have taken it. Of
    metadata operations, from MDOPS on where it is not known how pressed the server was: its share of them. Of a file shared by more than FLOOD_NODES nodes: the share of time, since such requests hold threads, few as they are. All of it as
    far as the server was pressed, and not slow itself."""
    loads, own, usual = (np.nan_to_num(np.maximum(values, 0.0)) for values in (server.loads, server.own, server.usual))
    known = loads.sum(axis=0) + own
    total = known if server.total is None else np.fmax(known, server.total)
    share = np.divide(loads, total, out=np.zeros_like(loads), where=total > 0)
    enough = np.divide(loads, usual, out=np.zeros_like(loads), where=usual > 0)
    data = share[..., :METADATA] * np.minimum(enough[..., :METADATA], 1.0)
    # A server that is full lets nobody have as many; whether it was is known there, and elsewhere goes by the number.
    counts = loads[..., METADATA] > MDOPS
    if server.pressed is not None:
        counts |= ~np.isnan(server.pressed)
    metadata = np.where(counts, share[..., METADATA], 0.0)
    found = np.stack([np.clip(np.nan_to_num(server.flood), 0.0, 1.0), metadata, data[..., BYTES], data[..., OPS]])
    weight = np.ones(len(own))
    if server.pressed is not None:
        weight = np.where(np.isnan(server.pressed), weight, server.pressed)
    if server.slow is not None:
        weight = weight * (1 - np.clip(np.nan_to_num(server.slow), 0.0, 1.0))
    return found.max(axis=0) * weight, found.argmax(axis=0)


def rank(speed: np.ndarray, seconds: np.ndarray, servers: Sequence[Server]) -> list[Named]:
    """The neighbours that explain what a victim lost, the likeliest first; none where nobody does.

    speed: the victim's rate ÷ what was expected of it in bins of its I/O, those in which it was as fast as ever, too: they show who was there and did no harm; NaN: not known. seconds: how
    long each bin is. Both shape (bins,). The loss 1 − speed, 0 to 1, is taken for factor × load share, with a factor from 0 to 1, by least squares, a second counting as much as any other.
    There is no constant beside it, since what was expected is what is done when nobody is in the way, but where nothing is known of the server's requests. Who explains most of the squared loss is first; then who explains most of what is left."""
    counts = np.isfinite(speed) & np.isfinite(seconds) & (seconds > 0)
    loss = np.where(counts, 1 - np.clip(np.nan_to_num(speed), 0.0, 1.0), 0.0)
    weight = np.where(counts, np.nan_to_num(seconds), 0.0)
    every = float((weight * loss**2).sum())
    if every <= 0 or not servers or not servers[0].loads.shape[0]:
        return []
    shares, traits = zip(*(load_shares(server) for server in servers), strict=True)
    of_server = np.stack(shares)
    load, at = of_server.max(axis=0), of_server.argmax(axis=0)
    may = (load * weight).sum(axis=1) > 0
    work = weight * (1 - loss)
    # Whether anybody knows if requests waited at the server where it did most.
    told = np.array([server.pressed is not None and not np.isnan(server.pressed).all() for server in servers])
    is_told = told[(of_server * weight).sum(axis=2).argmax(axis=0)]
    may &= is_told | _is_told_apart(load, weight, work)
    always = np.where(is_told, 0.0, _always(loss, work))[:, None]
    alone, _ = _explained(load, np.maximum(loss - always, 0.0), weight)
    named: list[Named] = []
    left = loss
    while len(named) < NAMED_MAX:
        gain, factor = _explained(load, np.maximum(left - always, 0.0), weight)
        gain = np.where(may, gain / every, 0.0)
        best = int(gain.argmax())
        if gain[best] < (EXPLAINS_MIN if not named else MORE_MIN):
            break
        took = np.minimum(factor[best] * load[best], left)
        lost_s = float((weight * took).sum())
        where = int(np.bincount(at[best], weights=weight * took, minlength=len(servers)).argmax())
        by_trait = np.zeros(len(Trait))
        for place in range(len(servers)):
            here = at[best] == place
            np.add.at(by_trait, traits[place][best][here], (weight * took)[here])
        kinds = tuple(trait for trait, amount in zip(Trait, by_trait, strict=True) if amount > 0.1 * lost_s)
        mean = float((weight * loss * load[best]).sum() / (weight * loss).sum())
        named.append(Named(best, float(gain[best]), float(alone[best] / every), float(factor[best]), lost_s, mean, where, kinds))
        may[best], left = False, left - took
    return named


def _explained(load: np.ndarray, loss: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how much each neighbour's load lessens the squared loss, and with which factor; both shape (neighbours,)."""
    both, own = (weight * load * loss).sum(axis=1), (weight * load**2).sum(axis=1)
    factor = np.minimum(np.divide(both, own, out=np.zeros_like(both), where=own > 0), 1.0)
    return 2 * factor * both - factor**2 * own, factor


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
