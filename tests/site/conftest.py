"""One miniature site for all tests of this layer that need not begin with an empty one: a start takes a minute and 3.2 GB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bellrock.stack import Missing
from bellrock.stack.site import Site
from tests.site.stack import Stack


@pytest.fixture(scope="session")
def stack(servers_dir: Path) -> Iterator[Stack]:
    site = Site(servers_dir / "site")
    try:
        site.up()
    except Missing as missing:
        pytest.skip(str(missing))
    yield Stack(site)
    site.down(wipe=True)
