"""fio's own figures for each way that it can do I/O, against the profile's."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.e2e.site import Site

# Not vsync: it leaves out of its figures what it still had in hand at the end (strace, fio 3.33).
ENGINES = ("sync", "psync", "pvsync", "pvsync2", "posixaio", "libaio", "splice")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_of_fio(site: Site, engine: str) -> None:
    if not shutil.which("fio"):
        pytest.skip("fio is not installed. Run: apt-get install fio")
    known = subprocess.run(["fio", "--enghelp"], capture_output=True, text=True, check=True).stdout.split()
    if engine not in known:
        pytest.skip(f"this fio has no engine {engine}")
    job = site.new_job()
    data, said = site.data / job, site.folder / f"{job}.json"
    data.mkdir()
    files = ["fio", "--name=x", f"--directory={data}", "--size=2M", "--numjobs=2"]
    subprocess.run([*files, "--rw=write", "--ioengine=psync", "--output=/dev/null"], check=True)  # else fio would write them first
    options = [f"--ioengine={engine}", "--rw=randrw", "--bs=16k", "--iodepth=8", "--end_fsync=1", "--output-format=json", f"--output={said}"]
    site.run([*files, *options], job, watch=data)
    theirs = json.loads(said.read_text())["jobs"]
    ours = site.profile(job)
    for direction in ("read", "write"):
        assert ours[f"{direction}_bytes"] == sum(each[direction]["io_bytes"] for each in theirs), direction
        assert ours[f"{direction}_ops"] == sum(each[direction]["total_ios"] for each in theirs), direction
    assert ours["unseen"] == []


def test_io_uring_of_fio_is_marked(site: Site) -> None:
    if not shutil.which("fio"):
        pytest.skip("fio is not installed. Run: apt-get install fio")
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    command = ["fio", "--name=x", f"--directory={data}", "--ioengine=io_uring", "--rw=write", "--size=1M"]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this fio or this kernel has no io_uring")
    site.run(command, job, watch=data, stdout=subprocess.DEVNULL)
    assert [(row["program"], row["reason"]) for row in site.profile(job)["unseen"]] == [("fio", "io_uring")]
