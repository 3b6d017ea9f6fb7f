"""The three findings of the system: samples come over the wire as agents send them, the server finds what is wrong in them, and a browser and the command line show it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.site import BELLROCK, ROOT, Site
from tests.integration.pipeline.client import deliver_all
from tests.unit.pipeline.events import sample_event
from tests.wait import until

S, MINUTE_S, HOUR_S, DAY_S = 10**9, 60, 3600, 86_400
TOPOLOGY = """
[[class]]
name = "compute"
nodes = "cn[1-2]"

[[class]]
name = "login"
nodes = "login1"

[[file_system]]
name = "work"
kind = "lustre"
mounts = "/work"

[[forwarding]]
file_system = "work"
nodes = "cn[1-2]"
each = 1
forwarders = "fwd[1-2]"

[[target]]
file_system = "work"
kind = "mdt"
numbers = "0"
servers = "mds1"

[[address]]
nodes = "fwd1,login1"
addresses = "10.0.0.[1-2]"
network = "o2ib"
"""
# Minutes before the last one: a cache was thrashed from until, and login nodes press since.
THRASHED, PRESSED = (70, 40), 20
# Samples are of hours for half a day up to midnight, as each hour is looked at by itself, and of minutes for so long after it.
FINE_S = 2 * HOUR_S
KINDS = ("cache-thrashing", "metadata-pressure", "forwarding-load")
PAGE = 4096


def told(last_s: int) -> dict[str, list[dict]]:
    """What each node's agent sends: fwd1 moves as much as it can, fwd2 next to nothing; its cache is thrashed for half an hour, and then login nodes storm the metadata server."""
    found: dict[str, list[dict]] = {}

    def tell(node: str, component: str, instance: str, begin_s: int, lasts_s: int, **per_minute: float) -> None:
        of = found.setdefault(node, [])
        values = {name: value * lasts_s / MINUTE_S for name, value in per_minute.items()}
        of.append(sample_event(len(of) + 1, node=node, component=component, instance=instance, start=begin_s * S, end=(begin_s + lasts_s) * S, values=values))

    at_s = last_s - FINE_S - DAY_S // 2
    while at_s < last_s:
        lasts_s = HOUR_S if at_s < last_s - FINE_S else MINUTE_S
        before = (last_s - at_s) // MINUTE_S
        is_thrashed = THRASHED[1] < before <= THRASHED[0]
        tell("fwd1", "lustre_client", "work", at_s, lasts_s, readahead_hits=1e6, readahead_misses=4000, readahead_discards=0, read_bytes=60e9, write_bytes=3e9)
        pages = (2e5, 3e5, 6e5) if is_thrashed else (1e5, 400, 0)
        tell("fwd2", "lustre_client", "work", at_s, lasts_s, **dict(zip(("readahead_hits", "readahead_misses", "readahead_discards"), pages, strict=True)), read_bytes=4e8, write_bytes=1e6)
        tell("mds1", "lustre_mdt", "work-MDT0000", at_s, lasts_s, open=1)
        tell("mds1", "lustre_export", "work-MDT0000 10.0.0.1@o2ib", at_s, lasts_s, open=15_000, close=15_000)
        storm = 60_000 if before <= PRESSED else 300
        tell("mds1", "lustre_export", "work-MDT0000 10.0.0.2@o2ib", at_s, lasts_s, open=storm, close=storm)
        at_s += lasts_s
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], build_dir: Path) -> Iterator[Site]:
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    made = Site(tmp_path_factory.mktemp("system"), rings, free_port)
    made.state.mkdir(mode=0o700)
    (made.state / "server.toml").write_text("[findings]\nload_peak_mib_s = 1024\n")
    (made.folder / "site").mkdir()
    (made.folder / "site" / "site.toml").write_text(TOPOLOGY)
    made.start()
    yield made
    made.close()
    shutil.rmtree(rings)


def bellrock(site: Site, *words: object) -> str:
    env = {**site.env, "COLUMNS": "160"}
    done = subprocess.run([*BELLROCK, *map(str, words)], env=env, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def last_s(site: Site) -> int:
    """Sends all that agents tell up to a minute, after which nobody tells anything, so that what lasted then is not over; returns that."""
    last_s = (int(time.time()) - FINE_S) // DAY_S * DAY_S + FINE_S
    # Facts hold from when they are told on, unless a time is given.
    bellrock(site, "topology", "apply", site.folder / "site", "--yes", "--at", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(last_s - 3 * DAY_S)))
    for events in told(last_s).values():
        assert deliver_all(site.ingest_port, events, 500) == 1
    return last_s


@pytest.fixture(scope="module")
def found(site: Site, last_s: int) -> dict[str, dict]:
    """The findings by kind, once all are there."""

    def listed() -> dict[str, dict]:
        rows = site.get("/api/v1/findings")["findings"]
        return {one["kind"]: one for one in rows} if len(rows) == len(KINDS) else {}

    # Looked for at the lowest priority, hour after hour.
    return until(listed, "the three findings", 240, 1.0)


def test_each_is_found_with_its_time_and_place(site: Site, last_s: int, found: dict[str, dict]) -> None:
    assert set(found) == set(KINDS)
    of = found["cache-thrashing"]
    assert (of["node"], of["instance"], of["begin_ns"], of["end_ns"]) == ("fwd2", "work", *((last_s - before * MINUTE_S) * S for before in THRASHED))
    of = found["metadata-pressure"]
    assert (of["node"], of["instance"], of["begin_ns"], of["end_ns"]) == ("mds1", "work-MDT0000", (last_s - PRESSED * MINUTE_S) * S, None)
    of, day_s = found["forwarding-load"], (last_s // DAY_S - 1) * DAY_S
    assert (of["node"], of["begin_ns"], of["end_ns"], of["is_reported"]) == ("", day_s * S, (day_s + DAY_S) * S, True)
    status = site.get("/api/v1/status")["detection"]["system"]
    assert {name: (one["components"], one["left_out"], one["lasting"]) for name, one in status.items()} == {"forwarding": (2, 0, 0), "metadata": (1, 0, 1)}
    assert "2 mounts of forwarding nodes" in bellrock(site, "detect") and "1 metadata servers, 1 findings that last" in bellrock(site, "detect")


def test_the_command_line_shows_the_sums(site: Site, found: dict[str, dict]) -> None:
    minutes = THRASHED[0] - THRASHED[1]
    shown = {kind: re.sub(r"\s+", " ", bellrock(site, "explain", found[kind]["id"])) for kind in KINDS}
    misses, hits, dropped = (round(value * minutes) for value in (3e5, 2e5, 6e5))
    for line in (f"{misses:,} ÷ ({hits:,} + {misses:,}) pages read = 0.6", f"{dropped:,} pages × 4,096 B = {dropped * PAGE:,} B", f"({misses:,} + {dropped:,}) ÷ {misses:,} = 3 times"):
        assert line in shown["cache-thrashing"], shown["cache-thrashing"]
    requests = 120_000 * PRESSED
    for line in (f"{requests:,} requests ÷ ({PRESSED} minutes × 60 s) = 2,000", "2,000 ÷ 10 = 200 times", f"{requests:,} ÷ {requests + 30_000 * PRESSED:,} requests = 0.8"):
        assert line in shown["metadata-pressure"], shown["metadata-pressure"]
    for line in ("high hours 12 ÷ 24 hours of all nodes = 0.5", "idle hours 12 ÷ 24 hours of all nodes = 0.5"):
        assert line in shown["forwarding-load"], shown["forwarding-load"]


# What a page says of each in words, and figures by their name with what they show.
PAGES = {
    "cache-thrashing": ("Cache thrashing", "fwd2", "were read ahead and dropped before anybody read them", {"miss_share": ("60 %", "10 %"), "discarded_bytes": ("68.7 GiB", "954 MiB"), "minutes": ("30", "3")}),
    "metadata-pressure": ("Metadata pressure", "mds1", "login nodes ask for 2,000 metadata operations a second, 80% of all; 10.0 are usual", {"ops_per_s": ("2,000/s", "300/s"), "share": ("80 %", "50 %"), "usual_ops_per_s": ("10", None)}),
    "forwarding-load": ("Forwarding load", "", "above 90 % of their peak in 50% of their hours, idle in 50%; in 12 hours some were full while half were idle", {"high_share": ("50 %", "33.3 %"), "unbalanced_hours": ("12", None), "peak_bytes_per_s": ("1.00 GiB/s", None)}),
}  # fmt: skip
# How these are called.
WORDS = {"miss_share": "Share that had to be fetched", "ops_per_s": "Requests a second", "usual_ops_per_s": "Usual requests a second", "high_share": "Share of high load", "peak_bytes_per_s": "Most that a node can move"}


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (1400, "dark"), (390, "light"), (390, "dark")])
def test_list_and_pages_say_what_is_wrong_in_words(site: Site, browser: Browser, found: dict[str, dict], width: int, scheme: str) -> None:
    context = browser.new_context(base_url=site.url, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto("/findings")
    for kind, (title, node, *_) in PAGES.items():
        row = page.locator(f'[data-testid="finding-row"][data-finding="{found[kind]["id"]}"]')
        expect(row).to_contain_text(title)
        expect(row).to_contain_text(node)
        assert row.locator('[data-col="cause"]').get_attribute("data-value") == found[kind]["cause"]
    shot(page, f"list-{width}-{scheme}")
    for kind, (title, node, cause, figures) in PAGES.items():
        page.goto(f"/findings/{found[kind]['id']}")
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        expect(page.get_by_test_id("finding-cause")).to_contain_text(cause)
        expect(page.locator("main")).to_contain_text(node)
        for name, (value, bound) in figures.items():
            row = page.locator(f'[data-testid="evidence-figure"][data-name="{name}"]').first
            expect(row).to_contain_text(WORDS.get(name, ""))
            expect(row.locator("td").first).to_contain_text(value)
            # A value is read in one or two lines, on a phone, too.
            assert row.bounding_box()["height"] < 70
            if bound is not None:
                expect(row).to_contain_text(bound)
        # Nothing is wider than the window but tables, which scroll by themselves.
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shot(page, f"{kind}-{width}-{scheme}")
    context.close()
    assert errors == []


def shot(page: Page, name: str) -> None:
    """A picture of the whole page, where $BELLROCK_SHOTS names a folder for such."""
    if folder := os.environ.get("BELLROCK_SHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
