"""How well slow servers and slow jobs are found, on months of virtual machines whose faults are known.

    make bench ONLY=detection
    BELLROCK_DETECTION_SEEDS=101 BELLROCK_DETECTION_DAYS=5 BELLROCK_DETECTION_FOLDER=/var/tmp/months make bench ONLY=detection     # a trial

Each seed is a month with faults of all kinds (`_month.FAULTS`) and one with none; a month of 30 days takes six minutes of processor time and a GB. With a folder they are kept,
and taken from there the next time. Scored are the kinds in LAYER_OF: slow-ost and slow-forwarding.

- A fault counts where its server was asked for something in 10 minutes of it. It is found where a finding lies in it by more than half.
- A finding is false where no more than half of it lies in faults of its server: in known maintenance it is neither, as a site tells of that before. Scrubs are not excused.
- f1 of a strength is of its faults, and of all false findings.
- Within large jobs alone (`_large_jobs`) a fault of an OST counts where it did work for such jobs that others did alike in 10 minutes of it.
- Who slowed a job: see `_interference`. An hour of a whole machine: see `_hour`.
- Slow jobs: see `_slow_jobs`. `history_100k_jobs_s` is the processor time in which as many settled jobs, of which nothing is known yet, are looked at, in SQLite.
- Beacon's rule looks at jobs of a fortieth of the machine's nodes or more, its 1,024 of TaihuLight's.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anomaly.followed import Served
from anomaly.slow import Rules, Spell, Watch
from anomaly.slow_findings import SLOW_FORWARDING, SLOW_OST
from bellrock.simulate.minutes import JOB_LAYERS, Minutes
from bellrock.simulate.trees.forwarding import BOUNDS_S
from pipeline.served import BUCKETS_LEAST, FORWARDING, mean_sizes
from tests.bench import _hour, _interference, _large_jobs, _month, _rules, _slow_jobs
from tests.bench._month import FAULTS, Month, make
from webapp.api.slow_servers import UNSURE

SEEDS, DAYS = "101,102", "30"
LOADED_MINUTES = 10
LAYER_OF = {"slow-ost": "storage", "slow-forwarding": "forwarding"}
STRENGTHS = ((1.3, 2.0), (2.0, 4.0), (4.0, 8.0), (8.0, 20.0))
WEEK_MINUTES = 7 * 24 * 60
# As shipped. Of a target's service the months tell in all, not of reads and writes apart.
RULES = {"storage": Rules(("all",), unsure=UNSURE[SLOW_OST]), "forwarding": Rules(FORWARDING.classes, unsure=UNSURE[SLOW_FORWARDING])}
# Middles of an LWFS server's buckets, s, as they are read; the last has no end.
MIDDLES_S = (np.array((0.0, *BOUNDS_S)) + np.array((*BOUNDS_S, BOUNDS_S[-1]))) / 2
# Of a finding: component, first minute, minute after the last, minute in which it was known, and whether it is reported.
COMPONENT, BEGIN, END, FOUND, REPORTED = range(5)


@dataclass
class Score:
    """faults: of each that counts its strength, whether it was found, and how many minutes after its begin (NaN where it was not). right, false, reported_false: findings."""

    faults: np.ndarray
    right: int
    false: int
    reported_false: int

    def f1(self, least: float = 0.0, most: float = np.inf) -> float:
        """Of the faults that are so strong; all that is false counts."""
        of = self.faults[(self.faults[:, 0] >= least) & (self.faults[:, 0] < most)]
        hit = of[:, 1].sum()
        return float(2 * hit / max(len(of) + hit + self.false, 1))


def demand(part: Minutes, layer: str) -> tuple[np.ndarray, np.ndarray]:
    """Requests that a layer's servers were asked for, and how long these took, s, shape (minutes, components)."""
    if layer == "storage":
        return part.targets.read_ops + part.targets.write_ops, part.targets.service_us / 1e6
    node = part.forwarding
    return node.read_ops + node.write_ops + node.metadata_ops, node.service_s.sum(axis=-1)


def served(part: Minutes, layer: str) -> Served:
    """What a layer's servers tell of some minutes, as `pipeline.served` reads it."""
    if layer == "storage":
        of = part.targets
        ops, bytes_, service_s, seen = of.read_ops + of.write_ops, of.read_bytes + of.write_bytes, of.service_us / 1e6, part.seen.targets
        told = [values[..., None].astype(float) for values in (ops, bytes_, service_s)]
    else:
        node, seen = part.forwarding, part.seen.forwarding
        # Of the minute before the first nothing is held.
        before = [[np.pad(values, ((1, 0), (0, 0))) for values in one] for one in ((node.read_ops, node.read_bytes), (node.write_ops, node.write_bytes))]
        size = np.stack([*(mean_sizes(*one) for one in before), np.zeros(seen.shape)], axis=-1)
        count, took_s = node.exe.sum(axis=-1), (node.exe * MIDDLES_S).sum(axis=-1)
        is_known = (count >= BUCKETS_LEAST) & ~np.isnan(size)
        told = [np.where(is_known, values, 0.0) for values in (count, count * np.nan_to_num(size), took_s)]
    keys = [str(number) for number in range(seen.shape[1])]
    return Served(keys, [("", key) for key in keys], *told, seen)


def found_in(month: Month, layer: str) -> np.ndarray:
    """What the detector finds as shipped, shape (findings, 5); times in minutes since the machine began to work."""
    watch, spells = Watch(RULES[layer], 0), list[Spell]()
    for part in month.parts():
        told = served(part, layer)
        # The first day is looked at once it was learnt from.
        while watch.at < part.first + len(told.seen):
            spells += watch.advance(len(told.seen), told)
    at = [(spell.key, spell.episode) for spell in (*spells, *watch.open())]
    return np.array([(int(key), one.begin, one.end, one.found, one.is_reported) for key, one in at], dtype=float).reshape(-1, 5)


def months(folder: Path, seeds: list[int], days: float, faults: str) -> Iterator[Month]:
    """Made where they are not there yet. faults: of thirty days; of fewer in proportion."""
    words = (word.split(":") for word in faults.split(",") if word)
    faults = ",".join(f"{kind}:{max(round(int(count) * min(days / _month.DAYS, 1)), 1)}" for kind, count in words)
    for seed in seeds:
        where = folder / f"{'faults' if faults else 'none'}-{seed}-{days:g}"
        make(where, seed, days, faults=faults)
        yield Month(where)


def found_by(month: Month, layer: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What each way finds in one layer of a month, and whether there was a load, shape (minutes, components)."""
    days, jobs = [], []
    large = _large_jobs.large(month)
    for part in month.parts():
        jobs.append(_by_jobs(part, layer, large, part.seen.targets if layer == "storage" else part.seen.forwarding))
        days.append(demand(part, layer))
    ops, service_s = (np.concatenate(values) for values in zip(*days, strict=True))
    simple = {"beacon": _rules.joined(np.concatenate(jobs)), "z": _rules.z_score(ops, service_s)}
    return {"anomaly": found_in(month, layer), **{name: np.pad(rows, ((0, 0), (0, 1))) for name, rows in simple.items()}}, ops > 0


def _by_jobs(part: Minutes, layer: str, large: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """What Beacon's rule says of each hour, by any of the large jobs, shape (hours, components). seen: shape (minutes, components)."""
    minutes, components = seen.shape
    is_slow = np.zeros((-(-minutes // _rules.HOUR), components), dtype=bool)
    jobs = part.jobs
    of = (jobs.layer == JOB_LAYERS.index(layer)) & np.isin(jobs.job, large)
    job, component, minute, bytes_ = jobs.job[of], jobs.component[of], jobs.minute[of] - part.first, (jobs.read_bytes + jobs.write_bytes)[of]
    key = job.astype(np.int64) << 32 | minute // _rules.HOUR
    order = np.argsort(key, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else []:
        moved = np.zeros((_rules.HOUR, components))
        hour = minute[rows[0]] // _rules.HOUR
        # A job's bytes are those of a minute that the server's agent saw.
        np.add.at(moved, (minute[rows] % _rules.HOUR, component[rows]), np.where(seen[minute[rows], component[rows]], bytes_[rows], 0))
        is_slow[hour] |= _rules.beacon(moved)
    return is_slow


def score(findings: np.ndarray, is_loaded: np.ndarray, faults: list[dict], known: list[dict]) -> Score:
    """findings: shape (findings, 5); is_loaded: shape (minutes, components). faults, known: as the truth tells of them, those of the findings' layer alone."""
    rows = []
    for fault in faults:
        begin, end = fault["begin_s"] / 60, fault["end_s"] / 60
        if is_loaded[int(begin) : int(np.ceil(end)), fault["component"]].sum() >= LOADED_MINUTES:
            hit = findings[[one[COMPONENT] == fault["component"] and _inside(one, [fault]) > 0.5 for one in findings]] if len(findings) else findings
            rows.append((fault["strength"], float(len(hit) > 0), max(hit[:, FOUND].min() + 1 - begin, 0.0) if len(hit) else np.nan))
    right = [_inside(one, faults) > 0.5 for one in findings]
    false = [not is_right and _inside(one, known) <= 0.5 for one, is_right in zip(findings, right, strict=True)]
    reported = sum(bool(one[REPORTED]) for one, is_false in zip(findings, false, strict=True) if is_false)
    return Score(np.array(rows).reshape(-1, 3), int(sum(right)), int(sum(false)), reported)


def _inside(finding: np.ndarray, spans: list[dict]) -> float:
    """What part of a finding lies in those of its component."""
    within = (min(one["end_s"] / 60, finding[END]) - max(one["begin_s"] / 60, finding[BEGIN]) for one in spans if one["component"] == finding[COMPONENT])
    return sum(max(minutes, 0.0) for minutes in within) / (finding[END] - finding[BEGIN])


def scored(month: Month, kind: str) -> tuple[dict[str, Score], int]:
    """Of each way, and how many minutes there are."""
    layer = LAYER_OF[kind]
    found, is_loaded = found_by(month, layer)
    faults = [one for one in month.truth["faults"] if one["kind"] == kind]
    known = [one for one in month.truth["known"] if one["kind"] == "maintenance"] if layer == "forwarding" else []
    return {name: score(findings, is_loaded, faults, known) for name, findings in found.items()}, len(is_loaded)


def scored_large(month: Month) -> dict[str, Score]:
    """Of slow OSTs, within large jobs alone."""
    found, large = _large_jobs.found_by(month), _large_jobs.large(month)
    beacon = _rules.joined(np.concatenate([_by_jobs(part, "storage", large, part.seen.targets) for part in month.parts()]))
    faults = [one for one in month.truth["faults"] if one["kind"] == "slow-ost"]
    return {name: score(findings, found.is_beside, faults, []) for name, findings in (("anomaly", found.findings), ("beacon", np.pad(beacon, ((0, 0), (0, 1)))))}


def _sum(scores: list[Score]) -> Score:
    return Score(np.concatenate([one.faults for one in scores]), *(sum(getattr(one, name) for one in scores) for name in ("right", "false", "reported_false")))


def run() -> list[dict]:
    seeds = [int(word) for word in os.environ.get("BELLROCK_DETECTION_SEEDS", SEEDS).split(",")]
    days = float(os.environ.get("BELLROCK_DETECTION_DAYS", DAYS))
    kept = os.environ.get("BELLROCK_DETECTION_FOLDER")
    with tempfile.TemporaryDirectory() as folder:
        at = Path(kept or folder)
        faulty = list(months(at, seeds, days, FAULTS))
        with_faults = [{kind: scored(month, kind)[0] for kind in LAYER_OF} for month in faulty]
        large = [scored_large(month) for month in faulty]
        interference = sum((_interference.scored(month) for month in faulty), _interference.Counted())
        healthy = [scored(month, kind) for month in months(at, seeds, days, "") for kind in LAYER_OF]
        large_healthy = [scored_large(month) for month in months(at, seeds, days, "")]
        slow_jobs = _slow_jobs_of(at, seeds, days)
    hour_s, minute_s, samples = _hour.hour_s()
    rows = [
        *slow_jobs, {"name": "history_100k_jobs_s", "value": _slow_jobs.history_s(), "unit": "s of processor time; the goal is 60"},
        {"name": "taihulight_hour_s", "value": hour_s, "unit": f"s of processor time for {samples:,} samples of servers, looked at each minute; the goal is 10"},
        {"name": "taihulight_minute_s", "value": minute_s, "unit": "s of processor time, the longest of these looks"},
    ]  # fmt: skip
    by_kind = {kind: {name: _sum([one[kind][name] for one in with_faults]) for name in ("anomaly", "beacon", "z")} for kind in LAYER_OF}
    for kind, of in by_kind.items():
        for least, most in STRENGTHS:
            what = f"{kind.replace('-', '_')}_{least:g}_to_{most:g}x"
            is_so = (of["anomaly"].faults[:, 0] >= least) & (of["anomaly"].faults[:, 0] < most)
            rows += _compared(f"f1_{what}", "F1", of, lambda one, least=least, most=most: one.f1(least, most))
            rows.append({"name": f"faults_{what}", "value": int(is_so.sum()), "unit": "faults under load for 10 minutes"})
        rows += _compared(f"false_{kind.replace('-', '_')}", "findings", of, lambda one: one.false)
    every = {name: _sum([of[name] for of in by_kind.values()]) for name in ("anomaly", "beacon", "z")}
    rows += _compared("f1_2x_and_up", "F1; the goal is 0.95", every, lambda one: one.f1(2.0))
    rows += _compared("delay_median_s", "s from a fault's begin until it is found", every, _delay_s)
    minutes = sum(count for _, count in healthy) / len(LAYER_OF)
    well = {name: _sum([scores[name] for scores, _ in healthy]) for name in ("anomaly", "beacon", "z")}
    rows += _compared("false_findings_per_week_healthy", "findings", well, lambda one: one.false * WEEK_MINUTES / minutes)
    rows += _of_large(*({name: _sum([one[name] for one in of]) for name in ("anomaly", "beacon")} for of in (large, large_healthy)), minutes)
    rows.append({"name": "aggressor_first_pct", "value": 100 * interference.first / max(interference.victims, 1), "unit": "% of jobs slowed by another; the goal is 90"})
    rows.append({"name": "aggressor_blamed_pct", "value": 100 * interference.blamed / max(interference.nobody, 1), "unit": "% of jobs slowed by no other for which one was named"})
    rows.append({"name": "false_reports_per_week_healthy", "value": well["anomaly"].reported_false * WEEK_MINUTES / minutes, "unit": "reports; the goal is 1"})
    return rows


def _slow_jobs_of(folder: Path, seeds: list[int], days: float) -> list[dict]:
    """What is usual of a machine's jobs is that of its month without faults."""
    with_faults, healthy = [], []
    for seed in seeds:
        ((bad,), (well,)) = (list(months(folder, [seed], days, faults)) for faults in (FAULTS, ""))
        usual = _slow_jobs.usual_stretch(well)
        with_faults.append(_slow_jobs.scored(bad, usual))
        healthy.append(_slow_jobs.scored(well, usual))
    return _slow_jobs.rows(with_faults, healthy)


def _of_large(faulty: dict[str, Score], healthy: dict[str, Score], minutes: float) -> Iterator[dict]:
    """Rows of what is found within large jobs, beside Beacon's rule, whose findings count in the same faults."""
    for least, most in (*STRENGTHS, (2.0, np.inf)):
        what = f"{least:g}_to_{most:g}x" if most < np.inf else f"{least:g}x_and_up"
        of = {name: one.faults[(one.faults[:, 0] >= least) & (one.faults[:, 0] < most)] for name, one in faulty.items()}
        if len(of["anomaly"]):
            unit = f"% of {len(of['anomaly'])} faults of OSTs at alike work for large jobs"
            yield {"name": f"large_jobs_recall_{what}_pct", "value": float(100 * of["anomaly"][:, 1].mean()), "unit": unit, "baseline_name": "Beacon's rule", "baseline": float(100 * of["beacon"][:, 1].mean())}
    figures: list[tuple[str, str, dict[str, Score], Callable[[Score], float | None]]] = [
        ("large_jobs_f1_2x_and_up", "F1", faulty, lambda one: one.f1(2.0)), ("large_jobs_false", "findings", faulty, lambda one: one.false),
        ("large_jobs_delay_median_s", "s from a fault's begin until it is found", faulty, _delay_s),
        ("large_jobs_false_per_week_healthy", "findings", healthy, lambda one: one.false * WEEK_MINUTES / minutes),
    ]  # fmt: skip
    for name, unit, told, figure in figures:
        if figure(told["anomaly"]) is not None:
            yield {"name": name, "value": figure(told["anomaly"]), "unit": unit, "baseline_name": "Beacon's rule", "baseline": figure(told["beacon"])}


def _delay_s(one: Score) -> float | None:
    """The median; None where no fault was found."""
    found = one.faults[one.faults[:, 1] > 0, 2]
    return float(np.median(found)) * 60 if len(found) else None


def _compared(name: str, unit: str, of: dict[str, Score], figure: Callable[[Score], float | None]) -> Iterator[dict]:
    """A row, beside Beacon's rule, and another beside the z-score; none where there is no value."""
    if figure(of["anomaly"]) is None:
        return
    for suffix, baseline, other in (("", "Beacon's rule", "beacon"), ("_z", "a z-score", "z")):
        yield {"name": name + suffix, "value": figure(of["anomaly"]), "unit": unit, "baseline_name": baseline, "baseline": figure(of[other])}
