"""A storm of metadata operations: found by the server, seen in a real browser by its user, and acknowledged by an administrator."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import Site
from tests.e2e.test_sign_in import PASSWORD, bellrock, browser, page, proxy, sign_in  # noqa: F401
from tests.e2e.tls_proxy import TlsProxy
from tests.wait import until

# A minute's worth of the bound in a few seconds.
OPENS = 15_000
# A job is its user's by uid and name.
USER = pwd.getpwuid(os.getuid()).pw_name
STORM = f"import os\nfor _ in range({OPENS}): os.close(os.open('one', os.O_RDONLY))"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], build_dir: Path) -> Iterator[Site]:
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    made = Site(tmp_path_factory.mktemp("findings"), rings, free_port)
    made.state.mkdir(mode=0o700)
    made.sock = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/tmp")) / "http.sock"
    (made.state / "server.toml").write_text(f'[http]\nsocket = "{made.sock}"\nnames = ["localhost"]\n')
    made.password = made.folder / "password"
    made.password.touch(mode=0o600)
    made.password.write_text(PASSWORD)
    for name, options in ((USER, ["--uid", os.getuid()]), ("eve", ["--uid", "71043"]), ("boss", ["--admin"])):
        bellrock(made, "account", "add", name, *options, "--password-file", made.password)
    made.start()
    yield made
    made.close()
    shutil.rmtree(rings)
    shutil.rmtree(made.sock.parent)


@pytest.fixture(scope="module")
def ask(site: Site, proxy: TlsProxy) -> Callable[..., Any]:  # noqa: F811
    """What the command line is told as the administrator."""
    env = {"XDG_CONFIG_HOME": str(site.folder / "config"), "SSL_CERT_FILE": str(proxy.certificate), "BELLROCK_SERVER": proxy.url}
    bellrock(site, "login", "boss", "--password-file", site.password, **env)
    return lambda *words: json.loads(bellrock(site, *words, "--json", **env))


@pytest.fixture(scope="module")
def storm(site: Site, ask: Callable[..., Any]) -> dict:
    """The finding of a job that opens one file again and again."""
    (site.data / "one").touch()
    job = site.new_job()
    assert site.launch([sys.executable, "-c", STORM], job, cwd=site.data).wait(timeout=120) == 0
    (found,) = until(lambda: ask("findings", "--job", job), "the finding")
    return found


def test_an_administrator_finds_opens_and_acknowledges_it(ask: Callable[..., Any], page: Page, storm: dict) -> None:  # noqa: F811
    job = storm["jobs"][0]["job"]
    page.goto("/jobs")
    sign_in(page, "boss")
    page.get_by_role("link", name="Findings").click()
    row = page.locator(f'[data-testid="finding-row"][data-finding="{storm["id"]}"]')
    expect(row).to_contain_text("Metadata storm")
    assert row.locator('[data-col="cause"]').get_attribute("data-value") == storm["cause"]
    expect(row.get_by_test_id("severity")).to_have_text(re.compile("Warning|Critical"))
    # Filters are in the address.
    page.get_by_test_id("finding-kind").select_option("small-io")
    expect(page.get_by_text("No finding matches")).to_be_visible()
    expect(page).to_have_url(re.compile("kind=small-io"))
    page.get_by_test_id("finding-kind").select_option("metadata-storm")
    page.get_by_test_id("finding-job").fill(job)
    expect(page).to_have_url(re.compile(f"job={job}"))
    page.reload()
    row.get_by_role("link", name="Metadata storm").click()
    expect(page).to_have_url(re.compile(f"/findings/{storm['id']}$"))
    evidence = ask("explain", storm["id"])["evidence"]
    figure = page.locator('[data-testid="evidence-figure"][data-name="metadata_ops"]').first
    assert evidence["metadata_ops"] >= 2 * OPENS
    expect(figure.locator("td").first).to_have_attribute("title", f"{evidence['metadata_ops']:,}")
    expect(figure).to_contain_text(f"{evidence['bounds']['metadata_ops']:,}")

    page.get_by_test_id("to-acknowledged").click()
    expect(page.get_by_test_id("finding-state-name")).to_have_text("Acknowledged")
    page.get_by_test_id("verdict").get_by_text("Confirmed").click()
    expect(page.get_by_test_id("finding-state-name")).to_have_text("Acknowledged, confirmed")
    page.get_by_label("Cause").fill("a file is opened for each line")
    page.get_by_role("button", name="Save the cause").click()
    expect(page.get_by_test_id("finding-cause")).to_have_text("a file is opened for each line (says boss)")
    page.get_by_label("Comment").fill("told <b>ada")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.get_by_test_id("comment")).to_contain_text("told <b>ada")
    told = ask("explain", storm["id"])
    assert (told["finding"]["state"], told["finding"]["verdict"], told["finding"]["changed_by"], told["comments"][0]["text"]) == ("acknowledged", "confirmed", "boss", "told <b>ada")


def test_its_user_sees_it_without_buttons_and_others_see_nothing(page: Page, storm: dict) -> None:  # noqa: F811
    job = storm["jobs"][0]["job"]
    page.goto(f"/jobs/{job}")
    sign_in(page, USER)
    strip = page.get_by_test_id("finding-strip")
    expect(strip).to_contain_text("Acknowledged, confirmed")
    strip.get_by_role("link", name="Metadata storm").click()
    expect(page.get_by_test_id("finding-cause")).to_contain_text("a file is opened for each line")
    expect(page.get_by_test_id("finding-jobs").get_by_role("link", name=job)).to_be_visible()
    for part in ("judge", "comments", "known-events"):
        expect(page.get_by_test_id(part)).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, "eve")
    expect(page.get_by_text(f"There is no finding {storm['id']}")).to_be_visible()
    page.get_by_role("link", name="Findings", exact=True).click()
    expect(page.get_by_text("Nothing is wrong that was noticed")).to_be_visible()
    page.goto(f"/findings?state=any&job={job}")
    expect(page.get_by_text("No finding matches")).to_be_visible()
