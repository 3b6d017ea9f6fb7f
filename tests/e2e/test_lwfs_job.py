"""A job that only its node's file system client saw, from the client's log to the profile."""

from __future__ import annotations

import subprocess

import pytest

from tests.e2e.site import PROGRAMS, ROOT, Site, compiled

COUNT, SIZE = 1000, 4096


@pytest.fixture
def logged(site: Site) -> Site:
    """A site whose agent reads an LWFS client's log, which is not there yet."""
    site.stop()
    (site.state / "server.toml").write_text(f'[agent]\nlwfs_client_logs = ["{site.folder / "client.log"}"]\nlwfs_client_time_zone = "UTC"\n')
    site.start()
    return site


def static(site: Site) -> str:
    target = site.folder / "lwfs_job_static"
    built = subprocess.run(["cc", "-static", "-o", target, PROGRAMS / "lwfs_job.c"], capture_output=True, text=True, cwd=ROOT)
    if built.returncode:
        pytest.skip(f"no static C library here: {built.stderr.strip().splitlines()[-1]}")
    return str(target)


def test_a_job_that_only_the_client_s_log_shows_has_its_node_s_figures(logged: Site) -> None:
    log, out = logged.folder / "client.log", logged.data / "out"
    job = logged.run([static(logged), log, out, COUNT, SIZE])
    p = logged.profile(job)
    assert (p["granularity"], [row["reason"] for row in p["unseen"]]) == ("node", ["static"])
    assert (p["write_ops"], p["write_bytes"], p["processes"], p["io_mode_write"], p["files"]) == (COUNT, COUNT * SIZE, 1, "1-1", 1)
    assert (p["slowest_op"], p["read_ops"]) == (None, 0) and p["bandwidth_avg_write"] > 0
    assert [row["file"] for row in logged.rows(job, "files")] == [str(out)]
    # Another job, later and of a program that can be watched, has its own figures and none of the log's.
    watched = logged.run([compiled("lwfs_job", logged.folder), log, logged.data / "other", COUNT, SIZE])
    p = logged.profile(watched)
    assert (p["granularity"], p["unseen"], p["write_bytes"]) == ("process", [], COUNT * SIZE)
