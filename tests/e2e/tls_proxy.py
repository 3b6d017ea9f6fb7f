"""A proxy that ends TLS and brings requests to Bellrock's socket, as nginx does with the configuration of docs/rights.md."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# Between one hop and the next only.
_OF_ONE_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")
_SET = ("x-forwarded-for", "x-forwarded-proto")


class TlsProxy:
    """Listens on loopback with a certificate of its own; `url` is where."""

    def __init__(self, folder: Path, target: Path) -> None:
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        files = ["-keyout", str(folder / "proxy.key"), "-out", str(folder / "proxy.crt")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", *subject, *files], check=True, capture_output=True)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name: value for name, value in self.headers.items() if name.lower() not in (*_OF_ONE_HOP, *_SET)}
                headers |= {"X-Forwarded-For": self.client_address[0], "X-Forwarded-Proto": "https", "Content-Length": str(len(body))}
                upstream = http.client.HTTPConnection("localhost", timeout=60)
                upstream.sock = socket.socket(socket.AF_UNIX)
                upstream.sock.connect(str(target))
                upstream.request(self.command, self.path, body, headers)
                answer = upstream.getresponse()
                text = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in (*_OF_ONE_HOP, "date", "server"):
                        self.send_header(name, value)
                if answer.status not in (204, 304):
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
                upstream.close()

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A browser breaks connections off as it likes; what it is not answered the test misses."""

        self._server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "proxy.crt", folder / "proxy.key")
        self.certificate = folder / "proxy.crt"
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://localhost:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
