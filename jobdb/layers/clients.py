"""What of a component's bytes was for the job, by what it counts of each client."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.components import COMPONENTS
from pipeline.store import TooManySamples

from . import CLIENTS_MAX, TooManyToTell
from .amounts import Amounts, Grid, moved
from .plan import Client
from .served import Served

# The samples of some components of a kind, (node, instance), that touch a time: of some values.
SamplesOf = Callable[[str, Sequence[tuple[str, str]], Sequence[str]], Callable[[int, int], pa.Table]]


def apportioned(served: Served, whole: Amounts, samples_of: SamplesOf, clients: Sequence[Client] | None, grid: Grid) -> Amounts | None:
    """The job's share of the bytes. clients: those through which it reaches the component. None where they cannot be told apart: not all of their addresses are
    known, a node that did something is not counted, nor what it might be reached through, one that is counted is not for this job alone, or there are too many,
    or too many samples of them."""
    kinds = {kind for kind, _ in served.counted}
    if clients is None or len(kinds) != 1 or len(served.counted) > CLIENTS_MAX:
        return None
    kind = kinds.pop()
    counts = COMPONENTS[kind].clients
    if counts is None:
        return None
    by_address: dict[str, list[str]] = {}
    for _, instance in served.counted:
        by_address.setdefault(instance.rpartition(" ")[2], []).append(instance)
    ours = [client for client in clients if client.address in by_address]
    if not ours or not all(client.is_alone for client in ours):
        return None
    # One of which the address is wrong, or that has another besides, would take its bytes from the job's.
    if {node for client in clients for node in client.users} - {node for client in ours for node in client.users}:
        return None
    mine = {client.address for client in ours}
    instances = [name for address in mine for name in by_address[address]]
    every = samples_of(kind, [(served.node, instance) for _, instance in served.counted], sorted({name for names in counts.values.values() for name in names}))

    def samples(from_ns: int, to_ns: int) -> list[pa.Table]:
        found = every(from_ns, to_ns)
        return [found.filter(pc.is_in(found["instance"], pa.array(instances))), found]

    try:
        of_job, of_all = moved(kind, samples, served.spans, grid)
    except (TooManySamples, TooManyToTell):
        return None
    found = Amounts(whole.known_s)
    for figure, names in counts.values.items():
        if figure not in whole.sums:
            continue
        shares = _shares(*(sum((of[name] for name in names if name in of), np.zeros(grid.count)) for of in (of_job, of_all)), whole.sums[figure])
        if shares is None:
            return None
        found.sums[figure] = whole.sums[figure] * shares
    return found if found.sums else None


def _shares(of_job: np.ndarray, of_all: np.ndarray, wanted: np.ndarray) -> np.ndarray | None:
    """Of each step. Where a component moved bytes and its clients none, as where their samples end a little later, that of the whole time; None where there is none."""
    is_told = of_all > 0
    shares = np.divide(of_job, of_all, out=np.zeros(len(of_all)), where=is_told)
    is_missing = ~is_told & (np.nan_to_num(wanted) > 0)
    if is_missing.any():
        if not is_told.any():
            return None
        shares[is_missing] = of_job.sum() / of_all.sum()
    return shares
