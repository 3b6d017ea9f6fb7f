"""Ranks that no environment told: of the batch system's steps, and of who started whom. Only where nothing else can be; no rank rather than a wrong one."""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


from .grouping import counts, lowest
from .job import JobStep
from .queue.nodelist import slurm as nodes_of
from .runs import LATEST_NS, Runs

# Nodes of all of a job's steps together; where there are more, no step tells a rank.
NODES_MAX = 1_000_000
# What starts ranks and is none; with one to a node, its own number is not that of what it starts.
LAUNCHERS = frozenset((
    "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prterun", "prte", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy", "pmi_proxy", "mpirun_rsh", "mpispawn",
    "srun", "slurmstepd", "aprun", "apshepherd", "palsd", "jsrun", "blaunch", "pbsdsh", "pbs_tmrsh", "ssh", "sshd", "rsh", "pdsh",
))  # fmt: skip
# Steps that are there as long as their job, and launch nothing.
_ALWAYS = frozenset(("batch", "extern", "interactive"))
# A batch system tells whole seconds, cut.
_GRAIN_NS = 10**9
# A tick (10 ms) brings no more processes; where pids of one tick lie further apart, they began anew from 1 in it.
_PIDS_A_TICK = 10_000
_PROCESS = re.compile(r"(\d{1,10})\.(\d{1,20})(?:\.(.*))?", re.ASCII)


@dataclass(frozen=True, order=True)
class _Born:
    """When a process began on its node, in ticks since the start of the kernel, and its pid in its namespace."""

    ticks: int
    pid: int
    namespace: str


def infer_ranks(runs: Runs, steps: Sequence[JobStep]) -> dict[int, int]:
    """Ranks by number of process, of those that claim none.

    A step's processes of one program are its ranks where they are as many as its tasks, two at least, on all of its nodes; none claims a rank; on each node one
    process started them; and no other step had one of these nodes at the time. They count node after node in the order that the batch system tells (its default, "block"),
    and on a node in that in which they began. A process is a step's that was its node's last to begin before the process's first operation. What one of them forked is no rank.
    A process whose parent has a rank has the same, unless the parent is a launcher (`LAUNCHERS`) or started several of that program: so it would be had the
    environment come through."""
    claimed = [number for number, rank in enumerate(runs.ranks) if rank is not None]
    if runs.granularity == "node" or len(claimed) == len(runs.ranks) or not (claimed or steps):
        return {}
    born = [_born(process) for _, process in runs.process_keys]
    parents = _parents(runs, born)
    found: dict[int, int] = {}
    for (step, program), members in _groups(runs, steps).items():
        if program and program not in LAUNCHERS and all(runs.ranks[number] is None for number in members):
            found |= _ranks_of_step(runs, step, members, parents, born)
    return found | _handed_on(runs, found, parents, born)


def _born(process: str) -> _Born | None:
    """Of PID.STARTTICKS[.NAMESPACE]; None for what is none."""
    match = _PROCESS.fullmatch(process)
    return None if match is None else _Born(int(match[2]), int(match[1]), match[3] or "")


def _program(name: str) -> str:
    return name.rpartition("/")[2]


def _parents(runs: Runs, born: Sequence[_Born | None]) -> list[int | None]:
    """The number of each process's parent, where that has records: of those with its pid the last that began before it."""
    with_pid: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for number, ((node, _), of) in enumerate(zip(runs.process_keys, born, strict=True)):
        if of is not None:
            with_pid[node, of.namespace, of.pid].append((of.ticks, number))
    for those in with_pid.values():
        those.sort()
    found: list[int | None] = []
    for number, ((node, _), of, parent) in enumerate(zip(runs.process_keys, born, runs.parents, strict=True)):
        those = [] if of is None or parent is None else with_pid.get((node, of.namespace, parent), [])
        place = 0 if of is None else bisect_right(those, (of.ticks, len(born)))
        found.append(those[place - 1][1] if place and those[place - 1][1] != number else None)
    return found


def _groups(runs: Runs, steps: Sequence[JobStep]) -> dict[tuple[JobStep, str], list[int]]:
    """Processes by step and program, of steps that may tell ranks."""
    launched = _on_nodes([step for step in steps if step.id not in _ALWAYS and step.start_ns is not None], {node for node, _ in runs.process_keys})
    size = len(runs.process_keys)
    first_ns, has_run = lowest(runs.process, runs.start_ns, size).tolist(), (counts(runs.process, size) > 0).tolist()
    found: dict[tuple[JobStep, str], list[int]] = defaultdict(list)
    for number, (node, _) in enumerate(runs.process_keys):
        begins, of_node = launched.get(node, ((), ()))
        place = bisect_right(begins, first_ns[number]) - 1 if has_run[number] else -1
        step = of_node[place] if place >= 0 else None
        if step is not None and first_ns[number] < _end_ns(step) + _GRAIN_NS:
            found[step, _program(runs.programs[number])].append(number)
    return found


def _on_nodes(steps: Sequence[JobStep], names: set[str]) -> dict[str, tuple[list[int], list[JobStep | None]]]:
    """By node the starts of its steps, in order, ns, and the steps: None for those that tell no ranks, as one that shared any of its nodes with another. None
    of any step where they have too many nodes."""
    by_node: dict[str, list[JobStep]] = defaultdict(list)
    count = 0
    for step in steps:
        nodes = nodes_of(step.nodes)
        count += len(nodes)
        if count > NODES_MAX:
            return {}
        for node in nodes:
            by_node[node].append(step)
    shared: set[JobStep] = set()
    for those in by_node.values():
        those.sort(key=_span_ns)
        longest = those[0]
        for before, step in pairwise(those):
            if step.start_ns < _end_ns(longest) or step.start_ns == before.start_ns:
                shared |= {longest, before, step}
            longest = max(longest, step, key=_end_ns)
    usable = {step for step in steps if step not in shared and (step.tasks or 0) > 1 and _program(step.name) not in LAUNCHERS}
    return {node: ([step.start_ns for step in those], [step if step in usable else None for step in those]) for node, those in by_node.items() if node in names}


def _span_ns(step: JobStep) -> tuple[int, int]:
    return step.start_ns or 0, _end_ns(step)


def _end_ns(step: JobStep) -> int:
    return LATEST_NS if step.end_ns is None else step.end_ns


def _ranks_of_step(runs: Runs, step: JobStep, members: Sequence[int], parents: Sequence[int | None], born: Sequence[_Born | None]) -> dict[int, int]:
    """Ranks of a step's processes of one program; none where they cannot be told for sure."""
    among = set(members)
    tasks = [number for number in members if parents[number] not in among]
    # First of all: a user's programs are many, and a step's nodes may be.
    if len(tasks) != step.tasks:
        return {}
    nodes = nodes_of(step.nodes)
    by_node: dict[str, list[tuple[_Born, int]]] = {node: [] for node in nodes}
    for number in tasks:
        of = born[number]
        if of is None:
            return {}
        by_node[runs.process_keys[number][0]].append((of, number))
    if not all(those and _is_one_launch(runs, those) for those in by_node.values()):
        return {}
    return {number: rank for rank, number in enumerate(number for node in nodes for _, number in sorted(by_node[node]))}


def _is_one_launch(runs: Runs, tasks: Sequence[tuple[_Born, int]]) -> bool:
    """Whether one process started these of a node, so that they began in the order of their ranks."""
    if len(tasks) == 1:
        return True
    ticks = Counter(of.ticks for of, _ in tasks)
    pids: dict[int, list[int]] = defaultdict(list)
    for of, _ in tasks:
        if ticks[of.ticks] > 1:
            pids[of.ticks].append(of.pid)
    starters = {(runs.parents[number], of.namespace) for of, number in tasks}
    return len(starters) == 1 and next(iter(starters))[0] is not None and all(max(those) - min(those) <= _PIDS_A_TICK for those in pids.values())


def _handed_on(runs: Runs, found: dict[int, int], parents: Sequence[int | None], born: Sequence[_Born | None]) -> dict[int, int]:
    """Ranks that processes have from their parents."""
    without = [number for number, rank in enumerate(runs.ranks) if rank is None and number not in found and parents[number] is not None]
    siblings = Counter((parents[number], runs.programs[number]) for number in without)
    handed: dict[int, int] = {}
    # Parents come before their children.
    for number in sorted(without, key=lambda number: (born[number], number)):
        parent = parents[number]
        rank = _first(runs.ranks[parent], found.get(parent), handed.get(parent))
        if rank is not None and siblings[parent, runs.programs[number]] == 1 and _program(runs.programs[parent]) not in LAUNCHERS:
            handed[number] = rank
    return handed


def _first(*ranks: int | None) -> int | None:
    return next((rank for rank in ranks if rank is not None), None)
