"""Miniature machines of this layer, each started when the first test asks for it; they end with the tests of the file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellrock.stack import Missing
from tests.field.machine import FAKETIME, Machine
from tests.field.parts import running
from tests.servers import servers_below


@contextlib.contextmanager
def started(machine: Machine) -> Iterator[Machine]:
    """Skips where a part cannot be had."""
    try:
        with running(machine):
            yield machine
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make namespaces and start Slurm's daemons: run `make test-site` as root")


@pytest.fixture(scope="session")
def servers_dir() -> Iterator[Path]:
    """On a disk: bricks are on file systems that real machines have."""
    yield from servers_below(Path(tempfile.gettempdir()))


@pytest.fixture(scope="module")
def machine(root: None, servers_dir: Path, build_dir: Path) -> Iterator[Machine]:
    """Two nodes that are as they should be, one whose agent comes late, and one whose clock is 90 s ahead."""
    if not FAKETIME.exists():
        pytest.skip("libfaketime is missing: run `scripts/system.sh build field`")
    with started(Machine(servers_dir / "field", ["cn1", "cn2", "cn3", "cn4"], late=["cn3"], clocks={"cn4": 90.0})) as machine:
        yield machine
