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


def test_a_program_with_the_address_sanitizer_runs(site: Site) -> None:
    source = site.folder / "plain.c"
    source.write_text("int main(void) { return 0; }\n")
    built = subprocess.run(["cc", "-fsanitize=address", "-o", site.folder / "asan", source], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"the C compiler has no address sanitizer: {built.stderr.strip().splitlines()[-1]}")
    site.run([site.folder / "asan"])
