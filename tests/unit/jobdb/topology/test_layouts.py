"""What `lfs getstripe` writes. The fixtures are written after Lustre's manual, not captured."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobdb.topology import FOREVER_NS
from jobdb.topology.layouts import LAYOUTS_MAX, STRIPES_MAX, BadLayout, Layout, Part, file_id, getstripe

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures/lfs_getstripe"
MIB = 1 << 20


def read(name):
    return (FIXTURES / f"{name}.txt").read_text()


def test_plain_layouts():
    assert getstripe(read("plain")) == [
        Layout("/scratch/one", (Part(0, FOREVER_NS, MIB, (2,)),)),
        Layout("/scratch/a name with blanks", (Part(0, FOREVER_NS, 4 * MIB, (3, 0, 1, 2)),)),
    ]


def test_composite_layouts():
    progressive, on_mdt, mirrored = getstripe(read("composite"))
    assert progressive.parts == (Part(0, 4 * MIB, MIB, (5,)), Part(4 * MIB, 256 * MIB, 4 * MIB, (6, 0)), Part(256 * MIB, FOREVER_NS, 4 * MIB, ()))
    assert on_mdt.parts == (Part(0, 65536, 65536, ()), Part(65536, FOREVER_NS, MIB, (1,)))
    assert [part.targets for part in mirrored.parts] == [(1,), (3,)]


def test_yaml():
    plain, composite = getstripe(read("yaml"))
    assert plain.parts == (Part(0, FOREVER_NS, MIB, (1, 0)),) and composite.parts == (Part(0, FOREVER_NS, MIB, (7,)),)


def test_names_that_forge_are_told_apart_where_the_files_are_known():
    forged = "/scratch/x\n/scratch/one\nlmm_stripe_size: 1\n\t 9\t 1\t 0x1\t 0"
    text = f"{forged}\n" + read("plain").split("\n", 1)[1] + read("yaml")
    assert [layout.path for layout in getstripe(text)][:2] == ["/scratch/one", "/scratch/a name with blanks"]
    found = getstripe(text, [forged, "/scratch/a name with blanks", "/scratch/plain"])
    assert [(layout.path, layout.parts[0].targets) for layout in found] == [(forged, (2,)), ("/scratch/a name with blanks", (3, 0, 1, 2)), ("/scratch/plain", (1, 0))]
    with pytest.raises(BadLayout, match="'/scratch/none' is not in it"):
        getstripe(text, [forged, "/scratch/none"])
    assert getstripe("", []) == [] == getstripe("")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("error: getstripe failed", "line 1: expected a path that begins with /"),
        ("/a\nlmm_stripe_size: many\n", "line 2: expected a number of bytes, got 'many'"),
        ("/a\n lcme_extent.e_end: 99999999999999999999\n", "line 2: expected a number of bytes"),
        ("/a\n" + "- 0: { l_ost_idx: 1, l_fid: [] }\n" * (STRIPES_MAX + 1), f"more than {STRIPES_MAX} stripes"),
        ("/a\n" + "lcme_id: 1\n" * 1000, "256 components"),
        ("/" + "a" * 5000 + "\n", "a path of more than 4096 bytes"),
        ("/a\nlmm_stripe_size: 1\n\t1\t1\t0x1\t0\n" * (LAYOUTS_MAX + 1), f"more than {LAYOUTS_MAX} files"),
    ],
    ids=range(7),
)  # fmt: skip
def test_what_cannot_be_is_refused(text, told):
    with pytest.raises(BadLayout, match=told):
        getstripe(text)


@given(st.text(alphabet=st.sampled_from("/a \n\t:-{}0x19[]lmcoe_dst.,"), max_size=300), st.integers(0, 2000))
def test_garbled_text_gives_layouts_or_is_refused(noise, place):
    text = read("composite")
    try:
        for layout in getstripe(text[:place] + noise + text[place:]):
            assert layout.path.startswith("/") and layout.parts
    except BadLayout as error:
        assert "line " in str(error)


def test_file_ids_are_those_of_records():
    # FNV-1a's own test values.
    assert (file_id(""), file_id("a"), file_id("foobar")) == (0xCBF29CE484222325, 0xAF63DC4C8601EC8C, 0x85944171F73967E8)
    assert Layout("foobar", ()).id == "85944171f73967e8" and Layout(None, (), 1).id == "0000000000000001"
    with pytest.raises(ValueError):
        _ = Layout(None, ()).id
