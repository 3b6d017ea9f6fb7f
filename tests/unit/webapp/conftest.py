"""An API on a store in memory."""

import pytest

from tests.unit.webapp.fakes import Site


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def recent(monkeypatch):
    """However long ago a job ended, it is looked whether records came since."""
    monkeypatch.setattr("webapp.api.analysis.FINAL_AFTER_NS", 10**20)
