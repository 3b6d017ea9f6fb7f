"""What components did for the job, by what their servers count of it, or of its clients, one by one."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.components import COMPONENTS
from pipeline.store import TooManySamples

from . import CLIENTS_MAX, COUNTED_AT_ONCE, Span, TooManyToTell
from .amounts import Amounts, Grid, moved
from .each import JOB_STATS, Count, values_of
from .figures import VOLUMES
from .plan import Part
from .reading import Reader, batches


def counted(parts: Sequence[Part], wholes: Sequence[Amounts], reader: Reader, grid: Grid) -> list[Amounts | None]:
    """Of each part; None where that is not counted, or too much of it to be read."""
    found: list[Amounts | None] = [_nothing(part, whole) for part, whole in zip(parts, wholes, strict=True)]
    asked = [(place, part.count) for place, part in enumerate(parts) if part.count is not None and 0 < len(part.count.instances or ()) <= CLIENTS_MAX]
    keys = [(count.kind, count.how, reader.ahead_ns(parts[place].served.node), parts[place].served.spans) for place, count in asked]
    for _, places in batches(keys, COUNTED_AT_ONCE):
        some = [asked[place] for place in places]
        for (place, _), amounts in zip(some, _read([(parts[place], count) for place, count in some], [wholes[place] for place, _ in some], reader, grid), strict=True):
            found[place] = amounts
    return found


def _nothing(part: Part, whole: Amounts) -> Amounts | None:
    """Where the job is counted, and nothing of it here: nothing was done for it. So it is where its server does not tell, and did nothing at all."""
    if part.count is None:
        return None
    instances = part.count.instances
    is_idle = instances is None and not any(whole.total(name) for name in VOLUMES)
    return _filled(Amounts(whole.known_s), whole) if instances == () or is_idle else None


def _read(some: Sequence[tuple[Part, Count]], wholes: Sequence[Amounts], reader: Reader, grid: Grid) -> list[Amounts | None]:
    kind, spans = COMPONENTS[some[0][1].kind], some[0][0].served.spans
    names = sorted({name for part, count in some for bearers in values_of(count, part.served.component).values() for name in bearers})
    groups = [[(part.served.node, instance) for instance in count.instances or ()] for part, count in some]
    samples = reader.each(kind.name, groups, names)
    try:
        tables = moved(kind.name, _within(samples, spans) if some[0][1].how == JOB_STATS else samples, spans, grid)
    except (TooManySamples, TooManyToTell):
        return [None] * len(some)
    found: list[Amounts | None] = []
    for (part, count), whole, by_name in zip(some, wholes, tables or [{}] * len(some), strict=True):
        amounts, steps = Amounts(whole.known_s), np.arange(grid.count)
        for figure, bearers in values_of(count, part.served.component).items():
            for name in bearers:
                if name in by_name:
                    amounts.add_counter(kind, figure, name, steps, by_name[name])
        found.append(_filled(amounts, whole))
    return found


def _within(samples: Callable[[int, int], list[pa.Table]], spans: Sequence[Span]) -> Callable[[int, int], list[pa.Table]]:
    """What bears the job's name is the job's, also where its first or last look reaches beyond its time; not what only lies beside it."""
    begin_ns, end_ns = spans[0][0], spans[-1][1]

    def clipped(table: pa.Table) -> pa.Table:
        table = table.filter(pc.and_(pc.less(table["start"], end_ns), pc.greater(table["end"], begin_ns)))
        for name, clip, bound in (("start", pc.max_element_wise, begin_ns), ("end", pc.min_element_wise, end_ns)):
            table = table.set_column(table.column_names.index(name), name, clip(table[name], bound))
        return table

    return lambda from_ns, to_ns: [clipped(table) for table in samples(from_ns, to_ns)]


def _filled(amounts: Amounts, whole: Amounts) -> Amounts:
    """What never happened is not told: of volumes that the component tells, 0."""
    for name in VOLUMES:
        if name in whole.sums:
            amounts.sums.setdefault(name, np.zeros(len(whole.known_s)))
    return amounts
