"""Certificates for tests, made by the script that a site may use."""

import os
import shutil
import ssl
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "scripts" / "certificates.sh"
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl. Run: apt-get install openssl")


@dataclass(frozen=True)
class Pair:
    cert: Path
    key: Path

    def replace(self, other: "Pair") -> None:
        """Puts another pair in this one's place, as a renewal does: key first, each at once."""
        for ours, theirs in ((self.key, other.key), (self.cert, other.cert)):
            staged = ours.with_suffix(".new")
            shutil.copy2(theirs, staged)
            staged.rename(ours)


class Authority:
    """A site's authority with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self.run("ca")

    def run(self, kind: str, *names: str, **env: str) -> None:
        subprocess.run([SCRIPT, kind, self.folder, *names], check=True, env={**os.environ, **env}, stdout=subprocess.DEVNULL)

    def issue(self, kind: str, *names: str, end: float | None = None) -> Pair:
        """A certificate for a `server` or a `node`; `end`: when it ends, s since the epoch, else in a year."""
        self.run(kind, *names, **({} if end is None else {"END": time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end))}))
        return Pair(self.folder / f"{names[0]}.crt", self.folder / f"{names[0]}.key")

    def by_hand(self, name: str, extensions: str, subject: str = "/CN=x") -> Pair:
        """A certificate with these extensions (a section of openssl's configuration), whatever they are."""
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        request, section = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        section.write_text(extensions)
        key = ["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", pair.key, "-subj", subject, "-out", request]
        subprocess.run(key, check=True, capture_output=True)
        pair.key.chmod(0o600)
        ca = ["-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-set_serial", "7"]
        sign = ["openssl", "x509", "-req", "-in", request, *ca, "-days", "30", "-out", pair.cert]
        subprocess.run([*sign, *(["-extfile", section] if extensions else [])], check=True, capture_output=True)
        return pair


def client_context(authority: Path, pair: Pair | None) -> ssl.SSLContext:
    """What a client of `authority`'s server needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context
