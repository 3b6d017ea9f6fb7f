"""The pages of servers in a real browser: what agents of other nodes sent, with what they say of it over the API."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.site import Site
from tests.integration.pipeline.client import Client
from tests.unit.pipeline.component_samples import S, disk, lwfs_server, node_itself
from tests.unit.pipeline.events import sample_event
from tests.wait import until

SPAN_S = 1200
BRICK = "lw:/data/a b&c"


@pytest.fixture(scope="module")
def told(site: Site) -> int:
    """When the samples of two servers end, s since the epoch: a disk that was quiet for five minutes, and one that fell silent."""
    now_s = int(time.time())
    begin_s = now_s - SPAN_S
    brick = sample_event(1, node="fwd1", component="gluster_server", instance=BRICK, start=begin_s * S, end=(begin_s + 1) * S, values={"reads": 7})
    sent = {
        "1": disk("fwd1", "sda", begin_s, now_s, quiet=(300, 600)),
        "2": node_itself("fwd1", begin_s, now_s),
        "3": [brick],
        "5": lwfs_server("fwd2", "/var/log/lwfs.log", begin_s, now_s),
        "4": disk("oss<1>", "sdb", begin_s - 3600, begin_s),
    }
    with Client(site.ingest_port) as client:
        for boot, events in sent.items():
            client.deliver([event | {"boot": boot} for event in events])
    until(lambda: site.get("/api/v1/components?component=gluster_server")["total"] == 1, "the samples to show")
    return now_s


def total(page: Page, name: str) -> float:
    return float(page.locator(f'[data-testid="value"][data-name="{name}"]').get_attribute("data-total"))


def test_the_list_groups_components_by_server_and_tells_who_is_silent(site: Site, page: Page, told: int) -> None:
    page.goto("/")
    page.get_by_role("link", name="Servers").click()
    expect(page).to_have_url(re.compile("/servers$"))
    row = page.locator('[data-testid="server-row"][data-node="fwd1"]')
    expect(row.get_by_test_id("component")).to_have_count(3)
    expect(page.locator('[data-testid="server-row"][data-node="oss<1>"] .component-silent')).to_have_count(1)
    answer = site.get("/api/v1/components")
    expect(page.get_by_test_id("figure-servers")).to_have_attribute("data-value", str(answer["nodes"]))
    # The agent of this machine tells of its own disks, too.
    disks, machines = (site.get(f"/api/v1/components?component={kind}")["total"] for kind in ("block_device", "node"))
    assert disks >= 2 and machines >= 1
    expect(page.get_by_test_id("figure-kind-block_device")).to_have_attribute("data-value", str(disks))
    page.get_by_test_id("sort-last_ns").click()
    expect(page).to_have_url(re.compile("sort=-last_ns"))
    page.get_by_role("searchbox").fill("GLUSTER")
    expect(page.get_by_test_id("server-row")).to_have_count(1)
    page.reload()
    expect(page.get_by_test_id("server-row")).to_have_count(1)
    page.get_by_role("searchbox").fill("no such thing")
    expect(page.get_by_role("main")).to_contain_text("No server matches")
    page.get_by_role("button", name="Show all servers").click()
    page.get_by_test_id("kind-filter").select_option("node")
    expect(page.get_by_test_id("component")).to_have_count(machines)


def test_a_servers_page_shows_what_the_api_says(site: Site, page: Page, told: int) -> None:
    span = f"from_ns={(told - SPAN_S) * S}&to_ns={told * S}"
    page.goto(f"/servers/fwd1?component=block_device&instance=sda&{span}")
    series = page.get_by_test_id("component-series")
    expect(series).to_be_visible()
    answer = site.get(f"/api/v1/components/series?node=fwd1&component=block_device&instance=sda&{span}&points=300")
    values = {value["name"]: value for value in answer["values"]}
    sent = [event["values"] for event in disk("fwd1", "sda", told - SPAN_S, told, quiet=(300, 600))]
    for name in ("read_bytes", "write_bytes", "reads", "busy_ns"):
        assert values[name]["total"] == pytest.approx(sum(one[name] for one in sent)), name
        assert total(page, name) == values[name]["total"]
    assert float(series.get_attribute("data-step-s")) == answer["step_s"]
    quiet = [rate for at, rate in zip(answer["t_ns"], values["read_bytes"]["per_s"], strict=True) if told - SPAN_S + 310 <= at / S < told - SPAN_S + 590]
    assert set(quiet) == {0}, "what does not change is 0, though only one sample a minute told so"
    expect(page.locator("canvas")).to_have_count(4)
    expect(page.get_by_test_id("quiet")).to_contain_text("Discards")


def test_a_histogram_is_shown_over_time_and_in_numbers(site: Site, page: Page, told: int) -> None:
    page.goto(f"/servers/fwd2?from_ns={(told - SPAN_S) * S}&to_ns={told * S}")
    expect(page.get_by_test_id("histogram-panel")).to_contain_text("half up to 200 µs, 90 % up to 1.00 ms")
    sent = [event["values"] for event in lwfs_server("fwd2", "/var/log/lwfs.log", told - SPAN_S, told)]
    buckets = page.locator('[data-testid="bucket"][data-name="read_wait"]')
    expect(buckets).to_have_count(7)
    for bucket, bound in zip(buckets.all(), ("100", "200", "500", "1000", "5000", "20000", "inf"), strict=True):
        assert float(bucket.get_attribute("data-total")) == pytest.approx(sum(values[f"read_wait_to_{bound}"] for values in sent)), bound
    expect(page.locator("canvas")).to_have_count(3)


def test_components_and_times_are_chosen_by_keyboard_and_lie_in_the_address(site: Site, page: Page, told: int) -> None:
    page.goto("/servers/fwd1")
    name = page.get_by_test_id("component-name")
    expect(name).to_have_text("Block device sda")
    link = page.get_by_test_id("components").locator('[data-component="node"]')
    link.focus()
    page.keyboard.press("Enter")
    expect(name).to_have_text("Node")
    expect(link).to_have_attribute("aria-current", "true")
    expect(page.locator('[data-testid="value"][data-name="new_value"]')).to_have_attribute("data-kind", "unknown")
    page.get_by_test_id("span").get_by_text("6 hours").click()
    expect(page).to_have_url(re.compile("component=node&instance=fwd1&span=6h"))
    page.get_by_test_id("zoom-in").click()
    expect(page).to_have_url(re.compile("from_ns="))
    page.get_by_test_id("zoom-reset").click()
    expect(page).not_to_have_url(re.compile("from_ns="))
    page.go_back()
    expect(page).to_have_url(re.compile("from_ns="))
    page.get_by_test_id("components").locator('[data-component="gluster_server"]').click()
    expect(name).to_contain_text(BRICK)


def test_no_data_is_told_apart_from_silence_and_from_too_much(page: Page, told: int) -> None:
    page.goto("/servers/oss%3C1%3E?span=15m")
    expect(page.get_by_test_id("silent")).to_contain_text("Nothing has come of it since")
    expect(page.get_by_role("main")).to_contain_text("No data in this time")
    page.goto("/servers/nowhere")
    expect(page.get_by_role("main")).to_contain_text("Nothing was heard of nowhere in the last 24 hours")


def test_thousands_of_ports_stand_by_switch_and_are_found_by_name(site: Site, page: Page, told: int) -> None:
    ports = [f"leaf{switch}/{port}" for switch in range(80) for port in range(1, 37)]
    span = {"start": (told - 10) * S, "end": told * S, "values": {"transmit_bytes": 4096}}
    with Client(site.ingest_port) as client:
        client.deliver([sample_event(seq, node="sm1", component="switch_port", instance=port, **span) | {"boot": "6"} for seq, port in enumerate(ports, 1)])
    until(lambda: site.get("/api/v1/components?search=sm1")["total"] == len(ports), "the ports to show")
    page.goto("/servers/sm1?component=switch_port&instance=leaf9/36&span=7d")
    name, listed, shown = page.get_by_test_id("component-name"), page.get_by_test_id("components"), page.get_by_test_id("pager-range")
    expect(shown).to_have_text("1–1000 of 2,880 components")
    expect(name).to_have_text("Switch port leaf9/36")
    expect(page.get_by_test_id("component-series")).to_be_visible()
    for range_ in ("1001–2000", "2001–2880"):
        page.get_by_test_id("page-next").click()
        expect(shown).to_have_text(f"{range_} of 2,880 components")
    expect(listed.locator('[aria-current="true"]')).to_have_attribute("data-instance", "leaf9/36")
    page.get_by_role("searchbox").fill("leaf7/")
    expect(listed.get_by_test_id("component")).to_have_text([str(port) for port in range(1, 37)])
    listed.get_by_text("36", exact=True).click()
    expect(name).to_have_text("Switch port leaf7/36")
    expect(listed.get_by_test_id("component")).to_have_count(36)
    page.goto("/servers?search=sm1")
    expect(page.locator('[data-testid="server-row"][data-node="sm1"]')).to_contain_text("1,880 on other pages of this list")


def test_a_server_that_is_away_shows_as_that_and_the_last_data_stay(site: Site, browser: Browser, told: int) -> None:
    # On a page of its own: the browser logs each answer that fails.
    page = browser.new_page(base_url=site.url)
    page.goto("/servers/fwd1")
    expect(page.get_by_test_id("component-series")).to_be_visible()
    page.route("**/api/v1/components**", lambda route: route.abort())
    expect(page.get_by_test_id("error").first).to_contain_text("What you see is the last that arrived", timeout=60_000)
    expect(page.get_by_test_id("component-series")).to_be_visible()
    page.close()


def test_light_and_dark(browser: Browser, site: Site, told: int) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        page = browser.new_page(base_url=site.url, color_scheme=scheme)
        page.goto("/servers/fwd1")
        expect(page.get_by_test_id("component-series")).to_be_visible()
        grounds.add(page.evaluate("getComputedStyle(document.querySelector('.component[aria-current]')).backgroundColor"))
        page.close()
    assert len(grounds) == 2
