"""Which records: sets of their ids, small however many there are."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

IDS = ("node", "boot", "seq")


class Ids:
    """Ids of records (columns IDS), as ranges of numbers that follow each other on a node: 16 bytes a range. A node numbers its records as they come, so that a job's have few
    ranges; at worst each record is one."""

    def __init__(self, tables: Iterable[pa.Table] = ()) -> None:
        self._ranges: dict[tuple[str, int], list[np.ndarray]] = {}
        for table in tables:
            self.add(table)

    def add(self, table: pa.Table) -> None:
        """Takes those of a table, in any order; what is known already changes nothing."""
        for key, _, numbers in _by_boot(table):
            begins = np.concatenate([[0], np.flatnonzero(np.diff(numbers) > 1) + 1])
            self._ranges.setdefault(key, []).append(np.stack([numbers[begins], numbers[np.append(begins[1:], len(numbers)) - 1]]))

    def without(self, table: pa.Table) -> pa.Table:
        """The records of a table that are none of these, in their order."""
        is_known = np.zeros(table.num_rows, dtype=bool)
        for key, places, numbers in _by_boot(table) if self._ranges else ():
            if key in self._ranges:
                first, last = self._of(key)
                at = np.searchsorted(first, numbers, side="right") - 1
                is_known[places] = (at >= 0) & (numbers <= last[at])
        return table.filter(pa.array(~is_known)) if is_known.any() else table

    def _of(self, key: tuple[str, int]) -> np.ndarray:
        """First and last number of each range, in order: none touches another."""
        parts = self._ranges[key]
        if len(parts) > 1:
            whole = np.concatenate(parts, axis=1)
            first, last = whole[:, np.argsort(whole[0], kind="stable")]
            last = np.maximum.accumulate(last)
            begins = np.concatenate([[0], np.flatnonzero(first[1:] - last[:-1] > 1) + 1])
            self._ranges[key] = parts = [np.stack([first[begins], last[np.append(begins[1:], len(last)) - 1]])]
        return parts[0]


def _by_boot(table: pa.Table) -> Iterator[tuple[tuple[str, int], np.ndarray, np.ndarray]]:
    """By node and boot: the rows, and their numbers, these in order."""
    if not table.num_rows:
        return
    node = table["node"].cast(pa.string()).combine_chunks().dictionary_encode()
    code, boot, number = node.indices.to_numpy(), table["boot"].to_numpy(), table["seq"].to_numpy()
    order = np.lexsort((number, boot, code))
    code, boot, number = code[order], boot[order], number[order]
    begins = np.concatenate([[0], np.flatnonzero((code[1:] != code[:-1]) | (boot[1:] != boot[:-1])) + 1, [len(order)]])
    for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        yield (node.dictionary[int(code[begin])].as_py(), int(boot[begin])), order[begin:end], number[begin:end]
