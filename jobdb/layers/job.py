"""The layers of one job: what their components did, what of it was the job's, and how much more that is than the layer before was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.schema.components import COMPONENTS
from pipeline.store import Store, TooManySamples

from . import CLIENT, CLIENT_SAMPLES_MAX, JOBS_SHOWN_MAX, LAYERS, METADATA, SAMPLES_MAX, STORAGE, TooManyToTell
from .amounts import Amounts, Grid, measured, together
from .clients import apportioned
from .each import CLIENTS, JOB_STATS
from .figures import CACHE, VOLUMES, Figures, blank, figures
from .own import counted
from .plan import Part, Plan, System
from .reading import Reader, batches
from .served import Served

# Steps of the figures of the whole time: what is shared among clients is shared in each of them.
STEP_NS = 10 * 10**9
STEPS_MAX = 2000
_BYTES = ("read_bytes", "write_bytes")
_DATA = (*_BYTES, "read_ops", "write_ops")


@dataclass
class _Told:
    """What a component did. own: of it for the job; None where that cannot be told apart. is_exact: not of bytes alone."""

    part: Part
    whole: Amounts
    own: Amounts | None
    how: str | None
    is_exact: bool = False

    @property
    def is_heard(self) -> bool:
        return self.whole.known_s.any()


def layers(plan: Plan, store: Store) -> dict[str, Any]:
    """The answer of the API. Raises TooManyToTell, and StoreError."""
    reader, clients, caches = Reader(plan, store, SAMPLES_MAX), Reader(plan, store, CLIENT_SAMPLES_MAX), Reader(plan, store, CLIENT_SAMPLES_MAX)
    length_ns = plan.to_ns - plan.from_ns
    grid = Grid(plan.from_ns, plan.to_ns, max(STEP_NS, -(-length_ns // STEPS_MAX)))
    systems = []
    for system in plan.systems:
        found = [_client(system, caches, grid)]
        before = {CLIENT: system.asked}
        for layer in LAYERS[1:]:
            parts = [part for part in system.parts if part.served.layer == layer]
            wholes = _measured([part.served for part in parts], reader, grid)
            owns = counted(parts, wholes, clients, grid)
            told = [_told(part, whole, own, clients, grid) for part, whole, own in zip(parts, wholes, owns, strict=True)]
            if told:
                found.append(_layer(layer, told, before, grid))
        systems.append({"name": system.name, "kind": system.kind, "layers": found})
    told = {"from_ns": plan.from_ns, "to_ns": plan.to_ns, "resolution_s": plan.resolution_s}
    return told | {"has_topology": plan.has_topology, "file_systems": systems, "elsewhere": plan.elsewhere}


def _measured(components: Sequence[Served], reader: Reader, grid: Grid) -> list[Amounts]:
    """What each did, and what waited for it."""
    found = _counters(components, reader, grid)
    queues = {place: kind.queue for place, one in enumerate(components) if (kind := COMPONENTS.get(one.component)) is not None and kind.queue is not None}
    services = {place: replace(components[place], component=queue.of, instance=queue.instance, clients=None) for place, queue in queues.items()}
    # All targets of a server have one.
    once = {_service(one): one for one in services.values()}
    of_service = dict(zip(once, _counters(list(once.values()), reader, grid), strict=True))
    for place, service in services.items():
        found[place].take_queue(of_service[_service(service)])
    return found


def _service(one: Served) -> tuple[Any, ...]:
    return one.node, one.component, one.instance, one.spans


def _counters(components: Sequence[Served], reader: Reader, grid: Grid) -> list[Amounts]:
    """What each did; asked for together is what is of one kind."""
    found: dict[int, Amounts] = {}
    for _, places in batches([(one.component, reader.ahead_ns(one.node)) for one in components]):
        some = [components[place] for place in places]
        kind = COMPONENTS.get(some[0].component)
        # Of the values those that figures are made of, where their names are known, as those of histograms are not.
        names = None if kind is None or kind.figures is None else kind.names(kind.figures.values)
        samples = reader.each(some[0].component, [[(one.node, one.instance)] for one in some], names)
        found |= zip(places, measured(some[0].component, samples, [one.spans for one in some], grid), strict=True)
    return [found[place] for place in range(len(components))]


def _told(part: Part, whole: Amounts, counted: Amounts | None, clients: Reader, grid: Grid) -> _Told:
    """counted: what was counted for the job by itself."""
    if not whole.known_s.any():
        return _Told(part, whole, None, None)
    if part.count is not None and counted is not None and (part.count.how == JOB_STATS or part.is_shared):
        return _Told(part, whole, counted, part.count.how, is_exact=True)
    if not part.is_shared:
        return _Told(part, whole, whole, "alone", is_exact=True)
    own = apportioned(part.served, whole, clients.of, part.clients, grid)
    return _Told(part, whole, own, None if own is None else CLIENTS)


def _client(system: System, caches: Reader, grid: Grid) -> dict[str, Any]:
    """What processes asked for, and how caches of their nodes did: theirs where no other job was there."""
    nothing = {"read": None, "write": None}
    try:
        found = together(_counters([part.served for part in system.caches], caches, grid), grid.count)
    except (TooManySamples, TooManyToTell):
        found = Amounts(np.zeros(grid.count))
    cached = {name: figures(found)[name] for name in CACHE}
    is_alone = not any(part.is_shared for part in system.caches)
    told = {"figures": system.asked | cached, "own": system.asked | (cached if is_alone else {}), "how": "alone", "of": None, "amplification": nothing}
    return {"layer": CLIENT, **told, "other_jobs": 0, "components": []}


def _layer(layer: str, told: list[_Told], before: dict[str, Figures], grid: Grid) -> dict[str, Any]:
    """A layer; `before` gets what it did for the job. Disks beneath servers of files are no more than these once more, and are not added to them."""
    heard = [one for one in told if one.is_heard]
    of_files = [one for one in heard if serves(one.part.served) == "files"]
    caches = [one for one in heard if serves(one.part.served) == "caches"]
    added = of_files or [one for one in heard if one not in caches]
    whole = together([one.whole for one in (*added, *caches)], grid.count)
    hows = {one.how for one in added}
    how = None if None in hows or not hows else hows.pop() if len(hows) == 1 else "mixed"
    own, done = None, figures(whole) if heard else blank()
    if how is not None:
        mine = caches if all(one.how == "alone" for one in caches) else []
        owns = together([one.own for one in (*added, *mine) if one.own is not None], grid.count)
        own = figures(owns) if all(one.is_exact for one in added) else _only_bytes(owns)
    if layer == METADATA:
        done, own = _of_metadata(done, own)
    # Metadata servers are asked by clients and forwarding nodes, not by storage.
    ahead = [name for name in reversed(before) if (name, layer) != (STORAGE, METADATA)]
    of = next((name for name in ahead if any(before[name][one] is not None for one in _BYTES)), None)
    amplification = {direction: _ratio(own, before[of] if of else None, f"{direction}_bytes") for direction in ("read", "write")}
    if layer == METADATA:
        # That a job has none of the data that is kept there says nothing.
        amplification = {direction: ratio or None for direction, ratio in amplification.items()}
    if own is not None:
        before[layer] = own
    return {
        "layer": layer, "figures": done, "own": own, "how": how, "of": of, "amplification": amplification,
        "other_jobs": len(set().union(*(jobs.keys for jobs in {one.part.other_jobs for one in told}))), "components": [_component(layer, one, bool(of_files) and serves(one.part.served) == "devices") for one in told],
    }  # fmt: skip


def _of_metadata(whole: Figures, own: Figures | None) -> tuple[Figures, Figures | None]:
    """Few metadata servers keep small files' data, too: of those that had nothing to do with any, data is not told, rather than 0."""
    if any(whole[name] for name in _DATA):
        return whole, own
    nothing = dict.fromkeys((*_DATA, "read_latency", "write_latency"))
    return whole | nothing, own and own | nothing


def _component(layer: str, told: _Told, is_beneath: bool) -> dict[str, Any]:
    served, own, whole = told.part.served, None, figures(told.whole) if told.is_heard else blank()
    if told.own is not None:
        own = figures(told.own) if told.is_exact else _only_bytes(told.own)
    if layer == METADATA:
        whole, own = _of_metadata(whole, own)
    return {
        "node": served.node, "component": served.component, "instance": served.instance, "target": served.target, "is_certain": served.is_certain,
        "is_beneath": is_beneath,
        "figures": whole, "own": own, "how": told.how, "other_jobs": len(told.part.other_jobs.keys),
        "jobs": list(told.part.other_jobs.keys[:JOBS_SHOWN_MAX]), "known_s": float(told.whole.known_s.sum()),
    }  # fmt: skip


def _only_bytes(amounts: Amounts) -> Figures:
    return blank() | {name: figures(amounts)[name] for name in _BYTES}


def serves(served: Served) -> str | None:
    """What the component serves, see `pipeline.schema.components.Figures`."""
    known = COMPONENTS.get(served.component)
    return None if known is None or known.figures is None else known.figures.serves


def _ratio(own: Figures | None, before: Figures | None, name: str) -> float | None:
    if own is None or before is None or own[name] is None or not before[name]:
        return None
    return own[name] / before[name]


def rates(plan: Plan, store: Store, components: Sequence[Served], step_ns: int) -> dict[str, Any]:
    """What some components of a plan did over time, as the API answers it. Raises ValueError for steps that cannot be, TooManyToTell, and StoreError."""
    grid = Grid(plan.from_ns, plan.to_ns, step_ns)
    told = _measured(components, Reader(plan, store, SAMPLES_MAX), grid)
    answer: dict[str, Any] = {"from_ns": plan.from_ns, "to_ns": plan.to_ns, "resolution_s": plan.resolution_s, "step_s": step_ns / 1e9, "t_ns": grid.t_ns.tolist()}
    for name in VOLUMES:
        answer[f"{name}_per_s"] = _over_time([_divided(one.sums[name], one.known_s) for one in told if name in one.sums])
    whole = together(told, grid.count)
    answer["queue"] = _divided(whole.sums["queue"], whole.sums["queue_s"]).tolist() if "queue" in whole.sums else None
    return answer


def _over_time(parts: Sequence[np.ndarray]) -> list[float] | None:
    """Rates added up, where any is known; None where none of them is told."""
    if not parts:
        return None
    known = np.any([~np.isnan(part) for part in parts], axis=0)
    return np.where(known, np.nansum(parts, axis=0), np.nan).tolist()


def _divided(amount: np.ndarray, by: np.ndarray) -> np.ndarray:
    return np.divide(amount, by, out=np.full(len(amount), np.nan), where=~np.isnan(amount) & (by > 0))
