"""Jobs that did their usual work slowly: finding and evidence from what `anomaly.history` says of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from jobdb.findings import SUBJECT, Found, Looked, PastRun
from jobdb.job import Job
from jobdb.runs import LATEST_NS

from .history import KIND, KINDS as PHASE_KINDS, PHASES, SLOW, USUAL, VOLUME, Limits, Past, Sort, Verdict, judge, packed, sorts_of, unpacked
from .names import Rules, program_of

SLOW_JOB = "slow-job"
KINDS = (SLOW_JOB,)
# From so many times slower on it is a warning; critical from so many, where it cost so long, s.
WARNING_TIMES, CRITICAL_TIMES, CRITICAL_LOST_S = 2.0, 5.0, 600.0
# Earlier runs that the evidence names.
NAMED_MAX = 20


def past_run(job: Job, profile: Mapping[str, Any], rules: Rules) -> PastRun | None:
    """What later runs of its program are held against, and it against earlier ones; None where it has no program, no end, or no figures."""
    phases, nodes, processes = (profile.get(name) for name in ("phase_list", "nodes", "processes"))
    program = program_of(job, rules)
    if not program or job.end_ns is None or not 0 <= job.end_ns <= LATEST_NS or not isinstance(phases, list) or not isinstance(nodes, int) or not isinstance(processes, int):
        return None
    sorts, _ = sorts_of(phases)
    return PastRun(program, min(max(nodes, 0), 1 << 60), min(max(processes, 0), 1 << 60), job.end_ns, packed(sorts), "")


def held_against(look: Looked, past: Sequence[tuple[int, bytes]], keys: Callable[[Sequence[int]], Mapping[int, str]], profile: Mapping[str, Any], limits: Limits) -> Looked:
    """A job that was looked at, with the finding that it was slow, if so, and what is to be said of it. past: (number, what `past_run` packed) of earlier runs, the last first; keys: tells jobs' keys
    by their numbers."""
    assert look.run is not None
    known = Past.of([sorts for _, sorts in past])
    phases = profile["phase_list"]
    own = unpacked(look.run.sorts)
    # Where there are more sorts than are kept some phases count as left out.
    verdict = judge(phases, known, limits, (own, len(phases) - int(own[:, PHASES].sum())))
    found = look.found
    if verdict.status == SLOW:
        alike = [past[number][0] for number in verdict.alike[:NAMED_MAX]]
        key_of = keys(alike)
        found = (*found, _found(look.job, look.run.program, verdict, known, [key_of.get(number) for number in alike], limits))
    return replace(look, found=found, run=replace(look.run, status=verdict.status))


def _found(job: Job, program: str, verdict: Verdict, past: Past, keys: Sequence[str | None], limits: Limits) -> Found:
    worst = verdict.sorts[0]
    times = verdict.times or 1.0
    severity = "critical" if times >= CRITICAL_TIMES and verdict.lost_s >= CRITICAL_LOST_S else "warning" if times >= WARNING_TIMES else "info"
    count = f"{worst.slow_phases} of its {worst.phases} {worst.kind} phases" if worst.phases > 1 else f"its {worst.kind} phase"
    each_s = worst.took_s / worst.slow_phases
    cause = f"{count}, {worst.volume:,.0f} bytes each, took {each_s:,.1f} s where {worst.expected_s:,.1f} s are usual; in all its slow phases {times:.1f} times as long, {verdict.lost_s:,.0f} s lost"
    kind = PHASE_KINDS.index(worst.kind)
    evidence = {
        "job": job.key, "program": program, "times": times, "lost_s": verdict.lost_s, "left_out": verdict.left_out,
        "arithmetic": [_arithmetic(one) for one in verdict.sorts], "phases": [asdict(one) for one in verdict.sorts],
        "earlier_runs": verdict.runs, "held_against": [_run(key, past, number, kind, worst.volume) for key, number in zip(keys, verdict.alike, strict=False)],
        "bounds": asdict(limits),
    }  # fmt: skip
    return Found(SLOW_JOB, job.key, severity, max(job.start_ns, 0), max(job.end_ns or 0, job.start_ns, 0), cause, evidence, jobs=((job.key, SUBJECT),), times=times)


def _run(key: str | None, past: Past, number: int, kind: int, volume: float) -> dict[str, Any]:
    """What an earlier run did of that sort; an object of its own with its key as "job", so that it is masked for whom it does not concern."""
    of = past.points[(past.of_run == number) & (past.points[:, KIND] == kind)]
    closest = of[np.argmin(np.abs(of[:, VOLUME] - np.log(volume)))]
    return {"job": key, "bytes": float(np.exp(closest[VOLUME])), "phase_s": float(np.exp(closest[USUAL]))}


def _arithmetic(one: Sort) -> str:
    """How a sort was found slow, in a line."""
    others = "the run's other phases" if one.is_uneven else f"{one.usual_runs} of {one.runs} earlier runs with as much work, which are usual"
    of = "how uneven these runs are" if one.is_uneven else "these runs"
    slow = f"{one.slow_phases} of {one.phases} took {one.took_s:,.4g} s, {one.slow_phases} × {one.expected_s:,.4g} = {one.slow_phases * one.expected_s:,.4g} s were usual: {one.times:.3g} times, {one.lost_s:,.4g} s lost"
    return f"{one.kind}: {one.expected_s:,.4g} s by {others}; slow from {one.bound:.3g} × {one.expected_s:,.4g} = {one.bound * one.expected_s:,.4g} s on, as the spread of {of} is {one.spread:.3g}; {slow}"
