"""A spool of 1 MiB, nobody who takes its records, and a program that writes at random places: sums stay exact, and it is told everywhere."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.e2e.site import BELLROCK, ROOT, Site
from tests.wait import until
from tests.e2e.conftest import QUIET

WRITES = 300_000
# Waits for the file `go`, then writes; tells what it wrote.
PROGRAM = """
import os, random, sys, time
folder = sys.argv[1]
while not os.path.exists(folder + "/go"):
    time.sleep(0.01)
rng, data, total = random.Random(3), bytes(4096), 0
file = os.open(folder + "/data", os.O_CREAT | os.O_WRONLY)
for _ in range(int(sys.argv[2])):
    total += os.pwrite(file, data[: rng.randrange(1, 4096)], rng.randrange(1 << 28))
print(total)
"""


@pytest.fixture(scope="module", autouse=True)
def small_spool(site: Site) -> Iterator[None]:
    site.stop()
    (site.state / "server.toml").write_text("[agent]\nspool_mib = 1\n")
    site.start()
    yield


def overflowing_job(site: Site, is_killed: bool) -> tuple[str, int]:
    """Runs the program while the server is away; its job and the bytes that it wrote."""
    job = site.new_job()
    folder = site.data / job
    folder.mkdir()
    overflow = site.state / "spool" / "full_since"
    watched = [sys.executable, "-c", PROGRAM, folder, str(WRITES)]
    with site.launch(watched, job, watch=folder / "data", stdout=subprocess.PIPE, text=True) as process:
        until(lambda: any(j["job_id"] == job for j in site.get("/api/v1/jobs")["jobs"]), "the job to show")
        if is_killed:
            site.kill_server()
        else:
            site.server.send_signal(signal.SIGSTOP)
        (folder / "go").touch()
        until(overflow.exists, "the spool to be full")
        since_s = time.monotonic()
        if not is_killed:
            # bellrock run asks the server at its end.
            until(lambda: time.monotonic() - since_s > 2, "the spool to be full for a while")
            site.server.send_signal(signal.SIGCONT)
        total = int(process.communicate(timeout=120)[0])
        if is_killed:
            until(lambda: time.monotonic() - since_s > 2, "the spool to be full for a while")
            site.start()
    site.settle(job, 120)
    until(lambda: not overflow.exists(), "the spool to have room")
    return job, total


@pytest.mark.parametrize("is_killed", [False, True], ids=["server stopped for a while", "server killed and agent replaced"])
def test_sums_are_exact_and_the_overflow_is_told(site: Site, chromium_path: str, is_killed: bool) -> None:
    job, total = overflowing_job(site, is_killed)
    profile = site.profile(job)
    assert (profile["write_ops"], profile["write_bytes"]) == (WRITES, total)
    assert 0 < profile["folded_ops"] <= WRITES

    def told() -> dict | None:
        """What the agent's samples say by now: they come some time after the records."""
        found = site.get(f"/api/v1/jobs/{job}")["losses"]
        return found[0] if found and found[0]["folded"] else None

    loss = until(told, "the agent to tell of its spool and of what was folded")
    assert loss["spool_full_s"] >= 2 and loss["lost"] == loss["lost_names"] == 0

    report = subprocess.run([*BELLROCK, "show", job], env=site.env, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout
    assert re.search(r"the agent's spool on \S+ was full, or could not be written, for .* meanwhile, and [\d,]+ operations of programs there were folded", report), report
    audit = subprocess.run([*BELLROCK, "audit", "--json", "--deep"], env=site.env, cwd=ROOT, capture_output=True, text=True, timeout=120)
    found = json.loads(audit.stdout)
    assert audit.returncode == 0, found["flaws"]
    assert {"spool_full", "folded"} <= {flaw["kind"] for flaw in found["flaws"]}

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path, args=QUIET)
        page = browser.new_page(base_url=site.url)
        page.goto(f"/jobs/{job}")
        expect(page.get_by_test_id("note-spool-full")).to_contain_text(loss["node"])
        expect(page.get_by_test_id("note-folded")).to_contain_text("operations were folded")
        page.goto("/status")
        expect(page.get_by_test_id("flaws")).to_have_attribute("data-clean", "true")
        expect(page.locator('[data-testid="flaw"][data-kind="spool_full"]').first).to_contain_text("the spool was full, or could not be written, for")
        browser.close()
