"""Writes simulated jobs into a state directory, so that every command and page shows them as if they had run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bellrock import paths
from bellrock.errors import BellrockError, UsageError
from bellrock.simulate.model import Job
from bellrock.simulate.volume import TRUTH
from bellrock.state import StateLock
from jobdb.repository import JobDB
from pipeline.store import StoreError
from pipeline.store.duckdb import DuckDBStore

# What a state has once a server, an agent or a simulation used it.
SIGNS = ("records.duckdb", "jobs.db", "spool", TRUTH)
CLUSTER = "simulated"


class StateSink:
    """Owns the state at `folder` until `close`. Raises Unavailable where a server has it, and UsageError where it holds records and `add` is not
    given."""

    def __init__(self, folder: Path, add: bool) -> None:
        self.folder = paths.private_dir(folder)
        self._lock = StateLock(self.folder)
        self._lock.acquire()
        self._store: DuckDBStore | None = None
        self._jobdb: JobDB | None = None
        try:
            found = [name for name in SIGNS if (self.folder / name).exists()]
            if found and not add:
                raise UsageError(
                    f"{self.folder} holds records already ({', '.join(found)})", "take an empty directory, or add the simulation to them with --add"
                )
            self._store = DuckDBStore(self.folder / "records.duckdb")
            # The simulated users' ids are nobody's here, or another's.
            self._jobdb = JobDB(f"sqlite:///{self.folder / 'jobs.db'}", user_name=lambda uid: None)
        except StoreError as error:
            self.close()
            raise BellrockError(str(error), "look at that file, or take another directory") from error
        except BaseException:
            self.close()
            raise

    def write(self, jobs: Sequence[Job], records: pa.Table) -> None:
        """Stores the records of some jobs, then that these ran."""
        try:
            self._store.load(records)
        except StoreError as error:
            raise BellrockError(str(error), "see to room on that disk, and begin anew in an empty directory") from error
        except ValueError as error:
            raise UsageError(f"{self.folder}: {error}", "it holds a simulation with this --seed already: take another seed or directory") from error
        self._jobdb.apply_events(event for job in jobs for event in job_events(job))

    def close(self) -> None:
        """Gives the state up."""
        try:
            if self._jobdb is not None:
                self._jobdb.close()
            if self._store is not None:
                self._store.close()
        finally:
            self._lock.release()


def job_events(job: Job) -> list[dict[str, Any]]:
    """One launch, from the job's first node, as with mpirun."""
    common = {
        "job": job.job_id, "launch": "simulated", "node": job.node_names[0], "uid": job.uid, "user": job.user, "cluster": CLUSTER,
        "program": job.model.program, "command": f"mpirun -n {job.model.processes} {job.model.program}",
    }  # fmt: skip
    return [common | {"event": "start", "time": job.start_ns}, common | {"event": "end", "time": job.end_ns, "exit_code": 0}]
