"""Where a job's I/O went, on its page in a real browser: a topology, samples of what served the job's node, and jobs that ran alone and side by side."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.site import BELLROCK, ROOT, Site
from tests.integration.pipeline.client import Client
from tests.unit.pipeline.component_samples import S, disk
from tests.unit.pipeline.events import sample_event
from tests.wait import until

BRICK = "bricks-<b>b1</b>"
AMPLIFICATION = 3.5
# Of each process, bytes a second.
RATE = 2 << 20
SITE = """
[[class]]
name = "compute"
nodes = "{node}"

[[file_system]]
name = "work"
kind = "gluster"
mounts = "{mount}"

[[forwarding]]
file_system = "work"
nodes = "{node}"
forwarders = "fwd1"
each = 1

[[target]]
file_system = "work"
kind = "disk"
numbers = "1-2"
servers = "oss[1-2]"
each = 1
component = "block_device"
instance = "sdb"
"""


def patterns(site: Site, build_dir: Path, job: str, op: str = "both", seconds: int = 2) -> tuple[list[str | Path], Path]:
    """A program that writes 4 MiB/s for so long, and then reads it back as fast, and the folder that it uses."""
    data = site.data / job
    data.mkdir()
    options = ["--mode=nn", "--processes=2", f"--op={op}", f"--bytes-per-process={seconds * RATE}", "--request=65536", f"--rate={RATE}"]
    return [build_dir / "patterns", "--dir", data, *options], data


@pytest.fixture(scope="module")
def alone(site: Site, build_dir: Path) -> str:
    """A job beside which no other ran."""
    job = site.new_job()
    argv, data = patterns(site, build_dir, job)
    return site.run(argv, job, watch=data, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def pair(site: Site, build_dir: Path, alone: str) -> list[str]:
    """Two jobs that ran side by side after that."""
    jobs = [site.new_job(), site.new_job()]
    launched = []
    for job in jobs:
        argv, data = patterns(site, build_dir, job)
        launched.append(site.launch(argv, job, watch=data, stdout=subprocess.DEVNULL))
    for process in launched:
        assert process.wait(timeout=120) == 0
    for job in jobs:
        site.settle(job)
    return jobs


def brick(from_s: int, to_s: int, read_bytes_per_s: float, write_bytes_per_s: float) -> Iterator[dict[str, Any]]:
    """A server of files that is busy evenly."""
    for seq, at_s in enumerate(range(from_s, to_s), start=1):
        values = {
            "read_bytes": round(read_bytes_per_s), "write_bytes": round(write_bytes_per_s), "read": 50, "read_ns": 50 * 4_000_000, "write": 20, "write_ns": 20 * 9_000_000,
            "lookup": 5, "lookup_ns": 5 * 1_000_000, "queue_length": 3 + at_s % 2,
        }  # fmt: skip
        yield sample_event(seq, node="fwd1", component="gluster_server", instance=BRICK, start=at_s * S, end=(at_s + 1) * S, values=values)


@pytest.fixture(scope="module")
def told(site: Site, alone: str, pair: list[str]) -> None:
    """The topology, and the samples of all the time: the forwarding node reads 3.5 times what the first job asked for, and writes what it wrote; oss2 is silent."""
    first = site.get(f"/api/v1/jobs/{alone}")
    job, profile = first["job"], first["profile"]
    folder = site.folder / "topology"
    folder.mkdir()
    (folder / "site.toml").write_text(SITE.format(node=job["node_names"][0], mount=site.data))
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(job["start_ns"] / S - 3600))
    subprocess.run([*BELLROCK, "topology", "apply", str(folder), "--at", at, "--yes"], env=site.env, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    lasted_s = (job["end_ns"] - job["start_ns"]) / S
    from_s, to_s = job["start_ns"] // S - 30, int(time.time()) + 1
    sent = {
        "1": brick(from_s, to_s, AMPLIFICATION * profile["read_bytes"] / lasted_s, profile["write_bytes"] / lasted_s),
        "2": disk("oss1", "sdb", from_s, to_s),
    }
    with Client(site.ingest_port) as client:
        for boot, events in sent.items():
            client.deliver([event | {"boot": boot} for event in events])
    until(lambda: site.get("/api/v1/components?component=gluster_server")["total"] == 1, "the samples to show")


def layer_of(page: Page, name: str) -> Locator:
    return page.locator(f'[data-testid="layer"][data-layer="{name}"]')


def cell(page: Page, layer: str, kind: str, column: str) -> Locator:
    return layer_of(page, layer).locator(f'[data-testid="layer-row"][data-kind="{kind}"] [data-col="{column}"]')


def span_ns(series: Locator) -> tuple[int, int]:
    return int(series.get_attribute("data-from-ns")), int(series.get_attribute("data-to-ns"))


def layers(site: Site, job: str) -> dict[str, dict[str, Any]]:
    (system,) = site.get(f"/api/v1/jobs/{job}/layers")["file_systems"]
    return {layer["layer"]: layer for layer in system["layers"]}


def test_without_a_topology_the_page_says_what_to_do(page: Page, alone: str) -> None:
    page.goto(f"/jobs/{alone}")
    expect(page.get_by_test_id("no-topology")).to_contain_text("bellrock topology apply")
    expect(page.get_by_test_id("layer")).to_have_count(0)


def test_an_amplification_shows_as_the_api_tells_it(site: Site, page: Page, alone: str, told: None) -> None:
    page.goto(f"/jobs/{alone}")
    expect(page.get_by_test_id("layer")).to_have_count(3)
    answer = layers(site, alone)
    assert [one.get_attribute("data-layer") for one in page.get_by_test_id("layer").all()] == list(answer) == ["client", "forwarding", "storage"]
    profile = site.profile(alone)
    for kind in ("read", "write"):
        assert cell(page, "client", kind, "bytes").get_attribute("data-value") == str(profile[f"{kind}_bytes"])
        assert cell(page, "forwarding", kind, "bytes").get_attribute("data-value") == str(answer["forwarding"]["own"][f"{kind}_bytes"])
    read = cell(page, "forwarding", "read", "amplification")
    assert float(read.get_attribute("data-value")) == pytest.approx(AMPLIFICATION, rel=0.01)
    expect(read).to_have_text("3.5 × what its processes asked for")
    expect(read.locator(".times-high")).to_have_count(1)
    expect(cell(page, "forwarding", "write", "amplification").locator(".times-high")).to_have_count(0)
    expect(cell(page, "forwarding", "read", "latency")).to_have_text("4.00 ms")
    expect(layer_of(page, "forwarding").get_by_test_id("layer-words")).to_have_text("1 component on fwd1, which served no other job.")
    expect(layer_of(page, "forwarding").get_by_test_id("layer-queue")).to_contain_text("on average, 4 at most")
    expect(layer_of(page, "forwarding").get_by_test_id("layer-cache")).to_have_text("Cache –")
    expect(layer_of(page, "storage").get_by_test_id("layer-words")).to_contain_text("Nothing came of 1 of them in this time.")


def test_a_layer_opens_by_keyboard_and_lies_in_the_address(site: Site, page: Page, alone: str, told: None) -> None:
    page.goto(f"/jobs/{alone}")
    toggle = layer_of(page, "forwarding").get_by_test_id("layer-toggle")
    expect(toggle).to_have_attribute("aria-expanded", "false")
    toggle.focus()
    page.keyboard.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    expect(page).to_have_url(re.compile("layer_of=work&layer=forwarding"))
    series = page.get_by_test_id("layer-series")
    expect(series.locator("canvas").first).to_be_visible()
    job = site.get(f"/api/v1/jobs/{alone}")["job"]
    # The page's numbers are doubles.
    assert span_ns(series) == pytest.approx((job["start_ns"], job["end_ns"]), abs=1000, rel=0)
    row = page.get_by_test_id("layer-component")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(BRICK)
    row.get_by_role("button", name="fwd1").click()
    expect(page).to_have_url(re.compile("layer_node=fwd1"))
    expect(row).to_have_attribute("data-selected", "true")
    page.reload()
    expect(row).to_have_attribute("data-selected", "true")
    row.get_by_role("link", name="charts").click()
    expect(page.get_by_test_id("component-name")).to_contain_text(BRICK)
    page.go_back()
    layer_of(page, "storage").get_by_test_id("layer-toggle").click()
    expect(page.get_by_test_id("layer-component")).to_have_count(2)
    silent = page.locator('[data-testid="layer-component"][data-node="oss2"]')
    expect(silent.locator('[data-col="read_bytes"]')).to_have_text("–")
    expect(silent.locator('[data-col="known_s"]')).to_have_text("sent nothing")
    page.get_by_test_id("sort-component").click()
    expect(page).to_have_url(re.compile("layer_sort=component"))
    silent.get_by_role("button", name="oss2").click()
    expect(page.get_by_test_id("layer-unknown")).to_contain_text("nothing is known over this time")


def test_what_is_shared_is_everybodys_and_leads_to_the_other_job(site: Site, page: Page, pair: list[str], told: None) -> None:
    job, other = pair
    assert layers(site, job)["forwarding"]["own"] is None
    page.goto(f"/jobs/{job}?layer_of=work&layer=forwarding")
    forwarding = layer_of(page, "forwarding")
    expect(forwarding.get_by_test_id("layer-shared")).to_have_text("shared with 1 other job")
    expect(forwarding.get_by_test_id("layer-words")).to_contain_text("whoever asked: this job's part cannot be told apart")
    expect(cell(page, "forwarding", "read", "amplification")).to_have_text("")
    expect(forwarding.locator(".layer-bar > *")).to_have_count(0)
    page.get_by_test_id("layer-jobs").get_by_role("link", name=other).click()
    expect(page).to_have_url(re.compile(f"/jobs/{other}$"))


def test_a_span_of_the_jobs_chart_is_one_of_its_layers_too(site: Site, page: Page, alone: str, told: None) -> None:
    job = site.get(f"/api/v1/jobs/{alone}")["job"]
    middle_ns = (job["start_ns"] + job["end_ns"]) // 2
    page.goto(f"/jobs/{alone}?layer_of=work&layer=forwarding&from_ns={middle_ns}&to_ns={job['end_ns']}")
    series = page.get_by_test_id("layer-series")
    expect(series).to_be_visible()
    assert span_ns(series) == pytest.approx((middle_ns, job["end_ns"]), abs=1000, rel=0)
    page.get_by_test_id("zoom-reset").click()
    expect(page).not_to_have_url(re.compile("from_ns="))
    expect(series).not_to_have_attribute("data-from-ns", re.compile(f"^{str(middle_ns)[:12]}"))


def test_live_while_the_job_runs(site: Site, page: Page, build_dir: Path, told: None) -> None:
    job = site.new_job()
    argv, data = patterns(site, build_dir, job, "write", 12)
    written = cell(page, "client", "write", "bytes")
    with site.launch(argv, job, watch=data, stdout=subprocess.DEVNULL) as process:
        until(lambda: any(one["job_id"] == job for one in site.get("/api/v1/jobs")["jobs"]), "the job to show")
        page.goto(f"/jobs/{job}")
        expect(written).to_be_visible()
        first = int(written.get_attribute("data-value"))
        assert first < 2 * 12 * RATE, "it ran still"
        assert process.wait(timeout=120) == 0
    site.settle(job)
    expect(written).to_have_attribute("data-value", str(2 * 12 * RATE))


@pytest.mark.parametrize("width_px", [1280, 400])
def test_light_and_dark_wide_and_narrow(browser: Browser, site: Site, alone: str, told: None, width_px: int) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        page = browser.new_page(base_url=site.url, color_scheme=scheme, viewport={"width": width_px, "height": 900})
        page.goto(f"/jobs/{alone}?layer_of=work&layer=storage")
        expect(page.get_by_test_id("layer-series")).to_be_visible()
        grounds.add(page.evaluate("getComputedStyle(document.querySelector('.times-high')).backgroundColor"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width_px, "nothing sticks out of the page"
        page.close()
    assert len(grounds) == 2
