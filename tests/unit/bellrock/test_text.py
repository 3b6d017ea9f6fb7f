import pytest

from bellrock import text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1048575, "1.0 MiB"),
        (1 << 20, "1.0 MiB"),
        (100 << 30, "100 GiB"),
        (1 << 60, "1.0 EiB"),
    ],
)
def test_data(value: float | None, expected: str) -> None:
    assert text.data(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        (0, "0.0 µs"),
        (0.0123, "12.3 ms"),
        (0.99999, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (75, "1 min 15 s"),
        (3600, "1 h 0 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_duration(value: float | None, expected: str) -> None:
    assert text.duration(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "-"), (0, "0"), (1234567, "1,234,567"), (12.34, "12.3"), (0.0123, "0.012"), (1e6 + 0.5, "1,000,000")]
)
def test_number(value: float | None, expected: str) -> None:
    assert text.number(value) == expected


def test_a_sparkline_keeps_zero_none_and_little_apart() -> None:
    assert text.sparkline([0, 1e-9, 50, 100, None]) == "·▁▄█ "
    assert text.sparkline([]) == "" and text.sparkline([None, 0]) == " ·"
    assert len(text.sparkline(list(range(1000)), 60)) == 60


def test_a_bar_shows_whatever_is_not_nothing() -> None:
    assert text.bar(0) == "" and text.bar(1e-9) == "█" and text.bar(1, 5) == "█████"


def test_names_cannot_drive_the_terminal() -> None:
    assert text.plain("a\x1b[31mb\r\n\u202ec ä") == "a?[31mb???c ä"
