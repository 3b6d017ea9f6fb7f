"""How long operations took, as the program itself measures it."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from tests.e2e.site import Site, compiled

WRITES = 5000


def test_one_stalled_write_shows_among_thousands(site: Site) -> None:
    program = compiled("stall", site.folder)
    (site.folder / "lib").mkdir()
    delay = compiled("stall", site.folder / "lib", "-DDELAY", "-shared", "-fPIC", "-ldl")
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    with open(site.folder / "measured", "w") as out:
        site.run([program, data / "out", WRITES], job, watch=data, env={"LD_PRELOAD": str(delay)}, stdout=out)
    own = json.loads((site.folder / "measured").read_text())
    found = site.profile(job)["latency"]["write"]
    assert sum(found["counts"]) == WRITES
    # The program's clock runs a little longer than the library's, and a busy machine may stall any call: what it measured is the most there can be.
    at_least = [sum(found["counts"][number:]) for number in range(1, 8)]
    assert 1 <= at_least[4] <= own["at_least"][4] and all(ours <= theirs for ours, theirs in zip(at_least, own["at_least"], strict=True))
    slowest = found["slowest"]
    assert 0.3 <= slowest["seconds"] <= own["longest_ns"] * 1.001 / 1e9
    assert (slowest["op"], slowest["file"], slowest["program"]) == ("write", str(data / "out"), "stall")
    assert slowest["end_ns"] - slowest["start_ns"] >= 3 * 10**8


def test_each_kind_of_operation_has_its_own_times(site: Site) -> None:
    program = compiled("stall", site.folder)
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    site.run(["sh", "-c", f"{program} {data}/out 100; cat {data}/out"], job, watch=data, stdout=subprocess.DEVNULL)
    profile = site.profile(job)
    for kind in ("read", "write", "metadata"):
        assert sum(profile["latency"][kind]["counts"]) == profile[f"{kind}_ops"] > 0, kind


def test_bounds_in_the_ring_are_those_of_the_clock(tmp_path: Path, build_dir: Path) -> None:
    """Two processes' anchors tell the clock's rate far better than one could measure it at its start."""
    rings = tmp_path / "rings"
    rings.mkdir()
    watch = {"LD_PRELOAD": str(build_dir / "libbellrock.so"), "BELLROCK_RINGS": str(rings), "BELLROCK_WATCH": str(tmp_path)}
    for seconds in ("0", "1"):
        subprocess.run(["sh", "-c", f"sleep {seconds}; exec cat {__file__} > {tmp_path}/copy"], env={**os.environ, **watch}, check=True)
    headers = [path.read_bytes()[:4096] for path in rings.glob("*/*.ring")]
    anchors = sorted(struct.unpack_from("=QQ", header, 40) for header in headers)
    (ticks, ns), (last_ticks, last_ns) = anchors[0], anchors[-1]
    assert last_ns - ns > 9 * 10**8
    per_ns = (last_ticks - ticks) / (last_ns - ns)
    for header in headers:
        bounds = struct.unpack_from("=7Q", header, 104)
        assert bounds == pytest.approx([per_ns * 10**power for power in range(4, 11)], rel=0.005)
