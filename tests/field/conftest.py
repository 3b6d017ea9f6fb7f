"""The miniature machine of this layer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellrock.stack import Missing
from tests.field.machine import FAKETIME, Machine
from tests.field.parts import running


@pytest.fixture(scope="module")
def machine(servers_dir: Path, build_dir: Path) -> Iterator[Machine]:
    """Two nodes that are as they should be, one whose agent comes late, and one whose clock is 90 s ahead."""
    if os.geteuid() != 0:
        pytest.skip("only root can make namespaces and start Slurm's daemons: run `make test-site` as root")
    if not FAKETIME.exists():
        pytest.skip("libfaketime is missing: run `scripts/system.sh build field`")
    machine = Machine(servers_dir / "field", ["cn1", "cn2", "cn3", "cn4"], late=["cn3"], clocks={"cn4": 90.0})
    try:
        with running(machine):
            yield machine
    except Missing as missing:
        pytest.skip(str(missing))
