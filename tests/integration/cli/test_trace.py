"""`bellrock trace` against a real server: what it writes, page by page, and for whom."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import parquet

from bellrock import trace
from bellrock.client import Client
from tests.unit.jobdb.tables import T0, row
from tests.unit.webapp.fakes import S, event
from tests.unit.webapp.people import People
from webapp.serve import HttpServer

ROOT = Path(__file__).resolve().parents[3]
RUNS = 120


@pytest.fixture
def people(tmp_path: Path, state, monkeypatch: pytest.MonkeyPatch) -> Iterator[People]:
    made = People(tmp_path)
    made.jobdb.apply_event(event())
    made.store.add("7", row("start", T0), *(
        row("write", T0 + n * S // 10, T0 + n * S // 10 + S // 100, bytes=8192, size=4096, count=2, stride=65536, offset=n * 4096, rank=n % 4, node=f"n{n % 3}", process=f"{n % 4}.1",
            seq=n + 2, file="/scratch/\x1b[31mred" if n % 2 else "/scratch/out.nc")
        for n in range(RUNS)
    ))  # fmt: skip
    made.jobdb.apply_event(event("end", time=T0 + 20 * S))
    server = HttpServer(made.app, "127.0.0.1", 0, 4)
    server.start()
    monkeypatch.setenv("BELLROCK_SERVER", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("BELLROCK_TOKEN", made.tokens["ada"])
    made.url = f"http://127.0.0.1:{server.port}"
    yield made
    server.stop()
    made.close()


def bellrock(*words: object, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([sys.executable, "-m", "bellrock", *map(str, words)], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    return done


def test_every_way_to_write_tells_the_same(people: People, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in bellrock("trace", "7", "--json").stdout.splitlines()]
    assert [one["offset"] for one in lines] == [n * 4096 for n in range(RUNS)] and list(lines[0]) == list(trace.COLUMNS)
    assert lines[5] | {"file": ""} == {
        "start_ns": T0 + S // 2, "end_ns": T0 + S // 2 + S // 100, "node": "n2", "rank": 1, "process": "1.1", "layer": "compute", "op": "write", "file": "", "offset": 20480,
        "stride": 65536, "count": 2, "size": 4096, "bytes": 8192, "busy_ns": 5, "errno": 0, "flags": 0,
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(bellrock("trace", "7", "--csv").stdout)))
    assert [{name: str(value) for name, value in one.items()} for one in lines] == rows
    bellrock("trace", "7", "--parquet", tmp_path / "trace.parquet")
    assert parquet.read_table(tmp_path / "trace.parquet").to_pylist() == lines


def test_for_a_person_it_is_short_and_harmless(people: People) -> None:
    done = bellrock("trace", "7", "--limit", "10")
    assert len(done.stdout.splitlines()) == 11 and "the first 10 lines" in done.stderr and "\x1b" not in done.stdout
    assert "/scratch/?[31mred" in done.stdout and "/scratch/out.nc" in done.stdout


def test_filters_orders_and_operations(people: People) -> None:
    found = [json.loads(line) for line in bellrock("trace", "7", "--json", "--since", "+2s", "--until", "+4s", "--rank", "2", "--by", "node").stdout.splitlines()]
    assert sorted(one["offset"] // 4096 for one in found) == [22, 26, 30, 34, 38] and [one["node"] for one in found] == sorted(one["node"] for one in found)
    found = [json.loads(line) for line in bellrock("trace", "7", "--json", "--operations", "--file", "*.nc", "--limit", "5").stdout.splitlines()]
    assert [(one["offset"], one["count"], one["bytes"]) for one in found] == [(0, 1, 4096), (65536, 1, 4096), (8192, 1, 4096), (73728, 1, 4096), (16384, 1, 4096)]
    assert "no record fits" in bellrock("trace", "7", "--op", "read").stderr


def test_many_pages_hold_each_record_once(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "PAGE_ROWS", 7)
    client = Client(people.url, token=people.tokens["ada"])
    for order in ("time", "rank"):
        found = trace.Trace(client, "7", {"order": order}, 10**6)
        assert sorted(one["offset"] for one in found) == [n * 4096 for n in range(RUNS)] and found.read >= RUNS


def test_anothers_job_does_not_exist(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLROCK_TOKEN", people.tokens["eve"])
    done = bellrock("trace", "7", code=1)
    assert "no job '7'" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("words", [["--csv", "--json"], ["--since", "+9"], ["--since", "+9s", "--until", "+3s"], ["--by", "size"], ["--limit", "0"]])
def test_a_wrong_command_line_is_2(people: People, words: list[str]) -> None:
    assert bellrock("trace", "7", *words, code=2).stdout == ""


def test_a_file_that_cannot_be_written_is_1(people: People, tmp_path: Path) -> None:
    done = bellrock("trace", "7", "--parquet", tmp_path / "none" / "trace.parquet", code=1)
    assert "cannot be written" in done.stderr
