"""Short forms of names, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobdb.queue.nodelist import slurm
from jobdb.topology.fold import TEXT_CHARACTERS_MAX, fold, shown


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("cn3 cn1 cn2", "cn[1-3]"),
        ("cn1", "cn1"),
        ("cn1 cn3 cn1", "cn[1,3]"),
        ("cn08 cn09 cn10 cn11", "cn[08-11]"),
        ("cn8 cn9 cn10", "cn[8-10]"),
        ("cn08 cn9 cn10 cn100", "cn[08,10],cn[9,100]"),
        ("r1-ib r2-ib login", "login,r[1-2]-ib"),
        ("", ""),
        ("a1b2 a1b3", "a1b[2-3]"),
    ],
)
def test_names_become_ranges(names, text):
    assert fold(names.split()) == text


_names = st.builds(lambda a, n, b: f"{a}{n}{b}", st.sampled_from(["cn", "a1-", "x"]), st.sampled_from(["", "0", "00", "7", "8", "9", "10", "11", "08", "009", "0" * 15 + "1"]), st.sampled_from(["", "-ib", ".s"]))


@given(st.sets(_names, max_size=30))
def test_what_is_folded_is_read_as_the_same_names(names):
    assert sorted(slurm(fold(names))) == sorted(names)


def test_what_is_shown_is_bounded():
    text = shown(f"cn{number}" for number in range(0, 40_000, 2))
    assert len(text) < TEXT_CHARACTERS_MAX + 40 and text.endswith("(20000 in all)")
