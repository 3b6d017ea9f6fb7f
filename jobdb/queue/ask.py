"""Asks the batch system of this machine, by its own commands, and tells what failed in a line and what to run next."""

import dataclasses
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jobdb.queue import Problem, QueueJob, QueueTrouble, Read, csv, lsf, pbs, slurm

# A command that has not answered by then is ended, with all that it started.
TIMEOUT_S = 120.0
# More than any queue says of its jobs; a table is no larger either.
ANSWER_BYTES_MAX = 1 << 30
ERROR_CHARACTERS_MAX = 300

_SACCT = ("sacct", "--allusers", "--duplicates", "--parsable", f"--format={','.join(slurm.FIELDS)}", "--endtime=now")
_SQUEUE = ("squeue", "--json", "--states=all")
_QSTAT = ("qstat", "-x", "-f", "-t", "-F", "json")
_BJOBS = ("bjobs", "-u", "all", "-a", "-json", "-o", lsf.FORMAT)


class NotHere(QueueTrouble):
    """The command is not installed here."""


def from_slurm(since_s: float, cluster: str = "") -> Read:
    """The jobs that ran at or after an instant, s since the epoch: of accounting (slurmdbd) where there is any, and of the controller, who knows at once what has
    begun. Raises QueueTrouble where neither answers."""
    name = cluster or _cluster_of_slurm()
    problems: list[Problem] = []
    troubles: list[QueueTrouble] = []
    parts: list[list[QueueJob]] = []
    for ask in (lambda: _controller(name), lambda: _accounting(since_s, name)):
        try:
            jobs, more = ask()
        except QueueTrouble as trouble:
            troubles.append(trouble)
            continue
        parts.append(jobs)
        problems += more
    if len(troubles) == 2:
        raise QueueTrouble("; ".join(map(str, troubles)))
    # One half alone tells of all jobs; a site without accounting has no `sacct` to be missed.
    problems += [Problem("one half of Slurm", str(trouble)) for trouble in troubles if not isinstance(trouble, NotHere)]
    found: dict[tuple[str, str, int], QueueJob] = {}
    for job in (job for part in parts for job in part):
        found[job.key] = _together(found[job.key], job) if job.key in found else job
    return list(found.values()), problems


def _controller(cluster: str) -> Read:
    jobs, problems = slurm.read_json(run(_SQUEUE), cluster)
    if any(not job.cluster for job in jobs):
        # Under no name they would be other jobs than those of accounting.
        raise QueueTrouble("`squeue` tells no cluster, and `scontrol show config` did not tell its name either: give it (--cluster, or scheduler.cluster in server.toml)")
    return jobs, problems


def _accounting(since_s: float, cluster: str) -> Read:
    # A delimiter that nobody can put into a job's name beforehand, which would forge other jobs.
    words = (*_SACCT, f"--delimiter={secrets.token_hex(8)}", f"--starttime={time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(since_s))}")
    return slurm.read_sacct(_text(run(words, {"SLURM_TIME_FORMAT": "%s"})), cluster)


def _together(told: QueueJob, accounted: QueueJob) -> QueueJob:
    """Of one job, what the controller told and accounting: that knows steps and codes, but may be behind, and then does not know that it has ended."""
    if told.end_ns is not None and accounted.end_ns is None:
        return dataclasses.replace(told, steps=accounted.steps)
    return dataclasses.replace(accounted, tasks=told.tasks, restarts=told.restarts)


def from_pbs(since_s: float, cluster: str = "") -> Read:
    """The jobs that PBS knows; those that ended before an instant are left out. Raises QueueTrouble."""
    return since(since_s, pbs.read(run(_QSTAT), cluster))


def from_lsf(since_s: float, cluster: str = "") -> Read:
    """As `from_pbs`, of LSF."""
    return since(since_s, lsf.read(run(_BJOBS, {"LSB_DISPLAY_YEAR": "Y"}), time.time(), cluster))


def from_file(kind: str, path: Path, cluster: str = "", prefix: str = "") -> Read:
    """The jobs of what a queue's command wrote into a file, or of a table. kind: one of KINDS. Raises QueueTrouble."""
    try:
        with open(path, "rb") as file:
            data = file.read(ANSWER_BYTES_MAX + 1)
            written_s = os.fstat(file.fileno()).st_mtime
    except OSError as error:
        raise QueueTrouble(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > ANSWER_BYTES_MAX:
        raise QueueTrouble(f"{path}: more than {ANSWER_BYTES_MAX >> 20} MiB: cut it by time")
    try:
        if kind == "csv":
            return csv.read(_text(data), cluster, prefix)
        if kind == "pbs":
            return pbs.read(data, cluster)
        if kind == "lsf":
            return lsf.read(data, written_s, cluster)
        return slurm.read_json(data, cluster) if data.lstrip()[:1] == b"{" else slurm.read_sacct(_text(data), cluster)
    except QueueTrouble as trouble:
        raise QueueTrouble(f"{path}: {trouble}") from None


KINDS: Mapping[str, Callable[..., Read] | None] = {"slurm": from_slurm, "pbs": from_pbs, "lsf": from_lsf, "csv": None}


def run(words: Sequence[str], environ: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> bytes:
    """What a command writes, in English and the machine's own zone. Raises QueueTrouble where it fails, is not there, says too much, or does not end: then it is ended,
    and all that it started."""
    program = shutil.which(words[0])
    if program is None:
        raise NotHere(f"`{words[0]}` is not on this machine's PATH: run this where users submit their jobs")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        try:
            process = subprocess.Popen(
                [program, *words[1:]], stdin=subprocess.DEVNULL, stdout=out, stderr=told, env=os.environ | {"LC_ALL": "C.UTF-8"} | dict(environ or {}), start_new_session=True
            )
        except OSError as error:
            raise QueueTrouble(f"`{program}` cannot be run: {error.strerror or error}") from None
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise QueueTrouble(f"`{words[0]}` has not answered for {timeout_s:.0f} s: is its server up?") from None
        finally:
            _end(process)
        told.seek(0)
        said = _text(told.read(1 << 16)).strip()
        if code:
            raise QueueTrouble(f"`{words[0]}` ended with {code}: {ascii(said.splitlines()[-1])[:ERROR_CHARACTERS_MAX] if said else 'and said nothing'}")
        if out.tell() > ANSWER_BYTES_MAX or os.fstat(out.fileno()).st_size > ANSWER_BYTES_MAX:
            raise QueueTrouble(f"`{words[0]}` wrote more than {ANSWER_BYTES_MAX >> 20} MiB: ask for a shorter time")
        out.seek(0)
        return out.read()


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def since(since_s: float, read: Read) -> Read:
    """What is told, without jobs that ended before an instant."""
    jobs, problems = read
    return [job for job in jobs if job.end_ns is None or job.end_ns >= since_s * 1e9], problems


def _cluster_of_slurm() -> str:
    """The cluster's name, which squeue does not tell in all versions; "" where it cannot be had."""
    try:
        lines = run(("scontrol", "show", "config")).decode("utf-8", "replace").splitlines()
    except QueueTrouble:
        return ""
    return next((value.strip() for name, _, value in (line.partition("=") for line in lines) if name.strip() == "ClusterName"), "")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
