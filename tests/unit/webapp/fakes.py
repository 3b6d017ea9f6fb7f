"""A store in memory, and an app on it."""

import os
import threading

import pyarrow as pa

from jobdb.repository import JobDB
from tests.unit.jobdb.tables import SCHEMA, T0, row, table
from webapp.api import create_app

S = 10**9
SAMPLES = pa.schema(
    [("node", pa.string()), ("boot", pa.uint64()), ("seq", pa.int64()), ("component", pa.string()), ("start", pa.int64()), ("end", pa.int64()),
     ("values", pa.map_(pa.string(), pa.float64()))]
)  # fmt: skip


class FakeStore:
    """Rows in lists; counts how often runs were asked for."""

    def __init__(self):
        self.rows, self.sample_rows, self.asked, self.lock = {}, [], 0, threading.Lock()
        self.high_water = []

    def add(self, job, *rows):
        self.rows.setdefault(job, []).extend(rows)

    def runs(self, job, columns=None):
        with self.lock:
            self.asked += 1
        found = table(self.rows.get(job, []))
        return found.select(list(columns or SCHEMA.names))

    def samples(self, component, since_ns=None):
        rows = [r for r in self.sample_rows if r["component"] == component and (since_ns is None or r["end"] > since_ns)]
        return pa.Table.from_pylist(rows, schema=SAMPLES)

    def version(self, job):
        return len(self.rows.get(job, []))

    def status(self):
        return {"records": {"run": 3, "sample": 1, "job": 2}, "dead_letters": 0, "high_water": self.high_water, "last_append_ns": None, "error": None}

    def close(self):
        pass


def event(kind="start", job="7", uid=1000, time=T0, **more):
    fields = {
        "node": "n1", "event": kind, "job": job, "launch": "l1", "cluster": "c", "program": "prog", "command": "prog -x", "user": "ada",
        "uid": uid, "time": time, "exit_code": 0 if kind == "end" else None,
    }  # fmt: skip
    return fields | more


class Site:
    """A store, a job database, and a client of an app on both."""

    def __init__(self, tmp_path, **config):
        self.store = FakeStore()
        self.jobdb = JobDB(f"sqlite:///{tmp_path / 'jobs.db'}", user_name=lambda uid: None)
        self.frontend = tmp_path / "dist"
        status = lambda: {"version": "9", "started_ns": 1, "ingest": {"connections": 1}}  # noqa: E731
        # A test client has no socket that the kernel could tell the owner of.
        defaults = {"FRONTEND_DIR": self.frontend, "PEER_UID": lambda environ: os.geteuid()}
        self.app = create_app(defaults | config, store=self.store, jobdb=self.jobdb, status=status)
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
