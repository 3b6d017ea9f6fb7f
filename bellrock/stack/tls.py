"""Certificates of a stack's servers, from a private authority that scripts/certificates.sh keeps in a folder."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from bellrock.errors import BellrockError
from bellrock.stack import Missing

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/certificates.sh"
LIMIT_S = 60
RENEW_S = 30 * 86400


@dataclass(frozen=True)
class Tls:
    """PEM files: the authority's certificate, a server's certificate and its key."""

    ca: Path
    cert: Path
    key: Path


def certificate(folder: Path, name: str, kind: str = "peer") -> Tls:
    """The certificate of a server `name` at 127.0.0.1 and localhost, or (kind "node") of an agent; made, and its authority with it, where it is
    missing, and made anew where it ends within RENEW_S.

    Raises BellrockError."""
    made = Tls(folder / "ca.crt", folder / f"{name}.crt", folder / f"{name}.key")
    if not made.ca.exists():
        _run("ca", folder)
    if not (made.cert.exists() and _lasts(made.cert)):
        _run(kind, folder, name, *(["127.0.0.1", "localhost"] if kind != "node" else []))
    return made


def _lasts(cert: Path) -> bool:
    command = ["openssl", "x509", "-noout", "-in", str(cert), "-checkend", str(RENEW_S)]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S).returncode == 0
    except OSError as error:
        raise Missing("`openssl` is missing", "run `apt-get install openssl`") from error


def _run(kind: str, folder: Path, *names: str) -> None:
    command = [str(SCRIPT), kind, str(folder), *names]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    except OSError as error:
        raise BellrockError(f"{SCRIPT}: {error.strerror}", "run this from the source tree") from error
    if done.returncode:
        raise BellrockError(f"no certificate could be made: {done.stderr.strip()}", f"try by hand: {' '.join(command)} (it needs openssl)")
