"""Runs the tests, layer by layer, and ends with one line: `N passed, N failed, N skipped`.

    python scripts/run_tests.py [--layer unit|integration|e2e|site]

A layer is a row of suites (pytest, cargo, vitest). Without a layer all run but `site`, which also has the long tests of integration. Every suite runs, also after another has failed. A suite that broke
off, ran too long or ran no test counts as one failure, so that nothing can vanish unseen. Exit status 0: all passed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "test"
FRONTEND = ROOT / "webapp" / "frontend"
SUITE_LIMIT_S = 40 * 60
# How many test files run at once: with their servers they wait as much as they work. Whole files, which share what they start.
AT_ONCE = {"unit": 2, "integration": 3, "e2e": 3, "site": 2}
TEST_LIMIT_S = 300
PIPE_LIMIT_S = 10
TAIL_LINES = 40
# The layer that runs by its name only: `make test-site`.
SITE = "site"


@dataclass
class Outcome:
    """What came of one suite, or of several added up; `failures` and `skips` are lines for a person."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.failures + other.failures,
            self.skips + other.skips,
        )

    @property
    def ran(self) -> int:
        return self.passed + self.failed + self.skipped

    def line(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True)
class Suite:
    """One test runner's call. `read` makes an Outcome of its log and raises ValueError or OSError where it cannot;
    with `quiet` the log is shown only when something failed."""

    name: str
    command: list[str]
    read: Callable[[str], Outcome]
    quiet: bool = False
    cwd: Path = ROOT


def read_junit(xml: str) -> Outcome:
    """The outcome in a JUnit XML report as pytest writes it. Raises ValueError where it is no such report."""
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise ValueError(f"not a JUnit report: {error}") from error
    outcome = Outcome()
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        bad = [child for child in case if child.tag in ("failure", "error")]
        skip = case.find("skipped")
        if bad:
            outcome.failed += 1
            outcome.failures.append(f"{name}: {first_line(bad[0].get('message'))}")
        elif skip is None:
            outcome.passed += 1
        else:
            outcome.skipped += 1
            outcome.skips.append(f"{name}: {first_line(skip.get('message'))}")
    return outcome


CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)
CARGO_FAILED = re.compile(r"^test (.+?) \.\.\. FAILED$", re.MULTILINE)
CARGO_IGNORED = re.compile(r"^test (.+?) \.\.\. ignored(?:, (.*))?$", re.MULTILINE)


def read_cargo(log: str) -> Outcome:
    """The sum of all `test result:` lines of `cargo test`. Raises ValueError where there are none (it did not compile)."""
    results = CARGO_RESULT.findall(log)
    if not results:
        raise ValueError("no `test result:` line")
    passed, failed, skipped = (sum(int(result[i]) for result in results) for i in range(3))
    return Outcome(
        passed,
        failed,
        skipped,
        CARGO_FAILED.findall(log),
        [f"{name}: {reason or 'ignored'}" for name, reason in CARGO_IGNORED.findall(log)],
    )


def read_vitest(report: str) -> Outcome:
    """The outcome in vitest's JSON report. A file that could not be loaded has no tests: it counts as one failure.
    Raises ValueError where it is no such report."""
    try:
        files = json.loads(report)["testResults"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a vitest report: {error!r}") from error
    outcome = Outcome()
    for file in files:
        tests = file["assertionResults"]
        if file["status"] == "failed" and not any(test["status"] == "failed" for test in tests):
            outcome.failed += 1
            outcome.failures.append(f"{file['name']}: {first_line(file.get('message'))}")
        for test in tests:
            if test["status"] == "passed":
                outcome.passed += 1
            elif test["status"] == "failed":
                outcome.failed += 1
                messages = test.get("failureMessages") or [""]
                outcome.failures.append(f"{test['fullName']}: {first_line(messages[0])}")
            else:
                outcome.skipped += 1
                outcome.skips.append(f"{test['fullName']}: {test['status']}")
    return outcome


def ending(status: int | None) -> str:
    """How a process ended, from subprocess's return code."""
    return f"exit status {status}" if status is None or status >= 0 else f"killed by {signal.Signals(-status).name}"


def read_report(path: Path, read: Callable[[str], Outcome]) -> Outcome:
    """The outcome in a report file. Raises ValueError where the runner did not get as far as writing it."""
    try:
        return read(path.read_text())
    except FileNotFoundError:
        raise ValueError("it left no report") from None


def first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else "no reason given"


def pytest_suite(layer: str, *more: str, long: bool = False) -> Suite:
    """The tests in a layer's folder, and more ones, that bear the mark `long`, or those that do not."""
    name = f"{layer}-long" if long else f"{layer}-pytest"
    report = RESULTS / f"{name}.xml"
    marks = ["-m", "long" if long else "not long"]
    folders = [f"tests/{folder}" for folder in (layer, *more)]
    at_once = ["-n", str(AT_ONCE[layer]), "--dist", "loadfile"]
    command = [sys.executable, "-m", "pytest", "-q", *folders, *marks, f"--junitxml={report}", f"--timeout={TEST_LIMIT_S}", *at_once]
    return Suite(name, command, lambda _: read_report(report, read_junit))


def layers() -> dict[str, list[Suite]]:
    """Layer → its suites, in the order of running."""
    vitest = RESULTS / "vitest.json"
    return {
        "unit": [
            Suite("unit-cargo", ["cargo", "test", "--workspace", "--locked", "--no-fail-fast"], read_cargo, quiet=True),
            Suite(
                "unit-vitest",
                ["npx", "--no-install", "vitest", "run", "--reporter=default", "--reporter=json", f"--outputFile.json={vitest}"],
                lambda _: read_report(vitest, read_vitest),
                quiet=True,
                cwd=FRONTEND,
            ),
            pytest_suite("unit"),
        ],
        "integration": [pytest_suite("integration")],
        "e2e": [pytest_suite("e2e")],
        SITE: [pytest_suite("integration", long=True), pytest_suite(SITE, "field")],
    }


def run_suite(suite: Suite, limit_s: float = SUITE_LIMIT_S) -> Outcome:
    """Runs one suite. Never raises for what the suite does: what cannot be read is a failure."""
    log_file = ROOT / "build" / "log" / f"test-{suite.name}.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    print(f"== {suite.name}", flush=True)
    began = time.monotonic()
    status, problem = call(suite, log_file, limit_s)
    log = log_file.read_text(errors="replace")
    outcome = Outcome()
    if problem is None:
        try:
            outcome = suite.read(log)
        except (ValueError, OSError) as error:
            problem = f"broke off ({ending(status)}): {error}"
    if problem is None and outcome.ran == 0:
        problem = "ran no test"
    if problem is None and status != 0 and outcome.failed == 0:
        problem = f"{ending(status)}, though no test failed"
    if problem is not None:
        outcome.failed += 1
        outcome.failures.append(f"{suite.name}: {problem}")
    if suite.quiet:
        if outcome.failed:
            print(f"   the last lines of {log_file.relative_to(ROOT)}:")
            print("\n".join(f"    {line}" for line in log.splitlines()[-TAIL_LINES:]))
    print(f"   {suite.name}: {outcome.line()} in {time.monotonic() - began:.0f} s", flush=True)
    return outcome


def call(suite: Suite, log_file: Path, limit_s: float) -> tuple[int | None, str | None]:
    """Runs the command with its output in `log_file` (and shown, unless quiet) → (exit status, problem or None).
    At the limit the whole process group is killed, lest a hung server outlive its test."""
    with open(log_file, "wb") as log:
        sink = log if suite.quiet else subprocess.PIPE
        try:
            process = subprocess.Popen(
                suite.command, cwd=suite.cwd, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            return None, f"could not start {suite.command[0]}: {error.strerror}. Run: make build"
        show = None
        if process.stdout is not None:
            show = subprocess.Popen(["tee", str(log_file)], stdin=process.stdout)
            process.stdout.close()
        try:
            return process.wait(limit_s), None
        except subprocess.TimeoutExpired:
            return None, f"not done after {limit_s:.0f} s"
        finally:
            # Also after a plain end: what a test left running must not hold the log open, or the next suite's port.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # nothing was left
            process.wait()
            if show is not None:
                try:
                    show.wait(PIPE_LIMIT_S)
                except subprocess.TimeoutExpired:
                    show.kill()  # something that left the group still holds the pipe
                    show.wait()


def main(arguments: list[str] | None = None) -> int:
    known = layers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", choices=list(known), help="run this layer only")
    chosen = parser.parse_args(arguments).layer
    RESULTS.mkdir(parents=True, exist_ok=True)
    for old in RESULTS.iterdir():
        old.unlink()  # a report of an earlier run must not be taken for this one's
    total = Outcome()
    for layer in [chosen] if chosen else (layer for layer in known if layer != SITE):
        for suite in known[layer]:
            total += run_suite(suite)
    print()
    for skip in total.skips:
        print(f"skipped: {skip}")
    for failure in total.failures:
        print(f"FAILED: {failure}")
    (RESULTS / "total.txt").write_text(total.line() + "\n")
    print(total.line(), flush=True)
    return 1 if total.failed or total.ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
