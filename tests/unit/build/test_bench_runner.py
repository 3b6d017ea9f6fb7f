"""The runner of `make bench`: rows are checked, and the page's tables replaced where their marks are."""

import pytest

from tests.bench import __main__ as bench

ROW = {"name": "pread_4k_added_ns", "value": 45.0, "unit": "ns", "baseline_name": "timestamp pair", "baseline": 30.0}


def test_ratio_is_value_by_baseline():
    (row,) = bench.checked([ROW])
    assert row["ratio"] == pytest.approx(1.5)
    assert tuple(row) == bench.FIELDS


def test_a_row_without_a_baseline_has_no_ratio():
    (row,) = bench.checked([{"name": "rss_idle_mb", "value": 3, "unit": "MB"}])
    assert row["ratio"] is None and row["baseline"] is None


@pytest.mark.parametrize(
    "rows",
    [[], [{"name": "x", "value": "1", "unit": "ns"}], [{"name": "x", "value": 1}], [{**ROW, "extra": 1}], [{**ROW, "baseline": "30"}]],
)
def test_rows_that_are_none_are_refused(rows):
    with pytest.raises(ValueError):
        bench.checked(rows)


def test_only_the_table_between_the_marks_changes():
    page = "# P\n<!-- bench:a -->\nold\n<!-- /bench:a -->\ntext\n<!-- bench:b -->\nkeep\n<!-- /bench:b -->\n"
    assert bench.put_table(page, "a", "new\n") == page.replace("old", "new")


def test_a_new_benchmark_gets_a_section():
    page = bench.put_table("# P\n", "a", "one\n")
    assert page == "# P\n\n## a\n\n<!-- bench:a -->\none\n<!-- /bench:a -->\n"
    assert bench.put_table(page, "a", "two\n") == page.replace("one", "two")


@pytest.mark.parametrize("page", ["<!-- bench:a -->\n", "<!-- /bench:a -->\n<!-- bench:a -->\n"])
def test_a_broken_mark_is_told(page):
    with pytest.raises(ValueError, match="make bench ONLY=a"):
        bench.put_table(page, "a", "x\n")


def test_the_table_has_every_row():
    text = bench.table(bench.checked([ROW, {"name": "cpu_pct", "value": 0.5, "unit": "%"}]), "2026-01-01")
    assert "| pread_4k_added_ns | 45 | ns | timestamp pair | 30 | 1.5 |" in text
    assert "| cpu_pct | 0.5 | % | – | – | – |" in text
