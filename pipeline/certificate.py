"""When a server's certificate ends, and what to say of it in time."""

import base64
import calendar
import re
import time
from pathlib import Path

# From so long before its end a server's certificate is told of.
WARN_BEFORE_S = 30 * 86400

_FIRST = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END", re.DOTALL)
# Tags of DER (X.690), and the forms of an instant that RFC 5280 (4.1.2.5) allows.
_VERSION, _FORMS = 0xA0, {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
# Parts of a certificate before its validity: serial, signature, issuer.
_BEFORE_VALIDITY = 3


def end_of(pem: bytes) -> float:
    """When the first certificate of a PEM file ends, s since the epoch; those after it lead up to the authority. Raises ValueError where there
    is none, or one that is not understood."""
    found = _FIRST.search(pem)
    if found is None:
        raise ValueError("no certificate in it")
    try:
        return _not_after(base64.b64decode(found[1]))
    except (IndexError, OverflowError) as error:
        raise ValueError(f"cut short, or no certificate: {error}") from error


def warning(file: Path | str, ends_s: float, now_s: float) -> tuple[str, str] | None:
    """What to say of a server's certificate that has ended or soon will, and what to do; None where there is time."""
    left_s = ends_s - now_s
    if left_s > WARN_BEFORE_S:
        return None
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ends_s))
    when = f"ended at {at}: no agent can connect any more" if left_s <= 0 else f"ends at {at}, in {_span(left_s)}: no agent can connect from then on"
    hint = "issue a new one, as with `scripts/certificates.sh server DIR NAME …`, and put its files there: they are taken over without a restart (docs/tls.md)"
    return f"this server's certificate {file} {when}", hint


def _span(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _not_after(der: bytes) -> float:
    """Certificate → TBSCertificate → validity → notAfter (RFC 5280, 4.1)."""
    at = _inside(der, _inside(der, 0))
    if der[at] == _VERSION:
        at = _after(der, at)
    for _ in range(_BEFORE_VALIDITY):
        at = _after(der, at)
    at = _after(der, _inside(der, at))
    form = _FORMS.get(der[at])
    if form is None:
        raise ValueError(f"a certificate's end has the unknown tag {der[at]:#x}")
    when = time.strptime(der[_inside(der, at) : _after(der, at)].decode("ascii"), form)
    # Two digits of a year: 50 to 99 are of the last century, where strptime begins with 69.
    year = when.tm_year - 100 if form.startswith("%y") and when.tm_year >= 2050 else when.tm_year
    return float(calendar.timegm((year, *when[1:])))


def _inside(der: bytes, at: int) -> int:
    """Where the content of the element at `at` begins."""
    return at + 2 + (der[at + 1] & 0x7F if der[at + 1] & 0x80 else 0)


def _after(der: bytes, at: int) -> int:
    """Where the element at `at` ends."""
    inside = _inside(der, at)
    return inside + (int.from_bytes(der[at + 2 : inside]) if der[at + 1] & 0x80 else der[at + 1])
