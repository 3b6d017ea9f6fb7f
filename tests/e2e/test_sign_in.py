"""Two people and an administrator at a whole site, by way of a proxy with TLS, in a real browser and from the command line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from jobdb.repository import JobDB
from tests.e2e.site import BELLROCK, ROOT, Site
from tests.e2e.conftest import QUIET
from tests.e2e.tls_proxy import TlsProxy

PASSWORD = "a lamp that never goes out"
JOBS = {"of-ada": (71042, "ada"), "of-eve": (71043, "eve"), "says-ada": (71043, "ada")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], build_dir: Path) -> Iterator[Site]:
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    made = Site(tmp_path_factory.mktemp("signin"), rings, free_port)
    made.state.mkdir(mode=0o700)
    made.sock = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/tmp")) / "http.sock"
    (made.state / "server.toml").write_text(f'[http]\nsocket = "{made.sock}"\nnames = ["localhost"]\n')
    made.password = made.folder / "password"
    made.password.touch(mode=0o600)
    made.password.write_text(PASSWORD)
    for name, options in (("ada", ["--uid", "71042"]), ("eve", ["--uid", "71043"]), ("boss", ["--admin"])):
        bellrock(made, "account", "add", name, *options, "--password-file", made.password)
    made.start()
    database = JobDB(f"sqlite:///{made.state / 'jobs.db'}")
    for number, (job, (uid, user)) in enumerate(JOBS.items()):
        for kind in ("start", "end"):
            database.apply_event(
                {"event": kind, "job": job, "uid": uid, "user": user, "launch": "l", "node": "n1", "cluster": "c", "program": "solver", "command": "solver",
                 "time": (1_700_000_000 + number + 5 * (kind == "end")) * 10**9, "exit_code": 0 if kind == "end" else None}
            )  # fmt: skip
    database.close()
    yield made
    made.close()
    shutil.rmtree(rings)
    shutil.rmtree(made.sock.parent)


@pytest.fixture(scope="module")
def proxy(site: Site) -> Iterator[TlsProxy]:
    made = TlsProxy(site.folder, site.sock)
    yield made
    made.close()


def bellrock(site: Site, *words: object, code: int = 0, **env: str) -> str:
    done = subprocess.run([*BELLROCK, *map(str, words)], env={**site.env, **env}, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, proxy: TlsProxy) -> Iterator[Page]:
    context = browser.new_context(base_url=proxy.url, ignore_https_errors=True, viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_a_user_signs_in_sees_own_jobs_only_and_signs_out(page: Page) -> None:
    page.goto("/jobs/of-ada")
    expect(page.get_by_test_id("sign-in")).to_be_visible()
    expect(page.get_by_role("link", name="Status")).to_have_count(0)
    assert "solver" not in page.content()
    sign_in(page, "ada", "not the password")
    expect(page.get_by_test_id("error")).to_contain_text("name or password is wrong")
    sign_in(page, "ada")
    # The page that was asked for comes, at its own address.
    expect(page).to_have_url(re.compile("/jobs/of-ada$"))
    expect(page.get_by_test_id("job-state").first).to_contain_text("Completed")
    expect(page.get_by_test_id("viewer")).to_have_text("ada")
    expect(page.get_by_role("link", name="Status")).to_have_count(0)
    page.goto("/jobs")
    expect(page.locator('[data-testid="job-row"]')).to_have_count(1)
    expect(page.locator('[data-testid="job-row"][data-job-id="of-ada"]')).to_be_visible()
    for other in ("of-eve", "says-ada", "no-such-job"):
        page.goto(f"/jobs/{other}")
        expect(page.get_by_text(f"There is no job {other}")).to_be_visible()
    page.goto("/status")
    expect(page.get_by_test_id("error")).to_contain_text("administrators")
    cookies = page.context.cookies()
    assert [(one["name"], one["httpOnly"], one["secure"], one["sameSite"]) for one in cookies] == [("__Host-bellrock", True, True, "Strict")]
    stored = page.evaluate("document.cookie + JSON.stringify([localStorage, sessionStorage])")
    assert cookies[0]["value"] not in stored and PASSWORD not in stored
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_test_id("sign-in")).to_be_visible()
    assert page.context.cookies() == [] and "of-ada" not in page.inner_text("main")
    # Nor does the browser's memory or the old cookie bring it back.
    page.context.add_cookies([{key: one[key] for key in ("name", "value", "domain", "path", "secure", "httpOnly", "sameSite")} for one in cookies])
    page.goto("/jobs/of-ada")
    expect(page.get_by_test_id("sign-in")).to_be_visible()


def test_the_next_person_at_the_same_browser_sees_nothing_of_the_one_before(page: Page) -> None:
    page.goto("/jobs")
    sign_in(page, "eve")
    expect(page.locator('[data-testid="job-row"][data-job-id="of-eve"]')).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, "boss")
    expect(page.locator('[data-testid="job-row"]')).to_have_count(3)
    page.get_by_role("link", name="Status").click()
    expect(page.get_by_test_id("error")).to_have_count(0)
    expect(page.get_by_text("Up for")).to_be_visible()


def test_a_session_that_ends_asks_for_another(site: Site, page: Page) -> None:
    page.goto("/jobs")
    sign_in(page, "eve")
    expect(page.locator('[data-testid="job-row"]')).to_have_count(1)
    bellrock(site, "account", "password", "eve", "--password-file", site.password)
    # The list asks again by itself.
    expect(page.get_by_test_id("sign-in")).to_be_visible(timeout=20_000)
    sign_in(page, "eve")
    expect(page.locator('[data-testid="job-row"]')).to_have_count(1)


def test_the_command_line_by_way_of_the_proxy_and_on_the_servers_machine(site: Site, proxy: TlsProxy, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "SSL_CERT_FILE": str(proxy.certificate), "BELLROCK_SERVER": proxy.url}
    bellrock(site, "login", "ada", "--password-file", site.password, **env)
    assert [job["job_id"] for job in json.loads(bellrock(site, "jobs", "--json", **env))] == ["of-ada"]
    bellrock(site, "show", "of-eve", code=1, **env)
    bellrock(site, "audit", code=1, **env)
    bellrock(site, "account", "disable", "ada")
    bellrock(site, "jobs", code=1, **env)
    # The state's owner, by the state's key.
    assert {job["job_id"] for job in json.loads(bellrock(site, "jobs", "--json"))} == set(JOBS)
