"""Jobs out of a table with Beacon's columns (JOB_log): JOBID, JOB_NAME, PROGRAM_NAME, USER, STATE, QUEUE, STARTTIME, ENDTIME, RUNTIME, CNC, CORE, COREHOUR,
NODELIST, in any order and of either case; SUBMITTIME, UID, PROJECT, CLUSTER and EXITCODE besides, where a site has them. A site without a queue that is known here
writes such a table.

Times are seconds since the epoch, or "2018-02-25 18:00:12", UTC unless another zone is given.
"""

import csv
import datetime
import io
from collections.abc import Mapping

from jobdb.queue import CANCELLED, COMPLETED, ENDED, FAILED, PENDING, RUNNING, UNKNOWN, Problem, QueueJob, QueueTrouble, Read, instant_ns, integer, problem
from jobdb.queue.nodelist import beacon, slurm

NEEDED = ("JOBID", "USER", "STARTTIME", "NODELIST")
_STATES = {
    "DONE": COMPLETED, "COMPLETED": COMPLETED, "FINISHED": COMPLETED, "END": COMPLETED, "EXIT": FAILED, "FAILED": FAILED, "RUN": RUNNING, "RUNNING": RUNNING,
    "PEND": PENDING, "PENDING": PENDING, "KILLED": CANCELLED, "CANCELLED": CANCELLED,
}  # fmt: skip


def read(data: str, cluster: str = "", prefix: str = "", zone: datetime.tzinfo = datetime.UTC) -> Read:
    """The jobs of a table that have begun. prefix: of the nodes' names, whose lists give their numbers alone. Raises QueueTrouble where the first line lacks a
    column that is needed."""
    rows = csv.DictReader(io.StringIO(data.lstrip("\ufeff")))
    try:
        names = {name: (name or "").strip().upper() for name in rows.fieldnames or ()}
    except csv.Error as error:
        raise QueueTrouble(f"the table cannot be read: {error}") from None
    missing = [name for name in NEEDED if name not in names.values()]
    if missing:
        raise QueueTrouble(f"the table's first line has no column {', '.join(missing)}; it has {', '.join(names.values())[:300] or 'nothing'}")
    jobs: list[QueueJob] = []
    problems: list[Problem] = []
    try:
        for row in rows:
            try:
                if None in row:
                    raise ValueError("more fields than the first line")
                job = _job({names[name]: (value or "").strip() for name, value in row.items()}, cluster, prefix, zone)
            except ValueError as error:
                problems.append(problem(f"line {rows.line_num}", error))
                continue
            if job is not None:
                jobs.append(job)
    except csv.Error as error:
        problems.append(problem(f"line {rows.line_num}", f"{error}; nothing after it was read"))
    return jobs, problems


def _job(row: Mapping[str, str], cluster: str, prefix: str, zone: datetime.tzinfo) -> QueueJob | None:
    start_ns = _instant(row["STARTTIME"], "STARTTIME", zone)
    if not row["JOBID"]:
        raise ValueError("JOBID is empty")
    if start_ns is None:
        return None
    end_ns = _instant(row.get("ENDTIME", ""), "ENDTIME", zone)
    state = _STATES.get(row.get("STATE", "").upper(), UNKNOWN)
    if state == UNKNOWN:
        state = COMPLETED if end_ns is not None else RUNNING
    if state == PENDING:
        return None
    if end_ns is not None and end_ns < start_ns:
        raise ValueError("ENDTIME is before STARTTIME")
    nodes = row["NODELIST"]
    return QueueJob(
        cluster=row.get("CLUSTER", "") or cluster, job_id=row["JOBID"], claims=(row["JOBID"],), submit_ns=_instant(row.get("SUBMITTIME", ""), "SUBMITTIME", zone) or start_ns,
        user=row["USER"], uid=integer(row["UID"], "UID", most=(1 << 32) - 1) if row.get("UID") else None, project=row.get("PROJECT", ""),
        name=row.get("PROGRAM_NAME") or row.get("JOB_NAME", ""), queue=row.get("QUEUE", ""), state=state, start_ns=start_ns,
        end_ns=end_ns if state in ENDED else None, exit_code=integer(row["EXITCODE"], "EXITCODE") if row.get("EXITCODE") else None,
        nodes=slurm(nodes) if any(letter.isalpha() for letter in nodes) else beacon(nodes, prefix), cores=integer(row["CORE"], "CORE") if row.get("CORE") else None,
    )  # fmt: skip


def _instant(value: str, what: str, zone: datetime.tzinfo) -> int | None:
    if value in ("", "0", "-"):
        return None
    if value.isdigit():
        return instant_ns(int(value), what)
    try:
        when = datetime.datetime.fromisoformat(value.replace("/", "-"))
    except ValueError:
        raise ValueError(f"{what}: {value[:40]!a} is no time: take 2018-02-25 18:00:12, or seconds since the epoch") from None
    return instant_ns(int((when if when.tzinfo else when.replace(tzinfo=zone)).timestamp()), what)
