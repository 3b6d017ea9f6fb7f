"""Runs the jobs of a virtual machine: a queue, nodes, and servers that are shared; from a seed."""

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bellrock.errors import UsageError
from bellrock.simulate import application as applications
from bellrock.simulate.contention import speeds
from bellrock.simulate.description import Application, Machine
from bellrock.simulate.faults import Fault, Timeline, capacity
from bellrock.simulate.machine import ALL_JOBS, BETWEEN_S, FIRST_UID, USERS, S
from bellrock.simulate.model import Job, Model
from bellrock.simulate.noise import Noise
from bellrock.simulate.traffic import demand

# Jobs that wait; whichever fits goes first, the oldest before others.
QUEUE_MAX = 20
# No job has more than this share of the nodes.
NODES_SHARE_MAX = 0.5
# An aggressor does its I/O so many times over, and computes so long in between.
AGGRESSOR_CYCLES = (6, 12)
AGGRESSOR_COMPUTE_S = (6.0, 12.0)
# One of a fault in number goes on until that is over, as jobs of at most so many cycles that follow each other; none begins that late. It does so many times as
# much at once, and computes so many times longer, since a month has thousands of hours of them.
AGGRESSOR_CYCLES_MAX = 48
AGGRESSOR_LATE_S = 120.0
AGGRESSOR_LARGER = 5
FIRST_ID = 100_000
# One who asks for less of each server is in nobody's way, and a smaller part of the time that is lost is not told, so that few have to be left out (`Plan.tells_lost`).
ASKS_MIN, LOST_MIN = 0.05, 0.02


@dataclass(frozen=True)
class Plan:
    """hours: in which jobs begin; those that run then come to their ends. intensity: how many times as much I/O as described is done in the same time. noise: what
    there is besides faults, if anything. tells_lost: of each run what it lost to which other one is worked out, too; it changes nothing else."""

    machine: Machine
    seed: int
    hours: float
    intensity: float
    faults: list[Fault]
    start_ns: int
    noise: Noise | None = None
    tells_lost: bool = False

    @property
    def holds_up(self) -> list[Fault]:
        """All that makes servers do less, or more, than they usually do."""
        return [*self.faults, *self.noise.speeds, *self.noise.known] if self.noise is not None else self.faults


@dataclass
class Run:
    """One job: what was drawn, and what became of it. Times in s since the machine began to work; begin, end: of each step. at_forwarder: where an aggressor
    must run; until_s: when that of a fault in number is cancelled. lost_s: by the number of another run how much less time what this one's I/O did beside it
    would have taken without it; where `Plan.tells_lost`."""

    number: int
    application: Application
    nodes: int
    intensity: float
    submitted_s: float
    at_forwarder: int | None = None
    until_s: float | None = None
    first_node: int = -1
    start_s: float = 0.0
    wall_s: float = 0.0
    begin: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    lost_s: dict[int, float] = field(default_factory=dict)


def simulate(plan: Plan) -> list[Run]:
    """All jobs that ran, by their start."""
    return sorted(_Machine(plan).run(), key=lambda run: (run.start_s, run.number))


def jobs(plan: Plan, runs: list[Run]) -> Iterator[Job]:
    """The jobs in their places, one after the other."""
    for run in runs:
        model, user = model_of(plan, run), _draws(plan, run).integers(USERS)
        start_ns = plan.start_ns + _ns(run.start_s)
        times = [np.array([plan.start_ns + _ns(instant) - start_ns for instant in instants]) for instants in (run.begin, run.end)]
        yield Job(
            run.number, str(FIRST_ID + run.number), FIRST_UID + int(user), f"user{user + 1:02d}", run.first_node, start_ns, _seeds(plan, run)[1],
            model.cut(len(run.end)).delayed(*times, _ns(run.wall_s)), plan.machine.mount, plan.start_ns + _ns(run.submitted_s),
        )  # fmt: skip


def _ns(seconds: float) -> int:
    return round(seconds * S)


def _seeds(plan: Plan, run: Run) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(plan.seed, spawn_key=(run.number,)).spawn(3)


def _draws(plan: Plan, run: Run) -> np.random.Generator:
    return np.random.default_rng(_seeds(plan, run)[2])


def slowness(plan: Plan, run: Run) -> tuple[float, bool]:
    """How many times its usual time a run takes for its I/O where nobody is in the way, and whether it is one that falls out."""
    return applications.slowness(_draws(plan, run).spawn(1)[0])


def model_of(plan: Plan, run: Run) -> Model:
    """What a run does, and how long each step takes it with nobody in the way."""
    factor, _ = slowness(plan, run)
    usual = applications.pace(run.application, plan.seed)
    return applications.model(
        run.application, run.nodes, plan.machine.compute.processes, usual, factor, run.intensity, np.random.default_rng(_seeds(plan, run)[0])
    )


class _Machine:
    """The machine while it works. Time goes from event to event: a job begins or ends a step, a fault begins or ends."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rng = np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=(ALL_JOBS,)))
        self._now = 0.0
        self._is_free = np.ones(plan.machine.compute.nodes, dtype=bool)
        self._is_kept = np.zeros(plan.machine.compute.nodes, dtype=bool)
        # The longest block that is not kept.
        self._room = plan.machine.compute.nodes
        self._waiting: list[Run] = []
        self._done: list[Run] = []
        self._drawn = 0
        # What comes: when, its number (which keeps equal times apart), and what to do then.
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._models: dict[int, Model] = {}
        self._timeline = Timeline(plan.holds_up)
        self._held: list[Fault] | None = None
        self._capacity = np.empty(0)
        # Those that do I/O, one element a run: of its step the seconds at full speed that are left, and what it asks of the servers.
        self._active: list[Run] = []
        self._left = np.empty(0)
        self._speed = np.empty(0)
        self._limit = np.empty(0)
        self._is_first = np.empty(0, dtype=bool)
        self._demand = np.empty((0, plan.machine.forwarders + plan.machine.targets + 1))
        # Of each in whose way others are: its place, theirs, and what part of its time it would be spared without them.
        self._in_way: list[tuple[int, int, float]] = []

    def run(self) -> list[Run]:
        """Runs until the last job has ended."""
        for fault in self._plan.holds_up:
            aggressor = _aggressor(self._plan.machine, fault)
            if aggressor is not None and fault.strength is not None:
                self._keep(fault.component, max(aggressor.nodes))
            self._at(fault.begin_s, lambda fault=fault, aggressor=aggressor: self._attack(fault, aggressor) if aggressor else None)
            if fault.end_s < np.inf:
                self._at(fault.end_s, lambda: None)
        self._room = int(np.diff(_blocks(~self._is_kept)).max(initial=0))
        if self._is_kept.any() and any(min(option.nodes) > self._room for option in self._plan.machine.application):
            raise UsageError("--faults: with nodes kept for aggressors in number some applications have none left", "take a larger --scale")
        self._place()
        while self._events or self._active:
            ends = self._left / self._speed
            soonest = self._now + float(ends.min(initial=np.inf))
            if self._events and self._events[0][0] <= soonest:
                when, _, deal = heapq.heappop(self._events)
                self._go_on(when)
                deal()
            else:
                self._go_on(soonest)
                self._end_step(int(ends.argmin()))
            self._hold()
            # An event lets one begin a step or one end it, if any.
            if len(self._speed) != len(self._active):
                self._speed = speeds(self._demand, self._limit, self._is_first, self._capacity)
                self._in_way = self._who_is_in_the_way() if self._plan.tells_lost else []
        return self._done

    def _who_is_in_the_way(self) -> list[tuple[int, int, float]]:
        """By leaving out one after the other of those that ask a good deal of a server of somebody who is slowed."""
        is_slowed = self._speed < self._limit * (1 - LOST_MIN)
        if not is_slowed.any():
            return []
        used = (self._demand[is_slowed] > 0).any(axis=0)
        found = []
        for other in np.flatnonzero((self._demand[:, used] >= ASKS_MIN).any(axis=1)).tolist():
            rest = np.delete(np.arange(len(self._active)), other)
            # Parts of time and not of speed: who gets on at a hundredth of its speed, and without another at a tenth, is done in a tenth of the time.
            spared = 1 - self._speed[rest] / speeds(self._demand[rest], self._limit[rest], self._is_first[rest], self._capacity)
            found += [(int(rest[at]), other, float(spared[at])) for at in np.flatnonzero(is_slowed[rest] & (spared > LOST_MIN))]
        return found

    def _hold(self) -> None:
        """Where a fault begins or ends, what servers can do from then on."""
        held = self._timeline.at(self._now)
        if held is not self._held:
            self._held, self._capacity = held, capacity(self._plan.machine, held, self._now)
            self._speed = np.empty(0)

    def _keep(self, forwarder: int, count: int) -> None:
        """Nodes for aggressors alone, the last of their forwarding node, so that none has to wait for others to end."""
        end = min((forwarder + 1) * self._plan.machine.forwarding.each, len(self._is_kept))
        self._is_kept[end - count : end] = True

    def _at(self, when_s: float, deal: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when_s, next(self._numbers), deal))

    def _go_on(self, until: float) -> None:
        self._left = np.maximum(self._left - (until - self._now) * self._speed, 0.0)
        for at, other, spared in self._in_way:
            lost_s = self._active[at].lost_s
            lost_s[self._active[other].number] = lost_s.get(self._active[other].number, 0.0) + (until - self._now) * spared
        self._now = until

    def _draw(self) -> Run:
        """The next job that a user submits."""
        options = self._plan.machine.application
        weight = np.array([option.weight for option in options])
        chosen = options[int(self._rng.choice(len(options), p=weight / weight.sum()))]
        most = max(min(self._plan.machine.compute.nodes * NODES_SHARE_MAX, self._room), min(chosen.nodes))
        nodes = int(self._rng.choice([size for size in chosen.nodes if size <= most]))
        self._drawn += 1
        return Run(self._drawn - 1, chosen, nodes, self._plan.intensity, self._now)

    def _attack(self, fault: Fault, aggressor: Application) -> None:
        """Puts an aggressor before all that wait."""
        intensity, until_s = (fault.strength, fault.end_s) if fault.strength is not None else (1.0, None)
        self._put_first(Run(self._drawn, aggressor, max(aggressor.nodes), intensity, self._now, fault.component, until_s))
        self._place()

    def _put_first(self, run: Run) -> None:
        self._drawn += 1
        self._waiting.insert(0, run)

    def _place(self) -> None:
        """Begins all jobs that fit, in the order of submission."""
        if self._now < self._plan.hours * 3600:
            self._waiting += [self._draw() for _ in range(QUEUE_MAX - len(self._waiting))]
        else:
            self._waiting.clear()
        for run in list(self._waiting):
            first = self._free_block(run)
            if first is None:
                continue
            self._waiting.remove(run)
            run.first_node = first
            self._is_free[first : first + run.nodes] = False
            run.start_s = self._now + float(self._rng.uniform(*BETWEEN_S))
            self._models[run.number] = model_of(self._plan, run)
            self._compute(run)

    def _free_block(self, run: Run) -> int | None:
        """The first of so many free nodes one after the other; for an aggressor among those of its forwarding node."""
        each = self._plan.machine.forwarding.each
        begin, end = (0, len(self._is_free)) if run.at_forwarder is None else (run.at_forwarder * each, (run.at_forwarder + 1) * each)
        is_usable = self._is_free[begin:end] & (self._is_kept[begin:end] == (run.until_s is not None))
        blocks = _blocks(is_usable)
        fits = blocks[blocks[:, 1] - blocks[:, 0] >= run.nodes]
        return begin + int(fits[0, 0]) if len(fits) else None

    def _compute(self, run: Run) -> None:
        """Goes on to the run's next step, or to its end."""
        model = self._models[run.number]
        done = len(run.end)
        before_s, nominal_ns = (run.end[-1], model.steps[done - 1].end_ns) if done else (run.start_s, 0)
        if done < len(model.steps):
            next_s = before_s + (model.steps[done].begin_ns - nominal_ns) / S
            if not done or run.until_s is None or next_s < run.until_s:
                self._at(next_s, lambda: self._begin_step(run))
                return
            model = self._models[run.number] = model.cut(done)
        run.wall_s = before_s + (model.wall_ns - nominal_ns) / S - run.start_s
        self._at(run.start_s + run.wall_s, lambda: self._end(run))

    def _begin_step(self, run: Run) -> None:
        plan, model = self._plan, self._models[run.number]
        step = model.steps[len(run.begin)]
        # The instant as `traffic` will see it once the job has its times.
        now = replace(step, begin_ns=_ns(self._now), end_ns=_ns(self._now) + step.end_ns - step.begin_ns)
        asked, limit, is_first = demand(plan.machine, model, run.number, run.first_node, 0, self._timeline.at(self._now), now)
        run.begin.append(self._now)
        self._active.append(run)
        self._left = np.append(self._left, (step.end_ns - step.begin_ns) / S)
        self._limit = np.append(self._limit, limit)
        self._is_first = np.append(self._is_first, is_first)
        self._demand = np.vstack((self._demand, asked))

    def _end_step(self, at: int) -> None:
        run = self._active.pop(at)
        self._left, self._limit, self._is_first = (np.delete(array, at) for array in (self._left, self._limit, self._is_first))
        self._demand = np.delete(self._demand, at, axis=0)
        run.end.append(self._now)
        self._compute(run)

    def _end(self, run: Run) -> None:
        del self._models[run.number]
        self._is_free[run.first_node : run.first_node + run.nodes] = True
        self._done.append(run)
        if run.until_s is not None and run.until_s - self._now > AGGRESSOR_LATE_S:
            self._put_first(Run(self._drawn, run.application, run.nodes, run.intensity, self._now, run.at_forwarder, run.until_s))
        self._place()


def _blocks(is_usable: np.ndarray) -> np.ndarray:
    """Where nodes that can be used begin and end that are one after the other, shape (blocks, 2)."""
    return np.flatnonzero(np.diff(np.concatenate(([False], is_usable, [False])))).reshape(-1, 2)


def _aggressor(machine: Machine, fault: Fault) -> Application | None:
    """The application that does again and again what is hard on others."""
    steps = {"n-1-aggressor": lambda step: step.mode == "N-1", "metadata-storm": lambda step: step.op == "files"}.get(fault.kind)
    if steps is None:
        return None
    for option in machine.application:
        bad = tuple(step for step in (*option.begin, *option.cycle) if steps(step))
        if bad:
            sizes = tuple(size for size in option.nodes if size <= min(machine.forwarding.each, machine.compute.nodes) / 2) or (min(option.nodes),)
            cycles, compute_s = AGGRESSOR_CYCLES, AGGRESSOR_COMPUTE_S
            if fault.strength is not None:
                # The smallest that holds threads, or else the smallest.
                sizes = (min((size for size in sizes if size > machine.forwarding.shared_file_nodes), default=min(sizes)),)
                cycles, compute_s = (AGGRESSOR_CYCLES_MAX, AGGRESSOR_CYCLES_MAX), (compute_s[0] * AGGRESSOR_LARGER, compute_s[1] * AGGRESSOR_LARGER)
                bad = tuple(replace(step, bytes=step.bytes * (1 if step.files else AGGRESSOR_LARGER), files=step.files * AGGRESSOR_LARGER) for step in bad)
            return replace(option, nodes=sizes, begin=(), cycle=bad, cycles=cycles, compute_s=compute_s)
    return None
