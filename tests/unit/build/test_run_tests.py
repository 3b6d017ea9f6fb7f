"""The counting of scripts/run_tests.py, on what the runners really print."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "run_tests.py"
spec = importlib.util.spec_from_file_location("run_tests", SCRIPT)
run_tests = importlib.util.module_from_spec(spec)
sys.modules["run_tests"] = run_tests  # dataclasses look their module up
spec.loader.exec_module(run_tests)

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4">
<testcase classname="tests.unit.test_a" name="test_good" time="0.1"/>
<testcase classname="tests.unit.test_a" name="test_bad" time="0.1"><failure message="assert 1 == 2&#10;more">trace</failure></testcase>
<testcase classname="tests.unit.test_a" name="test_setup" time="0.1"><error message="failed on setup">trace</error></testcase>
<testcase classname="tests.unit.test_a" name="test_left" time="0.1"><skipped type="pytest.skip" message="no fio here"/></testcase>
</testsuite></testsuites>"""

CARGO = """
running 3 tests
test ring::tests::wraps ... ok
test ring::tests::needs_root ... ignored, needs root
test first_pass::tests::merges ... FAILED

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 2 tests
..
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""

VITEST = {
    "testResults": [
        {
            "name": "/x/a.test.ts",
            "status": "failed",
            "message": "",
            "assertionResults": [
                {"fullName": "a works", "status": "passed", "failureMessages": []},
                {"fullName": "a breaks", "status": "failed", "failureMessages": ["AssertionError: expected 1\n at x"]},
                {"fullName": "a later", "status": "todo", "failureMessages": []},
            ],
        },
        {"name": "/x/b.test.ts", "status": "failed", "message": "SyntaxError: no\nmore", "assertionResults": []},
    ]
}


def test_junit_counts_errors_as_failures_and_tells_why_skipped():
    outcome = run_tests.read_junit(JUNIT)
    assert outcome.line() == "1 passed, 2 failed, 1 skipped"
    assert outcome.skips == ["tests.unit.test_a::test_left: no fio here"]
    assert outcome.failures[0] == "tests.unit.test_a::test_bad: assert 1 == 2"


def test_cargo_sums_all_crates():
    outcome = run_tests.read_cargo(CARGO)
    assert outcome.line() == "3 passed, 1 failed, 1 skipped"
    assert outcome.failures == ["first_pass::tests::merges"]
    assert outcome.skips == ["ring::tests::needs_root: needs root"]


def test_vitest_counts_a_file_that_does_not_load():
    outcome = run_tests.read_vitest(json.dumps(VITEST))
    assert outcome.line() == "1 passed, 2 failed, 1 skipped"
    assert outcome.failures == ["a breaks: AssertionError: expected 1", "/x/b.test.ts: SyntaxError: no"]
    assert outcome.skips == ["a later: todo"]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (run_tests.read_junit, ""),
        (run_tests.read_junit, "<testsuites><cut"),
        (run_tests.read_cargo, "error: could not compile `tracepack`"),
        (run_tests.read_vitest, "{"),
        (run_tests.read_vitest, "{}"),
        (run_tests.read_vitest, "[]"),
    ],
)
def test_a_report_that_is_none_is_refused(read, text):
    with pytest.raises(ValueError):
        read(text)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "RESULTS", tmp_path / "build" / "test")
    return tmp_path


def suite(root: Path, script: str, quiet: bool = True) -> "run_tests.Suite":
    return run_tests.Suite("some", [sys.executable, "-c", script], run_tests.read_cargo, quiet=quiet, cwd=root)


RESULT = "test result: ok. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s"


@pytest.mark.parametrize("quiet", [True, False])
def test_a_good_suite_passes(root, quiet):
    outcome = run_tests.run_suite(suite(root, f"print({RESULT.format(2, 0)!r})", quiet))
    assert outcome.line() == "2 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("raise SystemExit(101)", "broke off (exit status 101)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "broke off (killed by SIGTERM)"),
        (f"print({RESULT.format(0, 0)!r})", "ran no test"),
        (f"print({RESULT.format(2, 0)!r}); raise SystemExit(3)", "exit status 3"),
    ],
)
def test_a_suite_that_breaks_off_or_runs_nothing_counts_as_a_failure(root, script, why):
    outcome = run_tests.run_suite(suite(root, script))
    assert outcome.failed == 1
    assert why in outcome.failures[0]


def test_a_suite_that_hangs_is_ended_with_its_children(root):
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'])"
    outcome = run_tests.run_suite(suite(root, script, quiet=False), limit_s=1)
    assert outcome.failures == ["some: not done after 1 s"]


def test_a_program_that_is_missing_is_told(root):
    missing = run_tests.Suite("some", ["no-such-runner"], run_tests.read_cargo)
    assert "could not start no-such-runner" in run_tests.run_suite(missing).failures[0]


def run_main(monkeypatch, capsys, root, scripts: dict[str, str]) -> tuple[int, list[str]]:
    known = {layer: [suite(root, script)] for layer, script in scripts.items()}
    monkeypatch.setattr(run_tests, "layers", lambda: known)
    status = run_tests.main([])
    return status, capsys.readouterr().out.splitlines()


def test_a_runner_that_leaves_no_report_broke_off(tmp_path):
    with pytest.raises(ValueError, match="no report"):
        run_tests.read_report(tmp_path / "unit.xml", run_tests.read_junit)


def test_every_layer_runs_and_the_total_comes_last(root, monkeypatch, capsys):
    bad, good = f"print({RESULT.format(1, 1)!r}); raise SystemExit(1)", f"print({RESULT.format(3, 0)!r})"
    status, lines = run_main(monkeypatch, capsys, root, {"unit": bad, "e2e": good})
    assert (status, lines[-1]) == (1, "4 passed, 1 failed, 0 skipped")
    assert (root / "build" / "test" / "total.txt").read_text() == "4 passed, 1 failed, 0 skipped\n"


def test_all_good_gives_status_zero(root, monkeypatch, capsys):
    status, lines = run_main(monkeypatch, capsys, root, {"unit": f"print({RESULT.format(3, 0)!r})"})
    assert (status, lines[-1]) == (0, "3 passed, 0 failed, 0 skipped")
