"""Findings of slow servers: what an episode of `anomaly.slow` says, with what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from anomaly.episodes import LASTING, LASTING_MINUTES, SURE, WORTH, Episode
from anomaly.slow import CLASSES, OTHERS, OTHERS_MINUTES, PEERS, PEERS_MINUTES, SLOW, STOOD_OUT, WEIGHT, Rules, Spell
from jobdb.findings import SEVERITIES, VICTIM, Found

SLOW_OST, SLOW_FORWARDING = "slow-ost", "slow-forwarding-node"
MINUTE_NS = 60 * 10**9
# From so many times the usual an episode that is reported is critical.
CRITICAL_TIMES = 5.0


def found(
    kind: str, called: str, component: str, classes: Sequence[str], spell: Spell, rules: Rules, jobs: Sequence[Mapping[str, Any]] | None = None,
) -> Found:  # fmt: skip
    """The finding of an episode. called: what such a server is, for people. jobs: that were on it, the most of them first, each with its key as "job"; None where that is
    not known."""
    episode, (node, instance) = spell.episode, spell.name
    begin_ns, end_ns = episode.begin * MINUTE_NS, episode.end * MINUTE_NS
    severity = SEVERITIES.index("warning") + (episode.is_reported and episode.mean >= CRITICAL_TIMES)
    cause = f"this {called} took {episode.mean:.3g} times as long as its demand should take, {episode.band}"
    evidence = {
        **_arithmetic(classes, spell), "servers": spell.servers, "loaded_minutes": episode.loaded, "unseen_minutes": episode.unseen, "found_ns": (episode.found + 1) * MINUTE_NS,
        "until_ns": end_ns, "band": episode.band, "peak_bytes_s": spell.peak_bytes_s,
        "bounds": {
            "times": math.exp(WORTH), "times_lasting": math.exp(LASTING), "lasting_minutes": LASTING_MINUTES, "standard_errors": SURE, "times_unsure": math.exp(rules.unsure), "reported_share_of_peak": rules.report.share,
            "reported_minutes": rules.report.minutes,
        },
        "peers": _peers(spell), "series": _series(spell), "jobs": None if jobs is None else list(jobs),
    }  # fmt: skip
    victims = tuple((one["job"], VICTIM) for one in jobs or ())
    return Found(
        kind, f"{spell.key} {begin_ns}", SEVERITIES[severity], begin_ns, end_ns if episode.is_over else None, cause, evidence, node, component, instance, victims, episode.mean,
        episode.is_reported,
    )  # fmt: skip


def _arithmetic(classes: Sequence[str], spell: Spell) -> dict[str, Any]:
    """What the servers' demand should have taken, class by class, and what it took."""
    rows, took_s, should_s = [], 0.0, 0.0
    for number, (name, cost) in enumerate(zip(classes, spell.costs, strict=True)):
        ops, bytes_, service_s = (math.fsum(point[CLASSES + 3 * number + place] for point in spell.series) for place in range(3))
        if cost is None or not ops:
            continue
        expected_s = ops * cost.operation_s + bytes_ * cost.byte_s
        rows.append({"requests": name, "number": ops, "bytes": bytes_, "operation_s": cost.operation_s, "byte_s": cost.byte_s, "should_take_s": expected_s, "took_s": service_s})
        took_s, should_s = took_s + service_s, should_s + expected_s
    episode: Episode = spell.episode
    least = math.exp(math.log(episode.mean) - SURE / math.sqrt(max(math.fsum(point[WEIGHT] for point in spell.series), 1e-12)))
    spread = max((cost.spread for cost in spell.costs if cost is not None), default=None)
    return {
        "demand": rows, "took_s": took_s, "should_take_s": should_s, "times_in_all": took_s / should_s if should_s else None, "times_mean_of_minutes": episode.mean, "times_at_least": least,
        "times_worst_minute": episode.worst, "times_own_level": math.exp(spell.own), "spread_of_minutes": spread,
    }  # fmt: skip


def _peers(spell: Spell) -> dict[str, Any] | None:
    """How it did beside servers that were asked for alike amounts in the same minute; None where there was none in any."""
    peers, minutes, stood_out = (math.fsum(point[place] for point in spell.series) for place in (PEERS, PEERS_MINUTES, STOOD_OUT))
    return {"mean": peers / minutes, "minutes": round(minutes), "stood_out_minutes": round(stood_out), "stood_out_share": stood_out / minutes} if minutes else None


def _series(spell: Spell) -> list[dict[str, Any]]:
    """Slowness over time, beside the median of the others'; points without load are left out."""
    begin = spell.episode.begin
    return [
        {
            "t_ns": (begin + number * spell.step) * MINUTE_NS, "times": math.exp(point[SLOW] / point[WEIGHT]),
            "others": math.exp(point[OTHERS] / point[OTHERS_MINUTES]) if point[OTHERS_MINUTES] else None,
        }
        for number, point in enumerate(spell.series) if point[WEIGHT] > 0
    ]  # fmt: skip

