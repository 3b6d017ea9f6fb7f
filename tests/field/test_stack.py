"""The machine on the servers of a whole site: the same job, the same figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.field.bricks import Watch
from tests.field.centre import OnSite
from tests.field.conftest import started
from tests.field.jobs import mpi_is_exact, mpi_ran
from tests.field.machine import Machine

NODES = ["cn1", "cn2"]


@pytest.fixture(scope="module")
def watch(root: None, servers_dir: Path, build_dir: Path) -> Iterator[Watch]:
    folder = servers_dir / "field-stack"
    with started(Machine(folder, NODES, forwards=True, centre=OnSite(folder / "site"))) as machine:
        yield Watch(machine)


def test_an_mpi_job_is_exact_from_rank_to_brick(watch: Watch) -> None:
    mpi_is_exact(watch, mpi_ran(watch, "mpirun", NODES), "mpirun", NODES)
