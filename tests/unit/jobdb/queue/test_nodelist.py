"""The short forms of node lists."""

import time

import pytest

from jobdb.queue.nodelist import beacon, folded, lsf, pbs, slurm


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("cn1", "cn1"),
        ("cn[1-2,17]", "cn1 cn2 cn17"),
        ("cn[001-003],login1", "cn001 cn002 cn003 login1"),
        ("cn[8-11]", "cn8 cn9 cn10 cn11"),
        ("r[0-1]n[00-01]", "r0n00 r0n01 r1n00 r1n01"),
        ("a[1-2]-ib,b", "a1-ib a2-ib b"),
        ("cn[0-8:4]", "cn0 cn4 cn8"),
        ("cn1,cn1,cn[1-2]", "cn1 cn2"),
        ("None assigned", ""),
        ("(null)", ""),
        ("", ""),
    ],
)
def test_hostlists_of_slurm(text, nodes):
    assert slurm(text) == tuple(nodes.split())


@pytest.mark.parametrize("text", ["cn[1-2", "cn1-2]", "cn[[1]]", "cn[2-1]", "cn[x]", "cn[1-99999999]", "cn[1-400][1-600]", "../../etc", "cn\n1", "cn[1-2]\x00", "a b", "-x"])
def test_what_is_no_hostlist_is_refused(text):
    with pytest.raises(ValueError):
        slurm(text)


def test_ranges_of_numbers():
    assert beacon("0-3,600") == ("0", "1", "2", "3", "600")
    assert beacon("5, 7-8,", prefix="vn") == ("vn5", "vn7", "vn8")
    assert len(beacon("0-511,600")) == 513
    assert beacon("007-010") == ("007", "008", "009", "010")
    for bad in ("1-", "a", "3-1", "0-99999999", "1--2"):
        with pytest.raises(ValueError):
            beacon(bad)


def test_exec_hosts():
    assert pbs("n1/0*4+n2/0+n2/1") == ("n1", "n2")
    assert pbs("(n1:ncpus=4)+(n2:ncpus=2:mem=4gb)") == ("n1", "n2")
    assert lsf("4*n1:2*n2") == lsf("n1:n1:n2") == ("n1", "n2")
    assert lsf("-") == lsf("") == pbs("") == ()
    for read, bad in ((pbs, "n 1/0"), (lsf, "x*n1"), (lsf, "n1/2")):
        with pytest.raises(ValueError):
            read(bad)


@pytest.mark.parametrize("text", ["cn[" + ",".join(["0-99999"] * 20) + "]", ",".join(["cn[0-19999]"] * 11), "n" + "[1]" * 9, "cn[٣]", "cn[1-" + "9" * 5000 + "]"])
def test_what_makes_more_work_than_nodes_is_refused(text):
    began = time.process_time()
    with pytest.raises(ValueError):
        slurm(text)
    assert time.process_time() - began < 1


def test_ranges_that_overlap_count_each_time():
    with pytest.raises(ValueError, match="more than 200000 nodes"):
        beacon(",".join(["0-19999"] * 11))
    assert len(beacon(",".join(["0-19999"] * 10))) == 20_000


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), ""),
        (("cn",), "cn"),
        (("cn", "cn1"), "cn,cn1"),
        (("cn2", "cn3", "cn1"), "cn[2-3,1]"),
        (("b1", "a1", "a2", "login.site.org"), "b1,a[1-2],login.site.org"),
        (("n08", "n09", "n10", "n011"), "n[08-09],n10,n011"),
    ],
)
def test_folding_keeps_the_order(names, text):
    assert folded(names) == text and slurm(text) == names
