"""What the agent takes on Lustre's servers and clients, and for the switches of a fabric, looking at everything each second: memory, and processor time.

An OSS has 12 OSTs and 2,000 jobs, each with an entry on every OST (`oss`) or on one (`oss_2000_entries`), an MDS 10,000 clients, a client 500 OSTs; a host with three ports asks 80 switches of 36 ports. The machine's own samples (`node`,
`block_device`) go along. Each second the counters of a fifth of the jobs and clients, and of all targets and ports, move: in files of tmpfs, so that what Lustre itself needs to write its text is not in it, nor what the programs take that ask
switches. Memory is the largest seen of VmRSS, four times a second. Processor time is the kernel's count of it, to the ns, over half a minute. The records go over the real protocol to a receiver that keeps none.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path

from pipeline.ingest import Ingest
from pipeline.sink import StoreSink
from tests.bench import _fabric
from tests.bench._watch import agent, workplace
from tests.bench.agent_footprint import Sink, rss_mb
from tests.bench.forwarding_footprint import cpu_ns

OSTS, JOBS, CLIENTS, TARGETS, JOBS_OF_ONE = 12, 2000, 10_000, 500, 40_000
CHANGED = 5
SECONDS, WARM_S = 30, 6
# A round of all switches takes at most: there are two programs to be started for each.
ROUND_S = 5
PERIODS = ("lustre_job_period_s", "lustre_export_period_s")
_OPERATIONS = "open close mknod unlink mkdir rmdir rename getattr setattr getxattr statfs sync samedir_rename crossdir_rename".split()
_REQUESTS = "req_waittime req_qdepth req_active req_timeout reqbuf_avail ost_read ost_write ost_punch ldlm_bl_callback".split()


def _head() -> str:
    return f"snapshot_time             {time.time():.9f} secs.nsecs\nstart_time                1700000000.000000001 secs.nsecs\nelapsed_time              9999.1 secs.nsecs\n"


def _stats(names: list[str], count: int) -> str:
    """`stats` of operations or requests: each name counted `count` times."""
    return _head() + "".join(f"{name:<26}{count} samples [usecs] 1 999 {count * 31} {count * 999}\n" for name in names)


def _bytes(count: int) -> str:
    return "".join(f"{way}_bytes {count} samples [bytes] 1 4194304 {count << 20} 9\n" for way in ("read", "write"))


def _tables(titles: dict[str, list[str]], count: int) -> str:
    rows = lambda labels: "".join(f"{label}:\t\t {count:>9}   9  50   | {count + 3:>9}   9  50\n" for label in labels)  # noqa: E731
    return "".join(f"\n                           read      |     write\n{title:<22} rpcs  % cum % |  rpcs        % cum %\n{rows(labels)}" for title, labels in titles.items())


def _powers(count: int) -> list[str]:
    return [f"{1 << power}" if power < 10 else f"{1 << (power - 10)}K" for power in range(count)]


_DISK = {
    "pages per bulk r/w": _powers(11),
    "disk I/Os in flight": [f"{number}" for number in range(1, 31)],
    "I/O time (1/1000s)": _powers(8),
    "disk I/O size": [f"{1 << power}K" for power in range(2, 12)],
}
_RPCS = {"pages per rpc": _powers(13), "rpcs in flight": [f"{number}" for number in range(1, 9)], "offset": _powers(10)}


def _put(path: Path, text: bytes | str) -> None:
    """In one go: who reads meanwhile has the text before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f".{path.name}.new")
    whole.write_bytes(text.encode() if isinstance(text, str) else text)
    whole.rename(path)


class Machine(ABC, threading.Thread):
    """A node with Lustre below `root`, whose counters move each second once it is started."""

    # A command that becomes the agent.
    before: tuple[str, ...] = ()

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.lustre = root / "proc/fs/lustre"
        self._ended = threading.Event()
        self.moves = 0
        (root / "proc").mkdir(parents=True)
        for name in os.listdir("/proc"):
            if not name.isdigit() and name != "fs":
                (root / "proc" / name).symlink_to(f"/proc/{name}")
        (root / "sys").symlink_to("/sys")
        self.move(0)

    def run(self) -> None:
        due_s = time.monotonic()
        while not self._ended.wait(max(0.0, due_s - time.monotonic())):
            self.moves += 1
            self.move(self.moves)
            due_s += 1

    def end(self) -> None:
        self._ended.set()
        self.join()

    @abstractmethod
    def move(self, moves: int) -> None:
        """Writes what moved; at 0 all there is."""

    def services(self, folder: str, names: list[str], moves: int) -> None:
        for name in names:
            _put(self.lustre / folder / name / "stats", _stats(_REQUESTS, 9000 + moves))
            for threads in ("threads_started", "threads_min", "threads_max"):
                _put(self.lustre / folder / name / threads, "64\n")


class Targets(Machine):
    """`osts` object storage targets with `jobs` each."""

    def __init__(self, root: Path, osts: int, jobs: int) -> None:
        self._jobs = [[self._entry(job, 0, 300) for job in range(jobs)] for _ in range(osts)]
        super().__init__(root)

    @staticmethod
    def _entry(job: int, moves: int, old_s: int) -> bytes:
        count = 1000 + job + moves
        counts = {"read_bytes": (count, count << 20, "bytes"), "write_bytes": (count, count << 19, "bytes"), "read": (count, count * 930, "usecs")}
        counts |= {"write": (count, count * 770, "usecs")}
        for name in ("getattr", "setattr", "punch", "sync", "destroy", "create", "statfs", "get_info", "set_info", "quotactl", "prealloc"):
            own = count // 100 if name in ("getattr", "setattr", "punch") else 0
            counts[name] = (own, own * 9, "usecs")
        lines = (
            f"  {name + ':':<16} {{ samples: {own:>11}, unit: {unit:>5}, min: {1:>8}, max: {4194304:>8}, sum: {total:>16}, sumsq: {total * 7:>18} }}\n"
            for name, (own, total, unit) in counts.items()
        )
        head = f"- job_id:          {4_700_000 + job}.{1000 + job % 50}\n  snapshot_time:   {int(time.time()) - old_s}.123456789 secs.nsecs\n"
        return (head + "  start_time:      1700000000.000000001 secs.nsecs\n  elapsed_time:    99.1 secs.nsecs\n" + "".join(lines)).encode()

    def move(self, moves: int) -> None:
        for number, entries in enumerate(self._jobs):
            if moves:
                for job in range(0, len(entries), CHANGED):
                    entries[job] = self._entry(job, moves, 0)
            target = self.lustre / f"obdfilter/work-OST{number:04x}"
            _put(target / "job_stats", b"job_stats:\n" + b"".join(entries))
            _put(target / "stats", _stats(["read", "write", "statfs", "punch"], 1000 + moves) + _bytes(1000 + moves))
            _put(target / "brw_stats", _head().replace("snapshot_time", "snapshot_time:") + _tables(_DISK, 1000 + moves))
            for name in ("kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree", "num_exports", "tot_granted", "tot_dirty", "tot_pending"):
                _put(target / name, f"{123456 + moves}\n")
        self.services("ost/OSS", ["ost", "ost_io", "ost_create", "ost_out", "ost_seq"], moves)


class Metadata(Machine):
    def move(self, moves: int) -> None:
        target = self.lustre / "mdt/work-MDT0000"
        _put(target / "md_stats", _stats(_OPERATIONS, 9000 + moves))
        for client in range(0, CLIENTS, CHANGED if moves else 1):
            _put(target / f"exports/10.0.{client // 250}.{client % 250}@o2ib/stats", _stats(_OPERATIONS, 9000 + client + moves))
        self.services("mds/MDS", ["mdt", "mdt_readpage", "mdt_io", "mdt_out"], moves)


class Mount(Machine):
    def move(self, moves: int) -> None:
        flight = "read RPCs in flight:  3\nwrite RPCs in flight: 1\npending write pages:  0\npending read pages:   0\n"
        for number in range(TARGETS):
            target = self.lustre / f"osc/work-OST{number:04x}-osc-ffff880123456800"
            _put(target / "rpc_stats", _head().replace("snapshot_time", "snapshot_time:") + flight + _tables(_RPCS, 1000 + number + moves))
            _put(target / "stats", _stats(_REQUESTS, 9000 + moves) + _bytes(1000 + moves))
            _put(target / "cur_dirty_bytes", f"{4096 * moves}\n")
        mount = self.lustre / "llite/work-ffff880123456800"
        _put(mount / "stats", _stats(_OPERATIONS, 9000 + moves) + _bytes(1000 + moves))
        _put(mount / "read_ahead_stats", _head() + f"hits {9000 + moves} samples [pages]\nmisses {700 + moves} samples [pages]\n")


class Fabric(Machine):
    """A host that asks the switches of its fabric: programs are asked of the machine itself only, so that the agent sees no other root, but other devices."""

    def __init__(self, root: Path) -> None:
        self.classes = _fabric.classes(root.with_name("class"))
        self.before = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /sys/class && exec "$@"', str(self.classes))
        self._counters = sorted(self.classes.glob("infiniband/*/ports/*/counters/port_*_data"))
        super().__init__(root)

    def move(self, moves: int) -> None:
        for counter in self._counters:
            _put(counter, f"{1_000_000 + 1000 * moves}\n")


def measure(place: Path, machine: Machine, per_s: float, settings: str = "") -> tuple[float, float, float]:
    """(largest memory in MiB, processor time in ns a second, samples a second) of an agent on a machine that has at least `per_s` samples a second. Raises RuntimeError if there were fewer."""
    sink = Sink()
    ingest = Ingest(StoreSink(sink), host="127.0.0.1", port=0)
    ingest.start()
    settings = "".join(f"{name} = 1\n" for name in PERIODS) + settings
    try:
        root = None if machine.before else machine.root
        with agent(place, place / "rings", ingest.port, settings=settings, root=root, before=machine.before) as process:
            machine.start()
            time.sleep(WARM_S)  # the first looks find everything new
            before, began_s, events, moves, peak = cpu_ns(process.pid), time.monotonic(), sink.events, machine.moves, 0.0
            while time.monotonic() - began_s < SECONDS:
                peak = max(peak, rss_mb(process.pid))
                time.sleep(0.25)  # sampling interval
            took_s = time.monotonic() - began_s
            cpu, events, moves = (cpu_ns(process.pid) - before) / took_s, sink.events - events, machine.moves - moves
    finally:
        if machine.is_alive():
            machine.end()
        ingest.stop()
    if moves < 0.9 * took_s:
        raise RuntimeError(f"the counters moved {moves} times in {took_s:.0f} s: this machine is too busy")
    if events < 0.8 * per_s * took_s:
        raise RuntimeError(f"{events} samples came in {took_s:.0f} s, less than {per_s} a second: {(place / 'agent.log').read_text()[-2000:]}")
    return peak, cpu, events / took_s


def run() -> list[dict]:
    rows = []
    for name, limit_mb, per_s, make in (
        ("oss", 5.0, OSTS * JOBS / CHANGED, lambda root: Targets(root, OSTS, JOBS)),
        ("oss_2000_entries", 5.0, JOBS / CHANGED, lambda root: Targets(root, OSTS, -(-JOBS // OSTS))),
        ("mds", 8.0, CLIENTS / CHANGED, Metadata),
        ("lustre_client", 6.0, TARGETS, Mount),
        ("switch", 6.0, _fabric.SWITCHES * _fabric.PORTS / ROUND_S, Fabric),
    ):
        with workplace() as place:
            machine = make(place / "root")
            settings = _fabric.programs(place) if name == "switch" else ""
            peak, cpu, told_per_s = measure(place, machine, per_s, settings)
        rows.append({"name": f"{name}_rss_mb", "value": peak, "unit": "MiB", "baseline_name": "the target", "baseline": limit_mb})
        rows.append({"name": f"{name}_cpu_pct", "value": cpu / 1e7, "unit": "% of a core", "baseline_name": "the target", "baseline": 10.0})
        if name == "switch":
            all_per_s = _fabric.SWITCHES * _fabric.PORTS
            rows.append({"name": "switch_samples_per_s", "value": told_per_s, "unit": "samples/s", "baseline_name": "all ports each second", "baseline": all_per_s})
    with workplace() as place:
        others = "".join(f"{name}_period_s = 0\n" for name in ("node", "block_device", "lustre_server", "lustre_client"))
        _, cpu, _ = measure(place, Targets(place / "root", 1, JOBS_OF_ONE), JOBS_OF_ONE / CHANGED, others)
    rows.append({"name": "jobstats_40k_ms", "value": cpu / 1e6, "unit": "ms"})
    return rows
