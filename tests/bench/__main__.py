"""Runs benchmarks: `python -m tests.bench [NAME …]`, all without a name.

A benchmark is a module of this package with `run()` that returns rows (dicts): `name` (with the unit last), `value`, `unit`, and where there is
something to compare with, `baseline_name` and `baseline`, measured in the same run. ratio = value ÷ baseline is worked out here.
Results go to bench/NAME.json and into docs/performance.md, between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import signal
import sys
import time
from collections.abc import Iterable
from numbers import Real
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench"
PAGE = ROOT / "docs" / "performance.md"
FIELDS = ("name", "value", "unit", "baseline_name", "baseline", "ratio")


def benchmarks() -> list[str]:
    """The names of the benchmarks; a module whose name begins with `_` is a helper of theirs."""
    return sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if not module.name.startswith("_"))


def checked(rows: Iterable[dict]) -> list[dict]:
    """The rows with every field of FIELDS, ratio worked out. Raises ValueError on a row that is none, or on no rows."""
    done = []
    for row in rows:
        unknown = set(row) - set(FIELDS)
        if unknown:
            raise ValueError(f"row {row.get('name')!r}: unknown fields {sorted(unknown)}; known are {', '.join(FIELDS)}")
        for key in ("name", "unit"):
            if not isinstance(row.get(key), str):
                raise ValueError(f"row {row!r}: `{key}` must be a string")
        value, baseline = row.get("value"), row.get("baseline")
        if not isinstance(value, Real) or not isinstance(baseline, Real | None):
            raise ValueError(f"row {row['name']!r}: `value` must be a number, `baseline` a number or None")
        ratio = float(value) / float(baseline) if baseline else None
        done.append({**dict.fromkeys(FIELDS), **row, "ratio": ratio})
    if not done:
        raise ValueError("no rows")
    return done


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(rows: list[dict], when: str) -> str:
    """The rows as a Markdown table."""
    lines = ["| row | value | unit | baseline | its value | ratio |", "| --- | ---: | --- | --- | ---: | ---: |"]
    for row in rows:
        cells = (row["name"], number(row["value"]), row["unit"], row["baseline_name"] or "–", number(row["baseline"]), number(row["ratio"]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + f"\n\nMeasured {when}.\n"


def put_table(page: str, name: str, text: str) -> str:
    """`page` with `text` between the marks of `name`; a section with marks is added at the end where there are none.
    Raises ValueError where only one mark is there."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    if begin not in page and end not in page:
        return f"{page.rstrip()}\n\n## {name}\n\n{begin}\n{text}{end}\n"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise ValueError(f"{PAGE.name}: expected {begin} and, after it, {end}. Mend the page, then: make bench ONLY={name}")
    return f"{before}{begin}\n{text}{end}{after}"


def run(name: str) -> None:
    """Runs one benchmark and writes its results. Raises what the benchmark raises, and ValueError on rows that are none."""
    print(f"{name}: measuring ...", flush=True)
    began = time.monotonic()
    rows = checked(importlib.import_module(f"tests.bench.{name}").run())
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n")
    text = table(rows, time.strftime("%Y-%m-%d", time.gmtime()))
    page = PAGE.read_text() if PAGE.exists() else "# Performance\n"
    PAGE.write_text(put_table(page, name, text))
    print(text, end="")
    print(f"{name}: done in {time.monotonic() - began:.0f} s; bench/{name}.json and docs/performance.md are written", flush=True)


def main(arguments: list[str] | None = None) -> int:
    known = benchmarks()
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(known)}")
    names = parser.parse_args(arguments).names
    unknown = sorted(set(names) - set(known))
    if unknown or not known:
        print(f"no such benchmark: {', '.join(unknown) or 'there are none'}. Known: {', '.join(known)}", file=sys.stderr)
        return 2
    # SIGTERM ends what was begun, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    failed = []
    for name in names or known:
        try:
            run(name)
        except Exception as error:  # one that fails must not take the others' results with it
            failed.append(name)
            print(f"{name}: failed: {type(error).__name__}: {error}. To retry: make bench ONLY={name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
