"""The second pass: how small the records of one job get, beside what others make of the same JSON lines, and how fast.

One job of each of the eight applications of Beacon's Table 8, with 64, 512 and 4,096 processes, with jitter and 1 % irregular operations; and real programs
under watch. Each archive is read again, and has to be what went in.

An archive of several blocks has its primer twice, as in its file: both count.

What grows with a job is told by jobs without irregular operations. `structure_growth_64_to_4096`: the structure of all blocks, without the random ids of nodes' boots, 8 bytes a node,
which nothing makes smaller; `structure_once_growth_64_to_4096`: the primer's copy, which is there for the case that the first one is damaged, does not count; `archive_growth_64_to_4096`: all but the residues of times.
`residue_over_entropy`: the bytes that times take beside what the jitter that was drawn can be told with at the least.

Speeds are in the processor's time of all threads, which other programs on the machine prolong less than what passes on the clock.
"""

from __future__ import annotations

import math
import os
import struct
import time
from collections.abc import Callable, Iterable, Sequence

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from tracepack import archive

from jobdb.heat import BY
from tests.bench._beacon import model_records_vs_beacon_rule
from tests.bench._beacon_passes import records_left
from tests.bench._models import APPLICATIONS, PROCESSES, REGULAR, model_records, noise_bits
from tests.bench._others import others
from tests.bench._traces import traces
from webapp.api.deep import BINS, ROWS
from webapp.api.deep_answers import HeatQuestion, heat_of_heads

# What is to be reached, by row.
GOALS = {"models_vs_beacon": 10, "real_vs_beacon": 3, "models_vs_zstd": 1, "real_vs_zstd": 1}
GROWTH_MAX, RESIDUE_MAX, ENCODE_MIN, DECODE_MIN, HEAT_MAX_MS, FIRST_PASS_MIN = 1.3, 1.15, 2e6, 5e6, 200, 3
OTHERS = {"beacon": "Beacon's two passes", "beacon_published": "with what Beacon's logs hold alone", "zstd": "zstd -19", "parquet": "Parquet with zstd"}
UNIT = "of their bytes for one of ours"
HEAT_RUNS, HEAT_MODEL = 10_000_000, "APT"
REPEATS = 3
# For a trial: jobs of so many processes at most.
PROCESSES_MAX = int(os.environ.get("BELLROCK_BENCH_PROCESSES", max(PROCESSES)))


def run() -> list[dict]:
    sizes = [processes for processes in PROCESSES if processes <= PROCESSES_MAX]
    models = {name: [_ratios(f"{name}-{processes}", model_records(name, processes)) for processes in sizes] for name in APPLICATIONS}
    real, left = {}, model_records_vs_beacon_rule()
    models_left = list(left)
    for trace in traces():
        real[trace.name] = [_ratios(trace.name, trace.table)]
        left[trace.name] = records_left(trace.table)
    rows = [row for corpus, found in (("models", models), ("real", real)) for other in OTHERS for row in _compared(corpus, other, found)]
    for corpus, names in (("models", models_left), ("real", list(real))):
        value = _mean(left[name][1] / left[name][0] for name in names)
        rows.append({"name": f"first_pass_{corpus}_vs_beacon_records_geomean", "value": value, "unit": "of Beacon's records for one of ours", "baseline_name": "at least", "baseline": FIRST_PASS_MIN})
    rows += [{"name": f"first_pass_records_{name.lower()}", "value": ours, "unit": "records", "baseline_name": "Beacon's rule", "baseline": theirs} for name, (ours, theirs) in left.items()]
    return rows + _growth(min(sizes), max(sizes)) + _speed(max(sizes))


def _packed(runs: pa.Table) -> list[bytes]:
    archiver = archive.Archiver(int(runs["start"].to_numpy().min()), int(runs["end"].to_numpy().max()))
    return archiver.push(runs) + archiver.finish()


def _stored(blocks: list[bytes]) -> list[bytes]:
    """The blocks as a file has them: the primer at the end once more."""
    return [*blocks, blocks[0]] if archive.Head.read(blocks[0]).is_primer else blocks


def _read(blocks: Sequence[bytes]) -> pa.Table:
    heads = [archive.Head.read(block) for block in blocks]
    primer = archive.Primer(blocks[0]) if heads[0].is_primer else None
    return pa.concat_tables([archive.decode(block, primer) for block, head in zip(blocks, heads, strict=True) if not head.is_primer])


def _ratios(name: str, runs: pa.Table) -> dict[str, float]:
    """Bytes of each of OTHERS for one of ours."""
    blocks = _packed(runs)
    _compare(name, runs, _read(blocks))
    ours, theirs = sum(map(len, _stored(blocks))), others(runs)
    print(f"  {name}: {len(runs):,} records, {ours:,} bytes; {', '.join(f'{other} {size:,}' for other, size in theirs.items())}", flush=True)
    return {other: theirs[other] / ours for other in OTHERS}


def _compare(name: str, wanted: pa.Table, found: pa.Table) -> None:
    for field in found.schema.names:
        columns = [table[field].cast(pa.string()) if pa.types.is_dictionary(table[field].type) else table[field] for table in (wanted, found)]
        if not columns[0].combine_chunks().equals(columns[1].combine_chunks()):
            raise RuntimeError(f"{name}: {field} is not what was packed")


def _compared(corpus: str, other: str, found: dict[str, list[dict[str, float]]]) -> list[dict]:
    of_each = {name: _mean(ratios[other] for ratios in all_ratios) for name, all_ratios in found.items()}
    goal = GOALS.get(f"{corpus}_vs_{other}")
    first = {"name": f"{corpus}_vs_{other}_geomean", "value": _mean(of_each.values()), "unit": f"{UNIT}: {OTHERS[other]}"}
    if goal:
        first |= {"baseline_name": "at least", "baseline": goal}
    return [first, *({"name": f"{corpus}_vs_{other}_{name.lower()}", "value": value, "unit": UNIT} for name, value in of_each.items())]


def _growth(few: int, many: int) -> list[dict]:
    structure, once, whole, residue = {}, {}, {}, {}
    for name in APPLICATIONS:
        small, large = (_parts(model_records(name, processes, noise=REGULAR)) for processes in (few, many))
        structure[name], once[name], whole[name] = (large[part] / small[part] for part in ("structure", "once", "whole"))
        residue[name] = large["times"] * 8 / noise_bits(name, many, noise=REGULAR)
    unit = f"times the bytes of {few} processes"
    rows = [
        {"name": f"structure_growth_{few}_to_{many}", "value": _mean(structure.values()), "unit": unit, "baseline_name": "at most", "baseline": GROWTH_MAX},
        {"name": f"structure_once_growth_{few}_to_{many}", "value": _mean(once.values()), "unit": f"{unit}; the primer counts once", "baseline_name": "at most", "baseline": GROWTH_MAX},
        {"name": f"archive_growth_{few}_to_{many}", "value": _mean(whole.values()), "unit": unit},
        {"name": "residue_over_entropy", "value": _mean(residue.values()), "unit": "bytes of times for one of noise", "baseline_name": "at most", "baseline": RESIDUE_MAX},
    ]
    rows += [{"name": f"structure_growth_{name.lower()}", "value": value, "unit": unit} for name, value in structure.items()]
    return rows + [{"name": f"residue_over_entropy_{name.lower()}", "value": value, "unit": "bytes of times for one of noise"} for name, value in residue.items()]


def _parts(runs: pa.Table) -> dict[str, int]:
    """Bytes of a job's archive: its structure but the boots' ids, the same with the primer once, times, and all but the times."""
    blocks = _stored(_packed(runs))
    primer = archive.Primer(blocks[0]) if archive.Head.read(blocks[0]).is_primer else None
    parts = {"structure": 0, "once": 0, "times": 0, "whole": 0}
    for place, block in enumerate(blocks):
        # docs/format.md: what of a block its head, structure and times have.
        _, structure, times = struct.unpack_from("<3I", block, 8)
        is_primer = primer is not None and block is blocks[0]
        is_copy = is_primer and place > 0
        ids = 8 * pc.count_distinct(archive.decode(block, None if is_primer else primer)["boot"]).as_py()
        parts["structure"] += structure - ids
        parts["once"] += 0 if is_copy else structure - ids
        parts["times"] += 0 if is_primer else times
        parts["whole"] += len(block) - times
    return parts


def _speed(processes: int) -> list[dict]:
    records, encode_s, decode_s = 0, 0.0, 0.0
    for name in APPLICATIONS:
        runs = model_records(name, processes)
        blocks = _packed(runs)
        records += len(runs)
        encode_s += _fastest(lambda runs=runs: _packed(runs))
        decode_s += _fastest(lambda blocks=blocks: _read(blocks))
    print(f"  {records:,} records of eight jobs", flush=True)
    return [
        {"name": "encode_records_per_s", "value": records / encode_s, "unit": "records/s, from Arrow", "baseline_name": "at least", "baseline": ENCODE_MIN},
        {"name": "decode_records_per_s", "value": records / decode_s, "unit": "records/s, to Arrow", "baseline_name": "at least", "baseline": DECODE_MIN},
        {"name": "heatmap_10m_runs_ms", "value": _heat_ms(processes), "unit": "ms, from stored sums to JSON", "baseline_name": "at most", "baseline": HEAT_MAX_MS},
    ]


def _heat_ms(processes: int) -> float:
    """How long the server takes for the answer that a job's page asks for, from the heads of an archive's blocks on: by node or by rank, what takes longer."""
    heads = _heads(processes)
    sums = archive.heat(heads)
    span = (sums.from_ns, sums.from_ns + int(sums.bin.max() + 1) * sums.width_ns)
    read_bytes, write_bytes, ops, metadata_ops = sums.cells.sum(axis=0).tolist()
    figures = {"read_bytes": read_bytes, "write_bytes": write_bytes, "read_ops": ops, "metadata_ops": metadata_ops}

    def answer(by: str) -> bytes:
        told = heat_of_heads(heads, figures, HeatQuestion(*span, by, "write_bytes", ROWS, BINS), span)
        if told is None or told["total"] != write_bytes:
            raise RuntimeError("the sums are not those of the job")
        return orjson.dumps(told)

    return 1e3 * max(_fastest(lambda by=by: answer(by)) for by in BY)


def _heads(processes: int) -> list[bytes]:
    """Of the archive of a job of HEAT_RUNS runs: one with so many processes again and again, each time on other nodes and with further ranks."""
    runs = model_records(HEAT_MODEL, processes)
    times, node = (runs["start"], runs["end"]), runs["node"].combine_chunks()
    archiver = archive.Archiver(int(times[0].to_numpy().min()), int(times[1].to_numpy().max()))
    blocks, parts = [], -(-HEAT_RUNS // len(runs))
    for part in range(parts):
        names = pa.array([f"r{part}{name}" for name in node.dictionary.to_pylist()])
        ranks = pc.add(runs["rank"], pa.scalar(part * processes, pa.int32()))
        moved = runs.set_column(runs.column_names.index("node"), "node", pa.DictionaryArray.from_arrays(node.indices, names))
        blocks += archiver.push(moved.set_column(runs.column_names.index("rank"), "rank", ranks))
    blocks += archiver.finish()
    told = [archive.Head.read(block) for block in blocks]
    heads = [block[: head.head_bytes] for block, head in zip(blocks, told, strict=True) if not head.is_primer]
    print(f"  heat map: {parts * len(runs):,} runs, {len(heads)} blocks, {sum(map(len, heads)):,} bytes of heads", flush=True)
    return heads


def _fastest(work: Callable[[], object]) -> float:
    took = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        took.append(time.process_time() - start)
    return min(took)


def _mean(ratios: Iterable[float]) -> float:
    """Geometric."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))
