"""How long requests waited at a server, minute by minute, out of a store: at LWFS servers by their logs, at bricks of GlusterFS by their own times, elsewhere at the service that a component's requests queue for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.schema.components import COMPONENTS
from pipeline.steps import MARGIN_NS, SECOND_NS, Counter, Histogram, Steps, steps
from pipeline.store import Store, TooManyComponents, TooManySamples

# How long before it a server's requests are told of, beside those meanwhile; and in steps of how long.
BEFORE_NS, STEP_NS = 6 * 3600 * SECOND_NS, 60 * SECOND_NS
LWFS_SERVER, BRICK = "lwfs_server", "gluster_server"
# A brick's requests that wait for other clients, and not for it.
LOCKS = frozenset({"lk", "inodelk", "finodelk", "entrylk", "fentrylk"})
_TIMES = frozenset({*(f"{kind}_{what}" for kind in ("read", "write", "meta") for what in ("wait", "exe")), "queue_length"})
# Of a brick each operation, and the value that is its time.
TIMES = {
    name: took for figure in ("read", "write", "metadata")
    for name, took in zip(COMPONENTS[BRICK].figures.values[f"{figure}_ops"], COMPONENTS[BRICK].figures.values[f"{figure}_time"], strict=True) if name not in LOCKS
}  # fmt: skip
_SUMS = frozenset({"requests", "wait_ns", "served_ns", "queued"})


@dataclass(frozen=True)
class Waits:
    """A server's minutes from begin_ns on, shape (minutes,): time that requests waited and were served, summed, s, NaN where nothing tells; how many there were; and how many waited, NaN where it is not known."""

    begin_ns: np.ndarray
    wait_s: np.ndarray
    service_s: np.ndarray
    requests: np.ndarray
    queue: np.ndarray

    def waiting(self, begin_ns: np.ndarray, end_ns: np.ndarray) -> np.ndarray:
        """How many requests waited in some spans: the mean of the minute in which most did, by Little's law; NaN where none is known. Shapes (spans,)."""
        many = self.wait_s / (STEP_NS / SECOND_NS)
        first, last = (np.clip(np.searchsorted(self.begin_ns, at, side="right") - 1, 0, len(many) - 1) for at in (begin_ns, end_ns - 1))
        return np.array([_highest(many[low : high + 1]) for low, high in zip(first.tolist(), last.tolist(), strict=True)])

    def means(self, of: np.ndarray) -> dict[str, float | None]:
        """What Beacon's Table 5 has of some minutes: mean wait and processing time, s, and queue; fit for JSON."""
        of = of & ~np.isnan(self.wait_s)
        requests, queue = float(self.requests[of].sum()), self.queue[of & ~np.isnan(self.queue)]
        told = {"wait_s": self.wait_s[of].sum() / requests, "processing_s": self.service_s[of].sum() / requests} if requests else {"wait_s": None, "processing_s": None}
        return {"requests": requests, **{name: None if value is None else float(value) for name, value in told.items()}, "queue": float(queue.mean()) if len(queue) else None}


def of_forwarding(store: Store, node: str, from_ns: int, to_ns: int) -> Waits | None:
    """At an LWFS server, from a while before on. None where it does not tell, or too much."""
    on = _steps(store, node, LWFS_SERVER, None, from_ns, to_ns, _TIMES)
    if on is None:
        return None
    count = len(on.t_ns)
    wait_s, service_s, requests, queue, known_s = np.zeros(count), np.zeros(count), np.zeros(count), np.full(count, np.nan), np.zeros(count)
    for value in on.values:
        if isinstance(value, Histogram):
            took_s, served = _took(value)
            known_s = np.maximum(known_s, value.buckets[0].known_s)
            if value.told.value.name.endswith("_wait"):
                wait_s += took_s
            else:
                service_s, requests = service_s + took_s, requests + served
        elif value.told.value.name == "queue_length":
            queue = value.mean
    return Waits(on.t_ns, np.where(known_s > 0, wait_s, np.nan), service_s, requests, queue)


def of_target(store: Store, node: str, component: str, from_ns: int, to_ns: int) -> Waits | None:
    """In the queue of a server's components of a kind, such as its OSTs, from a while before on; all of them share it. None where nothing tells, or too much."""
    queue = COMPONENTS[component].queue
    on = None if queue is None else _steps(store, node, queue.of, queue.instance, from_ns, to_ns, _SUMS)
    if on is None:
        return None
    sums = {value.told.value.name: value for value in on.values if isinstance(value, Counter)}
    if "wait_ns" not in sums:
        return None
    nothing = np.zeros(len(on.t_ns))
    wait_ns, served_ns, requests, queued = (sums[name].moved if name in sums else nothing for name in ("wait_ns", "served_ns", "requests", "queued"))
    known = sums["wait_ns"].known_s > 0
    # Not told is not 0.
    mean = np.divide(queued, requests, out=np.full(len(queued), np.nan), where=(requests > 0) & ("queued" in sums))
    return Waits(on.t_ns, np.where(known, wait_ns / SECOND_NS, np.nan), served_ns / SECOND_NS, requests, mean)


def of_bricks(store: Store, node: str, instances: Sequence[str], from_ns: int, to_ns: int) -> Waits | None:
    """At some bricks of a server together, those that tell; None where none does."""
    told = [one for instance in instances if (one := _of_brick(store, node, instance, from_ns, to_ns)) is not None]
    if not told:
        return None
    wait_s, queue = (np.where(np.isnan(of).all(axis=0), np.nan, np.nansum(of, axis=0)) for of in (np.stack([one.wait_s for one in told]), np.stack([one.queue for one in told])))
    return Waits(told[0].begin_ns, wait_s, sum(one.service_s for one in told), sum(one.requests for one in told), queue)


def _of_brick(store: Store, node: str, instance: str, from_ns: int, to_ns: int) -> Waits | None:
    """At a brick of GlusterFS, from a while before on. Its times have the waits in them: of all requests that were under way, by Little's law, one was served and the others waited, as at a server that does one after the other. None where it does not tell, or too
    much."""
    names = sorted({*TIMES, *TIMES.values(), "queue_length"})
    on = _steps(store, node, BRICK, instance, from_ns, to_ns, frozenset(names), names)
    if on is None:
        return None
    took_s, requests, queue, known_s = np.zeros(len(on.t_ns)), np.zeros(len(on.t_ns)), np.full(len(on.t_ns), np.nan), np.zeros(len(on.t_ns))
    for value in on.values:
        if isinstance(value, Counter):
            known_s = np.maximum(known_s, value.known_s)
            if value.told.value.name in TIMES:
                requests = requests + value.moved
            else:
                took_s = took_s + value.moved / SECOND_NS
        elif value.told.value.name == "queue_length":
            queue = value.mean
    service_s = np.minimum(took_s, known_s)
    return Waits(on.t_ns, np.where(known_s > 0, took_s - service_s, np.nan), service_s, requests, queue)


def _steps(store: Store, node: str, component: str, instance: str | None, from_ns: int, to_ns: int, wanted: frozenset[str], names: Sequence[str] | None = None) -> Steps | None:
    """instance: which; None: the only one that there is. names: of all values that are wanted, where no histogram is among them."""
    begin_ns = max(from_ns - BEFORE_NS, 0)
    try:
        heard = [one.instance for one in store.components(begin_ns, to_ns, node, [component]) if instance in (None, one.instance)]
        if len(heard) != 1:
            return None
        samples = store.samples(component, [(node, heard[0])], max(begin_ns - MARGIN_NS, 0), to_ns + MARGIN_NS, names=names)
    except (TooManySamples, TooManyComponents):
        return None
    on = steps(samples, component, begin_ns, to_ns, STEP_NS, wanted)
    return on if samples.num_rows and on.values else None


def _took(value: Histogram) -> tuple[np.ndarray, np.ndarray]:
    """Time, s, and requests of a histogram: each has the middle of its bucket, or the last bound that there is, as in `jobdb.layers.amounts`."""
    took, count, below = np.zeros(len(value.buckets[0].moved)), np.zeros(len(value.buckets[0].moved)), 0.0
    unit_s = COMPONENTS[LWFS_SERVER].unit_s(value.told.value.name)
    for bucket, bound in zip(value.buckets, value.told.bounds, strict=True):
        moved = np.maximum(np.nan_to_num(bucket.moved), 0.0)
        took += moved * ((below + bound) / 2 if np.isfinite(bound) else below) * unit_s
        count, below = count + moved, bound
    return took, count


def before_and_during(waits: Waits, begin_ns: np.ndarray, end_ns: np.ndarray, slow: Sequence[int]) -> dict[str, Any]:
    """`Waits.means` before the first slow one of some spans, and in the minutes of all slow ones. slow: their places, in order."""
    is_during = np.zeros(len(waits.begin_ns), dtype=bool)
    for place in slow:
        is_during |= (waits.begin_ns < end_ns[place]) & (waits.begin_ns + STEP_NS > begin_ns[place])
    is_before = waits.begin_ns + STEP_NS <= (begin_ns[slow[0]] if len(slow) else 0)
    return {"before": waits.means(is_before), "during": waits.means(is_during)}


def _highest(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else float("nan")
