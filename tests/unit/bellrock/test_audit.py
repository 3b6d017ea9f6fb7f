"""What `bellrock audit` prints, and what it takes for a time."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bellrock import audit
from bellrock.errors import Unavailable, UsageError
from pipeline.store import Letters, Proof
from pipeline.store.mark import Gap, Mark
from webapp.api.flaws import report

S = 10**9
NOW = 1_700_000_000 * S


def rendered(marks, letters=(), told=None, proof=None, boots_total=0) -> str:
    options = {"since_ns": 0, "silent_s": 300, "limit": 10, "boots_total": max(boots_total, len(marks))}
    found = report(marks, letters, told or {}, proof, now_ns=NOW, **options)
    out = StringIO()
    Console(file=out, width=160, color_system=None).print(audit.shown(found))
    return out.getvalue()


def boot(node="n1", number=0xA, **fields):
    return ((node, number), Mark(1234, **{"first_ns": NOW - 9 * S, "last_ns": NOW - 5 * S} | fields))


def test_a_clean_report_is_short():
    shown = rendered([boot(duplicates=3)], proof=Proof({("n1", 0xA): (5, 5, 5)}, {"2023-11-14": 5}))
    assert shown.startswith("clean: nothing is missing, of 1 spool\n")
    assert "Missing" not in shown and "MISSING" not in shown and "AGAIN" in shown
    assert "2023-11-14" in shown and "5 counted, of 1 spool" in shown
    assert rendered([]).strip() == "no record has come yet"


def test_an_audit_that_is_cut_says_so():
    shown = rendered([boot()], boots_total=5)
    assert shown.startswith("not clean") and "this audit is incomplete: of 5 spools it has looked at the 1" in shown and "the first 1 of 5" in shown


def test_what_is_missing_comes_first_with_what_to_do():
    marks = [boot(gaps=(Gap(7, 9, 3, 0, NOW),), clock_offset_ns=3600 * S), boot("evil\x1b[2J", last_ns=NOW - 4000 * S)]
    letters = [Letters(None, None, "no JSON", 2, 1, 1, None, "no JSON: \x1b[31m", "")]
    shown = rendered(marks, letters, {("n1", 0xA): {"lost": 1500.0, "spool_full_seconds": 75.0}})
    assert shown.startswith("not clean: 4 flaws by which something is or may be missing, of 2 spools\n")
    assert shown.index("3 records never came: numbers 7 to 9") < shown.index("To know") < shown.index("60.0 minutes ahead") < shown.index("Spools")
    assert "evil?[2J" in shown and "\x1b" not in shown and "2 records without an id" in shown
    assert "1,500" in shown and "1 min 15 s" in shown and "+3600.0 s" in shown


@pytest.mark.parametrize(
    ("given", "ns"),
    [("90m", NOW - 5400 * S), ("2d", NOW - 172800 * S), ("999999999w", 0), ("2023-11-14", 1699920000 * S), ("2023-11-14T01:00+01:00", 1699920000 * S)],
)
def test_since_is_a_span_or_a_time(given, ns):
    assert audit.instant_ns(given, NOW) == ns


@pytest.mark.parametrize("given", ["", "yesterday", "5", "-3d", "3 d", "2023-13-01", "٣d", "0001-01-01T00:00+23:59", "9" * 40 + "d"])
def test_what_is_no_time_is_refused_with_what_to_write(given):
    try:
        found = audit.instant_ns(given, NOW)
    except UsageError as error:
        assert "2026-11-21" in error.hint
    else:
        assert (given, found) == ("0001-01-01T00:00+23:59", 0)


def test_without_a_server_there_is_no_audit(tmp_path: Path):
    with pytest.raises(Unavailable, match="no server runs on .*start it with `bellrock server`"):
        audit.local_client(tmp_path)
