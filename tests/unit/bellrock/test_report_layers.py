"""What `bellrock layers` prints."""

from rich.console import Console

from bellrock import report_layers
from jobdb.layers.figures import blank

MIB = 1 << 20


def component(**changes):
    return {
        "node": "fwd1", "component": "nfs_server", "instance": "fwd\x1b1", "target": None, "is_certain": True, "is_beneath": False, "figures": blank(), "own": None, "how": None,
        "other_jobs": 0, "jobs": None, "known_s": 100.0,
    } | changes  # fmt: skip


def layer(name, **changes):
    told = {"layer": name, "figures": blank(), "own": None, "how": None, "of": None, "amplification": {"read": None, "write": None}, "other_jobs": 0}
    return told | {"components": []} | changes


def printed(answer, of_each=False):
    console = Console(width=200, no_color=True, record=True)
    console.print(report_layers.shown(answer, of_each))
    return console.export_text()


def answer(*layers, **changes):
    systems = [{"name": "work", "kind": "nfs", "layers": list(layers)}] if layers else []
    return {"from_ns": 0, "to_ns": 1, "resolution_s": None, "has_topology": True, "file_systems": systems, "elsewhere": None} | changes


def test_a_line_a_layer():
    read = blank() | {"read_bytes": 350 * MIB, "read_ops": 700, "read_latency": {"mean_s": 0.0125, "p95_s": None}, "queue_mean": 2.5}
    given = answer(
        layer("client", figures=blank() | {"read_bytes": 100 * MIB, "read_ops": 100}),
        layer("forwarding", figures=read, own=read, how="alone", of="client", amplification={"read": 3.5, "write": None}, components=[component(figures=read)]),
        layer("storage", figures=read, own=blank() | {"read_bytes": 3 * MIB}, how="clients", other_jobs=2, components=[component(known_s=0, is_certain=False), component(is_beneath=True)]),
    )
    lines = printed(given).splitlines()
    assert lines[0] == "work (nfs)" and len(lines) == 5
    assert lines[3].split() == ["forwarding", "350", "MiB", "3.50", "-", "700", "-", "-", "12.5", "ms", "-", "2.5", "this", "job"]
    assert lines[4].endswith("2 other jobs too; this one 3.0 MiB read, - written")
    each = printed(given, of_each=True)
    assert "fwd1 nfs_server fwd?1" in each and "sent nothing; perhaps not for this job" in each and each.count("beneath, and not added") == 1


def test_operations_by_name_and_caches_stand_beneath():
    named = [{"name": f"op\x1b{n}", "ops": 100 - n, "mean_s": None if n else 0.0125} for n in range(10)]
    figures = blank() | {"metadata": named, "cache_hits": 10, "cache_misses": 90, "cache_discards": 80}
    own = blank() | {"metadata": [{"name": "open", "ops": 5, "mean_s": None}], "read_bytes": MIB, "write_bytes": 0}
    given = answer(layer("client", figures=blank() | {"metadata": []}), layer("storage", figures=figures), layer("metadata", figures=figures, own=own, how="job_stats", other_jobs=1))
    lines = [line.rstrip() for line in printed(given).splitlines()]
    assert "storage operations: op?0 100 (12.5 ms), op?1 99, op?2 98, op?3 97, op?4 96, op?5 95, op?6 94, op?7 93 and 2 more" in lines
    assert "metadata operations: open 5" in lines and "storage cache: 10 of 100 found; 80 dropped before anybody read them" in lines
    assert any(line.endswith("1 other job too; this one 1.0 MiB read, 0 B written by its name") for line in lines) and not any("client op" in line for line in lines)


def test_nothing_to_tell():
    assert report_layers.NOTHING in printed(answer())
    text = printed(answer(has_topology=False, elsewhere=blank() | {"read_bytes": MIB, "write_bytes": 0}))
    assert "1.0 MiB read and 0 B written by the job's processes" in text and report_layers.NO_TOPOLOGY in text
