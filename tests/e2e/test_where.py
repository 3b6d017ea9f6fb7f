"""Where and when, on a job's page in a real browser and on the command line: a file that four processes share."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import BELLROCK, ROOT, Site

PROCESSES, BLOCK = 4, 1 << 20


@pytest.fixture(scope="module")
def shared_job(site: Site, build_dir: Path) -> str:
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    options = ["--mode=n1", f"--processes={PROCESSES}", "--op=write", f"--bytes-per-process={BLOCK}", "--request=65536", f"--rate={BLOCK}"]
    return site.run([build_dir / "patterns", "--dir", data, *options], job, watch=data, stdout=subprocess.DEVNULL)


def shared_file(site: Site, job: str) -> str:
    return max(site.rows(job, "files"), key=lambda row: row["write_bytes"])["file"]


def test_nothing_is_asked_for_before_a_view_is_opened(site: Site, page: Page, shared_job: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urllib.parse.urlsplit(request.url).path.rsplit("/", 1)[1]))
    page.goto(f"/jobs/{shared_job}")
    panel = page.get_by_test_id("where-panel")
    expect(panel).to_contain_text("Choose a view")
    expect(page.get_by_test_id("files-panel").get_by_test_id("file-row").first).to_be_visible()
    assert not {"heat", "timeline", "offsets"} & set(asked)
    for view in ("heat", "timeline", "offsets"):
        panel.locator(f'[data-option="{view}"]').click()
        expect(page).to_have_url(re.compile(f"where={view}"))
        expect(page.get_by_test_id(view).locator("canvas")).to_be_visible()
    assert {"heat", "timeline", "offsets"} <= set(asked)
    page.get_by_test_id("where-close").click()
    expect(panel).to_contain_text("Choose a view")


def test_the_views_equal_the_api_and_the_profile(site: Site, page: Page, shared_job: str) -> None:
    profile = site.profile(shared_job)
    page.goto(f"/jobs/{shared_job}?where=heat&heat_by=rank")
    rows = page.get_by_test_id("heat-row")
    expect(rows).not_to_have_count(0)
    assert sum(int(row.get_attribute("data-total")) for row in rows.all()) == profile["write_bytes"] == PROCESSES * BLOCK
    told = site.get(f"/api/v1/jobs/{shared_job}/heat?by=rank&measure=metadata_ops")
    assert told["total"] == profile["metadata_ops"]
    page.get_by_test_id("heat-measure").get_by_text("Metadata").click()
    expect(page).to_have_url(re.compile("heat=metadata_ops"))
    expect(page.get_by_test_id("heat").get_by_text(re.compile(rf"^{told['total']} by"))).to_be_visible()

    page.goto(f"/jobs/{shared_job}?where=timeline&lanes=file")
    file = shared_file(site, shared_job)
    expect(page.locator(f'[data-testid="timeline-lane"][data-lane="{file}"]')).to_have_count(1)

    page.goto(f"/jobs/{shared_job}?where=offsets")
    expect(page.get_by_test_id("offsets-file")).to_have_value(file)
    told = site.get(f"/api/v1/jobs/{shared_job}/offsets?file={urllib.parse.quote(file, safe='')}")
    assert (told["bytes"], told["low"], told["high"], len(told["who"])) == (PROCESSES * BLOCK, 0, PROCESSES * BLOCK, PROCESSES)
    # Each byte of the file once: what processes wrote lies on end.
    of = told["segments"]
    spans = sorted((first, last + size) for first, last, size in zip(of["first"], of["last"], of["size"], strict=True))
    assert sum(until - since for since, until in spans) >= PROCESSES * BLOCK


def test_dragging_zooms_and_hovering_tells(site: Site, page: Page, shared_job: str) -> None:
    page.goto(f"/jobs/{shared_job}?where=heat")
    chart = page.get_by_test_id("heat-chart")
    expect(chart.locator("canvas")).to_be_visible()
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    # One node writes all the time: its row is the whole picture.
    for share in (0.4, 0.5, 0.6):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
    expect(chart.get_by_text(re.compile("Written in"))).to_be_visible()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=4)
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"from_ns=\d+"))
    job = site.get(f"/api/v1/jobs/{shared_job}")["job"]
    heat = page.get_by_test_id("heat")
    expect(heat).not_to_have_attribute("aria-busy", "true")
    shown = int(heat.get_attribute("data-to-ns")) - int(heat.get_attribute("data-from-ns"))
    assert shown < (job["end_ns"] - job["start_ns"]) * 0.6
    page.get_by_test_id("where-panel").get_by_test_id("zoom-reset").click()
    expect(page).not_to_have_url(re.compile("from_ns"))


def test_the_trace_has_what_the_profile_counts(site: Site, shared_job: str) -> None:
    profile = site.profile(shared_job)
    done = subprocess.run([*BELLROCK, "trace", shared_job, "--json"], env=site.env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    writes = [row for row in rows if row["op"] == "write" and not row["errno"]]
    assert sum(row["bytes"] for row in writes) == profile["write_bytes"] and sum(row["count"] for row in writes) == profile["write_ops"]
    assert [row["start_ns"] for row in rows] == sorted(row["start_ns"] for row in rows)
