"""The queries of docs/analyst.md, on each database."""

import re
from pathlib import Path

import pytest

from jobdb.address import Access
from jobdb.analyst import asking
from jobdb.repository import JobDB
from jobdb.views import VIEWS
from tests.integration.jobdb.test_analyst import DAY, T0, fill
from tests.integration.jobdb.test_repository import S, event

PAGE = (Path(__file__).resolve().parents[3] / "docs/analyst.md").read_text()
QUERIES = re.findall(r"^### (\d+)\. .*?```sql\n(.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)


def rows(access, sql):
    with asking(access, sql, 60) as found:
        return found.names, [row for batch in found.batches for row in batch]


def test_every_worked_query_has_the_same_answer_on_all(url, tmp_path):
    reference = Access(f"sqlite:///{tmp_path / 'jobs.db'}")
    for access in (reference, url):
        fill(access, users=("ada", "ben", "cho"), programs=("solver", "convert"))
        db = JobDB(access, user_name=lambda uid: None)
        db.apply_event(event(job="beside", user="ben", uid=1, program="solver", time=T0 + 12 * DAY + S))
        db.close()
    assert len(QUERIES) >= 14 and [int(number) for number, _ in QUERIES] == list(range(1, len(QUERIES) + 1))
    for number, sql in QUERIES:
        (names, expected), (given_names, given) = rows(reference, sql), rows(url, sql)
        assert names == given_names and len(given) == len(expected), number
        assert given, f"query {number} has no rows"
        for row, wanted in zip(given, expected, strict=True):
            assert [type(value) for value in row] == [type(value) for value in wanted], number
            assert list(row) == [pytest.approx(value) if type(value) is float else value for value in wanted], number


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_the_page_tells_of_every_column(view):
    part = PAGE.split(f"### `{view.name}`")[1].split("\n#")[0]
    assert re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", part, re.MULTILINE) == [(c.name, c.unit, c.doc) for c in view.columns]
