"""Names of jobs and launches."""

import os
import re
import secrets
import time
from collections.abc import Mapping

from bellrock.errors import UsageError

# Crockford's base 32: no letter that is read as another, and in the order of ASCII, so that ids sort by time.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# The ring's header has 128 bytes for a job's name, and ends it with a NUL.
LENGTH_MAX = 127
# A batch system's id comes before our own variable, which a batch script may have inherited from where it was submitted.
VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "BELLROCK_JOB")
_VALID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+=,\[\]-]*")


def short_id(random_chars: int = 3, now_s: float | None = None) -> str:
    """A new id: seven characters of time (s since the epoch), then `random_chars` random ones. Sorts by time."""
    seconds = int(time.time() if now_s is None else now_s)
    stamp = "".join(ALPHABET[(seconds >> shift) & 31] for shift in range(30, -1, -5))
    return stamp + "".join(secrets.choice(ALPHABET) for _ in range(random_chars))


def is_valid(job: str) -> bool:
    """Whether `job` can be a job's name: up to 127 letters, digits and ._:@+=,[]- and begins with a letter or digit."""
    return len(job) <= LENGTH_MAX and _VALID.fullmatch(job) is not None


def job_id(name: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The job's id: `name` if given, else the batch system's, else $BELLROCK_JOB, else a new one.

    Raises UsageError for a `name` that cannot be one. An id of the environment that cannot be one is cleaned, since
    the program must run whatever it is: other characters become "_"."""
    if name is not None:
        if not is_valid(name):
            raise UsageError(f"--name {name!r} cannot be a job's name", f"take up to {LENGTH_MAX} of A-Z a-z 0-9 . _ : @ + = , [ ] -")
        return name
    for variable in VARIABLES:
        claimed = environ.get(variable, "").strip()
        if claimed and variable == "LSB_JOBID":
            claimed += _task_of_lsf(environ)
        if claimed:
            cleaned = re.sub(r"[^A-Za-z0-9._:@+=,\[\]-]", "_", claimed)[:LENGTH_MAX]
            return cleaned if is_valid(cleaned) else ("j" + cleaned)[:LENGTH_MAX]
    return short_id()


def _task_of_lsf(environ: Mapping[str, str]) -> str:
    """The index of an array's task, as bjobs shows it behind the id; LSF says 0 where there is none."""
    index = environ.get("LSB_JOBINDEX", "")
    return f"[{index}]" if re.fullmatch("[0-9]*[1-9][0-9]*", index) else ""
