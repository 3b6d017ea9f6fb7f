"""Fills a job database and an Elasticsearch with simulated jobs, as log servers and the thread of profiles would in days."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa

from bellrock.simulate.machine import FIRST_UID, USERS
from bellrock.simulate.model import Job
from jobdb.passwords import hash_password
from jobdb.repository import JobDB
from pipeline.schema import KINDS
from pipeline.store import Store
from pipeline.store.duckdb import DuckDBStore
from pipeline.store.elastic.store import ElasticsearchStore
from webapp.api.analysis import Analyses
from webapp.api.threads import Threads

# Of one commit, as large as a log server's.
EVENTS = 20_000
JOBS_AT_ONCE = 500
_HEXED = {field.name for field in KINDS["run"].fields if field.type == "hex64"}


class ElasticSink:
    """Takes portions of records into Elasticsearch, by the way of the second half of a log server: as JSON, with sums by second and books."""

    def __init__(self, folder: Path, store: ElasticsearchStore) -> None:
        self.folder, self._store = folder, store
        self.records, self.seconds = 0, 0.0
        self.jobs: list[Job] = []

    def write(self, jobs: Sequence[Job], records: pa.Table) -> None:
        """Stores the records of some jobs."""
        began_s = time.monotonic()
        for payloads in _lines(records):
            appended = self._store.take(payloads)
            if appended.runs != len(payloads):
                raise RuntimeError(f"of {len(payloads)} records {appended} were stored")
            self.records += len(payloads)
        self.jobs += jobs
        self.seconds += time.monotonic() - began_s


def _lines(records: pa.Table) -> Iterator[list[bytes]]:
    """The JSON that agents write, in the order of each boot's numbers. DuckDB makes it in a tenth of the time that Python takes."""
    columns = [f"printf('%016x', \"{name}\") AS \"{name}\"" if name in _HEXED else f'"{name}"' for name in records.column_names]
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.register("records", records)
        found = connection.execute(f"SELECT to_json(r)::VARCHAR FROM (SELECT 'run' AS kind, {', '.join(columns)} FROM records ORDER BY node, boot, seq) r")
        while rows := found.fetchmany(EVENTS):
            yield [text.encode() for (text,) in rows]


def settle(store: Store, jobdb: JobDB) -> None:
    """Works out the profiles of all jobs that have none."""
    analyses, after = Analyses(store, jobdb, Threads(2, threading.Semaphore(0))), 0
    with ThreadPoolExecutor(2) as pool:
        while True:
            jobs, last = jobdb.settled(after, JOBS_AT_ONCE)
            if last == after:
                return
            after = last
            # Two that have the same lock do not wait for each other: one of them has its turn once all others had theirs.
            left = [job for job, done in zip(jobs, list(pool.map(analyses.settle, jobs)), strict=True) if not done]
            for job in left:
                if not analyses.settle(job):
                    raise RuntimeError(f"job {job.key} cannot be settled")


def settle_state(state: Path) -> None:
    """`settle` of a state directory that no server has."""
    store, jobdb = DuckDBStore(state / "records.duckdb"), open_jobs(state)
    try:
        settle(store, jobdb)
    finally:
        jobdb.close()
        store.close()


def open_jobs(state: Path) -> JobDB:
    """The job database of a state directory, without names for users that this machine does not have."""
    return JobDB(f"sqlite:///{state / 'jobs.db'}", user_name=lambda uid: None)


def make_tokens(jobdb: JobDB) -> dict[str, str]:
    """By name, a token of an account of each of the simulated users, who sees the jobs of that one."""
    tokens = {}
    for number in range(USERS):
        name = f"user{number + 1:02d}"
        jobdb.accounts.add(name, hash_password(secrets.token_urlsafe()), "user", FIRST_UID + number)
        tokens[name], _ = jobdb.accounts.add_token(name, "bench", days=1)
    return tokens


def copy_profiles(source: JobDB, target: JobDB) -> None:
    """Puts the profiles of one job database into another that knows the same jobs."""
    with ThreadPoolExecutor(4) as pool:
        after = 0
        while True:
            jobs, last = target.settled(after, JOBS_AT_ONCE)
            if last == after:
                return
            after = last
            profiles = [(job.key, *source.get_profile(job.key)) for job in jobs]
            list(pool.map(lambda profile: target.put_profile(*profile), profiles))
