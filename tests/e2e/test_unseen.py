"""Programs whose calls cannot be seen: they run as they always did, and whoever looks at their job is told."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.site import PROGRAMS, Site, compiled
from tests.wait import until

# How each is built from hidden.c, and why it cannot be seen.
KINDS = {
    "static": (["cc", "-static"], "static"),
    "static-pie": (["cc", "-static-pie"], "static"),
    "musl": (["musl-gcc"], "foreign"),
    "musl-static": (["musl-gcc", "-static"], "static"),
}


@pytest.fixture
def hidden(site: Site) -> Callable[[str], tuple[Path, str]]:
    """Builds a kind of program, and answers with the reason; skips where the tool is missing."""

    def build(kind: str) -> tuple[Path, str]:
        (compiler, *options), why = KINDS[kind]
        if not shutil.which(compiler):
            pytest.skip(f"{compiler} is not installed. Run: apt-get install musl-tools")
        target = site.folder / kind
        built = subprocess.run([compiler, *options, "-o", target, PROGRAMS / "hidden.c"], capture_output=True, text=True)
        if built.returncode:
            pytest.skip(f"{compiler} {' '.join(options)} does not work here: {built.stderr.strip().splitlines()[-1]}")
        return target, why

    return build


def told(site: Site, job: str) -> dict[str, str]:
    """What the job's profile says could not be seen: file → reason."""
    return {row["file"]: row["reason"] for row in site.profile(job)["unseen"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_launched_program_is_marked(site: Site, hidden: Callable, kind: str) -> None:
    program, why = hidden(kind)
    out = site.data / kind
    job = site.run([program, out])
    assert out.stat().st_size == 10
    assert told(site, job) == {str(program): why}
    assert site.profile(job)["write_bytes"] is None, "not known is not 0"


def test_what_a_program_of_another_c_library_runs_is_seen(site: Site, hidden: Callable) -> None:
    """The library lies still in it, and wakes in its children."""
    program, why = hidden("musl")
    ordinary = compiled("hidden", site.folder)
    job = site.run([program, site.data / "musl-then", ordinary])
    assert told(site, job) == {str(program): why}
    assert site.profile(job)["write_bytes"] == 10


RUNNERS = {
    "exec": "exec {program} {out}",
    "fork and exec": "{program} {out}; :",
    "along the path": "cd /; PATH={folder}:$PATH {name} {out}; :",
    "relative": "cd {folder} && ./{name} {out}",
    "script": "{script} {out}; :",
}


@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize("how", RUNNERS)
def test_what_a_watched_program_runs_is_marked(site: Site, hidden: Callable, shell: str, how: str) -> None:
    """However it comes to be run, the mark is of the program itself; what the shell does meanwhile is seen."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    program, why = hidden("static")
    script = site.folder / "script"
    script.write_text(f"#! {program}\n")  # writes to the script's own path first: its first argument
    script.chmod(0o755)
    job = site.new_job()
    out, seen = site.data / f"{job}.out", site.data / f"{job}.seen"
    command = RUNNERS[how].format(program=program, name=program.name, folder=program.parent, script=script, out=out)
    site.run([shell, "-c", f"printf 12345 > {seen}; {command}"], job)
    assert (script if how == "script" else out).stat().st_size >= 10
    name = script if how == "script" else program
    assert told(site, job) == {str(name): why}
    assert site.profile(job)["write_bytes"] == 5


PYTHON = {
    "posix_spawn": "import os; os.waitpid(os.posix_spawn(P, [P, O], os.environ), 0)",
    "posix_spawnp": "import os; os.environ['PATH'] = D; os.waitpid(os.posix_spawnp('static', [P, O], os.environ), 0)",
    "vfork in another directory": "import subprocess; subprocess.run(['./static', O], cwd=D, check=True)",
    "fork": "import subprocess; subprocess.run([P, O], preexec_fn=lambda: None, check=True)",
    "system": "import os; assert os.system(P + ' ' + O) == 0",
    "popen": "import ctypes; c = ctypes.CDLL(None); c.popen.restype = ctypes.c_void_p; assert c.pclose(ctypes.c_void_p(c.popen((P + ' ' + O).encode(), b'r'))) == 0",
    "fexecve": "import os; os.execve(os.open(P, os.O_RDONLY), [P, O], os.environ)",
}


@pytest.mark.parametrize("how", PYTHON)
def test_what_python_runs_is_marked(site: Site, hidden: Callable, how: str) -> None:
    program, why = hidden("static")
    job = site.new_job()
    out = site.data / f"{job}.out"
    python = shutil.which("python3", path="/usr/bin") or shutil.which("python3")
    site.run([python, "-c", f"P, O, D = {str(program)!r}, {str(out)!r}, {str(program.parent)!r}; {PYTHON[how]}"], job)
    assert out.stat().st_size == 10
    assert told(site, job) == {str(program): why}


@pytest.mark.parametrize("how", ["chdir", "steps", "fchdir", "path", "stay", "dup2"])
def test_a_child_that_is_sent_elsewhere_is_looked_at_there(site: Site, hidden: Callable, how: str) -> None:
    """One of the programs can be seen, the other not; each is run where the other would be if nobody looked at the file actions."""
    program, why = hidden("static")
    spawn = compiled("spawn", site.folder)
    job = site.new_job()
    static, ordinary = site.folder / job / "static", site.folder / job / "ordinary"
    static.mkdir(parents=True)
    ordinary.mkdir()
    shutil.copy(program, static / "program")
    compiled("hidden", ordinary).rename(ordinary / "program")
    for here, there in ((ordinary, static), (static, ordinary)):
        job, out = site.new_job(), site.data / f"{there.name}-{how}"
        site.run([spawn, how, there, out], job, cwd=here)
        assert out.stat().st_size == 10
        runs = here if how == "stay" else there
        # Where another descriptor was put in its place it is not known, and nothing is said.
        assert told(site, job) == ({str(static / "program"): why} if runs == static and how != "dup2" else {})
        assert site.profile(job)["write_bytes"] in ((10,) if runs == ordinary else (0, None))


def test_programs_that_can_be_seen_are_not_marked(site: Site) -> None:
    """Ordinary programs, scripts, and the loader called as a program; and what cannot be run at all."""
    program = compiled("hidden", site.folder)
    loader = next(Path("/lib64").glob("ld-linux*"), None) or next(Path("/lib").glob("ld-linux*"))
    script = site.folder / "fine"
    script.write_text("#!/usr/bin/env bash\nprintf 1\n")
    script.chmod(0o755)
    loop = site.folder / "loop"
    loop.write_text(f"#!{loop}\n")
    loop.chmod(0o755)
    cut = site.folder / "cut"
    cut.write_bytes(program.read_bytes()[:70])
    cut.chmod(0o755)
    os.mkfifo(site.folder / "fifo", 0o755)
    job = site.new_job()
    out = site.data / f"{job}.out"
    tries = [[str(path)] for path in (loop, cut, site.folder / "fifo", site.folder, site.folder / "none", script)] + [[str(loader), str(program), str(out)]]
    source = f"import contextlib, subprocess\nfor argv in {tries}:\n  with contextlib.suppress(OSError): subprocess.run(argv, stdout=subprocess.DEVNULL)"
    site.run(["python3", "-c", source], job)
    assert told(site, job) == {}
    assert site.profile(job)["write_bytes"] == 10


def test_another_architecture_is_foreign(site: Site) -> None:
    """A program for another machine that the kernel would run (an emulator is registered, say): told before it is tried."""
    program = compiled("hidden", site.folder)
    other = bytearray(program.read_bytes())
    other[18:20] = b"\xff\x00"
    (site.folder / "other").write_bytes(other)
    (site.folder / "other").chmod(0o755)
    job = site.new_job()
    site.run(["bash", "-c", f"{site.folder}/other; :"], job, stderr=subprocess.DEVNULL)
    assert told(site, job) == {f"{site.folder}/other": "foreign"}


def test_a_go_program_is_foreign_even_with_the_c_library(site: Site) -> None:
    """Go's own I/O goes past the C library; what its C parts do is seen."""
    program = compiled("hidden", site.folder, "-DGO").rename(site.folder / "go")
    for way in ([program, site.data / "go-a"], ["bash", "-c", f"{program} {site.data}/go-b; :"]):
        job = site.run(way)
        assert told(site, job) == {str(program): "foreign"}
        assert site.profile(job)["write_bytes"] == 10


def test_a_program_with_rights_of_its_own_is_marked(site: Site) -> None:
    """The loader leaves the library out of it. It is another user's, so that its rights are not the caller's."""
    if os.getuid():
        pytest.skip("only root can give a file to another user")
    program = compiled("hidden", site.folder).rename(site.folder / "privileged")
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip(f"{site.folder} is mounted nosuid")
    site.data.chmod(0o777)
    for way in ([program, site.data / "a"], ["bash", "-c", f"{program} {site.data}/b; :"]):
        assert told(site, site.run(way, stderr=subprocess.DEVNULL, code=way[0] == program)) == {str(program): "privileged"}
    # Where it would not get them, it is seen as any other.
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed. Run: apt-get install util-linux")
    job = site.run(["setpriv", "--no-new-privs", program, site.data / "c"])
    assert (told(site, job), site.profile(job)["write_bytes"]) == ({}, 10)


@pytest.mark.parametrize("way", ["io_uring", "io_uring-inline"])
def test_an_io_uring_is_marked(site: Site, way: str) -> None:
    """Asked of the C library, or of the kernel past it, as liburing does: then the agent finds it while the program runs."""
    program = compiled("hidden", site.folder)
    job = site.new_job()
    with site.launch([program, site.data / way, way], job, stdin=subprocess.PIPE) as process:

        def marked() -> bool:
            if process.poll() == 77:
                pytest.skip("the kernel has no io_uring, or forbids it")
            try:
                return told(site, job) == {str(program): "io_uring"}
            except OSError:
                return False  # the job is not known yet

        until(marked, "the mark")
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    site.settle(job)
    assert told(site, job) == {str(program): "io_uring"}
    assert site.profile(job)["write_bytes"] == 10
