"""Calls where nothing may be looked up or allocated: before constructors, between fork and exec, in signal handlers."""

from __future__ import annotations

import pytest

from tests.e2e.site import Site, compiled


@pytest.mark.parametrize("mode", ["before", "fork", "signal", "clone"])
def test_nothing_is_looked_up_where_that_may_wait_for_ever(site: Site, mode: str) -> None:
    program = compiled("early", site.folder, "-rdynamic")
    out = site.data / mode
    job = site.run([program, mode, out], watch=out)
    assert out.stat().st_size == 10
    assert site.profile(job)["write_bytes"] == 10
