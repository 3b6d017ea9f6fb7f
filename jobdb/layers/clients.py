"""What of a component's bytes was for the job, by what it counts of each client."""

from collections.abc import Callable, Sequence

import numpy as np

from pipeline.schema.components import COMPONENTS

from . import CLIENTS_MAX
from .amounts import Amounts, Grid, Samples, moved
from .plan import Client
from .served import Served

# The samples of some components on a node, by kind and instances.
SamplesOf = Callable[[str, str, Sequence[str]], Samples]


def apportioned(served: Served, whole: Amounts, samples_of: SamplesOf, clients: Sequence[Client] | None, grid: Grid) -> Amounts | None:
    """The job's share of the bytes. clients: those through which it reaches the component. None where they cannot be told apart: not all of their addresses are
    known, none of them is counted, one of those that are is not for this job alone, or there are too many."""
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
    mine = {client.address for client in ours}
    groups = [[name for address, names in by_address.items() if (address in mine) == is_ours for name in names] for is_ours in (True, False)]
    found = Amounts(whole.known_s)
    for figure, names in counts.values.items():
        if figure not in whole.sums:
            continue
        of_job, of_others = (moved(kind, samples_of(served.node, kind, some), names, served.spans, grid) if some else np.zeros(grid.count) for some in groups)
        shares = _shares(of_job, of_job + of_others, whole.sums[figure])
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
