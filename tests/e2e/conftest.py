from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.site import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], build_dir: Path) -> Iterator[Site]:
    """A running Bellrock for the tests of one file."""
    rings = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    site = Site(tmp_path_factory.mktemp("site"), rings, free_port)
    site.start()
    yield site
    site.close()
    shutil.rmtree(rings)
