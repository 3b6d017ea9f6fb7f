"""What there is to say of a job in plain lines, as `bellrock run` ends with: pure functions from the API's answers."""

from typing import Any

from bellrock import text
from bellrock.text import of

# The headline of a job, in the order in which `--json` prints it. jobdb.profile has the same tuple, and a test holds the
# two together: importing it from there would cost every `bellrock run` 0.3 s.
HEADLINE = (
    "job_id",
    "program",
    "nodes",
    "processes",
    "io_processes",
    "runtime_s",
    "read_bytes",
    "write_bytes",
    "read_ops",
    "write_ops",
    "metadata_ops",
    "mdops_avg",
    "bandwidth_avg_read",
    "bandwidth_avg_write",
    "bandwidth_peak_read",
    "bandwidth_peak_write",
    "iops_avg",
    "io_mode_read",
    "io_mode_write",
    "files",
    "phases",
)

MODES = {
    "N-N": "each process has files of its own",
    "N-1": "all processes share one file",
    "N-M": "groups of processes share files, or only some processes do I/O",
    "1-1": "one process does all of it",
}


def headline(profile: dict[str, Any]) -> dict[str, Any]:
    """The 21 headline figures of a profile. Raises KeyError where the API left one out."""
    return {name: profile[name] for name in HEADLINE}


def first_line(job: dict[str, Any], profile: dict[str, Any]) -> str:
    """Who, how it ended, how long, on how many."""
    state = job["state"]
    if state == "failed" and job.get("exit_code") is not None:
        state = f"failed with exit code {job['exit_code']}"
    took = f"{'for' if job['end_ns'] is None else 'in'} {text.duration(profile['runtime_s'])}"
    who = "processes unseen" if profile["processes"] is None else of(profile["processes"], "process")
    size = f"{who} on {of(profile['nodes'], 'node')}"
    return " · ".join(part for part in (f"job {text.plain(job['job_id'])}", text.plain(job["program"]), f"{state} {took}", size) if part)


def is_blank(profile: dict[str, Any]) -> bool:
    """Whether nothing at all was seen of the job's programs."""
    return not (profile["processes"] or profile["read_ops"] or profile["write_ops"] or profile["metadata_ops"] or profile["errors"])


NOTHING_SEEN = (
    "no I/O on watched files was seen: the program made none, its files are outside what is watched (see --watch and --ignore), "
    "it was started without the library (an empty environment, another user), or it works in ways that are not seen (mapped memory, bare system calls)"
)


UNSEEN_REASONS = {
    "static": "statically linked",
    "io_uring": "uses io_uring",
    "privileged": "set-uid, or has capabilities of its own",
    "foreign": "built for another C library or processor",
}
UNSEEN_SHOWN_MAX = 5


def unseen(profile: dict[str, Any]) -> list[str]:
    """A line for each program that ran unwatched: a job is never shown as idle for it."""
    found = profile.get("unseen") or []
    lines = []
    for row in found[:UNSEEN_SHOWN_MAX]:
        why = UNSEEN_REASONS.get(row["reason"], "cannot be preloaded")
        lines.append(f"{text.plain(row['program'] or 'a program')} could not be watched ({why}; {of(row['processes'], 'process')}): its I/O is not in the figures")
    further = max(len(found), profile.get("unseen_programs") or 0) - UNSEEN_SHOWN_MAX
    if further > 0:
        lines.append(f"nor could {of(further, 'further program')}")
    return lines


OF_NODES = "no process was seen: the figures are those of the nodes' file system clients in the job's time, each node for one process, times to the second"


def caveats(answer: dict[str, Any]) -> list[str]:
    """What must be known before the figures are trusted."""
    profile = answer["profile"]
    return [*losses(answer), *unheard(answer["job"]), *unseen(profile), *([OF_NODES] if profile.get("granularity") == "node" else [])]


def unheard(job: dict[str, Any]) -> list[str]:
    """A line where nodes have told nothing since the job's end."""
    count = job.get("unheard_nodes")
    return [f"nothing has come from {of(count, 'node')} since the job ended: what was done there may be missing in the figures"] if count else []


def losses(answer: dict[str, Any]) -> list[str]:
    """A line for each thing that was lost on a node while the job ran."""
    lines = []
    for row in answer["losses"]:
        node = text.plain(row["node"])
        if row["lost"]:
            lines.append(f"{text.number(row['lost'])} operations or records were lost on {node} meanwhile: the figures are perhaps too low")
        if row["lost_log_bytes"]:
            lines.append(f"{text.data(row['lost_log_bytes'])} of a trace log on {node} were gone before they were read: the figures are perhaps too low")
        if row["lost_names"]:
            lines.append(f"{of(row['lost_names'], 'file name')} found no room on {node} meanwhile: some files are listed by their id")
    return lines


def overflows(answer: dict[str, Any]) -> list[str]:
    """A line for each node whose agent could not pass on what it read while the job ran."""
    return [
        f"the agent's spool on {text.plain(row['node'])} was full, or could not be written, for {text.duration(row['spool_full_s'])} meanwhile, and {of(row['folded'], 'operation')} "
        "of programs there were folded: counts and bytes are exact, single times and offsets are not"
        for row in answer["losses"]
        if row["spool_full_s"]
    ]


def summary(answer: dict[str, Any]) -> list[str]:
    """A job in a few lines of plain text, for the end of `bellrock run`."""
    job, profile = answer["job"], answer["profile"]
    lines = [first_line(job, profile), *(f"  {line}" for line in (*caveats(answer), *overflows(answer)))]
    if is_blank(profile):
        return lines if profile.get("unseen") else [*lines, f"  {NOTHING_SEEN}"]
    for direction in ("read", "write"):
        operations = profile[f"{direction}_ops"]
        if operations:
            mode = profile[f"io_mode_{direction}"]
            lines.append(
                f"  {direction:<6}{text.data(profile[f'{direction}_bytes']):>10} in {of(operations, 'call')} · "
                f"{text.rate(profile[f'bandwidth_avg_{direction}'])}, {text.data(profile[f'bandwidth_peak_{direction}'])} in the peak second"
                + (f" · {mode}: {MODES.get(mode, '')}" if mode else "")
            )
    lines.append(
        f"  {of(profile['files'], 'file')} · {of(profile['metadata_ops'], 'metadata operation')} · {of(profile['phases'], 'phase')} of I/O"
    )
    if profile["errors"]:
        lines.append(f"  {of(profile['errors'], 'call')} failed")
    return lines
