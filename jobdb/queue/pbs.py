"""OpenPBS's and PBS Professional's jobs: of `qstat -x -f -t -F json`. Source: their reference guide; tried with texts of that form, on no real server.

Times there are local ones of the server, without a zone.
"""

import datetime
import json
import re
from collections.abc import Mapping
from typing import Any

from jobdb.queue import (
    CANCELLED, COMPLETED, ENDED, FAILED, OUT_OF_MEMORY, PENDING, RUNNING, SUSPENDED, TIMEOUT, UNKNOWN, QueueJob, QueueTrouble, Read, instant_ns, integer, mapping, read_each, text,
)  # fmt: skip
from jobdb.queue.nodelist import pbs as nodes_of

_STATES = {
    "R": RUNNING, "E": RUNNING, "B": RUNNING, "S": SUSPENDED, "U": SUSPENDED, "Q": PENDING, "H": PENDING, "W": PENDING, "T": PENDING, "M": PENDING,
    "F": COMPLETED, "X": COMPLETED,
}  # fmt: skip
# Jobs that a signal ended have their code above; those that PBS ended at a limit (its job.h: cput, walltime; vmem, mem) below 0, as those that could not begin.
_SIGNALLED = 256
_LIMITS = {-28: TIMEOUT, -29: TIMEOUT, -26: OUT_OF_MEMORY, -27: OUT_OF_MEMORY}
_LINE = re.compile(r'(\s*"(?:[^"\\]|\\.)*":)(.*?)(,?)\s*')


def read(data: bytes, cluster: str = "", zone: datetime.tzinfo | None = None) -> Read:
    """The jobs that have begun of an answer. cluster: where the server's name is not to stand for it. zone: of the server, None: this machine's. Raises
    QueueTrouble where it is no such answer."""
    try:
        found = _parsed(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise QueueTrouble(f"qstat's answer is no JSON: {error}; `qstat -x -f -t -F json` needs PBS 19 or newer") from None
    entries = found.get("Jobs", {}) if isinstance(found, dict) else None
    if not isinstance(entries, dict):
        raise QueueTrouble("qstat's answer has no object `Jobs`")
    server = cluster or str(found.get("pbs_server", ""))
    return read_each(((name, (name, entry)) for name, entry in entries.items()), lambda named: _job(named[0], mapping(named[1], "job"), server, zone))


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
        state = COMPLETED if exit_code == 0 else CANCELLED if exit_code is not None and exit_code >= _SIGNALLED else _LIMITS.get(exit_code, FAILED)
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


def _parsed(data: str) -> Any:
    """JSON with all numbers as texts: qstat writes bare what only looks like one, such as the name of a job, or its account. What is no JSON then (007, nan, a
    backslash in a command) is put right, a line each, as qstat writes it."""
    try:
        return _loads(data)
    except ValueError:
        return _loads("\n".join(map(_mended, data.split("\n"))))


def _loads(data: str) -> Any:
    return json.loads(data, parse_int=str, parse_float=str, parse_constant=str, strict=False)


def _mended(line: str) -> str:
    match = _LINE.fullmatch(line)
    if match is None or match[2] in ("{", "[", "{}", "[]"):
        return line
    name, value, comma = match.groups()
    try:
        _loads(value)
    except ValueError:
        value = json.dumps(value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value)
    return f"{name}{value}{comma}"


def _instant(value: object, what: str, zone: datetime.tzinfo | None) -> int | None:
    if value in (None, "", "0"):
        return None
    if isinstance(value, str) and value.isdecimal():
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
