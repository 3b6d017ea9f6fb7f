"""From an application's description to the model of one of its runs."""

from collections.abc import Sequence

import numpy as np

from bellrock.simulate.description import Application, Step
from bellrock.simulate.model import Model
from bellrock.simulate.script import Script

# A process's pace where nobody is in the way, and how many files of a step "files" it makes in a second (ours).
PACE_BYTES_S = (20e6, 60e6)
PACE_FILES_S = (20.0, 60.0)
# A step lasts at least so long.
STEP_S = 0.5
# Of an application's runs: how much their time for the same I/O differs (coefficient of variation), and how often and how far one falls out.
VARIATION = 0.2
OUTLIERS, OUTLIER_FACTOR = 0.01, 3.0
# Share of a run's operations that follow no pattern.
IRREGULAR = 0.01
_SIGMA = float(np.sqrt(np.log(1 + VARIATION**2)))


def slowness(rng: np.random.Generator) -> tuple[float, bool]:
    """How many times its usual time a run takes for its I/O (mean 1), and whether it is one that falls out."""
    factor, is_outlier = float(rng.lognormal(-(_SIGMA**2) / 2, _SIGMA)), bool(rng.random() < OUTLIERS)
    return factor * (OUTLIER_FACTOR if is_outlier else 1.0), is_outlier


def pace(application: Application, seed: int) -> tuple[float, float]:
    """What a process of an application moves in a second, bytes, and how many files it makes: the same in all its runs on a machine of this seed."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(application.name.encode())))
    return float(rng.uniform(*PACE_BYTES_S)), float(rng.uniform(*PACE_FILES_S))


def model(
    application: Application, nodes: int, per_node: int, usual: tuple[float, float], factor: float, intensity: float, rng: np.random.Generator,
    irregular: float = IRREGULAR,
) -> Model:  # fmt: skip
    """One run of an application on so many nodes. usual: its `pace`. factor: its `slowness`. intensity: how many times as much I/O as described it does in
    the same time, since it computes the less. irregular: share of its operations that follow no pattern."""
    script = Script(rng, nodes, per_node)
    for number, step in enumerate(application.begin):
        _step(script, application, step, f"input{number}.", usual, factor, irregular)
    for cycle in range(int(rng.integers(application.cycles[0], application.cycles[1] + 1))):
        script.compute(float(rng.uniform(*application.compute_s)) / intensity)
        for number, step in enumerate(application.cycle):
            _step(script, application, step, f"step{cycle:04d}.{number}.", usual, factor, irregular)
    steps = (*application.begin, *application.cycle)
    return script.model(
        application.name, application.name.lower(), mode_read=_mode(steps, "read"), mode_write=_mode(steps, "write") or ("N-N" if _has_files(steps) else None)
    )


def _mode(steps: Sequence[Step], op: str) -> str | None:
    return next((step.mode for step in steps if step.op == op), None)


def _has_files(steps: Sequence[Step]) -> bool:
    return any(step.op == "files" for step in steps)


def _step(script: Script, application: Application, step: Step, name: str, usual: tuple[float, float], factor: float, irregular: float) -> None:
    if step.op == "files":
        file = script.files(name, ".tmp", step.files * script.processes)[:: step.files]
        script.storm(file, step.files, step.bytes, step.files / usual[1] * factor)
        return
    who = _io_processes(script, step)
    operations = max(step.bytes // step.request, 1)
    count = min(application.run, operations)
    runs = max(round(operations / count), 1)
    # Each run leaves a gap behind it, so that the next one is another.
    run_step = (count + 1) * step.request
    is_shared = step.mode == "N-1"
    file = np.repeat(script.files(name, ".dat", 1), len(who)) if is_shared else script.files(name, ".dat", len(who))
    offset = np.arange(len(who)) * (runs * run_step) if is_shared else 0
    seconds = max(runs * count * step.request / usual[0] * factor, STEP_S)
    script.transfer(
        step.op, who, file, seconds, runs=runs, count=count, size=step.request, offset=offset, stride=step.request, run_step=run_step, irregular=irregular,
        stripes=step.stripes,
    )  # fmt: skip


def _io_processes(script: Script, step: Step) -> np.ndarray:
    """Who does I/O: all; the first; or the first of each so-manieth node."""
    if step.mode == "1-1":
        return script.everyone[:1]
    if step.mode == "N-M":
        writers = min(max(round(script.nodes * step.writers), 2), script.nodes)
        return script.everyone[:: script.per_node][np.arange(writers) * script.nodes // writers]
    return script.everyone
