"""Ranks of programs that a real launcher started, and that find nothing of it in their environment."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from jobdb.queue import COMPLETED, QueueJob, Step
from jobdb.repository import JobDB
from tests.e2e.site import Site
from tests.wait import until

S = 10**9
RANKS = 4
BLOCK = 4096
# As many blocks as its rank by mpirun's word, and one more, so that what it did tells which it was.
SCRIPT = (
    'exec env -i PATH="$PATH" LD_PRELOAD="$LIBRARY" $(env | grep ^BELLROCK_) '
    f'dd if=/dev/zero of="$OUT/$OMPI_COMM_WORLD_RANK" bs={BLOCK} count=$((OMPI_COMM_WORLD_RANK + 1)) status=none'
)


def test_ranks_are_inferred_as_the_launcher_gave_them(site: Site, build_dir: Path) -> None:
    mpirun = shutil.which("mpirun")
    if mpirun is None or b"Open MPI" not in subprocess.run([mpirun, "--version"], capture_output=True, check=False).stdout:
        pytest.skip("Open MPI is not installed. Run: apt-get install openmpi-bin")
    job, user = site.new_job(), pwd.getpwuid(os.getuid())
    out = site.data / job
    out.mkdir()
    began_ns = time.time_ns() // S * S
    # mpirun itself is not watched: what it starts would be, with its rank, before it became another program.
    command = ["env", "-u", "LD_PRELOAD", mpirun, "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), "sh", "-c", SCRIPT]
    with site.launch(command, job, env={"OUT": str(out), "LIBRARY": str(build_dir / "libbellrock.so")}) as launched:
        assert launched.wait(timeout=120) == 0
    ended_ns, node = (time.time_ns() // S + 1) * S, socket.gethostname()
    assert sorted(path.name for path in out.iterdir()) == [str(rank) for rank in range(RANKS)]
    database = JobDB(f"sqlite:///{site.state / 'jobs.db'}")
    try:
        database.take_queue([
            QueueJob(
                "c", job, began_ns, user.pw_name, uid=user.pw_uid, state=COMPLETED, start_ns=began_ns, end_ns=ended_ns, exit_code=0, nodes=(node,), claims=(job,),
                steps=(Step("0", "dd", began_ns, ended_ns, (node,), RANKS),),
            )
        ])  # fmt: skip
    finally:
        database.close()

    def writers() -> list[dict]:
        return [row for row in site.rows(job, "processes") if row["write_bytes"] > 0]

    rows = until(lambda: len(found := writers()) == RANKS and found, "the records of all ranks")
    assert {row["rank"]: row["write_bytes"] for row in rows} == {rank: (rank + 1) * BLOCK for rank in range(RANKS)}
    assert all(row["rank_inferred"] for row in rows)
