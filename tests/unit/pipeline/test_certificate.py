import base64
import calendar

import pytest

from pipeline.certificate import WARN_BEFORE_S, end_of, warning

END = calendar.timegm((2030, 11, 21, 18, 0, 0))
HOUR, DAY = 3600, 86400


def element(tag: int, content: bytes) -> bytes:
    """DER: a length below 128 is one byte, another says first of how many it is."""
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2)
    return bytes([tag]) + length + content


def pem(not_after: bytes, *, tag: int = 0x17, version: bool = True, issuer: int = 20, label: str = "CERTIFICATE") -> bytes:
    """As much of a certificate as lies before its subject."""
    validity = element(0x30, element(0x17, b"200101000000Z") + element(tag, not_after))
    head = element(0xA0, b"\x02\x01\x02") if version else b""
    parts = head + element(0x02, b"\x01" * 20) + element(0x30, b"\x06\x01\x2a") + element(0x30, b"x" * issuer) + validity
    text = base64.encodebytes(element(0x30, element(0x30, parts + b"subject"))).decode()
    return f"a word before\n-----BEGIN {label}-----\n{text}-----END {label}-----\n".encode()


@pytest.mark.parametrize(
    ("shown", "end"),
    [
        (pem(b"301121180000Z"), END),
        (pem(b"301121180000Z", version=False, issuer=900), END),
        (pem(b"20301121180000Z", tag=0x18, label="TRUSTED CERTIFICATE"), END),
        (pem(b"301121180000Z") + pem(b"210101000000Z"), END),
        (pem(b"500101000000Z"), calendar.timegm((1950, 1, 1, 0, 0, 0))),
        (pem(b"99991231235959Z", tag=0x18), calendar.timegm((9999, 12, 31, 23, 59, 59))),
    ],
)
def test_the_end_of_the_first_certificate_is_read(shown, end):
    assert end_of(shown) == end


@pytest.mark.parametrize("shown", [b"", b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----", pem(b"301121180000Z", tag=0x04), pem(b"301321180000Z"), pem(b"soon")])
def test_what_is_no_certificate_is_a_value_error(shown):
    with pytest.raises(ValueError, match=r"\S"):
        end_of(shown)


def test_an_end_is_told_from_thirty_days_before():
    assert WARN_BEFORE_S == 30 * DAY
    assert warning("/x.crt", END, END - 30 * DAY - 1) is None
    for left_s, words in ((30 * DAY, "in 30 days"), (DAY, "in 24 hours"), (90 * 60, "in 90 minutes"), (5, "in 5 s")):
        text, hint = warning("/x.crt", END, END - left_s)
        assert text == f"this server's certificate /x.crt ends at 2030-11-21 18:00:00 UTC, {words}: no agent can connect from then on"
        assert "certificates.sh server" in hint
    assert "ended at 2030-11-21 18:00:00 UTC: no agent can connect any more" in warning("/x.crt", END, END)[0]
