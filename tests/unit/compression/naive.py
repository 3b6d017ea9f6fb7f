"""What a block's head says, and a job's sums by process and time, worked out record by record."""

from __future__ import annotations

from tests.unit.compression.tables import LEAST, MOST

BINS = 256


def bound(number: int) -> int:
    return min(max(number, LEAST), MOST)


def text_bounds(texts: list[str | None]) -> tuple[str, str] | None:
    """A long one's first 128 bytes, whole characters; behind the largest one's the last character of all."""
    known = sorted(text.encode() for text in texts if text is not None)
    if not known:
        return None

    def cut(text: bytes) -> str:
        return text[:128].decode(errors="ignore")

    return cut(known[0]), cut(known[-1]) + ("\U0010ffff" if len(known[-1]) > 128 else "")


def bounds(records: list[dict]) -> dict:
    """Of what `archive.Head` says: what is of the records."""
    ends = []
    for row in records:
        if row["op"] in ("read", "write"):
            last = bound(bound(row["stride"] * max(row["count"] - 1, 0)) + row["offset"])
            ends.append((min(last, row["offset"]), bound(max(last, row["offset"]) + row["size"])))
    ranks = [row["rank"] for row in records if row["rank"] is not None]
    ops = {}
    for op in {row["op"] for row in records}:
        own = [row for row in records if row["op"] == op]
        sums = [sum(row[name] for row in own) for name in ("count", "bytes", "busy_ns")]
        ops[op] = tuple(map(bound, [len(own), *sums, sum(row["count"] for row in own if row["errno"])]))
    return {
        "rows": len(records), "processes": len({tuple(row[name] for name in ("node", "boot", "process", "layer", "source")) for row in records}),
        "start_ns": min((row["start"] for row in records), default=0), "end_ns": max((row["end"] for row in records), default=0),
        "nodes": text_bounds([row["node"] for row in records]), "files": text_bounds([row["file"] for row in records]),
        "ranks": (min(ranks), max(ranks)) if ranks else None,
        "offsets": (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None, "ops": ops,
    }  # fmt: skip


def shares(row: dict, from_ns: int, width_ns: int) -> dict[int, tuple[int, ...]]:
    """What a record gives to each bin."""
    if row["errno"] or row["op"] in ("start", "mmap", "unseen"):
        return {}
    moved = row["bytes"]
    amounts = {"read": (moved, 0, row["count"], 0), "write": (0, moved, row["count"], 0)}.get(row["op"], (0, 0, 0, row["count"]))

    def place(time: int) -> int:
        return min(max((time - from_ns) // width_ns, 0), BINS - 1)

    start, end = row["start"], row["end"]
    first, last = place(start), place(max(end - 1, start))
    if first == last:
        return {first: amounts}

    def part(amount: int, passed: int) -> int:
        # Towards 0, as whole numbers are divided there.
        share = abs(amount) * passed // (end - start)
        return share if amount >= 0 else -share

    begun = tuple(part(amount, from_ns + (first + 1) * width_ns - start) for amount in amounts)
    each = tuple(part(amount, width_ns) for amount in amounts)
    rest = tuple(amount - one - other * (last - first - 1) for amount, one, other in zip(amounts, begun, each, strict=True))
    return {first: begun, **dict.fromkeys(range(first + 1, last), each), last: rest}


def groups(records: list[dict], sizes: list[int]) -> list[tuple]:
    """Of groups with so many processes each: these, the first and last one's node, how many nodes, least and largest rank, and how many ranks (0 where there are none)."""
    processes: dict[tuple, list[dict]] = {}
    for row in records:
        processes.setdefault(tuple(row[name] for name in ("node", "boot", "process", "layer", "source")), []).append(row)
    found, rest = [], list(processes.values())
    for size in sizes:
        own, rest = rest[:size], rest[size:]
        ranks = {row["rank"] for rows in own for row in rows if row["rank"] is not None}
        bounds = (min(ranks), max(ranks)) if ranks else (0, 0)
        found.append((size, own[0][0]["node"], own[-1][0]["node"], len({rows[0]["node"] for rows in own}), *bounds, len(ranks)))
    return found


def cells(records: list[dict], sizes: list[int], from_ns: int, width_ns: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """By group and bin, of the groups with so many processes each."""
    number: dict[tuple, int] = {}
    group_of = [group for group, size in enumerate(sizes) for _ in range(size)]
    sums: dict[tuple[int, int], list[int]] = {}
    for row in records:
        process = number.setdefault(tuple(row[name] for name in ("node", "boot", "process", "layer", "source")), len(number))
        for place, amounts in shares(row, from_ns, width_ns).items():
            cell = sums.setdefault((group_of[process], place), [0, 0, 0, 0])
            for measure, amount in enumerate(amounts):
                cell[measure] += amount
    return {at: tuple(map(bound, cell)) for at, cell in sums.items() if any(cell)}
