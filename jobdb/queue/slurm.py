"""Slurm's jobs: of `squeue --json`, `scontrol show job --json` and `sacct --json`, whose words changed from 22.05 to 23.02 and since, and of `sacct -P`, which every
version has. Source: Slurm's own pages (squeue, sacct, rest_api) and what 22.05 writes.

`squeue` gives the end that a running job is expected to have, `sacct` those of requeued runs (`--duplicates`) and all that has ended.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from jobdb.queue import (
    CANCELLED, COMPLETED, ENDED, FAILED, NODE_FAIL, OUT_OF_MEMORY, PENDING, PREEMPTED, REQUEUED, RUNNING, STEPS_MAX, SUSPENDED, TIMEOUT, UNKNOWN,
    Problem, QueueJob, QueueTrouble, Read, Step, instant_ns, integer, mapping, parsed, problem, read_each, sequence, text,
)  # fmt: skip
from jobdb.queue.nodelist import slurm as nodes_of

# What `sacct` is asked for, in this order, what users write last; times as seconds since the epoch (SLURM_TIME_FORMAT=%s).
FIELDS = (
    "JobID", "JobIDRaw", "Cluster", "User", "UID", "Account", "Partition", "State", "Submit", "Start", "End", "Suspended", "ExitCode", "NCPUS", "NTasks", "NodeList",
    "JobName",
)  # fmt: skip
_STATES = {
    "PENDING": PENDING, "CONFIGURING": RUNNING, "RUNNING": RUNNING, "COMPLETING": RUNNING, "RESIZING": RUNNING, "SIGNALING": RUNNING, "STAGE_OUT": RUNNING,
    "SUSPENDED": SUSPENDED, "STOPPED": SUSPENDED, "COMPLETED": COMPLETED, "CANCELLED": CANCELLED, "REVOKED": CANCELLED, "FAILED": FAILED,
    "SPECIAL_EXIT": FAILED, "LAUNCH_FAILED": FAILED, "RECONFIG_FAIL": FAILED, "TIMEOUT": TIMEOUT, "DEADLINE": TIMEOUT, "NODE_FAIL": NODE_FAIL,
    "BOOT_FAIL": NODE_FAIL, "OUT_OF_MEMORY": OUT_OF_MEMORY, "PREEMPTED": PREEMPTED, "REQUEUED": REQUEUED, "REQUEUE_FED": REQUEUED, "REQUEUE_HOLD": PENDING,
    "RESV_DEL_HOLD": PENDING,
}  # fmt: skip


def read_json(data: bytes, cluster: str = "") -> Read:
    """The jobs that have begun of an answer in JSON of squeue, scontrol or sacct. cluster: where the answer names none. Raises QueueTrouble where it is no
    such answer, or tells of errors of Slurm's and of no job."""
    try:
        found = parsed(data)
    except orjson.JSONDecodeError as error:
        raise QueueTrouble(f"Slurm's answer is no JSON: {error}; does `squeue --json` work there? Slurm needs its serializer plugin, else let `sacct -P` be asked") from None
    if not isinstance(found, dict) or not isinstance(found.get("jobs"), list):
        raise QueueTrouble("Slurm's answer in JSON has no list `jobs`")
    if not found["jobs"] and found.get("errors"):
        raise QueueTrouble(f"Slurm tells of an error: {_error(found['errors'])}")
    return read_each(((entry.get("job_id") if isinstance(entry, dict) else entry, entry) for entry in found["jobs"]), lambda entry: _of_json(entry, cluster))


def read_sacct(data: str, cluster: str = "") -> Read:
    """The jobs that have begun of what `sacct` wrote with FIELDS, its first line with their names: with `--parsable`, whose records end with the delimiter, so that
    none that a name does not hold can be mistaken for an end, or `--parsable2`. Raises QueueTrouble where it is no such text."""
    head, _, rest = data.partition("\n")
    delimiter = head.removeprefix(FIELDS[0]).partition(FIELDS[1])[0]
    ending = delimiter if delimiter and head.endswith(delimiter) else ""
    if not delimiter or head != delimiter.join(FIELDS) + ending:
        raise QueueTrouble(f"sacct's first line is {head[:200]!a} and not {'|'.join(FIELDS)!r}" if data else "sacct wrote nothing, not even its first line")
    problems: list[Problem] = []
    whole: dict[tuple[str, str, str], tuple[dict[str, str], list[Step]]] = {}
    latest: dict[tuple[str, str], list[Step]] = {}  # of the last entry of an id, whose steps follow it
    for line in rest.split(f"{ending}\n"):
        if not line:
            continue
        # The name is the last field, and may hold a delimiter that everybody knows.
        values = line.split(delimiter, len(FIELDS) - 1)
        try:
            if len(values) != len(FIELDS):
                raise ValueError(f"{len(values)} fields, {len(FIELDS)} expected")
            row = dict(zip(FIELDS, values, strict=True))
            raw, _, step = row["JobIDRaw"].partition(".")
            of = row["Cluster"], raw
            if not step:
                latest[of] = []
                whole[*of, row["Submit"]] = row, latest[of]
            elif len(latest.get(of, ())) < STEPS_MAX:
                latest.setdefault(of, []).append(_step_of_row(step, row))
        except ValueError as error:
            problems.append(problem(values[0], error))
    jobs, more = read_each(((row["JobID"], (row, steps)) for row, steps in whole.values()), lambda entry: _of_row(entry[0], tuple(entry[1]), cluster))
    return jobs, problems + more


def state_of(word: object) -> str:
    """One of `jobdb.queue.STATES`: of "RUNNING", of "CANCELLED by 1000", of ["COMPLETED"], or of several of which the first is the state itself."""
    words = word if isinstance(word, list) else [word]
    first = words[0] if words and isinstance(words[0], str) else ""
    return _STATES.get(first.split(" ")[0].rstrip("+").upper(), UNKNOWN)


def _accounted(word: object) -> str:
    """`state_of` in accounting: a run that was requeued may be called ["PENDING", "REQUEUED"] there, and what was before a resize has ended."""
    words = word if isinstance(word, list) else [word]
    if "REQUEUED" in words:
        return REQUEUED
    return COMPLETED if words and words[0] == "RESIZING" else state_of(word)


def _of_json(entry: object, cluster: str) -> QueueJob | None:
    of = mapping(entry, "job")
    return _of_sacct(of, cluster) if "time" in of else _of_squeue(of, cluster)


def _of_squeue(of: Mapping[str, Any], cluster: str) -> QueueJob | None:
    state = state_of(of.get("job_state"))
    nodes = nodes_of(text(of.get("nodes"), "nodes"))
    start_ns = _instant(of.get("start_time"), "start_time")
    if state == PENDING or start_ns is None or not nodes:
        return None
    raw, array_task, het_offset = _number(of.get("job_id"), "job_id"), _number(of.get("array_task_id"), "array_task_id"), _number(of.get("het_job_offset"), "het_job_offset")
    array, het = _number(of.get("array_job_id"), "array_job_id"), _number(of.get("het_job_id"), "het_job_id")
    return QueueJob(
        cluster=text(of.get("cluster"), "cluster") or cluster, user=text(of.get("user_name"), "user_name"), uid=_number(of.get("user_id"), "user_id"),
        project=text(of.get("account"), "account"), name=text(of.get("name"), "name"), queue=text(of.get("partition"), "partition"), state=state,
        submit_ns=_submitted(_instant(of.get("submit_time"), "submit_time")), start_ns=start_ns,
        end_ns=_instant(of.get("end_time"), "end_time") if state in ENDED else None, exit_code=_exit_code(of.get("exit_code"), state),
        nodes=nodes, cores=_number(of.get("cpus"), "cpus"), tasks=_number(of.get("tasks"), "tasks"), restarts=_number(of.get("restart_cnt"), "restart_cnt") or 0,
        **_names(raw, array, array_task, het, het_offset),
    )  # fmt: skip


def _of_sacct(of: Mapping[str, Any], cluster: str) -> QueueJob | None:
    time, association, array, het = (mapping(of.get(name), name) for name in ("time", "association", "array", "het"))
    state = _accounted(mapping(of.get("state"), "state").get("current"))
    nodes = nodes_of(text(of.get("nodes"), "nodes"))
    start_ns = _instant(time.get("start"), "time.start")
    if state == PENDING or start_ns is None or not nodes:
        return None
    required = mapping(of.get("required"), "required")
    steps = sequence(of.get("steps"), "steps")[:STEPS_MAX]
    return QueueJob(
        cluster=text(of.get("cluster"), "cluster") or text(association.get("cluster"), "association.cluster") or cluster,
        user=text(of.get("user"), "user") or text(association.get("user"), "association.user"),
        project=text(of.get("account"), "account"), name=text(of.get("name"), "name"), queue=text(of.get("partition"), "partition"), state=state,
        submit_ns=_submitted(_instant(time.get("submission"), "time.submission")), start_ns=start_ns,
        end_ns=_instant(time.get("end"), "time.end") if state in ENDED else None, exit_code=_exit_code(of.get("exit_code"), state),
        nodes=nodes, cores=_number(required.get("CPUs"), "required.CPUs"), suspended_s=float(_number(time.get("suspended"), "time.suspended") or 0),
        restarts=_number(of.get("restart_cnt"), "restart_cnt") or 0, steps=tuple(_step(mapping(step, "step")) for step in steps),
        **_names(
            _number(of.get("job_id"), "job_id"), _number(array.get("job_id"), "array.job_id"), _number(array.get("task_id"), "array.task_id"),
            _number(het.get("job_id"), "het.job_id"), _number(het.get("job_offset"), "het.job_offset"),
        ),
    )  # fmt: skip


def _of_row(row: Mapping[str, str], steps: tuple[Step, ...], cluster: str) -> QueueJob | None:
    state, nodes, start_ns = _accounted(row["State"]), nodes_of(row["NodeList"]), _seconds(row["Start"], "Start")
    if state == PENDING or start_ns is None or not nodes:
        return None
    shown, raw = row["JobID"], row["JobIDRaw"]
    array, het = shown.partition("_")[0] if "_" in shown else "", shown.partition("+")[0] if "+" in shown else ""
    return QueueJob(
        cluster=row["Cluster"] or cluster, job_id=shown, claims=tuple(dict.fromkeys(name for name in (raw, het) if name)), array=array, het=het,
        user=row["User"], uid=integer(row["UID"], "UID", most=(1 << 32) - 1) if row["UID"] else None, project=row["Account"], name=row["JobName"], queue=row["Partition"],
        state=state, submit_ns=_submitted(_seconds(row["Submit"], "Submit")), start_ns=start_ns, end_ns=_seconds(row["End"], "End") if state in ENDED else None,
        exit_code=_own(integer(row["ExitCode"].partition(":")[0], "ExitCode") if row["ExitCode"] else None, state), nodes=nodes,
        cores=integer(row["NCPUS"], "NCPUS") if row["NCPUS"] else None, suspended_s=_duration_s(row["Suspended"]), steps=steps,
    )  # fmt: skip


def _names(raw: int | None, array: int | None, task: int | None, het: int | None, offset: int | None) -> dict[str, Any]:
    if not raw:
        raise ValueError("job_id: there is none")
    job_id = str(raw)
    if array and task is not None:
        job_id = f"{array}_{task}"
    elif het and offset is not None:
        job_id = f"{het}+{offset}"
    claims = tuple(dict.fromkeys(str(number) for number in (raw, het) if number))
    return {"job_id": job_id, "claims": claims, "array": str(array) if array and task is not None else "", "het": str(het) if het else ""}


def _step(of: Mapping[str, Any]) -> Step:
    inner, time, nodes, tasks = (mapping(of.get(name), name) for name in ("step", "time", "nodes", "tasks"))
    identity = inner.get("id")
    if isinstance(identity, dict):  # until 22.05
        identity = identity.get("step_id")
    return Step(
        id=str(identity).rpartition(".")[2], name=text(inner.get("name"), "step.name"), start_ns=_instant(time.get("start"), "step.time.start"),
        end_ns=_instant(time.get("end"), "step.time.end"), nodes=nodes_of(text(nodes.get("range"), "step.nodes.range")), tasks=_number(tasks.get("count"), "step.tasks.count"),
    )  # fmt: skip


def _step_of_row(step: str, row: Mapping[str, str]) -> Step:
    return Step(
        id=step, name=row["JobName"], start_ns=_seconds(row["Start"], "Start"), end_ns=_seconds(row["End"], "End"), nodes=nodes_of(row["NodeList"]),
        tasks=integer(row["NTasks"], "NTasks") if row["NTasks"] else None,
    )  # fmt: skip


def _number(value: object, what: str) -> int | None:
    """5, or {"set": true, "infinite": false, "number": 5} since 23.02; None where it is not set."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite") or "number" not in value:
            return None
        value = value["number"]
    return None if value is None or value == "" else integer(value, what)


def _instant(value: object, what: str) -> int | None:
    return instant_ns(_number(value, what), what)


def _seconds(value: str, what: str) -> int | None:
    return None if value in ("", "None", "Unknown") else instant_ns(integer(value, f"{what} (with SLURM_TIME_FORMAT=%s?)"), what)


def _submitted(instant: int | None) -> int:
    if instant is None:
        raise ValueError("the time of its submission is missing")
    return instant


def _duration_s(value: str) -> float:
    """"[D-]HH:MM:SS", as sacct writes it whatever the format of times."""
    days, _, clock = value.rpartition("-")
    seconds = 0
    for part in clock.split(":") if clock else ():
        seconds = seconds * 60 + integer(part, "Suspended")
    return float(seconds + 86_400 * integer(days or 0, "Suspended"))


def _exit_code(value: object, state: str) -> int | None:
    """What the job ended with: of a number, as wait gives it."""
    if isinstance(value, dict) and "return_code" in value:
        return _own(_number(value["return_code"], "exit_code.return_code"), state)
    number = _number(value, "exit_code")
    return _own(None if number is None else number >> 8, state)


def _own(code: int | None, state: str) -> int | None:
    """A job's code: none while it runs, nor where it did not complete and 0 stands there (a signal ended it; `sacct --json` of 22.05 says 0 of all)."""
    return code if state == COMPLETED or (state in ENDED and code != 0) else None


def _error(errors: object) -> str:
    first = errors[0] if isinstance(errors, list) else errors
    words = [str(first[name]) for name in ("error", "description") if first.get(name)] if isinstance(first, dict) else [str(first)]
    return ascii(": ".join(words))[:300]


