"""OpenPBS's and PBS Professional's jobs: of `qstat -x -f -t -F json`. Source: their reference guide; tried with texts of that form, on no real server.

Times there are local ones of the server, without a zone.
"""

import datetime
from collections.abc import Mapping
from typing import Any

import orjson

from jobdb.queue import (
    CANCELLED, COMPLETED, ENDED, FAILED, PENDING, RUNNING, SUSPENDED, UNKNOWN, Problem, QueueJob, QueueTrouble, Read, instant_ns, integer, mapping, problem, text,
)  # fmt: skip
from jobdb.queue.nodelist import pbs as nodes_of

_STATES = {
    "R": RUNNING, "E": RUNNING, "B": RUNNING, "S": SUSPENDED, "U": SUSPENDED, "Q": PENDING, "H": PENDING, "W": PENDING, "T": PENDING, "M": PENDING,
    "F": COMPLETED, "X": COMPLETED,
}  # fmt: skip
# Jobs that a signal ended have their code above.
_SIGNALLED = 256


def read(data: bytes, cluster: str = "", zone: datetime.tzinfo | None = None) -> Read:
    """The jobs that have begun of an answer. cluster: where the server's name is not to stand for it. zone: of the server, None: this machine's. Raises
    QueueTrouble where it is no such answer."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise QueueTrouble(f"qstat's answer is no JSON: {error}; `qstat -x -f -t -F json` needs PBS 19 or newer") from None
    entries = found.get("Jobs", {}) if isinstance(found, dict) else None
    if not isinstance(entries, dict):
        raise QueueTrouble("qstat's answer has no object `Jobs`")
    server = cluster or str(found.get("pbs_server", ""))
    jobs: list[QueueJob] = []
    problems: list[Problem] = []
    for name, entry in entries.items():
        try:
            job = _job(name, mapping(entry, "job"), server, zone)
        except ValueError as error:
            problems.append(problem(name, error))
            continue
        if job is not None:
            jobs.append(job)
    return jobs, problems


def _job(name: str, of: Mapping[str, Any], cluster: str, zone: datetime.tzinfo | None) -> QueueJob | None:
    state = _STATES.get(text(of.get("job_state"), "job_state"), UNKNOWN)
    nodes, start_ns = nodes_of(text(of.get("exec_host"), "exec_host")), _instant(of.get("stime"), "stime", zone)
    # An array as a whole runs nowhere: its parts do.
    if state == PENDING or start_ns is None or not nodes:
        return None
    resources, used = mapping(of.get("Resource_List"), "Resource_List"), mapping(of.get("resources_used"), "resources_used")
    exit_code = None if of.get("Exit_status") is None else integer(of["Exit_status"], "Exit_status", least=-(1 << 31))
    end_ns = None
    if state in ENDED:
        end_ns = _instant(of.get("obittime") or of.get("mtime"), "mtime", zone)
        if end_ns is None and used.get("walltime"):
            end_ns = start_ns + _duration_s(text(used["walltime"], "walltime")) * 10**9
        state = COMPLETED if exit_code == 0 else CANCELLED if exit_code is not None and (exit_code < 0 or exit_code >= _SIGNALLED) else FAILED
    submit_ns = _instant(of.get("ctime") or of.get("qtime"), "ctime", zone)
    if submit_ns is None:
        raise ValueError("ctime: the time of its submission is missing")
    array = text(of.get("array_id"), "array_id")
    project = text(of.get("project"), "project")
    return QueueJob(
        cluster=cluster, job_id=name, claims=(name,), submit_ns=submit_ns, array=array.partition("[")[0] if array else "",
        user=text(of.get("euser"), "euser") or text(of.get("Job_Owner"), "Job_Owner").partition("@")[0],
        project=text(of.get("Account_Name"), "Account_Name") or ("" if project == "_pbs_project_default" else project), name=text(of.get("Job_Name"), "Job_Name"),
        queue=text(of.get("queue"), "queue"), state=state, start_ns=start_ns, end_ns=end_ns, exit_code=exit_code, nodes=nodes,
        cores=None if resources.get("ncpus") is None else integer(resources["ncpus"], "ncpus"),
        restarts=max(0, integer(of.get("run_count", 1), "run_count") - 1),
    )  # fmt: skip


def _instant(value: object, what: str, zone: datetime.tzinfo | None) -> int | None:
    if value in (None, "", 0):
        return None
    if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
        return instant_ns(integer(value, what), what)
    try:
        when = datetime.datetime.strptime(text(value, what), "%a %b %d %H:%M:%S %Y")
    except ValueError:
        raise ValueError(f"{what}: {str(value)[:40]!a} is no time such as 'Mon Nov 22 10:00:00 2026'") from None
    return instant_ns(int(when.replace(tzinfo=zone).timestamp() if zone else when.timestamp()), what)


def _duration_s(value: str) -> int:
    seconds = 0
    for part in value.split(":"):
        seconds = seconds * 60 + integer(part, "walltime")
    return seconds
