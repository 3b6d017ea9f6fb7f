"""Jobs out of a table with Beacon's columns (JOB_log): JOBID, JOB_NAME, PROGRAM_NAME, USER, STATE, QUEUE, STARTTIME, ENDTIME, RUNTIME, CNC, CORE, COREHOUR,
NODELIST, in any order and of either case; SUBMITTIME, UID, PROJECT, CLUSTER and EXITCODE besides, where a site has them. A site without a queue that is known here
writes such a table.

Times are seconds since the epoch, or "2018-02-25 18:00:12", UTC unless another zone is given.
"""

import csv
import datetime
from collections.abc import Mapping

from jobdb.queue import CANCELLED, COMPLETED, ENDED, PENDING, RUNNING, UNKNOWN, QueueJob, QueueTrouble, Read, instant_ns, integer, lsf, read_each, slurm
from jobdb.queue.nodelist import beacon
from jobdb.queue.nodelist import slurm as hostlist

NEEDED = ("JOBID", "USER", "STARTTIME", "NODELIST")
# Beside the words of Slurm and LSF, whose sites write such tables, too.
_STATES = {"FINISHED": COMPLETED, "END": COMPLETED, "KILLED": CANCELLED, "CANCELED": CANCELLED, **lsf.STATES}
_NONE = frozenset(("", "0", "-", "NULL", "\\N", "NONE", "UNKNOWN", "0000-00-00 00:00:00"))
# All numbers of the largest machine, written out.
FIELD_CHARACTERS_MAX = 4 << 20


def read(data: str, cluster: str = "", prefix: str = "", zone: datetime.tzinfo = datetime.UTC) -> Read:
    """The jobs of a table that have begun. prefix: of the nodes' names, whose lists give their numbers alone. Raises QueueTrouble where the first line lacks a
    column that is needed."""
    csv.field_size_limit(FIELD_CHARACTERS_MAX)
    # A line each: a quote that is left open costs one row, not all after it.
    lines = data.lstrip("\ufeff").split("\n")
    try:
        names = [name.strip().upper() for name in _fields(lines[0])]
    except ValueError as error:
        raise QueueTrouble(f"the table cannot be read: {error}") from None
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise QueueTrouble(f"the table's first line has no column {', '.join(missing)}; it has {ascii(', '.join(names))[:300] or 'nothing'}")

    def read_line(line: str) -> QueueJob | None:
        values = _fields(line)
        if not values:
            return None
        if len(values) != len(names):
            raise ValueError(f"{len(values)} fields; the first line has {len(names)}")
        return _job({name: value.strip() for name, value in zip(names, values, strict=True)}, cluster, prefix, zone)

    return read_each(((f"line {number}", line) for number, line in enumerate(lines[1:], 2)), read_line)


def _fields(line: str) -> list[str]:
    """Of one line, none where it is empty. Raises ValueError."""
    try:
        return next(csv.reader([line.rstrip("\r")], strict=True), [])
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _job(row: Mapping[str, str], cluster: str, prefix: str, zone: datetime.tzinfo) -> QueueJob | None:
    start_ns = _instant(row["STARTTIME"], "STARTTIME", zone)
    if not row["JOBID"]:
        raise ValueError("JOBID is empty")
    if start_ns is None:
        return None
    end_ns = _instant(row.get("ENDTIME", ""), "ENDTIME", zone)
    state = _state(row.get("STATE", ""), end_ns is not None)
    if state == PENDING:
        return None
    if end_ns is not None and end_ns < start_ns:
        raise ValueError("ENDTIME is before STARTTIME")
    listed = row["NODELIST"]
    nodes = hostlist(listed) if any(letter.isalpha() for letter in listed) else beacon(listed, prefix)
    if not nodes:
        raise ValueError("NODELIST is empty")
    return QueueJob(
        cluster=row.get("CLUSTER", "") or cluster, job_id=row["JOBID"], claims=(row["JOBID"],), submit_ns=_instant(row.get("SUBMITTIME", ""), "SUBMITTIME", zone) or start_ns,
        user=row["USER"], uid=integer(row["UID"], "UID", most=(1 << 32) - 1) if row.get("UID") else None, project=row.get("PROJECT", ""),
        name=row.get("PROGRAM_NAME") or row.get("JOB_NAME", ""), queue=row.get("QUEUE", ""), state=state, start_ns=start_ns,
        end_ns=end_ns if state in ENDED or state == UNKNOWN else None, nodes=nodes,
        exit_code=integer(row["EXITCODE"].partition(":")[0], "EXITCODE", least=-(1 << 31)) if row.get("EXITCODE") else None, cores=integer(row["CORE"], "CORE") if row.get("CORE") else None,
    )  # fmt: skip


def _state(word: str, has_ended: bool) -> str:
    """What a word says; where there is none, whether it has ended."""
    if not word:
        return COMPLETED if has_ended else RUNNING
    return _STATES.get(word.upper()) or slurm.state_of(word)


def _instant(value: str, what: str, zone: datetime.tzinfo) -> int | None:
    if value.upper() in _NONE:
        return None
    if value.isdecimal():
        return instant_ns(int(value), what)
    try:
        when = datetime.datetime.fromisoformat(value.replace("/", "-"))
    except ValueError:
        raise ValueError(f"{what}: {value[:40]!a} is no time: take 2018-02-25 18:00:12, or seconds since the epoch") from None
    return instant_ns(int((when if when.tzinfo else when.replace(tzinfo=zone)).timestamp()), what)
