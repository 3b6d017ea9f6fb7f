"""`bellrock topology`, as a person at the server's machine types it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SMALL = ROOT / "docs/examples/topology/small"
STRIPES = ROOT / "tests/fixtures/lfs_getstripe/plain.txt"


def bellrock(*words: object, stdin=subprocess.DEVNULL, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "bellrock", "topology", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=stdin, timeout=120, **options)


def told(*words: object):
    done = bellrock(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The small example, to be changed."""
    made = tmp_path / "site"
    made.mkdir()
    (made / "site.toml").write_text((SMALL / "site.toml").read_text())
    return made


def test_from_the_files_to_the_answer(state, folder: Path) -> None:
    assert told("check", folder)["counts"]["nodes"] == 5
    shown = bellrock("diff", folder)
    assert shown.returncode == 0 and "+ work: fwd1 serves cn[1-2]\n" in shown.stdout and "33 facts more" not in shown.stdout and "facts more, 0 less" in shown.stderr
    assert "nothing is known yet" in bellrock("show").stderr
    applied = told("apply", folder, "--yes", "--at", "2026-02-01T00:00:00Z", "--note", "commit 1")
    assert applied["is_applied"] and applied["removed"] == 0 and applied["added"] == sum(line["count"] for line in applied["lines"]) and applied["until_ns"] is None
    assert not told("apply", folder, "--yes")["is_applied"] and told("diff", folder)["lines"] == []
    (folder / "site.toml").write_text((folder / "site.toml").read_text().replace('forwarders = "fwd[1-2]"\neach = 2', 'forwarders = ["fwd2", "fwd1"]\neach = 2'))
    changed = bellrock("apply", folder, "--yes", "--at", "2026-04-01")
    assert changed.stdout.splitlines() == [
        "- work: fwd1 serves cn[1-2]", "- work: fwd2 serves cn[3-4]", "+ work: fwd1 serves cn[3-4]", "+ work: fwd2 serves cn[1-2]",
    ]  # fmt: skip
    assert "from 2026-04-01T00:00:00Z on: 4 facts more, 4 less" in changed.stderr
    assert [told("show", "cn1", *at)["forwarding"][0]["forwarder"] for at in (("--at", "2026-03-01"), ())] == ["fwd1", "fwd2"]
    log = told("show")
    assert [(change["note"], change["source"]) for change in log["changes"]] == [("", str(folder)), ("commit 1", str(folder))] and "@" in log["changes"][0]["applied_by"]
    earlier = bellrock("diff", folder, "--at", "2026-03-01")
    assert "until 2026-04-01T00:00:00Z, when another change begins to hold" in earlier.stderr
    assert "commit 1" in bellrock("show").stdout


def test_what_is_known_of_a_name(state) -> None:
    assert bellrock("apply", SMALL, "--yes", "--at", "1769904000").returncode == 0
    for name, at, text in (
        ("cn3", "2026-03-01", "reaches work through: fwd2"), ("fwd1", "2026-03-01", "forwarding node of work for: cn[1-2]"),
        ("fwd1", "2026-03-01", "peers, forwarding node of work: fwd2"), ("nas2", "2026-03-01T13:00:00Z", "nas2 serves (failover): home/home1"),
        ("nas2", "2026-03-03", "nas2 may serve: home/home1"), ("home/home1", "2026-03-03T00:00:00+01:00", "nas1 serves: home/home1"),
        ("leaf1", "2026-03-01", "switch leaf1: cn[1-4],fwd[1-2] at ports [1-4,23-24]"), ("work", "2026-03-01", "work/brick2: brick; in samples gluster_server _bricks_b2"),
        ("g1", "2026-03-01", "group g1: cn[1-4],login1"),
    ):  # fmt: skip
        done = bellrock("show", name, "--at", at)
        assert done.returncode == 0 and text in done.stdout.splitlines(), (name, done.stdout, done.stderr)


def test_layouts(state) -> None:
    (state.state_dir.parent / "site").mkdir()
    (state.state_dir.parent / "site/a.toml").write_text('[[file_system]]\nname = "scratch"\nkind = "lustre"\nmounts = "/scratch"\n')
    assert bellrock("apply", state.state_dir.parent / "site", "--yes").returncode == 0
    assert told("layouts", STRIPES) == {"files": 2, "news": 2} and told("layouts", STRIPES) == {"files": 2, "news": 0}
    with STRIPES.open() as text:
        done = bellrock("layouts", "-", "--file-system", "scratch", stdin=text)
    assert done.returncode == 0 and "2 files, of which 0" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("check", "{folder}/none"), 2, "does not exist"),
        (("check", "{bad}"), 1, "site.toml:1: [[class]]: nodes: range '4-1' goes backwards"),
        (("diff", "{bad}"), 1, "2 mistakes"),
        (("apply", "{bad}", "--yes"), 1, "bellrock topology check"),
        (("apply", "{folder}"), 2, "give --yes"),
        (("apply", "{folder}", "--yes", "--at", "soon"), 2, "write --at 2026-03-01T12:00:00Z"),
        (("apply", "{folder}", "--yes", "--at", "2999-01-01"), 2, "is no time of a machine"),
        (("apply", "{folder}", "--yes", "--at", "2200-01-01"), 1, "is still to come"),
        (("show", "no\x1b[31mbody"), 1, "nothing is known of"),
        (("layouts", "{folder}/site.toml"), 1, "expected a path that begins with /"),
        (("layouts", str(STRIPES)), 1, "is in no file system that is known then"),
        (("show", "--config", "{folder}/site.toml"), 2, "unknown section [class]"),
    ],
)
def test_what_is_wrong_is_told(state, folder: Path, tmp_path: Path, words, code, text) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "site.toml").write_text('[[class]]\nname = "c"\nnodes = "cn[4-1]"\n[[file_system]]\nname = "fs"\n')
    done = bellrock(*(word.format(folder=folder, bad=bad) for word in words))
    assert (done.returncode, text in done.stderr, "Traceback" in done.stderr, "\x1b" in done.stderr) == (code, True, False, False), done.stderr
    if words[0] == "check" and code == 1:
        found = bellrock("check", bad, "--json")
        assert found.returncode == 1 and [one["where"] for one in json.loads(found.stdout)["mistakes"]] == ["site.toml:1: [[class]]", "site.toml:4: [[file_system]]"]


def test_a_job_database_that_cannot_be_opened(state, folder: Path) -> None:
    (state.state_dir / "jobs.db").write_text("no database")
    done = bellrock("apply", folder, "--yes")
    assert done.returncode == 3 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_it_asks_at_a_terminal(state, answer: bytes, code: int) -> None:
    master, slave = pty.openpty()
    try:
        os.write(master, answer)
        done = bellrock("apply", SMALL, stdin=slave)
    finally:
        os.close(slave)
        os.close(master)
    assert done.returncode == code and "Apply this?" in done.stderr and "+ work: fwd1" in done.stdout
    assert len(told("show")["changes"]) == (code == 0)


def test_help_of_each_verb_has_examples() -> None:
    for verb in ((), ("check",), ("diff",), ("apply",), ("show",), ("layouts",)):
        done = bellrock(*verb, "--help")
        assert done.returncode == 0 and "Examples:" in done.stdout and "Exit codes:" in done.stdout
