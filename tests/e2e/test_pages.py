"""The pages in a real browser: what they show is what the API says, live while a job runs, and every choice is in the address."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.site import Site
from tests.wait import until


@pytest.fixture(scope="module")
def patterns_job(site: Site, build_dir: Path) -> str:
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    options = ["--mode=nn", "--processes=4", "--op=both", "--bytes-per-process=4194304", "--request=65536"]
    return site.run([build_dir / "patterns", "--dir", data, *options], job, watch=data, stdout=subprocess.DEVNULL)


def shown(page: Page, name: str) -> str | None:
    return page.get_by_test_id(f"figure-{name}").first.get_attribute("data-value")


def test_job_list_equals_the_api_and_searches(site: Site, page: Page, patterns_job: str) -> None:
    other = site.run(["dd", "if=/dev/zero", f"of={site.data}/dd", "bs=4096", "count=25"], stderr=subprocess.DEVNULL)
    page.goto("/")
    expect(page).to_have_url(re.compile("/jobs"))
    row = page.locator(f'[data-testid="job-row"][data-job-id="{other}"]')
    expect(row).to_be_visible()
    told = next(j for j in site.get("/api/v1/jobs?limit=100")["jobs"] if j["job_id"] == other)
    for column in ("read_bytes", "write_bytes", "processes"):
        assert row.locator(f'[data-col="{column}"]').get_attribute("data-value") == str(told[column]), column
    assert told["write_bytes"] == 4096 * 25
    page.get_by_role("searchbox").fill(patterns_job)
    expect(page.locator('[data-testid="job-row"]')).to_have_count(1)
    expect(page).to_have_url(re.compile(patterns_job))
    page.reload()
    expect(page.locator('[data-testid="job-row"]')).to_have_count(1)
    page.locator(f'[data-testid="job-row"][data-job-id="{patterns_job}"]').get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(f"/jobs/{patterns_job}"))


def test_job_page_equals_the_api(site: Site, page: Page, patterns_job: str) -> None:
    page.goto(f"/jobs/{patterns_job}")
    expect(page.get_by_test_id("figures")).to_be_visible()
    profile = site.profile(patterns_job)
    for name in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "processes", "io_processes", "files", "phases", "errors"):
        assert shown(page, name) == str(profile[name]), name
    for name in ("bandwidth_avg_read", "bandwidth_avg_write", "bandwidth_peak_read", "bandwidth_peak_write", "iops_avg", "mdops_avg"):
        assert float(shown(page, name)) == pytest.approx(profile[name]), name
    assert (shown(page, "io_mode_read"), shown(page, "io_mode_write")) == ("N-N", "N-N")
    files = {row["file"]: row for row in site.rows(patterns_job, "files")}
    rows = page.get_by_test_id("file-row")
    expect(rows).to_have_count(len(files))
    for row in rows.all():
        file = files[row.get_attribute("data-file")]
        assert row.locator('[data-col="write_bytes"]').get_attribute("data-value") == str(file["write_bytes"])
    expect(page.get_by_test_id("process-row")).to_have_count(len(site.rows(patterns_job, "processes")))
    bins = {row["from_bytes"]: row for row in profile["request_sizes"] if row["read_ops"] or row["write_ops"]}
    for tile in page.get_by_test_id("size-bin").all():
        expected = bins.get(int(tile.get_attribute("data-from")))
        if expected:
            assert tile.get_attribute("data-write-ops") == str(expected["write_ops"])
    for number, bin_row in enumerate(page.get_by_test_id("latency-bin").all()):
        for kind, part in profile["latency"].items():
            assert bin_row.get_attribute(f"data-{kind}") == str(part["counts"][number]), (number, kind)
    assert number == 7
    for row in page.get_by_test_id("slowest-row").all():
        slowest = profile["latency"][row.get_attribute("data-kind")]["slowest"]
        assert row.locator('[data-col="file"]').get_attribute("data-value") == slowest["file"]
        assert float(row.locator('[data-col="seconds"]').get_attribute("data-value")) == slowest["seconds"]
    expect(page.locator("canvas").first).to_be_visible()


def test_live_while_the_job_runs(site: Site, page: Page, build_dir: Path) -> None:
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    # 4 MiB/s for 8 s from each of two processes.
    options = ["--mode=nn", "--processes=2", "--op=write", "--bytes-per-process=33554432", "--request=65536", "--rate=4194304"]
    with site.launch([build_dir / "patterns", "--dir", data, *options], job, watch=data, stdout=subprocess.DEVNULL) as process:
        until(lambda: any(j["job_id"] == job for j in site.get("/api/v1/jobs")["jobs"]), "the job to show")
        page.goto(f"/jobs/{job}")
        expect(page.get_by_test_id("job-state").first).to_contain_text(re.compile("running", re.I))
        seen: list[int] = []
        while process.poll() is None:
            text = shown(page, "write_bytes")
            if text and (not seen or int(text) > seen[-1]):
                seen.append(int(text))
            time.sleep(0.1)
        assert len(seen) >= 4, f"the page showed {seen} while the job ran"
    site.settle(job)
    expect(page.get_by_test_id("figure-write_bytes").first).to_have_attribute("data-value", str(2 * 33554432))
    expect(page.get_by_test_id("job-state").first).to_contain_text(re.compile("completed", re.I))


def test_zoom_lies_in_the_address(site: Site, page: Page, patterns_job: str) -> None:
    job = site.get(f"/api/v1/jobs/{patterns_job}")["job"]
    middle = (job["start_ns"] + job["end_ns"]) // 2
    page.goto(f"/jobs/{patterns_job}?from_ns={job['start_ns']}&to_ns={middle}")
    series = page.get_by_test_id("series")
    expect(series).to_be_visible()
    assert int(series.get_attribute("data-to-ns")) <= middle + 1_000_000_000
    page.get_by_test_id("zoom-reset").click()
    expect(page).not_to_have_url(re.compile("from_ns"))


def test_unknown_job_says_what_to_do(site: Site, browser: Browser) -> None:
    # On a page of its own: the browser logs the 404 as an error.
    page = browser.new_page(base_url=site.url)
    page.goto("/jobs/no-such-job")
    expect(page.get_by_role("main")).to_contain_text("There is no job no-such-job")
    expect(page.get_by_role("main")).to_contain_text("bellrock jobs")
    page.close()


def test_light_and_dark(browser: Browser, site: Site, patterns_job: str) -> None:
    colours = []
    for scheme in ("light", "dark"):
        page = browser.new_page(base_url=site.url, color_scheme=scheme)
        page.goto(f"/jobs/{patterns_job}")
        expect(page.get_by_test_id("figures")).to_be_visible()
        colours.append(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        page.close()
    assert colours[0] != colours[1]


def test_status_page(site: Site, page: Page) -> None:
    page.goto("/status")
    told = site.get("/api/v1/status")
    node = told["agents"][0]["node"]
    expect(page.get_by_test_id("agents").get_by_text(node).first).to_be_visible()
    flaws = page.get_by_test_id("flaws")
    audit = site.get("/api/v1/audit")
    expect(flaws).to_have_attribute("data-clean", "true" if audit["clean"] else "false")
    row = page.locator(f'[data-testid="boot-row"][data-node="{node}"]')
    expect(row.locator('[data-col="boot"]').first).to_have_attribute("data-value", audit["boots"][0]["boot"])
    expect(row.locator('[data-col="state"]').first).to_have_attribute("data-value", "heard")
    page.get_by_test_id("health-span").get_by_text("Ever").click()
    expect(page).to_have_url(re.compile("span=ever"))
    expect(flaws).to_be_visible()
