"""TLS of the lumberjack server: whose certificate is believed, which nodes a client may write for, and new files without a restart.

A client needs a certificate of an authority in `client_ca`; the server shows `cert`. There are no revocation lists: who is to be shut out
loses its authority (`client_ca` replaced, which ends the connections that the old one let in), or its certificate ends by itself.
"""

import logging
import os
import ssl
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import certificate

log = logging.getLogger(__name__)

# So often the log tells that the server's own certificate ends.
WARN_EVERY_S = 86400.0
# Names of a certificate, and characters of a name, that a message quotes: what a client shows is not ours.
QUOTED_NAMES_MAX = 4
QUOTED_CHARACTERS_MAX = 100

# What OpenSSL calls it when a handshake fails, and what it means here. The client's alerts first.
_REASONS = {
    "CERTIFICATE_EXPIRED": "it finds this server's certificate expired, or its clock is wrong; renew the certificate",
    "UNKNOWN_CA": "it does not know the authority of this server's certificate; its [tls] ca must be that authority's certificate",
    "BAD_CERTIFICATE": "it does not take this server's certificate; its own log says why",
    "CERTIFICATE_UNKNOWN": "it does not take this server's certificate; its own log says why",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate; set [tls] cert and key in its agent.toml",
    "HTTP_REQUEST": "it speaks HTTP",
}
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "BAD_RECORD_TYPE", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")


class TlsError(ValueError):
    """The files cannot be used, or a certificate says nothing that could be checked. The text says which, why and what to do."""


@dataclass(frozen=True)
class TlsFiles:
    """Paths of PEM files: the server's certificate (with those between it and the root, if any), its key, and the authorities (one
    or several) whose certificates clients must have."""

    cert: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True)
class Loaded:
    """One state of the files. `trust` counts how often the authorities have changed; `ends`: when the server's certificate does, s since the
    epoch."""

    context: ssl.SSLContext
    trust: int
    ends: float


class Certificates:
    """The files as they were last found whole. `look` is one thread's; `now` may be read by all.

    Raises TlsError where the files cannot be used at the start."""

    def __init__(self, files: TlsFiles) -> None:
        self.files = files
        self._seen = _signature(files)
        self._failed: tuple | None = None
        self._authorities = b""
        self._warned: tuple[float, bool, float] | None = None  # of which end, whether it was past, and when (monotonic)
        self.now = self._load(0)
        self._warn()

    def look(self) -> None:
        """Takes over new files, and warns of the certificate's end."""
        self._take_over()
        self._warn()

    def status(self) -> dict[str, Any]:
        """`file` of the server's certificate, and `ends_ns`."""
        return {"file": str(self.files.cert), "ends_ns": round(self.now.ends) * 10**9}

    def _warn(self) -> None:
        now_s = time.time()
        warning = certificate.warning(self.files.cert, self.now.ends, now_s)
        if warning is None:
            return
        about = (self.now.ends, now_s >= self.now.ends)
        if self._warned is None or self._warned[:2] != about or time.monotonic() - self._warned[2] >= WARN_EVERY_S:
            self._warned = (*about, time.monotonic())
            log.warning("ingest: %s; %s", *warning)

    def _take_over(self) -> None:
        """Takes over files that changed. Those that cannot be used are told of once, and looked at again each time: they may be half
        written. Until they can, what was there before holds."""
        seen = _signature(self.files)
        if seen == self._seen:
            return
        try:
            self.now = self._load(self.now.trust)
        except (TlsError, OSError) as error:
            if self._failed != seen:
                log.warning("ingest: %s; the certificates that were there before are kept", error)
            self._failed = seen
            return
        self._seen, self._failed = seen, None
        log.info("ingest: took over new certificates from %s and %s", self.files.cert, self.files.client_ca)

    def _load(self, trust: int) -> Loaded:
        authorities = _read(self.files.client_ca)
        context = _context(self.files, authorities)
        if authorities != self._authorities:
            self._authorities = authorities
            trust += 1
        return Loaded(context, trust, _end_of(self.files.cert))


@dataclass(frozen=True)
class Peer:
    """A client by its certificate: the nodes that it may write for, and when the certificate ends, s since the epoch."""

    nodes: frozenset[str]
    ends: float

    def expired(self) -> bool:
        """Whether the certificate has ended by this machine's clock."""
        return time.time() >= self.ends

    def __str__(self) -> str:
        names = sorted(self.nodes)
        more = f" and {len(names) - QUOTED_NAMES_MAX} more" if len(names) > QUOTED_NAMES_MAX else ""
        return ", ".join(quoted(name) for name in names[:QUOTED_NAMES_MAX]) + more


def peer_of(certificate: dict[str, Any]) -> Peer:
    """The client that `SSLSocket.getpeercert` describes: its DNS names, or where it has no alternative names at all, its common name.
    Names are taken as they are, upper and lower case apart; a `*` stands for nothing.

    Raises TlsError where it names no node."""
    if "subjectAltName" in certificate:
        names = [value for kind, value in certificate["subjectAltName"] if kind == "DNS"]
    else:
        names = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    nodes = frozenset(name for name in names if name and "*" not in name)
    if not nodes:
        raise TlsError("its certificate names no node; issue one with the node's name as DNS name (subjectAltName)")
    return Peer(nodes, ssl.cert_time_to_seconds(certificate["notAfter"]))


def shake_hands(connection: ssl.SSLSocket, timeout_s: float) -> Peer:
    """The client by its certificate. Raises TlsError where there is none that counts; its text says why, and what to do."""
    try:
        connection.settimeout(timeout_s)
        connection.do_handshake()
        return peer_of(connection.getpeercert())
    except OSError as error:
        raise TlsError(explain(error)) from error
    except TlsError:
        raise
    except ValueError as error:
        raise TlsError(f"its certificate is not understood: {quoted(str(error))}") from error


def quoted(name: str) -> str:
    """A name that a client gave, fit for a line of the log."""
    return ascii(name[:QUOTED_CHARACTERS_MAX]) + ("…" if len(name) > QUOTED_CHARACTERS_MAX else "")


def explain(error: OSError) -> str:
    """Why a handshake failed, and what to do, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not taken: {error.verify_message}; compare the clocks and look at `openssl x509 -noout -text` of its file"
    if isinstance(error, TimeoutError):
        return "its handshake took too long"
    if not isinstance(error, ssl.SSLError):
        return str(error)
    reason = getattr(error, "reason", None) or ""
    for end, text in _REASONS.items():
        if reason.endswith(end):
            return text
    if reason.endswith(_NO_TLS):
        return "it does not speak TLS; set [tls] in its agent.toml"
    if isinstance(error, ssl.SSLEOFError) or reason == "UNEXPECTED_EOF_WHILE_READING":
        return "it went away during the handshake"
    return reason.replace("_", " ").lower() or str(error)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}; check the path with `ls -l {path}`") from error


def _end_of(path: Path) -> float:
    try:
        return certificate.end_of(_read(path))
    except ValueError as error:
        raise TlsError(f"{path}: when its certificate ends is not understood: {error}; look with `openssl x509 -noout -enddate -in {path}`") from error


def _signature(files: TlsFiles) -> tuple:
    """What differs once a file was written or replaced."""

    def one(path: Path) -> tuple | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    return one(files.cert), one(files.key), one(files.client_ca)


def _context(files: TlsFiles, authorities: bytes) -> ssl.SSLContext:
    _read(files.cert)  # OpenSSL would not say which file is missing
    _check_key(files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    # A resumed session would be believed without a look at the certificate.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    # Whoever cuts a connection short gains nothing: only whole windows count. Without this OpenSSL would answer with an alert.
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise TlsError(f"{files.client_ca}: no certificates of authorities in PEM; look with `openssl x509 -in {files.client_ca} -noout -text`") from error
    if not context.get_ca_certs():
        raise TlsError(f"{files.client_ca}: no certificate of an authority (CA:TRUE) in it; give the one that signs the agents' certificates")
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or str(error)
        if why == "KEY_VALUES_MISMATCH":
            raise TlsError(f"{files.key} is not the key of {files.cert}; put the two that belong together there") from error
        raise TlsError(f"{files.cert} and {files.key}: {why}; look with `openssl x509 -in {files.cert} -noout -text`") from error
    return context


def _no_password() -> str:
    raise ValueError("the key wants a password, and nobody is there to give it; `openssl pkey -in KEY -out NEW` takes it off")


def _check_key(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}; check the path with `ls -l {path}`") from error
    if stat.S_IMODE(mode) & 0o027:
        raise TlsError(f"{path}: others than its owner may read or change the key; run: chmod 600 {path}")
    if not os.access(path, os.R_OK):
        raise TlsError(f"{path}: not readable; make it the server's user's: chown {os.getuid()} {path}")
