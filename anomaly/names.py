"""What a job ran, as one name for all its runs: without path, version, launcher and interpreter, or as a rule of the site says."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from jobdb.job import Job
from jobdb.types import NAME_LENGTH_MAX, clean

# Of a command that much is looked at, and so many words.
COMMAND_LENGTH_MAX, WORDS_MAX = 4096, 256
RULES_MAX, RULE_LENGTH_MAX = 100, 1000
GROUP = "program"
# Programs that only start another one, and which of their options have a value of their own, or two.
LAUNCHERS = {
    "mpirun mpiexec mpiexec.hydra mpirun_rsh orterun prterun prun": "-n -np --np -c -f -H -host --host -hosts -hostfile --hostfile -machinefile --machinefile -machine -ppn -perhost -rpp --rpp "
    "-npernode --npernode -N --map-by -map-by --bind-to -bind-to --rank-by -rank-by -x -wdir --wdir -wd -rf --rankfile -envlist -genvlist -usize --timeout --prefix --app -configfile -rmk "
    "-bootstrap -launcher -iface -path -output-filename --output-filename --report-state-on-timeout --personality --dvm",
    "srun aprun jsrun ibrun lsrun alps": "-n -N -c -p -A -J -t -w -x -o -e -i -D -d -S -j -L -m -G -M -C -q -T -a -g -r -b -K --ntasks --nodes --cpus-per-task --partition --account --job-name --time "
    "--nodelist --exclude --output --error --input --chdir --distribution --mem --qos --gres --gpus --constraint --export --mpi --tasks_per_rs --nrs --rs_per_host --bind",
    "env": "-u -C -S --unset --chdir", "nice": "-n", "ionice": "-c -n -p", "chrt": "", "taskset": "", "numactl": "-m -N -C -p -i", "timeout": "-s -k", "stdbuf": "-i -o -e", "nohup": "", "exec": "",
    "time": "-f -o", "setsid": "", "sudo": "-u -g", "strace": "-o -e -p", "ltrace": "-o -e -p", "perf": "-e -o", "valgrind": "", "gdb": "-ex -x", "catchsegv": "", "chroot": "",
    "singularity apptainer": "-B -H -S -W --bind --home --pwd --workdir --app --env --env-file --overlay", "podman docker shifter": "-v -e -w -u --volume --env --workdir --user --image",
    "bellrock": "--job",
}  # fmt: skip
_OPTIONS = {name: frozenset(options.split()) for names, options in LAUNCHERS.items() for name in names.split()}
_TWO_VALUES = frozenset(("-mca", "--mca", "-gmca", "--gmca", "--prtemca", "-genv", "-env"))
# Words of theirs before what is started.
_SUBCOMMANDS = {"singularity": ("exec", "run"), "apptainer": ("exec", "run"), "podman": ("run", "exec"), "docker": ("run", "exec"), "perf": ("record", "stat", "trace"), "bellrock": ("run",)}
# Those whose first other word is no program: an image, a container, a duration, a priority, processors, a root.
_OPERANDS = frozenset(("singularity", "apptainer", "podman", "docker", "timeout", "taskset", "chrt", "chroot"))
# Those that run a script, and options of theirs that have a value.
_INTERPRETERS = {
    "python": "-W -X", "pypy": "-W -X", "ipython": "", "perl": "-I", "ruby": "-I", "rscript": "", "r": "-f", "julia": "-t -p -J -L --project --threads", "bash": "-o -O", "sh": "-o", "dash": "-o",
    "ksh": "-o", "zsh": "-o", "tcsh": "", "csh": "", "java": "-cp -classpath --class-path", "lua": "", "node": "-r", "octave": "", "awk": "",
}  # fmt: skip
_SCRIPT = re.compile(r"\.(?:py|pyc|pyz|sh|bash|csh|pl|rb|r|jl|jar|m|lua|js|exe|x|bin|out)$")
# "-1.2.3", "_v7", ".5.4.4", "_2024-03-01", "-rc2", all at the end. One quantifier over a class each: linear in what it is given.
_VERSION = re.compile(r"(?:[-_.]v?[0-9]+(?:[-_.](?:rc|beta|alpha|p|patch)?[0-9]+)*(?:rc[0-9]+|[ab][0-9]+)?|(?<=[a-z])[0-9]+\.[0-9.]*[0-9])$")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# Names that anybody gives to anything: their runs are held against those of one user only.
NAMELESS = frozenset(("a", "main", "run", "test", "prog", "program", "job", "script", "submit", "start", "app", "train", "solver", "exe", "wrapper", *_INTERPRETERS, *_OPTIONS))


class BadRule(ValueError):
    """A site's rule cannot be used; the text says which and why."""


class Rules:
    """A site's regular expressions over commands, in RE2's syntax, all groups with names or (?:…): matching takes time in proportion to the text, whatever rule and text are. The first that matches somewhere
    names the program by its group `program`. Raises BadRule."""

    def __init__(self, rules: Sequence[str] = ()) -> None:
        if len(rules) > RULES_MAX:
            raise BadRule(f"{len(rules)} rules for names of programs: at most {RULES_MAX} may be")
        for rule in rules:
            if not isinstance(rule, str):
                raise BadRule(f"{rule!r} is no rule for names of programs: it is no text")
            if len(rule) > RULE_LENGTH_MAX:
                raise BadRule(f"a rule of {len(rule)} characters for names of programs: at most {RULE_LENGTH_MAX} may be")
            try:
                found = pc.extract_regex(pa.array([""]), rule)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeEncodeError) as error:
                raise BadRule(f"{rule!r} is no rule for names of programs: {error}") from None
            if GROUP not in {field.name for field in found.type}:
                raise BadRule(f"{rule!r} is no rule for names of programs: it has no group (?P<{GROUP}>…)")
        self._rules = tuple(rules)

    def name(self, command: str) -> str:
        """What the first rule that matches takes out of a command; "" where none does."""
        for rule in self._rules:
            found = pc.extract_regex(pa.array([clean(command)], pa.string()), rule)[0].as_py()
            if found is not None and found[GROUP]:
                return _tidy(found[GROUP])
        return ""


def program_of(job: Job, rules: Rules) -> str:
    """The name under which all runs of what a job ran are kept, NAME_LENGTH_MAX characters at most; "" where nothing is known of it."""
    command = (job.command or job.program)[:COMMAND_LENGTH_MAX]
    named = rules.name(command)
    if named:
        return _short(named)
    # What the batch system calls a job is no command.
    name = _program(_words(command)) if job.command else _bare(job.program)
    name = name or _bare(job.program)
    return _short(f"{name} of uid {job.uid}" if name in NAMELESS else name)


def _words(command: str) -> list[str]:
    """As a shell would part them, roughly: quotes hold together, and one that is never closed ends with the text."""
    return [word.strip("\"'") for word in re.findall(r"\"[^\"]*\"?|'[^']*'?|[^\s\"']+", command)[:WORDS_MAX]]


def _program(words: Sequence[str]) -> str:
    """The name of what words run in the end."""
    at = 0
    while at < len(words):
        if not words[at] or _ASSIGNMENT.match(words[at]):
            at += 1
            continue
        name = _bare(words[at])
        launcher = words[at].rpartition("/")[2].lower()
        if launcher in _OPTIONS:
            after = _after_launcher(words, at + 1, launcher)
            if after >= len(words):
                return name
            at = after
            continue
        # python3 is python.
        interpreter = name if name in _INTERPRETERS else name.rstrip("0123456789")
        return (_script(words[at + 1 :], interpreter) or interpreter) if interpreter in _INTERPRETERS else name
    return ""


def _after_launcher(words: Sequence[str], at: int, launcher: str) -> int:
    """Where the program stands that a launcher starts."""
    subcommands, operands = _SUBCOMMANDS.get(launcher, ()), launcher in _OPERANDS
    while at < len(words):
        word = words[at]
        if word == "--":
            return at + 1
        if word in _TWO_VALUES:
            at += 3
        elif word in _OPTIONS[launcher]:
            at += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word) or word in subcommands or re.fullmatch(r"[0-9]+[smhd]?", word):
            # A number is the value of an option that is not known here.
            operands = operands and not (launcher in ("timeout", "taskset", "chrt") and word[:1].isdigit())
            at += 1
        elif operands:
            operands, at = False, at + 1
        else:
            return at
    return at


def _script(words: Sequence[str], interpreter: str) -> str:
    """The script that an interpreter runs; "" where it runs none that has a name."""
    with_value = frozenset(_INTERPRETERS[interpreter].split())
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("-m", "-jar") and at + 1 < len(words):
            return _bare(words[at + 1])
        if word in ("-c", "-lc", "-e"):
            # A shell's text is a command of its own; that of other languages has no name.
            return _program(_words(words[at + 1])) if interpreter in ("bash", "sh", "dash", "ksh", "zsh") and at + 1 < len(words) else ""
        if word in with_value:
            at += 2
        elif word.startswith(("-", "+")):
            at += 1
        else:
            return _bare(word)
    return ""


def _bare(word: str) -> str:
    """A program's name without folders, ending and version, in small letters."""
    name = _tidy(word.rstrip("/").rpartition("/")[2])[:NAME_LENGTH_MAX]
    while (shorter := _VERSION.sub("", _SCRIPT.sub("", name))) != name and shorter.strip("-_."):
        name = shorter
    return name


def _tidy(text: str) -> str:
    """Small letters that can be shown."""
    return "".join(letter for letter in clean(text).lower() if letter.isprintable()).strip()


def _short(name: str) -> str:
    """What is too long keeps its beginning, and is told apart by a hash."""
    if len(name) <= NAME_LENGTH_MAX:
        return name
    return f"{name[: NAME_LENGTH_MAX - 17]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
