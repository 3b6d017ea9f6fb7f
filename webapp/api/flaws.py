"""What an audit tells: pure functions from what the store and the agents say to a report for a person.

A flaw is of the records: they are not all there (severity "missing"), or something about them is worth a look ("note"). A finding is of a job.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import certificate
from pipeline.store import CONFLICT, Letters, Proof
from pipeline.store.mark import Gap, Key, Mark
from pipeline.store.parts import Part

from .losses import LOSSES, lost, whole

# An agent that runs sends a sample every few seconds; one that was not heard of for so long is silent.
SILENT_S = 300
# A clock that is further from the server's is told.
CLOCK_OFFSET_S_MAX = 300
# Flaws and boots that a report lists; all are counted.
FLAWS_MAX = 1000
GAPS_LISTED_MAX = 64
# Of what retention has dropped, a report lists the last.
DROPPED_MAX = 200

_SECOND = 10**9


def report(
    marks: Sequence[tuple[Key, Mark]],
    letters: Sequence[Letters],
    told: Mapping[Key, Mapping[str, float]],
    proof: Proof | None,
    *,
    now_ns: int,
    since_ns: int,
    silent_s: int,
    limit: int,
    boots_total: int,
    server_certificate: Mapping[str, Any] | None = None,
    dropped: Sequence[Part] = (),
    dropped_letters: Mapping[Key, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """The report of an audit, as /api/v1/audit answers it: `boots` are those with a flaw first, then the last heard of, `limit` at most.

    marks: the last heard of first, each node's newest always among them; of `boots_total` boots, which are more where there are too many to be
    looked at. told: what agents count (losses.TOLD) since `since_ns`, by boot. proof: None where rows were not counted. server_certificate: see
    pipeline.tls.Certificates.status; None without TLS. dropped, dropped_letters: what retention dropped on purpose, and by boot how many letters and conflicts.
    """
    states = _states(marks, now_ns, silent_s)
    # What is of all comes first: no list may cut it off.
    flaws = _of_cut(len(marks), boots_total) + _of_certificate(server_certificate, now_ns)
    boots = []
    for key, mark in marks:
        gaps = [gap for gap in mark.gaps if gap.until_ns >= since_ns]
        found = _of_boot(key, mark, gaps, told.get(key, {}), states[key], now_ns)
        flaws += found
        boots.append((not found, _boot_json(key, mark, gaps, told.get(key, {}), states[key])))
    # What a mark counts bears no time.
    flaws += [] if since_ns else _of_dropped_letters(marks, letters, dropped_letters or {})
    flaws += _at_once(marks) + _of_letters(letters) + ([] if proof is None else _of_proof(proof))
    # Sorting keeps the order of what is alike.
    flaws.sort(key=lambda flaw: flaw["severity"] != "missing")
    boots.sort(key=lambda entry: entry[0])
    return {
        "now_ns": now_ns,
        "since_ns": since_ns,
        "complete": boots_total <= len(marks),
        "clean": all(flaw["severity"] != "missing" for flaw in flaws),
        "flaws": flaws[:FLAWS_MAX],
        "flaws_total": len(flaws),
        "boots": [boot for _, boot in boots[:limit]],
        "boots_total": max(boots_total, len(marks)),
        "dead_letters": [_letters_json(line) for line in letters],
        "dropped": [part.json() for part in dropped[:DROPPED_MAX]],
        "proof": None if proof is None else _proof_json(proof),
    }


def _states(marks: Sequence[tuple[Key, Mark]], now_ns: int, silent_s: int) -> dict[Key, str]:
    states, seen = {}, set()
    for key, mark in marks:
        if key[0] in seen:
            states[key] = "replaced"
        elif mark.ended:
            states[key] = "ended"
        else:
            states[key] = "silent" if now_ns - mark.last_ns > silent_s * _SECOND else "heard"
        seen.add(key[0])
    return states


def _of_boot(key: Key, mark: Mark, gaps: list[Gap], told: Mapping[str, float], state: str, now_ns: int) -> list[dict]:
    found = []
    if gaps:
        missing = sum(gap.missing for gap in gaps)
        text = f"{_count(missing, 'record')} never came: numbers {_ranges(gaps)}"
        found.append(_flaw("gap", key, text, "the node's disk or the way here lost them; look at the agent's log for torn or damaged spool entries"))
    for name, what in LOSSES.items():
        if told.get(name, 0) > 0:
            text = f"the agent tells of {whole(told[name]):,} {what}"
            found.append(_flaw(name, key, text, "figures of jobs that ran there then may be too low; the agent's log says why"))
    if state == "silent":
        text = f"the agent has been silent for {_span((now_ns - mark.last_ns) / _SECOND)}, and did not say that it ends"
        found.append(_flaw("silent", key, text, "look there with `systemctl status bellrock-agent`; what it has seen waits in its spool"))
    if state == "replaced" and not mark.ended:
        text = "a newer boot took its place, and it did not say that it ends: whether all that its spool held came is not known"
        found.append(_note("replaced", key, text, "it ends so where a machine crashes; if its spool is left somewhere, run an agent on it"))
    offset_s = (mark.clock_offset_ns or 0) / _SECOND
    if abs(offset_s) > CLOCK_OFFSET_S_MAX and state in ("heard", "silent"):
        way = "ahead of the server's" if offset_s > 0 else "behind the server's, or its records come that late"
        found.append(_note("clock", key, f"the node's clock is {_span(abs(offset_s))} {way}", "see to it that both run NTP: `timedatectl`"))
    if mark.late:
        found.append(_note("late", key, f"{_count(mark.late, 'record')} came more than a day after their end; they are kept, each under its own day", ""))
    if told.get("spool_full_seconds", 0) > 0:
        text = f"the spool was full, or could not be written, for {_span(told['spool_full_seconds'])}: the rings were not read meanwhile"
        found.append(_note("spool_full", key, text, "look at the spool's disk with `df`, and why the server did not take its records; else give the agent a larger spool_max_bytes"))
    if told.get("folded", 0) > 0:
        text = f"{_count(whole(told['folded']), 'operation')} were folded: their counts and bytes are exact, single times and offsets are not"
        found.append(_note("folded", key, text, ""))
    return found


def _at_once(marks: Sequence[tuple[Key, Mark]]) -> list[dict]:
    """Boots of one node that brought new records in turn: an agent's boots come one after the other."""
    found = []
    latest: dict[str, tuple[Key, Mark]] = {}
    for key, mark in sorted(marks, key=lambda entry: entry[1].first_ns):
        before = latest.get(key[0])
        if before is not None and mark.first_ns < before[1].last_ns:
            text = f"boots {before[0][1]:016x} and {key[1]:016x} came at the same time: two agents call themselves {key[0]}"
            found.append(_note("two_agents", key, text, "give each machine a name of its own (`node` in agent.toml), and each one agent"))
        if before is None or mark.last_ns > before[1].last_ns:
            latest[key[0]] = (key, mark)
    return found


def _of_letters(letters: Sequence[Letters]) -> list[dict]:
    found = []
    for line in letters:
        key = None if line.node is None or line.boot is None else (line.node, line.boot)
        if line.cause == CONFLICT:
            found.append(_conflict(key, line.count))
        else:
            text = f"{_count(line.count, 'record')}{'' if key else ' without an id'} became dead letters: {line.reason}"
            found.append(_flaw("dead_letters", key, text, "`bellrock audit --json` shows the newest as it came"))
    return found


def _of_dropped_letters(marks: Sequence[tuple[Key, Mark]], letters: Sequence[Letters], dropped: Mapping[Key, tuple[int, int]]) -> list[dict]:
    """What the marks count beyond the letters, of which only the newest are kept and listed; and how many retention dropped."""
    listed: dict[tuple[Key, bool], int] = {}
    for line in letters:
        if line.node is not None and line.boot is not None:
            which = ((line.node, line.boot), line.cause == CONFLICT)
            listed[which] = listed.get(which, 0) + line.count
    found = []
    for key, mark in marks:
        gone_letters, gone_conflicts = dropped.get(key, (0, 0))
        if gone_letters + gone_conflicts:
            found.append(_note("letters_dropped", key, f"{_count(gone_letters + gone_conflicts, 'dead letter')} went with retention", ""))
        conflicts = mark.conflicts - listed.get((key, True), 0) - gone_conflicts
        others = mark.letters - listed.get((key, False), 0) - gone_letters
        if conflicts > 0:
            found.append(_conflict(key, conflicts))
        if others > 0:
            text = f"{_count(others, 'record')} became dead letters that are not kept any more, or not listed"
            found.append(_flaw("dead_letters", key, text, "what comes of the same cause is still listed; `bellrock audit --node` lists one node's"))
    return found


def _conflict(key: Key | None, count: int) -> dict:
    text = f"{_count(count, 'record')} came with a number that another record had before: two agents have the same boot id"
    hint = "a machine was cloned while its agent ran: stop one of the two agents, empty its spool directory, and start it again"
    return _flaw("conflict", key, text, hint)


def _of_proof(proof: Proof) -> list[dict]:
    found = []
    for key, (expected, rows, distinct) in proof.boots.items():
        if rows != distinct:
            found.append(_flaw("rows_twice", key, f"{rows - distinct:,} rows are there twice", _DAMAGE))
        if distinct != expected:
            found.append(_flaw("rows", key, f"there are {distinct:,} rows where there should be {expected:,}", _DAMAGE))
    return found


def _of_cut(looked_at: int, total: int) -> list[dict]:
    """Who has not looked at everything cannot say that nothing is missing."""
    if total <= looked_at:
        return []
    text = f"this audit is incomplete: of {total:,} spools it has looked at the {looked_at:,} that were heard of last"
    return [_flaw("incomplete", None, text, "leave those out that ended long ago with `bellrock audit --since 30d`, or ask node by node with `--node`")]


def _of_certificate(found: Mapping[str, Any] | None, now_ns: int) -> list[dict]:
    """Agents check the server's certificate whenever they connect: once it has ended, what they see waits in their spools."""
    warning = None if found is None else certificate.warning(found["file"], found["ends_ns"] / _SECOND, now_ns / _SECOND)
    if warning is None:
        return []
    return [_flaw("certificate", None, *warning, "missing" if now_ns >= found["ends_ns"] else "note")]


_DAMAGE = "the store's file is damaged or was changed by hand: put it aside, keep the spools, and tell Bellrock's makers"


def _flaw(kind: str, key: Key | None, text: str, hint: str, severity: str = "missing") -> dict:
    node, boot = key if key is not None else (None, None)
    return {"kind": kind, "severity": severity, "node": node, "boot": None if boot is None else f"{boot:016x}", "text": text, "hint": hint}


def _note(kind: str, key: Key, text: str, hint: str) -> dict:
    return _flaw(kind, key, text, hint, "note")


def _boot_json(key: Key, mark: Mark, gaps: list[Gap], told: Mapping[str, float], state: str) -> dict:
    return {
        "node": key[0],
        "boot": f"{key[1]:016x}",
        "state": state,
        "seq": mark.seq,
        "missing": sum(gap.missing for gap in gaps),
        "gaps": [{"first": gap.first, "last": gap.last, "missing": gap.missing} for gap in gaps[:GAPS_LISTED_MAX]],
        "duplicates": mark.duplicates,
        "dead_letters": mark.letters,
        "conflicts": mark.conflicts,
        "late": mark.late,
        "lost": lost(told),
        "first_append_ns": mark.first_ns,
        "last_append_ns": mark.last_ns,
        "clock_offset_s": None if mark.clock_offset_ns is None else mark.clock_offset_ns / _SECOND,
        "told": {name: value for name, value in told.items() if value},
    }


def _letters_json(line: Letters) -> dict:
    return {
        "node": line.node,
        "boot": None if line.boot is None else f"{line.boot:016x}",
        "cause": line.cause,
        "count": line.count,
        "first_ns": line.first_ns,
        "last_ns": line.last_ns,
        "seq": line.seq,
        "reason": line.reason,
        "raw": line.raw,
    }


def _proof_json(proof: Proof) -> dict:
    return {
        "boots": len(proof.boots),
        "rows": sum(rows for _, rows, _ in proof.boots.values()),
        "days": [{"day": day, "rows": rows} for day, rows in proof.days.items()],
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _ranges(gaps: list[Gap], shown: int = 8) -> str:
    """ "3, 5 to 9, 7 of 20 to 90"."""
    parts = []
    for gap in gaps[-shown:]:
        span = f"{gap.first}" if gap.first == gap.last else f"{gap.first} to {gap.last}"
        parts.append(f"{gap.missing} of {span}" if gap.is_merged else span)
    return ("… " if len(gaps) > shown else "") + ", ".join(parts)


def _span(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "less than 1 s"
