"""Samples of the components of a plan, some components at once."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.store import Store, TooManySamples
from pipeline.store.summaries import SUMMARIES_MAX
from pipeline.summary_steps import as_samples

from . import AT_ONCE, TooManyToTell
from .plan import Plan

# A component of some kind: node and instance.
Named = tuple[str, str]


class Reader:
    """Samples of the components of a plan, or what stands for them where they were dropped. Raises TooManyToTell where they are more than `most`."""

    def __init__(self, plan: Plan, store: Store, most: int) -> None:
        self._store, self._offsets, self._summaries, self._most, self._read = store, dict(plan.offsets), plan.summaries, most, 0

    def ahead_ns(self, node: str) -> int:
        """By how much a server's clock is ahead."""
        return self._offsets.get(node, 0)

    def of(self, component: str, of: Sequence[Named], names: Sequence[str] | None) -> Callable[[int, int], pa.Table]:
        """Those of some instances whose clocks are all ahead by as much, with their times set right. names: as of `Store.samples`."""
        ahead_ns = self.ahead_ns(of[0][0])

        def samples(from_ns: int, to_ns: int) -> pa.Table:
            if self._read <= self._most:
                try:
                    found = self._samples(component, of, max(from_ns + ahead_ns, 0), max(to_ns + ahead_ns, 0), names)
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

    def _samples(self, component: str, of: Sequence[Named], from_ns: int, to_ns: int, names: Sequence[str] | None) -> pa.Table:
        if self._summaries is None:
            return self._store.samples(component, of, from_ns, to_ns, names=names)
        rows = self._store.summaries(self._summaries, component, of, from_ns, to_ns)
        if rows.num_rows >= SUMMARIES_MAX:
            raise TooManySamples(component, SUMMARIES_MAX, from_ns)
        return as_samples(rows, self._summaries, names)

    def each(self, component: str, groups: Sequence[Sequence[Named]], names: Sequence[str] | None) -> Callable[[int, int], list[pa.Table]]:
        """The samples of each group of instances; groups are the same ones, or have none in common."""
        # One that is another target since is there twice.
        once = list(dict.fromkeys(map(tuple, groups)))
        place_of = {"\0".join(one): place for place, group in enumerate(once) for one in group}
        every = self.of(component, [one for group in once for one in group], names)
        instances, places = pa.array(list(place_of)), np.array(list(place_of.values()))

        def samples(from_ns: int, to_ns: int) -> list[pa.Table]:
            found = every(from_ns, to_ns)
            which = places[pc.index_in(pc.binary_join_element_wise(found["node"], found["instance"], "\0"), instances).to_numpy()]
            order = np.argsort(which, kind="stable")
            found, ends = found.take(pa.array(order)), np.searchsorted(which[order], np.arange(len(once)), side="right")
            of_each = {group: found.slice(begin, end - begin) for group, begin, end in zip(once, [0, *ends[:-1]], ends, strict=True)}
            return [of_each[tuple(group)] for group in groups]

        return samples


def batches(keys: Sequence[Hashable], at_once: int = AT_ONCE) -> Iterator[tuple[Hashable, list[int]]]:
    """The places of what has the same key, so many at most."""
    alike = defaultdict(list)
    for place, key in enumerate(keys):
        alike[key].append(place)
    for key, places in alike.items():
        for begin in range(0, len(places), at_once):
            yield key, places[begin : begin + at_once]
