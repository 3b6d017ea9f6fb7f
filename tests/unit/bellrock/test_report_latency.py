import io

from rich.console import Console, Group

from bellrock import report_latency

CALL = {
    "op": "write", "seconds": 0.7, "file": "/scratch/\x1b[31mout", "node": "n1", "process": "17.99", "program": "sim", "rank": 3,
    "start_ns": 1_800_000_000_000_000_000, "end_ns": 1_800_000_001_000_000_000,
}  # fmt: skip
NONE = {"counts": [0] * 8, "slowest": None}
STALLED = {"counts": [1_000_000, 20, 0, 0, 0, 1, 0, 0], "slowest": CALL}
OPENED = {"counts": [0, 0, 5, 0, 0, 0, 0, 0], "slowest": {**CALL, "op": "open", "rank": None, "file": None}}


def rendered(latency: dict, width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(Group(report_latency.took(latency), report_latency.slowest(latency)))
    return out.getvalue().splitlines()


def test_one_stalled_call_shows_among_a_million_with_its_file_and_process() -> None:
    lines = rendered({"read": NONE, "write": STALLED, "metadata": OPENED})
    assert [line[:13].strip() for line in lines[1:7]] == list(report_latency.BINS[:6]), "from the first bin that is used to the last"
    assert "1,000,000" in lines[1] and "██████████" in lines[1]
    assert lines[6].rstrip().endswith("1 █") or "  1  █" in lines[6]
    assert "slowest write" in lines[7] and "700.0 ms" in lines[7] and "/scratch/?[31mout" in lines[7] and "n1 17 sim rank 3" in "".join(lines[7:9])
    assert "slowest metadata call, open" in "".join(lines[8:]) and "slowest read" not in "".join(lines)
    assert max(map(len, lines)) <= 80


def test_nothing_is_known_of_calls_that_nobody_timed() -> None:
    assert not report_latency.is_known(None)
    assert not report_latency.is_known({"read": NONE, "write": NONE, "metadata": NONE})
    assert report_latency.is_known({"read": NONE, "write": NONE, "metadata": OPENED})


def test_an_inferred_rank_is_told_as_such():
    assert report_latency.process_name(CALL | {"rank_inferred": True}).endswith("sim rank 3 (inferred)")
    assert report_latency.process_name(CALL | {"rank": None, "rank_inferred": False}).endswith("sim")
