"""Every call that the preload library wraps, made by a C program that knows what it did."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.site import PROGRAMS, Site, compiled

BUILDS = {
    "plain": [],
    "fortified": ["-D_FORTIFY_SOURCE=2"],
    "large-files": ["-D_FILE_OFFSET_BITS=64"],
    "unoptimised": ["-O0", "-D__NO_INLINE__"],
}


@pytest.mark.parametrize("build", BUILDS)
def test_every_call_counts_once(site: Site, build: str) -> None:
    program = compiled("every_call", site.folder, *BUILDS[build])
    job = site.new_job()
    data, said = site.data / job, site.folder / f"{job}.json"
    data.mkdir()
    with open(said, "w") as out:
        site.run([program, data], job, watch=data, stdout=out)
    truth = json.loads(said.read_text())
    errors = truth.pop("errors")
    profile = site.profile(job)
    assert {row["op"]: [row["count"], row["bytes"]] for row in profile["operations"] if row["count"]} == truth
    assert profile["errors"] == errors
    shutil.rmtree(data)


def test_no_wrapper_goes_without_a_call(build_dir: Path) -> None:
    """What the library exports stands in the program, or is what the C library's headers make of a name there."""
    exported = subprocess.run(["nm", "-D", "--defined-only", build_dir / "libbellrock.so"], check=True, capture_output=True, text=True).stdout
    names = {line.split()[2] for line in exported.splitlines()}
    assert len(names) > 150
    words = {word for part in PROGRAMS.glob("every_call*") for word in re.findall(r"\w+", part.read_text())}
    assert names - words == set()


def test_a_rust_program_s_probes_do_no_harm(site: Site) -> None:
    """Rust's standard library asks for statx with no path at all."""
    cargo = shutil.which("cargo")
    if not cargo:
        pytest.skip("cargo is not installed. Run: make build")
    site.run([cargo, "--version"], stdout=subprocess.DEVNULL)
