from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Without these Chromium looks for hosts on the internet at each start.
QUIET = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-sandbox"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], build_dir: Path) -> Iterator[Site]:
    """A running Bellrock for the tests of one file."""
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    site = Site(tmp_path_factory.mktemp("site"), rings, free_port)
    site.start()
    yield site
    site.close()
    shutil.rmtree(rings)


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page that must log no error, ask nobody but the server, and break no content policy."""
    context = browser.new_context(base_url=site.url, viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: errors.append(request.url) if not request.url.startswith((site.url, "data:", "blob:")) else None)
    yield page
    context.close()
    assert errors == []
