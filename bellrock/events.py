"""Job event files: how a launch tells the agent that it began and ended. docs/architecture.md has the format."""

import json
import os
import pwd
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bellrock import ids
from bellrock.unseen import Unseen

COMMAND_LENGTH_MAX = 4096


@dataclass(frozen=True)
class Launch:
    """One `bellrock run`. `launch` is unique; several launches may share `job`."""

    job: str
    launch: str
    cluster: str | None
    program: str
    command: str
    user: str
    unseen: Unseen | None = None


def new_launch(job: str, argv: Sequence[str], unseen: Unseen | None = None) -> Launch:
    """A launch of `argv` in `job`, by this user, now. `unseen`: why its calls cannot be seen, if so."""
    command = _readable(shlex.join(argv))
    return Launch(
        job=job,
        launch=ids.short_id(9),
        cluster=_readable(os.environ.get("SLURM_CLUSTER_NAME", "")) or None,
        program=_readable(os.path.basename(argv[0]) or argv[0]),
        command=command if len(command) <= COMMAND_LENGTH_MAX else command[: COMMAND_LENGTH_MAX - 1] + "…",
        user=_readable(user_name()),
        unseen=unseen,
    )


def _readable(words: str) -> str:
    """Text that is UTF-8 in any reader's eyes. Python holds foreign bytes of arguments and variables as lone surrogates,
    which JSON's other readers refuse, and the whole event with them; here they become U+FFFD."""
    return words.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def user_name() -> str:
    """The login name of this process's uid, or the number where it has none (containers)."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _launcher() -> dict[str, int]:
    """`pid`, `pid_start_ticks` (field 22 of /proc/self/stat) and `pid_namespace` (inode) of this process: together they name
    no other. Empty where /proc does not tell."""
    try:
        # The command's name in the second field may hold blanks and brackets.
        stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        namespace = os.stat("/proc/self/ns/pid").st_ino
        return {"pid": os.getpid(), "pid_start_ticks": int(stat[19]), "pid_namespace": namespace}
    except (OSError, ValueError, IndexError):
        return {}


def write_event(folder: Path, launch: Launch, event: str, exit_code: int | None = None, time_ns: int | None = None) -> Path:
    """Leave a "start" or "end" for the agent in <rings>/<uid>; returns the file. Raises OSError.

    The file appears whole, by a rename: the agent never sees half of it. `time_ns` defaults to now (UTC)."""
    body = {
        "event": event,
        "job": launch.job,
        "launch": launch.launch,
        "cluster": launch.cluster,
        "program": launch.program,
        "command": launch.command,
        "user": launch.user,
        "time": time.time_ns() if time_ns is None else time_ns,
        "exit_code": exit_code,
    }
    if event == "start":
        # Who writes the end. Where that process is gone without an end, there will be none.
        body |= _launcher()
        if launch.unseen:
            body |= {"executable": _readable(launch.unseen.executable), "unseen": launch.unseen.why}
    # The names sort as the events happened.
    path = folder / f"{launch.launch}.{'1' if event == 'start' else '2'}-{event}.job"
    temporary = path.with_suffix(".tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(body, file)
        os.rename(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
