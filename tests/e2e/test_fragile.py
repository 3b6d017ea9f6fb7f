"""Programs that a careless library would kill: what they do, and their exit codes, are the same under watch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.site import Site, compiled


@pytest.mark.parametrize(("mode", "seen"), [("altstack", True), ("filter", False), ("strict", False)])
def test_small_stacks_and_forbidden_system_calls(site: Site, mode: str, seen: bool) -> None:
    """Under seccomp nothing is seen: to look would be to be killed."""
    program = compiled("fragile", site.folder)
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    site.run([program, mode, data / "out"], job, watch=data)
    assert (data / "out").stat().st_size == 1000
    assert site.profile(job)["write_bytes"] == (1000 if seen else 0)


@pytest.mark.parametrize("kib", [1, 16000, 20000])
def test_a_limit_on_the_size_of_files_is_the_program_s_own(site: Site, kib: int) -> None:
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    script = f"ulimit -f {kib}; exec dd if=/dev/zero of={data}/out bs=512 count=2 status=none"
    site.run(["bash", "-c", script], job, watch=data)
    assert (data / "out").stat().st_size == 1024


def test_names_that_are_no_text_stay_different_files(site: Site) -> None:
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    site.run(["bash", "-c", "printf a > $'\\xff'; printf b > $'\\xfe'"], job, watch=data, cwd=data)
    files = {Path(row["file"]).name: row["write_bytes"] for row in site.rows(job, "files") if row["write_bytes"]}
    assert files == {"\\xff": 1, "\\xfe": 1}


def sanitized(site: Site, kind: str, source: str) -> Path:
    """The program, built with a sanitizer; skips where the compiler has it not, or it does not work here."""
    path = site.folder / f"{kind}.c"
    path.write_text(source)
    command = ["cc", "-pthread", f"-fsanitize={kind}", "-o", path.with_suffix(""), path]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"the C compiler has no {kind} sanitizer: {built.stderr.strip().splitlines()[-1]}")
    return path.with_suffix("")


def test_a_program_with_the_address_sanitizer_runs(site: Site) -> None:
    site.run([sanitized(site, "address", "int main(void) { return 0; }\n")])


THREADS = """
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static void *work(void *path)
{
    char byte;
    for (int i = 0; i < 200; i++) {
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        if (write(fd, "x", 1) != 1 || pread(fd, &byte, 1, 0) != 1 || close(fd) || access(path, R_OK))
            return path;
    }
    return 0;
}
int main(int count, char **paths)
{
    pthread_t threads[8];
    void *failed = 0;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], 0, work, paths[1 + i % (count - 1)]);
    for (int i = 0; i < 8; i++) {
        void *r;
        pthread_join(threads[i], &r);
        failed = r ? r : failed;
    }
    return failed != 0;
}
"""


def test_the_thread_sanitizer_finds_no_race_that_is_not_the_program_s(site: Site) -> None:
    """It ends a program in which it found one with 66. It needs the addresses where it expects them."""
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    command = ["setarch", "-R", sanitized(site, "thread", THREADS), data / "a", data / "b", data / "c"]
    plain = subprocess.run(command, capture_output=True, text=True)
    if plain.returncode:
        pytest.skip(f"the thread sanitizer does not work here: {plain.stderr.strip()[:200]}")
    site.run(command, job, watch=data)
    assert site.profile(job)["write_bytes"] == 8 * 200
