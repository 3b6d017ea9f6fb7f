"""The layers of one job: what their components did, what of it was the job's, and how much more that is than the layer before was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.components import COMPONENTS
from pipeline.store import Store

from . import CLIENT, LAYERS, SAMPLES_MAX, TooManyToTell
from .amounts import Amounts, Grid, Samples, measured, together
from .clients import apportioned
from .figures import VOLUMES, Figures, blank, figures
from .plan import Part, Plan, System
from .served import Served

# Steps of the figures of the whole time: what is shared among clients is shared in each of them.
STEP_NS = 10 * 10**9
STEPS_MAX = 2000
_BYTES = ("read_bytes", "write_bytes")


class Reader:
    """Samples of the components of a plan. Raises TooManyToTell where they are more than SAMPLES_MAX."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self._store, self._offsets, self._left = store, dict(plan.offsets), SAMPLES_MAX

    def of(self, node: str, component: str, instances: Sequence[str]) -> Samples:
        """By the server's clock."""
        ahead_ns, of = self._offsets.get(node, 0), [(node, instance) for instance in instances]

        def samples(from_ns: int, to_ns: int) -> pa.Table:
            found = self._store.samples(component, of, max(from_ns + ahead_ns, 0), max(to_ns + ahead_ns, 0))
            self._left -= found.num_rows
            if self._left < 0:
                raise TooManyToTell(f"the components that served the job have told more than {SAMPLES_MAX} samples in its time, and no more are looked at")
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
    reader = Reader(plan, store)
    length_ns = plan.to_ns - plan.from_ns
    grid = Grid(plan.from_ns, plan.to_ns, max(STEP_NS, -(-length_ns // STEPS_MAX)))
    systems = []
    for system in plan.systems:
        found = [_client(system)]
        before = {CLIENT: system.asked}
        for layer in LAYERS[1:]:
            told = [_told(part, reader, grid) for part in system.parts if part.served.layer == layer]
            if told:
                found.append(_layer(layer, told, before, grid))
        systems.append({"name": system.name, "kind": system.kind, "layers": found})
    return {"from_ns": plan.from_ns, "to_ns": plan.to_ns, "has_topology": plan.has_topology, "file_systems": systems, "elsewhere": plan.elsewhere}


def _told(part: Part, reader: Reader, grid: Grid) -> _Told:
    served = part.served
    whole = measured(served.component, reader.of(served.node, served.component, [served.instance]), served.spans, grid)
    if not whole.known_s.any():
        return _Told(part, whole, None, None)
    if not part.is_shared:
        return _Told(part, whole, whole, "alone")
    own = apportioned(served, whole, reader.of, part.clients, grid)
    return _Told(part, whole, own, None if own is None else "clients")


def _client(system: System) -> dict[str, Any]:
    nothing = {"read": None, "write": None}
    told = {"figures": system.asked, "own": system.asked, "how": "alone", "of": None, "amplification": nothing, "other_jobs": 0, "components": []}
    return {"layer": CLIENT, **told}


def _layer(layer: str, told: list[_Told], before: dict[str, Figures], grid: Grid) -> dict[str, Any]:
    """A layer; `before` gets what it did for the job. Disks beneath servers of files are no more than these once more, and are not added to them."""
    heard = [one for one in told if one.is_heard]
    counted = [one for one in heard if serves(one.part.served) == "files"] or heard
    whole = together([one.whole for one in counted], grid.count)
    hows = {one.how for one in counted}
    how = None if None in hows or not hows else hows.pop() if len(hows) == 1 else "mixed"
    own = None
    if how is not None:
        owns = together([one.own for one in counted if one.own is not None], grid.count)
        own = _only_bytes(owns) if how != "alone" else figures(owns)
    of = next((name for name in reversed(before) if any(before[name][one] is not None for one in _BYTES)), None)
    amplification = {direction: _ratio(own, before[of] if of else None, f"{direction}_bytes") for direction in ("read", "write")}
    if own is not None:
        before[layer] = own
    return {
        "layer": layer, "figures": figures(whole) if heard else blank(), "own": own, "how": how, "of": of, "amplification": amplification,
        "other_jobs": len({key for one in told for key in one.part.other_jobs}), "components": [_component(one) for one in told],
    }  # fmt: skip


def _component(told: _Told) -> dict[str, Any]:
    served, own = told.part.served, None
    if told.own is not None:
        own = figures(told.own) if told.how == "alone" else _only_bytes(told.own)
    return {
        "node": served.node, "component": served.component, "instance": served.instance, "target": served.target, "is_certain": served.is_certain,
        "figures": figures(told.whole) if told.is_heard else blank(), "own": own, "how": told.how, "other_jobs": len(told.part.other_jobs),
        "jobs": list(told.part.other_jobs), "known_s": float(told.whole.known_s.sum()),
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
    reader, grid = Reader(plan, store), Grid(plan.from_ns, plan.to_ns, step_ns)
    told = [measured(one.component, reader.of(one.node, one.component, [one.instance]), one.spans, grid) for one in components]
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
