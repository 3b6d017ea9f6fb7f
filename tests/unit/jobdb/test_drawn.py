"""What a chart reads of runs is what all of them read in full says."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings

from jobdb.drawn import COLUMNS, Drawn, read_drawn
from jobdb.runs import read_runs
from tests.unit.jobdb.tables import rows, table


@settings(max_examples=100, deadline=None)
@given(rows())
def test_a_chart_sees_what_the_tables_do(list_of_rows):
    all_columns = table(list_of_rows)
    runs, shown = read_runs(all_columns, uid=1000), read_drawn(all_columns.select(list(COLUMNS)), uid=1000)
    for one in fields(Drawn):
        np.testing.assert_array_equal(getattr(shown, one.name), getattr(runs, one.name), err_msg=one.name)
    np.testing.assert_array_equal(shown.mask("read", "open"), runs.mask("read", "open"))


@pytest.mark.parametrize("missing", COLUMNS)
def test_a_column_that_is_missing_is_told(missing):
    with pytest.raises(KeyError, match=missing):
        read_drawn(table([]).drop_columns(missing))
