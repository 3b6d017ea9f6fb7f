"""The jobs of a virtual machine, for whoever writes them, with the truth of their ways to the disks."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from typing import Any

from bellrock.simulate import names
from bellrock.simulate.model import METADATA_OPS, Job
from bellrock.simulate.noise import Noise
from bellrock.simulate.schedule import Plan, Run, jobs, simulate, slowness
from bellrock.simulate.traffic import loads

S = 10**9


class VirtualMachine:
    """The machine of a plan: what `volume.simulate` takes its jobs from. The jobs' times are worked out when they are first asked for."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seed, self.nodes, self.start_ns = plan.seed, plan.machine.compute.nodes, plan.start_ns

    @cached_property
    def runs(self) -> list[Run]:
        """All that ran, by their start."""
        return simulate(self.plan)

    @property
    def count(self) -> int:
        """How many jobs."""
        return len(self.runs)

    def jobs(self) -> Iterator[Job]:
        """Each job, by its start."""
        return jobs(self.plan, self.runs)

    def places(self) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Each job by its start, and what is true of it besides its profile."""
        for run, job in zip(self.runs, self.jobs(), strict=True):
            yield job, {**self._way(job), **self._pace(run)}

    def told(self) -> dict[str, Any]:
        """The machine, what goes wrong there, and for how long it works, fit for JSON."""
        plan = self.plan
        return {
            "machine": asdict(plan.machine), "seed": plan.seed, "hours": plan.hours, "intensity": plan.intensity, "start_ns": plan.start_ns,
            "faults": [{name: value for name, value in asdict(fault).items() if value is not None} for fault in plan.faults],
            **({} if plan.noise is None else self._noise(plan.noise)),
        }  # fmt: skip

    @staticmethod
    def _noise(noise: Noise) -> dict[str, Any]:
        """Components' own speeds by kind, what a site knows of that is no fault, and agents that are away."""
        told = ("kind", "component", "begin_s", "end_s", "factor")
        speeds: dict[str, list[float]] = {}
        for one in noise.speeds:
            speeds.setdefault(one.kind, []).append(one.factor)
        return {"speeds": speeds, "known": [{name: getattr(one, name) for name in told} for one in noise.known], "away": [asdict(one) for one in noise.away]}

    def _pace(self, run: Run) -> dict[str, Any]:
        """slowness: by how much this run's I/O is slower than is usual for the application. io_s: the time of its steps as it was."""
        factor, is_outlier = slowness(self.plan, run)
        return {"slowness": factor, "is_outlier": is_outlier, "io_s": sum(run.end) - sum(run.begin)}

    def _way(self, job: Job) -> dict[str, Any]:
        """Of each server that the job used what it did there, by the server's name."""
        machine, plan = self.plan.machine, self.plan
        name_of = {"forwarding": names.forwarder, "storage": names.target, "metadata": names.metadata_target}
        way: dict[str, dict[str, dict[str, int]]] = {layer: {} for layer in name_of}
        for load in loads(machine, job.model, job.number, job.first_node, job.start_ns - plan.start_ns, plan.faults):
            told = "metadata" if load.op in METADATA_OPS else load.op
            for component, bytes_, operations in zip(load.component.tolist(), load.bytes.tolist(), load.operations.tolist(), strict=True):
                figures = way[load.layer].setdefault(name_of[load.layer](component), {})
                if told != "metadata":
                    figures[f"{told}_bytes"] = figures.get(f"{told}_bytes", 0) + bytes_
                figures[f"{told}_ops"] = figures.get(f"{told}_ops", 0) + operations
        return {"submitted_ns": job.submitted_ns, **way}
