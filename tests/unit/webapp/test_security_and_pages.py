import os

import pytest

from tests.unit.webapp.fakes import Site
from webapp.api import sockets
from pipeline.listen import is_loopback
from webapp.api.security import host_name, user_name


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path, ALLOWED_HOSTS=("Monitor.example",))
    yield made
    made.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8425", "127.1.2.3", "[::1]:80", "LOCALHOST:1", "monitor.example", "MONITOR.example:443"])
def test_known_hosts_are_answered(site, host):
    site.get("/healthz", headers={"Host": host})


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example:80", "[::2]", "0.0.0.0", "[", "a:b:c"])
def test_other_hosts_are_refused_everywhere(site, host):
    for path in ("/healthz", "/api/v1/jobs", "/", "/jobs/7"):
        assert site.get(path, status=400, headers={"Host": host})["error"]["code"] == "bad_host"


@pytest.mark.parametrize(("uid", "status"), [(os.geteuid(), 200), (0, 200), (54321, 403), (None, 403)])
def test_only_the_servers_user_and_root_are_answered(tmp_path, uid, status):
    site = Site(tmp_path, PEER_UID=lambda environ: uid)
    for path in ("/api/v1/jobs", "/api/v1/status", "/api/v1/openapi.json"):
        site.get(path, status=status)
    for path in ("/", "/jobs/7", "/assets/x.js", "/api/v1/nope", "/healthz/", "/Healthz"):
        assert (site.client.get(path).status_code == 403) == (status == 403), path
    assert site.get("/healthz") == {"status": "ok"}
    if status == 403:
        error = site.get("/api/v1/jobs", status=403)["error"]
        assert error["code"] == "not_your_server" and user_name(os.geteuid()) in error["message"] and "ssh -L" in error["hint"]
    site.close()


def test_a_request_without_a_known_socket_is_refused(tmp_path):
    site = Site(tmp_path, PEER_UID=sockets.peer_uid)
    site.get("/api/v1/jobs", status=403)
    site.close()


def test_names_in_host_headers():
    assert [host_name(h) for h in ("A:1", "[::1]:2", "[::1]", "a", "::1")] == ["a", "::1", "::1", "a", "::1"]
    assert is_loopback("::1") and is_loopback("::1%lo") and is_loopback("127.0.0.1")
    assert not any(map(is_loopback, ("", "127.0.0.1%x", "fe80::1%lo")))


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/jobs", "/", "/api/v1/nope", "/api/v1/jobs?limit=0"])
def test_every_response_has_the_headers(site, path):
    headers = site.client.get(path).headers
    assert "default-src 'self'" in headers["Content-Security-Policy"] and "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers


def test_without_a_build_the_page_says_what_to_run(site):
    response = site.client.get("/jobs/7")
    assert response.status_code == 503 and "make build" in response.text and response.mimetype == "text/html"


@pytest.fixture
def built(site):
    (site.frontend / "assets").mkdir(parents=True)
    (site.frontend / "index.html").write_text("the application")
    (site.frontend / "assets" / "a-1.js").write_text("code")
    (site.frontend.parent / "secret").write_text("secret")
    return site


def test_pages(built):
    for path in ("/", "/jobs", "/jobs/7", "/status", "/jobs/a.b"):
        response = built.client.get(path)
        assert (response.status_code, response.text, response.headers["Cache-Control"]) == (200, "the application", "no-cache"), path
    asset = built.client.get("/assets/a-1.js")
    assert asset.text == "code" and "immutable" in asset.headers["Cache-Control"]
    assert built.get("/assets/old.js", status=404)["error"]["code"] == "not_found"
    assert built.get("/api/v2/jobs", status=404)["error"]["code"] == "no_such_address"


@pytest.mark.parametrize("path", ["/../secret", "/%2e%2e/secret", "/assets/../../secret", "/..%2fsecret", "//secret", "/assets/%2e%2e/%2e%2e/secret"])
def test_no_file_outside_the_build(built, path):
    assert "secret" != built.client.get(path).text
