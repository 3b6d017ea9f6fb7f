"""Slow and obvious versions of what jobdb computes: rows are dicts, sums are loops, fractions are exact."""

from fractions import Fraction

from jobdb.runs import LATEST_NS
from pipeline.rollup import METADATA_OPS

S = 10**9
NOTICES = ("start", "unseen")


def clean(rows, uid=None):
    """The rows of one user, of processes or else of nodes, with times in bounds, and each file named by one key."""
    rows = [dict(row) for row in rows if uid is None or row["uid"] in (uid, None)]
    ops = {row["op"] for row in rows if row["process"] != "node"}
    if ops - set(NOTICES) or ops == {"start"}:
        rows = [row for row in rows if row["process"] != "node"]
    path_of_id = {row["file_id"]: row["file"] for row in rows if row["op"] not in NOTICES and row["file"] is not None and row["file_id"] is not None}
    for row in rows:
        row["start"] = min(max(row["start"], 0), LATEST_NS)
        row["end"] = min(max(row["end"], row["start"]), LATEST_NS)
        if row["file"] is not None:
            row["f"] = row["file"]
        elif row["file_id"] is not None:
            row["f"] = path_of_id.get(row["file_id"], row["file_id"])
        else:
            row["f"] = None
        row["p"] = (row["node"], row["process"])
    return rows


def calls(rows):
    return [row for row in rows if row["op"] not in NOTICES and not row["errno"]]


def find_phases(spans, gap_s=5):
    """Grow spans until nothing merges."""
    merged = []
    for span in sorted((max(start, 0), max(end, start, 0)) for start, end in spans):
        if merged and span[0] - merged[-1][1] <= gap_s * S:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span[1]))
        else:
            merged.append(span)
    return merged


def total(rows, key):
    return sum(row[key] for row in rows)


def by(rows, key, value="bytes"):
    out = {}
    for row in rows:
        out[row[key]] = out.get(row[key], 0) + row[value]
    return out


def in_phase(row, phases):
    for number, (start, end) in enumerate(phases):
        if row["start"] <= end and row["end"] >= start:
            return number
    return -1


def n_processes(rows):
    """(N, N for the I/O mode)."""
    active = {row["p"] for row in calls(rows) if not row["flags"] & 32} or {row["p"] for row in calls(rows)}
    moving = {row["p"] for row in calls(rows) if row["op"] in ("read", "write", "mmap")}
    children, parent_of = {}, {}
    for row in rows:
        if row["parent"] is not None:
            parent_of[row["p"]] = min(row["parent"], parent_of.get(row["p"], row["parent"]))
    for child, number in parent_of.items():
        for parent in [p for p in {other["p"] for other in rows} if p[0] == child[0] and p[1].split(".")[0] == str(number)]:
            children.setdefault(parent, set()).add(child)

    def below(p, seen):
        for child in children.get(p, set()) - seen:
            seen |= {child}
            below(child, seen)
        return seen

    pattern = {p for p in active if p in moving or not below(p, set()) & moving}
    rank_of = {row["p"]: row["rank"] for row in sorted(rows, key=lambda row: (row["start"], -(row["rank"] or 0))) if row["rank"] is not None}
    if not rank_of:
        return len(active), len(pattern)
    return tuple(sum(max(1, len([p for p in some if rank_of.get(p) == rank])) for rank in set(rank_of.values())) for some in (active, pattern))


def io_mode(rows, n):
    """The mode of one phase and direction."""
    rows = [row for row in rows if row["bytes"] > 0]
    process_bytes = by(rows, "p")
    io = {p for p, size in process_bytes.items() if 100 * size >= max(process_bytes.values())}
    if not io:
        return None
    if len(io) == 1:
        return "1-1"
    file_bytes = by([row for row in rows if row["f"] is not None], "f")
    files = {f: size for f, size in file_bytes.items() if 100 * size >= max(file_bytes.values())}
    if not files:
        return None
    everyone = {f: {row["p"] for row in rows if row["f"] == f} for f in files}
    users = {f: everyone[f] & io or everyone[f] for f in files}
    shared_by = {f: everyone[f] & io for f in files}
    if 100 * sum(files[f] for f in files if len(users[f]) == 1) >= 95 * sum(files.values()):
        return "N-N" if 10 * len(io) >= 9 * n else "N-M"
    if 100 * sum(files[f] for f in files if 10 * len(shared_by[f]) >= 9 * len(io)) >= 95 * sum(files.values()):
        return "N-1"
    return "N-M"


def spread(rows, edges, key="bytes"):
    """Exact amount in each bin."""
    out = [Fraction(0)] * (len(edges) - 1)
    for row in rows:
        start, end = row["start"], row["end"]
        for number in range(len(out)):
            low, high = edges[number], edges[number + 1]
            if start == end:
                out[number] += row[key] if low <= start < high else 0
            else:
                out[number] += Fraction(row[key] * max(min(end, high) - max(start, low), 0), end - start)
    return out


def drawn(rows):
    """The rows with the ends that a chart shows: up to the next one of their stream where that goes on in their rhythm."""
    out = []
    in_order = sorted(rows, key=lambda row: row["start"])
    for number, row in enumerate(in_order):
        stream = (row["p"], row["op"], row["f"])
        following = next((r for r in in_order[number + 1 :] if (r["p"], r["op"], r["f"]) == stream), row)
        gap, length = following["start"] - row["end"], row["end"] - row["start"]
        goes_on = row["count"] > 1 and gap > 0 and gap <= Fraction(3 * length, 2 * (row["count"] - 1))
        out.append(row | {"end": following["start"] if goes_on else row["end"]})
    return out


def peak(rows):
    """Look at every second, or where there are too many at those beside a start or end."""
    if not rows:
        return 0.0
    seconds = {instant // S + more for row in rows for instant in (row["start"], row["end"]) for more in (-1, 0, 1)}
    return float(max(spread(rows, [second * S, (second + 1) * S])[0] for second in seconds))


def ratio(amount, ns):
    return float(Fraction(amount * S, ns)) if ns > 0 else 0.0


def direction(rows, phases, n):
    size, lengths, modes = 0, 0, {}
    for number in range(len(phases)):
        inside = [row for row in rows if in_phase(row, phases) == number]
        if inside:
            size += total(inside, "bytes")
            lengths += max(row["end"] for row in inside) - min(row["start"] for row in inside)
        mode = io_mode(inside, n)
        if mode is not None:
            modes[mode] = modes.get(mode, 0) + total(inside, "bytes")
    best = None
    for mode, its_size in modes.items():
        if best is None or its_size > modes[best]:
            best = mode
    return ratio(size, lengths), peak(rows), best


def span(rows, phases):
    """From the first to the last of the rows, summed over phases."""
    inside = [[row for row in rows if in_phase(row, phases) == number] for number in range(len(phases))]
    return sum(max(row["end"] for row in part) - min(row["start"] for row in part) for part in inside if part)


def phase_list(rows, phases, uid):
    """Of each phase all that a profile tells but its modes."""
    good = calls(clean(rows, uid))
    out = []
    for number, (start, end) in enumerate(phases):
        inside = [row for row in good if in_phase(row, phases) == number]
        reads, writes = ([row for row in inside if row["op"] == op] for op in ("read", "write"))
        metadata = [row for row in inside if row["op"] in METADATA_OPS]
        out.append({
            "start_ns": start, "end_ns": end, "read_bytes": total(reads, "bytes"), "write_bytes": total(writes, "bytes"), "read_ops": total(reads, "count"),
            "write_ops": total(writes, "count"), "metadata_ops": total(metadata, "count"), "mdops": ratio(total(metadata, "count"), end - start),
            "nodes": len({row["node"] for row in reads + writes + metadata}),
        })  # fmt: skip
    return out


def is_seen(rows, uid):
    """Whether anything was, or there was nothing to be seen."""
    rows = clean(rows, uid)
    return any(row["op"] not in NOTICES for row in rows) or all(row["op"] != "unseen" for row in rows)


def latency(rows):
    """(operations by bin, seconds of the slowest)."""
    bins, rows = [0] * 8, [row for row in rows if not row["flags"] & 64]
    for row in rows:
        of_slowest = sum(row["slow_ns"] >= 10**n for n in range(4, 11))
        told = row.get("latency") is not None and sum(row["latency"]) == row["count"]
        for number in range(8):
            bins[number] += row["latency"][number] if told else row["count"] * (number == of_slowest)
    return bins, max((row["slow_ns"] / 1e9 for row in rows), default=None)


def profile(rows, phases, job):
    rows = clean(rows, job.uid)
    good = calls(rows)
    used, n = n_processes(rows)
    reads, writes = ([row for row in good if row["op"] == op] for op in ("read", "write"))
    metadata = [row for row in good if row["op"] in METADATA_OPS]
    phase_ns = sum(end - start for start, end in phases)
    avg_read, peak_read, mode_read = direction(reads, phases, n)
    avg_write, peak_write, mode_write = direction(writes, phases, n)
    moved = by(reads + writes, "p")
    latest = max([job.start_ns] + [row["end"] for row in rows if row["op"] not in NOTICES])
    slowest = max([row for row in good if not row["flags"] & 64], key=lambda row: row["slow_ns"], default=None)
    return {
        "job_id": job.key,
        "program": job.program,
        "nodes": len({row["node"] for row in rows} | set(job.node_names)),
        "processes": used,
        "io_processes": len([p for p in moved if moved[p] > 0 and 100 * moved[p] >= max(moved.values())]),
        "runtime_s": max((latest if job.end_ns is None else job.end_ns) - job.start_ns, 0) / 1e9,
        "read_bytes": total(reads, "bytes"),
        "write_bytes": total(writes, "bytes"),
        "read_ops": total(reads, "count"),
        "write_ops": total(writes, "count"),
        "metadata_ops": total(metadata, "count"),
        "mdops_avg": ratio(total([row for row in metadata if in_phase(row, phases) >= 0], "count"), phase_ns),
        "bandwidth_avg_read": avg_read,
        "bandwidth_avg_write": avg_write,
        "bandwidth_peak_read": peak_read,
        "bandwidth_peak_write": peak_write,
        "iops_avg": ratio(total([row for row in reads + writes if in_phase(row, phases) >= 0], "count"), span(reads + writes, phases)),
        "io_mode_read": mode_read,
        "io_mode_write": mode_write,
        "files": len({row["f"] for row in reads + writes} - {None}),
        "phases": len(phases),
        "errors": total([row for row in rows if row["op"] not in NOTICES and row["errno"]], "count"),
        "mapped_bytes": total([row for row in good if row["op"] == "mmap"], "bytes"),
        "folded_ops": total([row for row in good if row["flags"] & 1], "count"),
        "io_nodes": len({row["node"] for row in reads + writes}),
        "bearers": {"read": bearers(reads), "write": bearers(writes)},
        "slowest_s": slowest and slowest["slow_ns"] / 1e9,
        "granularity": "node" if rows and all(row["process"] == "node" or row["op"] in NOTICES for row in rows) and any(row["process"] == "node" for row in rows) else "process",
        "unseen_programs": len({(row["program"], row["file"]) for row in rows if row["op"] == "unseen"}),
        "latency": {"read": latency(reads), "write": latency(writes), "metadata": latency(metadata)},
    }


def bearers(rows):
    """The fewest processes, and nodes, that moved 90 % of the bytes."""
    out = {}
    for name, key in (("processes", lambda row: (row["node"], row["process"])), ("nodes", lambda row: row["node"])):
        by = {}
        for row in rows:
            by[key(row)] = by.get(key(row), 0) + row["bytes"]
        left, out[name] = sum(by.values()), 0
        enough = left // 10
        for amount in sorted(by.values(), reverse=True):
            if left > enough:
                left, out[name] = left - amount, out[name] + 1
    return out


def request_sizes(rows, uid):
    """{power of two or 0: [read_ops, write_ops, read_bytes, write_bytes]}"""
    out = {}
    for row in calls(clean(rows, uid)):
        if row["op"] in ("read", "write"):
            size = row["bytes"] // max(row["count"], 1) if row["flags"] & 1 else row["size"]
            low = 0 if size == 0 else 1 << (size.bit_length() - 1)
            entry = out.setdefault(low, [0, 0, 0, 0])
            entry[row["op"] == "write"] += row["count"]
            entry[2 + (row["op"] == "write")] += row["bytes"]
    return out
