"""LSF's jobs: of `bjobs -u all -a -json -o FORMAT`. Source: its reference; tried with texts of that form, on no real LSF.

Its times bear a year where LSB_DISPLAY_YEAR is set, and may bear a letter behind; those without one are taken for the last ones before now.
"""

import datetime
import re
from collections.abc import Mapping
from typing import Any

import orjson

from jobdb.queue import (
    CANCELLED, COMPLETED, ENDED, FAILED, OUT_OF_MEMORY, PENDING, RUNNING, SUSPENDED, TIMEOUT, UNKNOWN, QueueJob, QueueTrouble, Read, instant_ns, integer,
    mapping, parsed, read_each, text,
)  # fmt: skip
from jobdb.queue.nodelist import lsf as nodes_of

FORMAT = "jobid jobindex user stat queue proj_name exec_host nalloc_slot submit_time start_time finish_time exit_code exit_reason job_name"
STATES = {
    "RUN": RUNNING, "PEND": PENDING, "WAIT": PENDING, "PSUSP": PENDING, "USUSP": SUSPENDED, "SSUSP": SUSPENDED, "DONE": COMPLETED, "EXIT": FAILED, "ZOMBI": FAILED,
}  # fmt: skip
# Why LSF itself ended a job, by the word that its reason begins with.
_REASONS = {
    "TERM_RUNLIMIT": TIMEOUT, "TERM_CPULIMIT": TIMEOUT, "TERM_DEADLINE": TIMEOUT, "TERM_WINDOW": TIMEOUT, "TERM_MEMLIMIT": OUT_OF_MEMORY, "TERM_SWAP": OUT_OF_MEMORY,
    "TERM_OWNER": CANCELLED, "TERM_ADMIN": CANCELLED, "TERM_FORCE_OWNER": CANCELLED, "TERM_FORCE_ADMIN": CANCELLED,
}  # fmt: skip
# Codes of jobs that a signal ended that people send, where no reason is told: 128 and its number.
_KILLED = frozenset((130, 137, 143))
_TIME = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (\d{1,2}):(\d{2})(?::(\d{2}))?(?: (\d{4}))?(?: [A-Z])?", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY_S = 86_400
# Between two 29ths of February lie at most eight years.
_YEARS = 9


def read(data: bytes, now_s: float, cluster: str = "", zone: datetime.tzinfo | None = None) -> Read:
    """The jobs that have begun of an answer. now_s: when it was given, s since the epoch. zone: of the machine that gave it, None: this one's. Raises
    QueueTrouble where it is no such answer."""
    try:
        found = parsed(data)
    except orjson.JSONDecodeError as error:
        raise QueueTrouble(f"bjobs's answer is no JSON: {error}; `bjobs -json -o` needs LSF 10.1") from None
    entries = found.get("RECORDS") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise QueueTrouble("bjobs's answer has no list `RECORDS`")
    named = ((entry.get("JOBID") if isinstance(entry, dict) else entry, entry) for entry in entries)
    return read_each(named, lambda entry: _job(mapping(entry, "record"), now_s, cluster, zone))


def _job(of: Mapping[str, Any], now_s: float, cluster: str, zone: datetime.tzinfo | None) -> QueueJob | None:
    if of.get("ERROR"):
        raise ValueError(text(of["ERROR"], "ERROR"))
    state = STATES.get(text(of.get("STAT"), "STAT"), UNKNOWN)
    nodes = nodes_of(text(of.get("EXEC_HOST"), "EXEC_HOST"))
    start_ns = _instant(text(of.get("START_TIME"), "START_TIME"), "START_TIME", now_s, zone)
    if state == PENDING or start_ns is None or not nodes:
        return None
    number, index = str(integer(of.get("JOBID"), "JOBID", least=1)), integer(of.get("JOBINDEX") or 0, "JOBINDEX")
    code = text(of.get("EXIT_CODE"), "EXIT_CODE")
    exit_code = integer(code, "EXIT_CODE") if code not in ("", "-") else 0 if state == COMPLETED else None
    submit_ns = _instant(text(of.get("SUBMIT_TIME"), "SUBMIT_TIME"), "SUBMIT_TIME", now_s, zone)
    if submit_ns is None:
        raise ValueError("SUBMIT_TIME: the time of its submission is missing")
    slots = text(of.get("NALLOC_SLOT"), "NALLOC_SLOT")
    name = f"{number}[{index}]" if index else number
    return QueueJob(
        cluster=cluster, job_id=name, claims=(name,), array=number if index else "", submit_ns=submit_ns,
        user=text(of.get("USER"), "USER"), project=text(of.get("PROJ_NAME") or of.get("PROJECT"), "PROJ_NAME"), name=text(of.get("JOB_NAME"), "JOB_NAME"), queue=text(of.get("QUEUE"), "QUEUE"),
        state=_ended(state, exit_code, text(of.get("EXIT_REASON"), "EXIT_REASON")), start_ns=start_ns,
        end_ns=_instant(text(of.get("FINISH_TIME"), "FINISH_TIME"), "FINISH_TIME", now_s, zone) if state in ENDED else None,
        exit_code=exit_code if state in ENDED else None, nodes=nodes, cores=integer(slots, "NALLOC_SLOT") if slots not in ("", "-") else None,
    )  # fmt: skip


def _ended(state: str, exit_code: int | None, reason: str) -> str:
    if state != FAILED:
        return state
    return _REASONS.get(reason.partition(":")[0].partition(" ")[0]) or (CANCELLED if exit_code in _KILLED else FAILED)


def _instant(value: str, what: str, now_s: float, zone: datetime.tzinfo | None) -> int | None:
    if value in ("", "-"):
        return None
    if value.isdigit():
        return instant_ns(int(value), what)
    match = _TIME.fullmatch(value.strip())
    if match is None or match[1] not in _MONTHS:
        raise ValueError(f"{what}: {value[:40]!a} is no time such as 'Nov 22 10:00'")
    fields = (_MONTHS.index(match[1]) + 1, int(match[2]), int(match[3]), int(match[4]), int(match[5] or 0))
    last = datetime.datetime.fromtimestamp(now_s + _DAY_S, zone).year
    for year in (int(match[6]),) if match[6] else range(last, last - _YEARS, -1):
        try:
            when = datetime.datetime(year, *fields, tzinfo=zone)
        except ValueError:
            continue  # the 29th of February is of another year
        if match[6] or when.timestamp() <= now_s + _DAY_S:
            return instant_ns(int(when.timestamp()), what)
    raise ValueError(f"{what}: {value[:40]!a} is no time")
