import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bellrock.client import Client
from bellrock.errors import EXIT_FAILED, EXIT_UNAVAILABLE, ApiError, Unavailable, UsageError

Answer = tuple[int, bytes] | tuple[int, bytes, str]


@pytest.fixture
def api() -> Iterator[Callable[[Callable[[str], Answer]], Client]]:
    """A server that answers each path as the test's function says."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[str], Answer]) -> Client:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, *after = answer(self.path)
                self.send_response(status)
                for seconds in after:
                    self.send_header("Retry-After", seconds)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return Client(f"http://127.0.0.1:{server.server_port}", timeout_s=5)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_servers_own_words_become_the_error(api) -> None:
    body = json.dumps({"error": {"code": "not_found", "message": "no job x", "hint": "look at /jobs"}}).encode()
    with pytest.raises(ApiError) as error:
        api(lambda _: (404, body)).job("x")
    assert (error.value.what, error.value.hint, error.value.status, error.value.code) == ("no job x", "look at /jobs", 404, "not_found")
    assert error.value.exit_code == EXIT_FAILED


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": null}', b'{"error": {}}', b"\xff"])
def test_an_error_without_words_is_still_told(api, body: bytes) -> None:
    with pytest.raises(ApiError, match="HTTP 503") as error:
        api(lambda _: (503, body)).get("/x")
    assert error.value.exit_code == EXIT_UNAVAILABLE


BUSY = json.dumps({"error": {"code": "busy", "message": "at work", "hint": "ask again"}}).encode()


def test_a_busy_server_is_asked_again_and_the_first_time_it_is_told_why(api) -> None:
    answers, told = [(503, BUSY, "0"), (503, BUSY, "0"), (200, b"[1]")], []
    client = api(lambda _: answers.pop(0))
    client.on_busy = told.append
    assert client.get("/x") == [1] and told == ["at work"] and not answers


@pytest.mark.parametrize("after", ["", "soon", "-1", "12345", "\u00b2"])
def test_who_does_not_say_when_to_ask_again_is_not_asked(api, after: str) -> None:
    asked: list[str] = []
    client = api(lambda path: asked.append(path) or (503, BUSY, after))
    client.on_busy = asked.append
    with pytest.raises(ApiError, match="at work"):
        client.get("/x")
    assert asked == ["/x"]


def test_a_server_that_stays_busy_is_asked_no_more_than_so_often(api, monkeypatch) -> None:
    monkeypatch.setattr("bellrock.client.BUSY_TRIES_MAX", 3)
    asked: list[str] = []
    client = api(lambda path: asked.append(path) or (503, BUSY, "0"))
    with pytest.raises(ApiError):
        client.get("/x")
    assert len(asked) == 1, "nobody waits"
    client.on_busy = lambda _: None
    with pytest.raises(ApiError) as error:
        client.get("/x")
    assert len(asked) == 4 and error.value.exit_code == EXIT_UNAVAILABLE


def test_what_is_not_json_is_told(api) -> None:
    with pytest.raises(ApiError, match="not JSON"):
        api(lambda _: (200, b"<html>")).get("/x")


def test_an_answer_in_lines_is_decoded_line_by_line(api) -> None:
    assert list(api(lambda _: (200, b'{"a": 1}\n[2]\n')).lines("/x")) == [{"a": 1}, [2]]
    lines = api(lambda _: (200, b'{"a": 1}\n{"b')).lines("/x")
    assert next(lines) == {"a": 1}
    with pytest.raises(ApiError, match="not JSON"):
        next(lines)
    with pytest.raises(ApiError, match="HTTP 503"):
        next(api(lambda _: (503, b"")).lines("/x"))


def test_nothing_there_says_what_to_start(free_port) -> None:
    client = Client(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable) as error:
        client.jobs()
    assert "bellrock server" in error.value.hint and client.url in error.value.what
    assert not client.healthy()


def test_queries_are_quoted_and_none_is_left_out(api) -> None:
    asked: list[str] = []

    def answer(path: str) -> Answer:
        asked.append(path)
        return 200, b"{}"

    client = api(answer)
    client.jobs(search="a&b=ü", limit=3)
    client.job("1[2]/../x")
    assert asked == ["/api/v1/jobs?search=a%26b%3D%C3%BC&sort=-start&limit=3", "/api/v1/jobs/1%5B2%5D%2F..%2Fx"]
    assert client.page("a/b") == f"{client.url}/jobs/a%2Fb"


def test_jobs_come_over_pages_up_to_the_limit(api) -> None:
    def answer(path: str) -> Answer:
        start = int(path.rsplit("cursor=", 1)[1]) if "cursor=" in path else 0
        limit = int(path.split("limit=")[1].split("&")[0])
        rows = [{"job_id": str(i)} for i in range(start, min(start + limit, 10))]
        cursor = str(start + limit) if start + limit < 10 else None
        return 200, json.dumps({"jobs": rows, "total": 10, "next_cursor": cursor}).encode()

    client = api(answer)
    assert [job["job_id"] for job in client.every_job(limit=7, page=3)] == [str(i) for i in range(7)]
    assert len(list(client.every_job(limit=100, page=3))) == 10


def test_a_proxy_of_the_environment_is_not_asked(api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert api(lambda _: (200, b'{"ok": true}')).get("/x") == {"ok": True}


def test_no_redirect_is_followed_with_the_token(monkeypatch) -> None:
    """Whoever is redirected to would have the token."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/stolen")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.raises(ApiError, match="HTTP 302"):
        Client(f"http://127.0.0.1:{server.server_port}", 5, "secret").get("/x")
    assert asked == [("/x", "Bearer secret")]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("url", ["http://192.0.2.1", "http://example.org", "ftp://127.0.0.1x", "http://127.0.0.1.example.org"])
def test_nothing_goes_unencrypted_to_another_machine(url: str) -> None:
    with pytest.raises(UsageError, match="encrypted"):
        Client(url, token="secret")
