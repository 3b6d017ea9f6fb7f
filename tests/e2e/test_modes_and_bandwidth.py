"""I/O mode and bandwidth against programs that know them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.site import Site

TOLERANCE = 0.005


def patterns(site: Site, build_dir: Path, **options: object) -> tuple[dict, dict]:
    """(what the program says, the profile)."""
    job = site.new_job()
    data, said = site.data / job, site.folder / f"{job}.json"
    data.mkdir()
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    with open(said, "w") as out:
        site.run([build_dir / "patterns", "--dir", data, *flags], job, watch=data, stdout=out)
    shutil.rmtree(data)
    return json.loads(said.read_text()), site.profile(job)


def mode_expected(mode: str, processes: int) -> str:
    """By the definition of the profile: with one process every pattern is 1-1."""
    if processes == 1 or mode == "11":
        return "1-1"
    return {"nn": "N-N", "n1": "N-1", "nm": "N-M"}[mode]


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7, 16, 33, 64])
@pytest.mark.parametrize("mode", ["nn", "n1", "nm", "11"])
def test_io_mode(site: Site, build_dir: Path, mode: str, processes: int) -> None:
    if mode == "nm" and processes < 4:
        pytest.skip("fewer than four processes cannot share two files two by two: the pattern would be another")
    files = 2 if processes < 16 else 4
    said, profile = patterns(site, build_dir, mode=mode, processes=processes, files=files, op="both", bytes_per_process=1 << 18, request=1 << 14)
    expected = mode_expected(mode, processes)
    assert (profile["io_mode_read"], profile["io_mode_write"]) == (expected, expected)
    assert (profile["processes"], profile["io_processes"]) == (said["processes"], said["io_processes"])
    assert profile["files"] == said["files"]
    for direction in ("read", "write"):
        for what in ("bytes", "ops"):
            assert profile[f"{direction}_{what}"] == said[f"{direction}_{what}"]
    assert profile["metadata_ops"] == said["metadata_ops"]


@pytest.mark.parametrize("mode", ["nn", "n1"])
def test_bandwidth_equals_the_program_s_own_clock(site: Site, build_dir: Path, mode: str) -> None:
    said, profile = patterns(site, build_dir, mode=mode, processes=4, op="both", bytes_per_process=192 << 20, request=1 << 18)
    for direction in ("read", "write"):
        assert profile[f"bandwidth_avg_{direction}"] == pytest.approx(said[f"bandwidth_{direction}"], rel=TOLERANCE)
        assert profile[f"bandwidth_peak_{direction}"] <= said[f"{direction}_bytes"]


def fio_span_s(log: Path) -> float:
    """From the start of fio's first operation to the end of its last, by its log of each one: the end in ms since it began, its latency in ns.
    The run time that fio divides by is longer by its way to the first and from the last, tens of ms where the machine is busy."""
    ends_ms, latencies_ns = zip(*[map(int, line.split(",")[:2]) for line in log.read_text().splitlines()], strict=True)
    return (ends_ms[-1] - ends_ms[0]) / 1e3 + latencies_ns[0] / 1e9


@pytest.mark.parametrize("kind", ["read", "write", "randread", "randwrite"])
def test_bandwidth_equals_fio_s(site: Site, kind: str) -> None:
    if not shutil.which("fio"):
        pytest.skip("fio is not installed. Run: apt-get install fio")
    job = site.new_job()
    data, said = site.data / job, site.folder / f"{job}.json"
    data.mkdir()
    direction = kind.removeprefix("rand")
    fio = ["fio", "--name=t", f"--rw={kind}", "--bs=64k", "--size=64m", "--ioengine=psync", "--time_based", "--runtime=4", "--rate_iops=4000"]
    layout = ["fio", "--name=t", "--rw=write", "--bs=1m", "--size=64m", f"--directory={data}", "--output=/dev/null"]
    subprocess.run(layout, check=True, cwd=site.folder)
    site.run([*fio, "--output-format=json", f"--output={said}", f"--write_lat_log={site.folder / job}", f"--directory={data}"], job, watch=data, cwd=site.folder)
    text = said.read_text()
    result = json.loads(text[text.index("{") :])["jobs"][0][direction]
    profile = site.profile(job)
    assert profile[f"{direction}_bytes"] == result["io_bytes"]
    assert profile[f"{direction}_ops"] == result["total_ios"]
    span_s = fio_span_s(site.folder / f"{job}_lat.1.log")
    assert 0 < span_s <= result["runtime"] / 1e3 + 0.002  # both are of whole ms
    assert profile[f"bandwidth_avg_{direction}"] == pytest.approx(result["io_bytes"] / span_s, rel=TOLERANCE)
    assert profile["iops_avg"] == pytest.approx(result["total_ios"] / span_s, rel=TOLERANCE)
    shutil.rmtree(data)


@pytest.mark.parametrize("jobs", [2, 8])
def test_fio_s_jobs_have_a_file_each_whatever_its_parent_does(site: Site, jobs: int) -> None:
    if not shutil.which("fio"):
        pytest.skip("fio is not installed. Run: apt-get install fio")
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    fio = ["fio", "--name=t", "--rw=write", "--bs=64k", "--size=4m", "--ioengine=psync", f"--numjobs={jobs}", f"--directory={data}"]
    site.run([*fio, "--output=/dev/null"], job, watch=data, cwd=site.folder)
    profile = site.profile(job)
    assert (profile["io_mode_write"], profile["io_processes"], profile["files"]) == ("N-N", jobs, jobs)
    shutil.rmtree(data)


def test_rank_without_io_counts(site: Site, build_dir: Path) -> None:
    """Four ranks of which one writes: N is 4, the mode 1-1."""
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    script = 'for r in 0 1 2 3; do PMIX_RANK=$r sh -c \'[ $PMIX_RANK = 0 ] && dd if=/dev/zero of=$OUT bs=4k count=10 2>/dev/null; exit 0\' & done; wait'
    site.run(["sh", "-c", script], job, watch=data, cwd=site.folder, env={"OUT": str(data / "x")})
    profile = site.profile(job)
    assert (profile["processes"], profile["io_processes"], profile["io_mode_write"]) == (4, 1, "1-1")
