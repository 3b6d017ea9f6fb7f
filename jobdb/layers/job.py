"""The layers of one job: what their components did, what of it was the job's, and how much more that is than the layer before was asked for."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.components import COMPONENTS
from pipeline.store import Store, TooManySamples

from . import AT_ONCE, CLIENT, CLIENT_SAMPLES_MAX, JOBS_SHOWN_MAX, LAYERS, METADATA, SAMPLES_MAX, STORAGE, TooManyToTell
from .amounts import Amounts, Grid, measured, together
from .clients import apportioned
from .figures import VOLUMES, Figures, blank, figures
from .plan import Part, Plan, System
from .served import Served

# Steps of the figures of the whole time: what is shared among clients is shared in each of them.
STEP_NS = 10 * 10**9
STEPS_MAX = 2000
_BYTES = ("read_bytes", "write_bytes")


class Reader:
    """Samples of the components of a plan. Raises TooManyToTell where they are more than `most`."""

    def __init__(self, plan: Plan, store: Store, most: int) -> None:
        self._store, self._offsets, self._most, self._read = store, dict(plan.offsets), most, 0

    def ahead_ns(self, node: str) -> int:
        """By how much a server's clock is ahead."""
        return self._offsets.get(node, 0)

    def of(self, component: str, of: Sequence[tuple[str, str]], names: Sequence[str] | None) -> Callable[[int, int], pa.Table]:
        """Those of some instances (node, instance) whose clocks are all ahead by as much, with their times set right. names: as of `Store.samples`."""
        ahead_ns = self.ahead_ns(of[0][0])

        def samples(from_ns: int, to_ns: int) -> pa.Table:
            if self._read <= self._most:
                try:
                    found = self._store.samples(component, of, max(from_ns + ahead_ns, 0), max(to_ns + ahead_ns, 0), names=names)
                except TooManySamples as error:
                    error.until_ns -= ahead_ns
                    raise
                self._read += found.num_rows
            if self._read > self._most:
                raise TooManyToTell(f"the components that served the job have told more than {self._most} samples in its time, and no more are looked at")
            for name in ("start", "end") if ahead_ns else ():
                found = found.set_column(found.column_names.index(name), name, pc.subtract(found[name], ahead_ns))
            return found

        return samples


@dataclass
class _Told:
    """What a component did. own: of it for the job; None where that cannot be told apart."""

    part: Part
    whole: Amounts
    own: Amounts | None
    how: str | None

    @property
    def is_heard(self) -> bool:
        return self.whole.known_s.any()


def layers(plan: Plan, store: Store) -> dict[str, Any]:
    """The answer of the API. Raises TooManyToTell, and StoreError."""
    reader, clients = Reader(plan, store, SAMPLES_MAX), Reader(plan, store, CLIENT_SAMPLES_MAX)
    length_ns = plan.to_ns - plan.from_ns
    grid = Grid(plan.from_ns, plan.to_ns, max(STEP_NS, -(-length_ns // STEPS_MAX)))
    systems = []
    for system in plan.systems:
        found = [_client(system)]
        before = {CLIENT: system.asked}
        for layer in LAYERS[1:]:
            parts = [part for part in system.parts if part.served.layer == layer]
            wholes = _measured([part.served for part in parts], reader, grid)
            told = [_told(part, whole, clients, grid) for part, whole in zip(parts, wholes, strict=True)]
            if told:
                found.append(_layer(layer, told, before, grid))
        systems.append({"name": system.name, "kind": system.kind, "layers": found})
    return {"from_ns": plan.from_ns, "to_ns": plan.to_ns, "has_topology": plan.has_topology, "file_systems": systems, "elsewhere": plan.elsewhere}


def _measured(components: Sequence[Served], reader: Reader, grid: Grid) -> list[Amounts]:
    """What each did; asked for together is what is of one kind."""
    alike, found = defaultdict(list), {}
    for place, one in enumerate(components):
        alike[one.component, reader.ahead_ns(one.node)].append(place)
    for (component, _), places in alike.items():
        for begin in range(0, len(places), AT_ONCE):
            some = places[begin : begin + AT_ONCE]
            samples = _each([(components[place].node, components[place].instance) for place in some], component, reader)
            found |= zip(some, measured(component, samples, [components[place].spans for place in some], grid), strict=True)
    return [found[place] for place in range(len(components))]


def _each(of: Sequence[tuple[str, str]], component: str, reader: Reader) -> Callable[[int, int], list[pa.Table]]:
    """The samples of each of some instances: of the values those that figures are made of, where their names are known, as those of histograms are not."""
    kind = COMPONENTS.get(component)
    names = None if kind is None or kind.figures is None else kind.names(kind.figures.values)
    # One that is another target since is there twice.
    once = list(dict.fromkeys(of))
    every, instances = reader.of(component, once, names), pa.array(["\0".join(one) for one in once])

    def samples(from_ns: int, to_ns: int) -> list[pa.Table]:
        found = every(from_ns, to_ns)
        which = pc.index_in(pc.binary_join_element_wise(found["node"], found["instance"], "\0"), instances).to_numpy()
        order = np.argsort(which, kind="stable")
        found, ends = found.take(pa.array(order)), np.searchsorted(which[order], np.arange(len(once)), side="right")
        of_each = {one: found.slice(begin, end - begin) for one, begin, end in zip(once, [0, *ends[:-1]], ends, strict=True)}
        return [of_each[one] for one in of]

    return samples


def _told(part: Part, whole: Amounts, clients: Reader, grid: Grid) -> _Told:
    if not whole.known_s.any():
        return _Told(part, whole, None, None)
    if not part.is_shared:
        return _Told(part, whole, whole, "alone")
    own = apportioned(part.served, whole, clients.of, part.clients, grid)
    return _Told(part, whole, own, None if own is None else "clients")


def _client(system: System) -> dict[str, Any]:
    nothing = {"read": None, "write": None}
    told = {"figures": system.asked, "own": system.asked, "how": "alone", "of": None, "amplification": nothing, "other_jobs": 0, "components": []}
    return {"layer": CLIENT, **told}


def _layer(layer: str, told: list[_Told], before: dict[str, Figures], grid: Grid) -> dict[str, Any]:
    """A layer; `before` gets what it did for the job. Disks beneath servers of files are no more than these once more, and are not added to them."""
    heard = [one for one in told if one.is_heard]
    of_files = [one for one in heard if serves(one.part.served) == "files"]
    counted = of_files or heard
    whole = together([one.whole for one in counted], grid.count)
    hows = {one.how for one in counted}
    how = None if None in hows or not hows else hows.pop() if len(hows) == 1 else "mixed"
    own = None
    if how is not None:
        owns = together([one.own for one in counted if one.own is not None], grid.count)
        own = _only_bytes(owns) if how != "alone" else figures(owns)
    # Metadata servers are asked by clients and forwarding nodes, not by storage.
    ahead = [name for name in reversed(before) if (name, layer) != (STORAGE, METADATA)]
    of = next((name for name in ahead if any(before[name][one] is not None for one in _BYTES)), None)
    amplification = {direction: _ratio(own, before[of] if of else None, f"{direction}_bytes") for direction in ("read", "write")}
    if own is not None:
        before[layer] = own
    return {
        "layer": layer, "figures": figures(whole) if heard else blank(), "own": own, "how": how, "of": of, "amplification": amplification,
        "other_jobs": len(set().union(*(jobs.keys for jobs in {one.part.other_jobs for one in told}))), "components": [_component(one, bool(of_files) and serves(one.part.served) != "files") for one in told],
    }  # fmt: skip


def _component(told: _Told, is_beneath: bool) -> dict[str, Any]:
    served, own = told.part.served, None
    if told.own is not None:
        own = figures(told.own) if told.how == "alone" else _only_bytes(told.own)
    return {
        "node": served.node, "component": served.component, "instance": served.instance, "target": served.target, "is_certain": served.is_certain,
        "is_beneath": is_beneath,
        "figures": figures(told.whole) if told.is_heard else blank(), "own": own, "how": told.how, "other_jobs": len(told.part.other_jobs.keys),
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
    answer: dict[str, Any] = {"from_ns": plan.from_ns, "to_ns": plan.to_ns, "step_s": step_ns / 1e9, "t_ns": grid.t_ns.tolist()}
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
