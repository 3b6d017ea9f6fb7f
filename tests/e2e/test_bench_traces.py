"""Traces of real programs for `make bench ONLY=second_pass`: what the agents of their nodes sent, all of it and nothing else."""

import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.bench import _traces
from tests.bench._json_lines import json_lines
from tests.bench._traces import NODES, PROGRAMS_RUN, RANKS, Program, trace, traces

BY_NAME = {program.name: program for program in PROGRAMS_RUN}
pytestmark = pytest.mark.usefixtures("build_dir")


def of(runs: pa.Table, op: str) -> pa.Table:
    return runs.filter(pc.equal(runs["op"], op))


def test_cp_copies_a_tree_under_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name, size in (("one", 10), ("a/two", 5000), ("a/b/three", 70_000), ("a/b/four", 0), ("a/large", 2001), ("a/zlast", 9)):
        (tmp_path / name).write_bytes(b"x" * size)
    monkeypatch.setattr(_traces, "TREE", tmp_path)
    monkeypatch.setattr(_traces, "FILE_BYTES_MAX", 70_000)
    monkeypatch.setattr(_traces, "FILES_MAX", 5)
    found = trace(BY_NAME["cp"])
    assert b"".join(json_lines(found.table)) == b"".join(line + b"\n" for line in found.lines)
    # Files of a folder come by name, before those of the folders in it.
    assert pc.sum(of(found.table, "write")["bytes"]).as_py() == 10 + 2001 + 5000 + 9
    assert {orjson.loads(line)["job"] for line in found.lines} == {"cp"}
    assert pc.unique(found.table["process"]).to_pylist() == pc.unique(of(found.table, "start")["process"]).to_pylist()


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun. Run: apt-get install openmpi-bin")
def test_ranks_are_spread_over_nodes(build_dir: Path) -> None:
    found = trace(Program("mpi_checkpoint", (), "", lambda more, data: [str(build_dir / "mpi_checkpoint"), str(data), "2", "5", "4096"])).table
    assert {(rank, node) for rank, node in zip(found["rank"].to_pylist(), found["node"].to_pylist(), strict=True)} == {
        (rank, f"cn{rank * NODES // RANKS + 1:04d}") for rank in range(RANKS)
    }
    written = of(found, "write")
    assert pc.sum(written["bytes"]).as_py() == pc.sum(written["count"]).as_py() * 4096 == 2 * 5 * RANKS * 4096
    keys = list(zip(found["node"].to_pylist(), found["seq"].to_pylist(), strict=True))
    assert keys == sorted(set(keys))


def test_a_program_that_is_not_there_is_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_traces, "PROGRAMS_RUN", (Program("models", ("no-such-program",), "much", lambda more, data: []),))
    assert list(traces()) == []
    assert capsys.readouterr().out == "  models is left out, for there is no no-such-program. Run: apt-get install much\n"


def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"broken ended with 3: no disk"):
        trace(Program("broken", (), "", lambda more, data: ["sh", "-c", "echo no disk >&2; exit 3"], ranks=1))


def sent(seq: int, **more: object) -> bytes:
    return orjson.dumps({"kind": "run", "node": "cn0001", "seq": seq, **more})


@pytest.mark.parametrize(
    "lines",
    [[sent(1), sent(3, kind="sample", values={"ended": 1})], [sent(1), sent(2, kind="sample", values={"ended": 0})], [sent(1), sent(1), sent(2)], [sent(1)]],
    ids=["a gap", "not ended", "twice", "no sample"],
)
def test_a_trace_that_is_not_whole_is_none(lines: list[bytes]) -> None:
    with pytest.raises(RuntimeError, match="not all that the agent of cn0001 had came"):
        _traces._trace("x", lines)


def test_a_program_that_was_not_seen_has_no_trace() -> None:
    with pytest.raises(RuntimeError, match="sent no runs"):
        _traces._trace("x", [sent(1, kind="sample", values={"ended": 1})])
