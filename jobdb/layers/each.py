"""What servers count one by one of what they did, of each job and of each client: what of it is a job's."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jobdb.job import Job
from pipeline.schema.components import COMPONENTS, Component, Each
from pipeline.store import Store, TooManyComponents

from . import NAMES_MAX

JOB_STATS, CLIENTS = "job_stats", "clients"
# node, component and instance of a target.
Target = tuple[str, str, str]
# How a site's jobid_var calls what is no job's: program.uid. A job's steps have numbers, too.
_PROGRAM = re.compile(r".*\.[0-9]+", re.DOTALL)
STEP = "[0-9]{1,10}|batch|extern|interactive"
_STEP = re.compile(STEP)
# What Lustre calls the network of an address that names none; the first one of a kind needs no number.
DEFAULT_NETWORK = "tcp"


@dataclass(frozen=True)
class Count:
    """What counts a component's work for the job. how: JOB_STATS or CLIENTS; kind: of component; instances: those of them that are the job's, on the component's node;
    None where nothing of that kind was told there."""

    how: str
    kind: str
    instances: tuple[str, ...] | None


@dataclass(frozen=True)
class Counted:
    """What of some targets is counted for the job. of: by target, the names behind the blank; told: nodes that tell of any job, or client."""

    how: str
    kind: str
    of: Mapping[Target, tuple[str, ...]]
    told: frozenset[str]

    def at(self, target: Target) -> Count | None:
        """None of what is not counted so."""
        each = _each_of(COMPONENTS[self.kind], self.how)
        if each is None or target[1] not in each.of:
            return None
        names = self.of.get(target, ())
        return Count(self.how, self.kind, tuple(f"{target[2]} {name}" for name in names) if names or target[0] in self.told else None)


def names_of(job: Job) -> list[str]:
    """How sites may have Lustre call a job: by the number in its processes' environment, or as the queue shows it ("4711_3")."""
    given = dict.fromkeys((job.job_id, job.queued.job_id if job.queued is not None else ""))
    return [name for name in given if name and not _PROGRAM.fullmatch(name)]


def of_job(store: Store, names: Sequence[str], targets: Collection[Target], from_ns: int, to_ns: int) -> Counted | None:
    """What bears one of a job's names, or a step's of it. None where nothing does: then its processes go by other names, or nobody counts."""
    found = _ask(store, JOB_STATS, targets, names, [name for name in names if "." not in name], from_ns, to_ns)
    return found if found is not None and found.of else None


def of_clients(store: Store, addresses: Sequence[str], targets: Collection[Target], from_ns: int, to_ns: int) -> Counted | None:
    """What is of the clients at some addresses. None where that is nothing, or too much."""
    found = _ask(store, CLIENTS, targets, addresses, (), from_ns, to_ns)
    return found if found is not None and found.of else None


def nid(address: str) -> str:
    """As Lustre calls an address: with its network."""
    return address if "@" in address else f"{address}@{DEFAULT_NETWORK}"


def _ask(store: Store, how: str, targets: Collection[Target], names: Sequence[str], stems: Sequence[str], from_ns: int, to_ns: int) -> Counted | None:
    for kind in COMPONENTS.values():
        each = _each_of(kind, how)
        here = [target for target in targets if each is not None and target[1] in each.of]
        if not here or not names:
            continue
        instances, nodes = sorted({target[2] for target in here}), sorted({target[0] for target in here})
        if len(instances) * len(names) > NAMES_MAX:
            return None
        wanted, with_steps = ([f"{instance} {name}" for instance in instances for name in some] for some in (names, stems))
        # A stem ends before the first dot: a target with one has none.
        try:
            heard = store.called(kind.name, nodes, wanted, [stem for stem in with_steps if "." not in stem], from_ns, to_ns)
        except TooManyComponents:
            # Whoever forges so many steps of a job's must not hide the rest of its layers.
            return None
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for one in heard:
            target, _, name = one.instance.partition(" ")
            if name in names or _STEP.fullmatch(name.partition(".")[2]):
                found[one.node, target].append(name)
        of = {target: tuple(found[target[0], target[2]]) for target in here if (target[0], target[2]) in found}
        return Counted(how, kind.name, of, frozenset(store.telling(kind.name, nodes, from_ns, to_ns)) if of else frozenset())
    return None


def _each_of(kind: Component, how: str) -> Each | None:
    each = kind.jobs if how == JOB_STATS else kind.clients
    return each if each is not None and each.is_exact else None


def values_of(count: Count, component: str) -> dict[str, tuple[str, ...]]:
    """By figure, the values of a count that a component of that kind bears, too: else it would tell more than the component does."""
    each, figures = _each_of(COMPONENTS[count.kind], count.how), COMPONENTS[component].figures
    if each is None or figures is None:
        return {}
    return {figure: tuple(name for name in names if name in figures.values.get(figure, ())) for figure, names in each.values.items()}
