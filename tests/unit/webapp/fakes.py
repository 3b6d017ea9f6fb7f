"""A store in memory, and an app on it."""

import os
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tests.unit.jobdb.made import made
from jobdb.repository import JobDB
from pipeline.archive.files import FileArchive
from pipeline.retention import Keeper
from pipeline.rollup import class_of, roll_up
from pipeline.rollup import table as summed
from pipeline.store import DOINGS, MESSAGES, SAMPLES, Heard, Progress, Proof, TooManyRuns, TooManySamples, named_samples
from pipeline.store.parts import Drops
from pipeline.summary import rows_table
from tests.unit.jobdb.tables import SCHEMA, T0, row, table
from webapp.api import create_app
from webapp.api.second_pass import SecondPass

S = 10**9


class FakeStore:
    """Rows in lists; counts how often runs were asked for, and versions, one or many."""

    few_runs = 100_000
    is_grouped = True
    seconds_of = "rollups"

    def __init__(self):
        self.rows, self.sample_rows, self.asked, self.lock = {}, [], 0, threading.Lock()
        self.versions_asked = self.seconds_asked = 0
        self.high_water, self.gaps, self.totals_read = [], [], 0
        self.marks, self.dead_letters, self.boots_beyond, self.audits = [], [], 0, 0
        self.parts, self.proofs_ended = 2, 0
        self.old, self.gone, self.gone_letters = [], [], {}
        self.components_asked = self.samples_asked = self.doings_asked = 0
        self.samples_max, self.names_asked, self.read = 100_000, [], []
        self.message_rows = []
        self.summary_rows, self.until_ns = {"minutes": [], "hours": []}, 2**62

    def add(self, job, *rows):
        self.rows.setdefault(job, []).extend(rows)

    def runs(self, job, columns=None, window=None, span=None, *, known=None, most=None):
        with self.lock:
            self.asked += 1
        rows = [r for r in self._found(job, window) if span is None or (r["start"] <= span[1] and r["end"] >= span[0])]
        if most is not None and len(rows) > most:
            raise TooManyRuns("too many")
        found = table(rows)
        return found.select(list(columns or SCHEMA.names))

    def seconds(self, job, uid, nodes, from_s, to_s, step_s=1, *, of_nodes=False, since_s=None, known=None, given=None):
        with self.lock:
            self.seconds_asked += 1
        rows = [
            r
            for of, found in self.rows.items()
            for r in found
            if job in (None, of) and (uid is None or r["uid"] in (uid, None)) and (nodes is None or r["node"] in nodes) and of_nodes == (r["process"] == "node")
        ]
        columns = [[class_of(r["op"], r["errno"]) for r in rows], *([r[name] for r in rows] for name in ("start", "end", "bytes", "count", "busy_ns"))]
        found = roll_up(np.zeros(len(rows), dtype=np.int64), *(np.array(column, dtype=np.int64) for column in columns))
        from_s, to_s = from_s // step_s * step_s, -(-to_s // step_s) * step_s
        inside = (found.second < to_s) & (found.second + found.seconds > from_s)
        return summed(found.second[inside], found.seconds[inside], found.sums[inside], step_s)

    def sample_totals(self, component, nodes, after=""):
        self.totals_read += len(self.sample_rows) - int(after or 0)
        found = {}
        for sample in self.sample_rows[int(after or 0) :]:
            for name, value in sample["values"].items() if sample["component"] == component and sample["node"] in nodes else ():
                total, _ = found.get((sample["node"], name), (0, 0))
                found[sample["node"], name] = (total + value, value)
        return [(*key, *sums) for key, sums in found.items()], str(len(self.sample_rows))

    def sample_sums(self, component, names, nodes, from_ns, to_ns):
        found = {}
        for sample in self.sample_rows:
            if sample["node"] in nodes and sample["end"] >= from_ns and sample["start"] <= to_ns:
                sums = found.setdefault((sample["node"], 255), {})
                for name in set(names) & set(sample["values"]):
                    sums[name] = sums.get(name, 0) + sample["values"][name]
        return found

    def sample_sums_by_time(self, component, names, after, grain_ns, limit):
        found = {}
        for sample in self.sample_rows[int(after or 0) :]:
            for name in set(names) & set(sample["values"]) if sample["component"] == component else ():
                key = ((sample["node"], 255), sample["start"] // grain_ns, name)
                found[key] = found.get(key, 0) + sample["values"][name]
        return [(*key, value) for key, value in found.items() if value][:limit], str(len(self.sample_rows))

    def components(self, from_ns, to_ns, node=None, kinds=None, but=()):
        self.components_asked += 1
        return self._heard(from_ns, to_ns, lambda one: node in (None, one["node"]) and (kinds is None or one["component"] in kinds) and one["component"] not in but)

    def called(self, component, nodes, names, stems, from_ns, to_ns):
        self.names_asked.append((component, list(names)))

        def is_called(one):
            stem, dot, _ = one["instance"].partition(".")
            return one["component"] == component and one["node"] in nodes and (one["instance"] in names or (dot and stem in stems))

        return self._heard(from_ns, to_ns, is_called)

    def telling(self, component, nodes, from_ns, to_ns):
        return {one["node"] for one in self._samples(from_ns, to_ns) if one["component"] == component} & set(nodes)

    def sums_of(self, component, node, begins, names, from_ns, to_ns):
        found = {}
        for one in self._samples(from_ns, to_ns):
            if one["component"] == component and one["node"] == node and one["instance"].startswith(begins):
                of = found.setdefault(one["instance"], {})
                for name in set(names) & set(one["values"]):
                    of[name] = of.get(name, 0) + one["values"][name]
        return found

    def _heard(self, from_ns, to_ns, is_one):
        found = {}
        hours = [one | {"start": one["time"], "end": one["time"] + 3600 * S} for rows in self.summary_rows.values() for one in rows]
        for one in [*self._samples(from_ns, to_ns), *(one for one in hours if one["end"] >= from_ns and one["start"] <= to_ns)]:
            if is_one(one):
                found.setdefault((one["node"], one["component"], one["instance"]), []).append(one)
        return [Heard(*key, min(one["start"] for one in of), max(one["end"] for one in of)) for key, of in sorted(found.items())]

    def samples(self, component, of, from_ns, to_ns, most=100_000, names=None):
        self.samples_asked += 1
        self.read += [(component, *one) for one in of]
        found = [one for one in self._samples(from_ns, to_ns) if one["component"] == component and (one["node"], one["instance"]) in of]
        if len(found) > self.samples_max:
            raise TooManySamples(component, self.samples_max, found[self.samples_max]["start"] - 1)
        if names is not None:
            return pa.Table.from_pylist([one | {"boot": 255} | {name: one["values"].get(name) for name in names} for one in found], schema=named_samples(names))
        return pa.Table.from_pylist([one | {"boot": 255, "values": list(one["values"].items())} for one in found], schema=SAMPLES)

    def summaries(self, data, component, of, from_ns, to_ns):
        rows = [row for row in self.summary_rows[data] if row["component"] == component and (row["node"], row["instance"]) in of]
        return rows_table([row for row in rows if from_ns // (3600 * S) * 3600 * S <= row["time"] < to_ns])

    def summarised_ns(self):
        return self.until_ns

    def _samples(self, from_ns, to_ns):
        return [{"instance": one["node"]} | one for one in self.sample_rows if one["end"] >= from_ns and one["start"] <= to_ns]

    def messages(self, node, from_ns, to_ns, severity=7, event=None, skip=0, most=1000):
        fits = [
            one for one in self.message_rows
            if one["node"] == node and one["end"] >= from_ns and one["start"] <= to_ns and one["severity"] <= severity
            and (event is None or one["event"] == event or (event == "*" and one["event"]))
        ]  # fmt: skip
        rows = [{name: one.get(name) for name in MESSAGES.names} | {"boot": 255} for one in sorted(fits, key=lambda one: -one["start"])]
        return pa.Table.from_pylist(rows[skip : skip + most], schema=MESSAGES), len(rows)

    def missing(self, nodes, from_ns, to_ns):
        found = {}
        for node, since_ns, until_ns, count in self.gaps:
            if node in nodes and until_ns >= from_ns and since_ns <= to_ns:
                found[node] = found.get(node, 0) + count
        return found

    def changes(self, nodes, from_ns, to_ns):
        return str(hash(repr((self.rows, self.sample_rows, self.gaps, self.gone))))

    def boots(self, node=None, since_ns=0):
        newest = {key[0]: mark for key, mark in reversed(self.marks)}
        return [(key, mark) for key, mark in self.marks if node in (None, key[0]) and (mark.last_ns >= since_ns or mark is newest[key[0]])]

    def boot_count(self, node=None, since_ns=0):
        return len(self.boots(node, since_ns)) + self.boots_beyond

    def letters(self, node=None, since_ns=0, raw=False):
        self.audits += 1
        return [line if raw else replace(line, raw=None) for line in self.dead_letters if node in (None, line.node) and line.last_ns >= since_ns]

    def proof(self, node=None, since_ns=0):
        try:
            for read in range(0, self.parts + 1):
                yield Progress(read, self.parts)
            yield Proof({key: (mark.rows, mark.rows, mark.rows) for key, mark in self.boots(node, since_ns)}, {"2023-11-14": 3})
        finally:
            self.proofs_ended += 1

    def nodes(self, job, uid):
        return sorted({row["node"] for row in self.rows.get(job, []) if row["uid"] == uid})

    def doings(self, from_ns, to_ns):
        self.doings_asked += 1
        found = {}
        for job, rows in self.rows.items():
            for r in rows:
                what = {0: "read", 1: "write", 2: "metadata"}.get(class_of(r["op"], r["errno"]))
                if what and r["start"] <= to_ns and r["end"] >= from_ns:
                    of = found.setdefault((job, r["uid"], r["node"] if job is None else None), dict.fromkeys(DOINGS.names[3:], 0))
                    of[f"{what}_ops"] += r["count"]
                    if what != "metadata":
                        of[f"{what}_bytes"] += r["bytes"]
        return pa.Table.from_pylist([dict(zip(("job", "uid", "node"), key, strict=True)) | of for key, of in found.items()], schema=DOINGS)

    def version(self, job, window=None):
        return self.versions([(job, window)])[0]

    def versions(self, asked):
        self.versions_asked += 1
        return [len(self._found(job, window)) for job, window in asked]

    def _found(self, job, window):
        """Runs of nodes are under job None."""
        of_nodes = [r for r in self.rows.get(None, []) if window and r["node"] in window.nodes and r["start"] <= window.to_ns and r["end"] >= window.from_ns]
        return self.rows.get(job, []) + of_nodes

    def expired(self, before_ns):
        return [part for part in self.old if part.data in before_ns]

    def drop(self, part):
        self.old.remove(part)
        self.gone.insert(0, replace(part, dropped_ns=T0))
        return self.gone[0]

    def dropped(self, limit=1000):
        return self.gone[:limit]

    def dropped_ns(self, data, spans, group=None):
        return Drops(self.gone).last_ns(data, spans, group)

    def kept_from_ns(self, data):
        return Drops(self.gone).kept_from_ns(data)

    def shards(self):
        return None

    def dropped_letters(self):
        return self.gone_letters

    def partial(self):
        return 0

    def away(self):
        return []

    def status(self):
        return {"records": {"run": 3, "sample": 1, "job": 2, "message": 0}, "dead_letters": 0, "high_water": self.high_water, "last_append_ns": None, "error": None}

    def close(self):
        pass


def event(kind="start", job="7", uid=1000, time=T0, **more):
    fields = {
        "node": "n1", "event": kind, "job": job, "launch": "l1", "cluster": "c", "program": "prog", "command": "prog -x", "user": "ada",
        "uid": uid, "time": time, "exit_code": 0 if kind == "end" else None,
    }  # fmt: skip
    return fields | more


def sample(node="n1", start=0, end=1, **values):
    """A row of what an agent tells of itself."""
    return {"node": node, "component": "agent", "start": start, "end": end, "values": values}


class Site:
    """A store, a job database, and a client of an app on both."""

    def __init__(self, tmp_path, **config):
        self.store = FakeStore()
        self.jobdb = JobDB(made(tmp_path / "jobs.db"), user_name=lambda uid: None)
        self.frontend = tmp_path / "dist"
        status = lambda: {"version": "9", "started_ns": 1, "ingest": {"connections": 1}}  # noqa: E731
        # A test client has no socket that the kernel could tell the owner of.
        defaults = {"FRONTEND_DIR": self.frontend, "PEER_UID": lambda environ: os.geteuid()}
        second_pass = SecondPass(self.jobdb, self.store, FileArchive(tmp_path / "archive"), 600, 30)
        keeper = Keeper(self.store, {"runs": 180, "samples": 0})
        self.app = create_app(defaults | config, store=self.store, jobdb=self.jobdb, status=status, keeper=keeper, second_pass=second_pass)
        self.client = self.app.test_client()

    def get(self, path, status=200, **options):
        response = self.client.get(path, **options)
        assert response.status_code == status, (path, response.status_code, response.text)
        return response.get_json()

    def finished_job(self, job="7", uid=1000):
        self.jobdb.apply_event(event(job=job, uid=uid))
        self.store.add(
            job,
            row("start", T0, uid=uid, rank=0),
            row("open", T0, uid=uid, rank=0),
            row("write", T0, T0 + 2 * S, bytes=8192, count=2, uid=uid, rank=0),
            row("write", T0, T0 + 2 * S, bytes=4096, count=1, uid=uid, process="2.1", node="n2", file="/b"),
            row("open", T0, uid=uid, errno=2, file="/missing"),
            row("read", T0 + S, T0 + 3 * S, bytes=10, count=1, uid=uid, file=None),
        )
        self.jobdb.apply_event(event("end", job=job, uid=uid, time=T0 + 4 * S))

    def close(self):
        self.jobdb.close()
