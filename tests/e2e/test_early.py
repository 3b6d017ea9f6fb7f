"""Calls where nothing may be looked up or allocated: before constructors, between fork and exec, in signal handlers."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from tests.e2e.site import ROOT, Site, compiled


@pytest.mark.parametrize("mode", ["before", "fork", "signal", "clone"])
def test_nothing_is_looked_up_where_that_may_wait_for_ever(site: Site, mode: str) -> None:
    if mode == "before" and platform.machine() != "x86_64":
        pytest.skip(f"{platform.machine()}: before constructors `syscall` is looked up; only on x86-64 it is the library's own (unseen.c)")
    program = compiled("early", site.folder, "-rdynamic")
    out = site.data / mode
    job = site.run([program, mode, out], watch=out)
    assert out.stat().st_size == 10
    assert site.profile(job)["write_bytes"] == 10


def test_a_library_for_debugging_passes_on_a_child_s_stack(tmp_path: Path, build_dir: Path) -> None:
    """Without optimisation a compiler makes a call of what else is a jump."""
    folder = ROOT / "collectors" / "preload"
    subprocess.run(["make", "-s", "-C", folder, f"BUILD={tmp_path}", "CFLAGS=-O0 -g"], check=True)
    program = compiled("early", tmp_path, "-rdynamic")
    env = {**os.environ, "LD_PRELOAD": str(tmp_path / "libbellrock.so"), "BELLROCK_RINGS": str(tmp_path)}
    for mode in ("clone", "fork"):
        assert subprocess.run([program, mode, tmp_path / "out"], env=env, timeout=120).returncode == 0
