"""A site's files: what they say, and every mistake in them."""

import re
import time
from pathlib import Path

import pytest

from jobdb.topology import BYTES_MAX, FOREVER_NS, MISTAKES_MAX, BadTopology
from jobdb.topology.facts import Failover, FileSystem, Forwarder, Forwarding, Member, Port, Server, Target
from jobdb.topology.site import load

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = ROOT / "docs/examples/topology"
CLIENTS = '[[class]]\nname = "compute"\nnodes = "cn[0-7]"\n'
SYSTEM = '[[file_system]]\nname = "fs"\nkind = "lustre"\n'


@pytest.fixture
def site(tmp_path):
    """A function that reads texts, by names of files (or one text)."""

    def read(*texts, **files):
        for name, text in {**{f"site{number}": text for number, text in enumerate(texts)}, **files}.items():
            (tmp_path / f"{name}.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(tmp_path)

    return read


@pytest.fixture
def mistakes(site):
    """A function that reads texts with mistakes, and gives these as texts."""

    def read(*texts, **files):
        with pytest.raises(BadTopology) as bad:
            site(*texts, **files)
        assert not bad.value.more
        return [str(one) for one in bad.value.mistakes]

    return read


def test_the_small_example():
    site = load(EXAMPLES / "small")
    assert site.facts[Forwarding] == {Forwarding(f"cn{n}", "work", f"fwd{(n + 1) // 2}") for n in (1, 2, 3, 4)}
    assert site.facts[FileSystem] == {FileSystem("work", "gluster", "/scratch"), FileSystem("home", "nfs", "/home")}
    assert Target("work", "brick2", "brick", 2, "gluster_server", "_bricks_b2") in site.facts[Target]
    assert {server for server in site.facts[Server] if server.file_system == "home"} == {Server("home", "home1", 0, "nas1"), Server("home", "home1", 1, "nas2")}
    assert Port("fwd2", "leaf1", "24", False) in site.facts[Port] and Port("cn3", "leaf1", "3", False) in site.facts[Port]
    assert site.failovers == {Failover("home", "home1", 1772366400 * 10**9, 1772440200 * 10**9, "nas2")}


def test_taihulights_rule():
    site = load(EXAMPLES / "taihulight")
    forwarder = {fact.node: fact.forwarder for fact in site.facts[Forwarding] if fact.file_system == "online1"}
    table = [*range(16), *range(64, 80), *range(16, 64)]
    assert forwarder == {f"vn{x}": f"fwd{table[x // 512]}" for x in range(40_960)}
    assert {fact.node for fact in site.facts[Forwarder] if fact.file_system == "online1"} == {f"fwd{n}" for n in range(96)}
    assert Target("online1", "OST008f", "ost", 143, "lustre_ost", "online1-OST008f") in site.facts[Target]
    servers = {(fact.target, fact.place): fact.server for fact in site.facts[Server] if fact.file_system == "online2"}
    assert (servers["OST0000", 0], servers["OST0000", 1], servers["OST0001", 0], servers["OST0001", 1]) == ("oss144", "oss145", "oss145", "oss144")
    places = {(fact.node, fact.kind): fact.name for fact in site.facts[Member]}
    assert (places["vn1023", "cabinet"], places["vn1024", "cabinet"], places["vn512", "group"], places["oss8", "enclosure"]) == ("cab0", "cab1", "g1", "enc1")
    assert Port("core1", "sw159", "", True) in site.facts[Port]


def test_the_page_shows_the_examples_as_they_are():
    page = (ROOT / "docs/topology.md").read_text()
    shown = re.findall(r"```toml\n# ([\w/.-]+)\n(.*?)```", page, re.DOTALL)
    assert {name for name, _ in shown} == {"small/site.toml", "taihulight/forwarding.toml", "taihulight/storage.toml"}
    for name, text in shown:
        assert (EXAMPLES / name).read_text() == text


def test_a_block_may_take_any_file_and_a_list_many_texts(site):
    found = site(CLIENTS, SYSTEM, '[[forwarding]]\nfile_system = "fs"\nnodes = ["cn[0-3]", "cn[4-7]"]\nforwarders = ["f1", "f1", "f[2-3]"]\neach = 2\n')
    assert [fact.forwarder for fact in sorted(found.facts[Forwarding])] == ["f1", "f1", "f1", "f1", "f2", "f2", "f3", "f3"]


def test_addresses_go_to_nodes_in_their_order(site):
    found = site(CLIENTS + '[[address]]\nnodes = "cn[1-3]"\naddresses = "10.77.0.[9-10],10.78.0.1"\n')
    assert {fact[:1] + fact[2:] for fact in found.facts[Member] if fact.kind == "address"} == {("cn1", "10.77.0.9"), ("cn2", "10.77.0.10"), ("cn3", "10.78.0.1")}


def test_a_node_has_an_address_on_a_network_of_lustres_besides(site):
    text = '[[address]]\nnodes = "cn1"\naddresses = "10.77.0.9"\n[[address]]\nnodes = "cn[1-2]"\naddresses = "10.78.0.[1-2]"\nnetwork = "{}"\n'
    for network, shown in (("o2ib", "o2ib"), ("o2ib0", "o2ib"), ("o2ib10", "o2ib10"), ("tcp0", "tcp")):
        found = {(fact.node, fact.kind): fact.name for fact in site(CLIENTS + text.format(network)).facts[Member] if fact.kind in ("address", "nid")}
        assert found == {("cn1", "address"): "10.77.0.9", ("cn1", "nid"): f"10.78.0.1@{shown}", ("cn2", "nid"): f"10.78.0.2@{shown}"}
    numbered = site(CLIENTS + '[[address]]\nnodes = "cn1"\naddresses = "17"\nnetwork = "gni"\n')
    assert Member("cn1", "nid", "17@gni") in numbered.facts[Member]


FORWARDING = '[[forwarding]]\nfile_system = "fs"\nnodes = "{}"\nforwarders = "{}"\n'
TARGET = '[[target]]\nfile_system = "fs"\nkind = "ost"\nnumbers = "{}"\nservers = "{}"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CLIENTS + SYSTEM + FORWARDING.format("cn[0-3]", "f1") + FORWARDING.format("cn[2-5]", "f2"), [r"site0.toml:11: \[\[forwarding\]\]: cn\[2-3\] served twice in fs: there \(f2\), and in site0.toml:7: \[\[forwarding\]\] \(f1\)"]),
        (CLIENTS + SYSTEM + "exclusive = true\n" + FORWARDING.format("cn1", "f[1-2]") + "each = 1\n", ["1 in parts of 1 are 1 parts, and forwarders names 2"]),
        (CLIENTS + SYSTEM + FORWARDING.format("cn[1-2]", "f[1-2]"), ["forwarders names 2: say with `each`"]),
        (CLIENTS + SYSTEM + "exclusive = true\n" + FORWARDING.format("cn[1-2]", "f1") + SYSTEM.replace("fs", "gs") + FORWARDING.format("cn1", "f1").replace("fs", "gs"), ["exclusive: f1 serve fs and gs"]),
        (CLIENTS + SYSTEM + FORWARDING.format("cn[6-9]", "f1"), [r"cn\[8-9\]: in no \[\[class\]\]"]),
        (CLIENTS + FORWARDING.format("cn1", "f1"), [r"file_system: there is no \[\[file_system\]\] fs"]),
        (SYSTEM + '[[target]]\nfile_system = "fs"\nkind = "ost"\nnumbers = "0"\n', ["servers is missing"]),
        (SYSTEM + TARGET.format("0-1", "o1") + TARGET.format("1-2", "o2"), [r"OST0001 of fs twice: there, and in site0.toml:4"]),
        (SYSTEM + TARGET.format("0-3", "o[1-3]") + "each = 2\n", ["4 in parts of 2 are 2 parts, and servers names 3"]),
        (SYSTEM + TARGET.format("0-2", "o[1-3]") + "each = 1\ntakeover = 2\n", ["takeover: 3 servers are no whole number of parts of 2"]),
        (SYSTEM + TARGET.format("0", "o1") + 'backups = "o1"\n', ["not o1 itself"]),
        (SYSTEM + TARGET.format("0", "o1") + 'names = "x"\n', ["either names or numbers"]),
        (CLIENTS + '[[address]]\nnodes = "cn[1-2]"\naddresses = "10.0.0.1"\n', ["2 nodes and 1 addresses: each node has one"]),
        (CLIENTS + '[[address]]\nnodes = "cn1"\naddresses = "10.0.0.1"\n[[address]]\nnodes = "cn1"\naddresses = "10.0.0.2"\n', [r"cn1 in two of address"]),
        (CLIENTS + '[[address]]\nnodes = "cn1"\naddresses = "10.0.0.1"\n[[address]]\nnodes = "cn2"\naddresses = "10.0.0.1"\n', ["there is an address 10.0.0.1 already"]),
        (CLIENTS + '[[address]]\nnodes = "cn[1-2]"\naddresses = "10.0.0.[255-256]"\n', ["addresses: 10.0.0.256 is no IPv4 address"]),
        (CLIENTS + '[[address]]\nnodes = "cn1"\naddresses = "17"\n', ["addresses: 17 is no IPv4 address"]),
        (CLIENTS + '[[address]]\nnodes = "cn1"\naddresses = "10.0.0.1"\nnetwork = "O2IB 1"\n', ["network: 'O2IB 1' is none of Lustre's, such as tcp"]),
        (CLIENTS + '[[address]]\nnodes = "cn1"\naddresses = "10.0.0.1"\nnetwork = "tcp"\n[[address]]\nnodes = "cn2"\naddresses = "10.0.0.1"\nnetwork = "tcp0"\n', ["there is a nid 10.0.0.1@tcp already"]),
        (SYSTEM + TARGET.format("0", "o1") + 'component = "gluster_server"\ninstance = "/b/1"\n', ["slashes: _b_1"]),
        (CLIENTS + '[[address]]\nnodes = "cn9"\naddresses = "10.0.0.1"\n', [r"cn9: in no \[\[class\]\]"]),
        (SYSTEM + TARGET.format("70000", "o1"), ["numbers: 70000 is over 65535"]),
        (SYSTEM + TARGET.format("0", "o1") + 'instance = "{nothing}"\n', [r"instance: \{nothing\} is not known here; there are \{file_system\}"]),
        (SYSTEM + TARGET.format("0-1", "o1") + 'instance = "sda"\n', ["instance: fs/OST0001 and fs/OST0000 would both be lustre_ost sda on o1"]),
        (SYSTEM + SYSTEM, ["name: there is a file system fs already, in site0.toml:1"]),
        (SYSTEM + 'mounts = "/a/"\n' + SYSTEM.replace("fs", "gs") + 'mounts = ["/a"]\n', ["mounts: /a is fs's"]),
        (SYSTEM + 'mounts = "a"\n', ["mounts: expected absolute paths"]),
        (CLIENTS + CLIENTS.replace("0-7", "8-9"), ["name: there is a class compute already"]),
        (CLIENTS + CLIENTS.replace("compute", "login").replace("0-7", "7-8"), [r"cn7 in two of class: there \(login\), and in site0.toml:1: \[\[class\]\] \(compute\)"]),
        (CLIENTS + '[[switch]]\nname = "s1"\nports = { "1-3" = "cn[1-2]" }\n', ["ports: 1-3: 3 ports lead to 2 peers"]),
        (CLIENTS + '[[switch]]\nname = "s1"\nports = { "1-2" = "cn[1-2]", "2-3" = "cn[3-4]" }\n', ["ports: 2 of s1 leads to cn"]),
        (CLIENTS + '[[switch]]\nname = "s1"\nswitches = "s2"\n', [r"switches: there is no \[\[switch\]\] s2"]),
        (CLIENTS + '[[switch]]\nname = "cn1"\n', ["name: cn1 is a node's, too"]),
        (CLIENTS + 'each = 3\nmore = 1\n', ["8 in parts of 3 are 3 parts, and name names 1", "more: not known; there are each, name, nodes"]),
        (CLIENTS.replace("0-7", "0-999999999"), ["nodes: more than 200000 nodes"]),
        (CLIENTS.replace("cn[0-7]", "cn[7-0]"), ["range '7-0' goes backwards"]),
        (CLIENTS.replace('"cn[0-7]"', '["cn1", "cn1"]'), ["nodes: cn1 stands there more than once"]),
        (CLIENTS.replace('"cn[0-7]"', "7"), ["nodes: expected a list of names"]),
        (CLIENTS.replace('"cn[0-7]"', '""'), ["nodes names nothing"]),
        (SYSTEM.replace('"fs"', '"f/s"'), ["name: 'f/s' is no name"]),
        (SYSTEM.replace('"fs"', '"\\u001b[31m"'), ["name: expected a text of 1 to 255 characters that can be printed"]),
        (SYSTEM + 'exclusive = "yes"\n', ["exclusive: expected true or false"]),
        (SYSTEM + TARGET.format("0", "o1") + "each = 0\n", ["each: expected a number from 1 to 1, got 0"]),
        ('[[rack]]\nname = "r1"\n', [r"\[\[rack\]\] is not known; there are \[\[file_system\]\]"]),
        ('[class]\nname = "r1"\n', [r"class: write each one as a \[\[class\]\] of its own"]),
        ("a = b\n", [r"site0.toml: no TOML: Invalid value \(at line 1, column 5\)"]),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_place(mistakes, text, told):
    found = mistakes(text)
    assert len(found) == len(told), found
    for one, expected in zip(found, told, strict=True):
        assert re.search(expected, one), one


FAILOVER = '[[failover]]\nfile_system = "fs"\ntargets = "OST0000"\nserver = "{}"\nfrom = {}\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FAILOVER.format("o3", "2026-01-01T00:00:00Z"), "server: o3 takes no OST0000 over; o2 may"),
        (FAILOVER.format("o1", "2026-01-01T00:00:00Z"), "server: o1 takes no OST0000 over; o2 may"),
        (FAILOVER.format("o2", "2026-01-01"), "from: expected a time such as"),
        (FAILOVER.format("o2", '"2026-01-01T00:00:00Z"'), "from: expected a time such as"),
        (FAILOVER.format("o2", "1999-01-01T00:00:00Z"), "from: 1999-01-01T00:00:00\\+00:00 is no time of a machine"),
        (FAILOVER.format("o2", "2026-01-01T00:00:00Z") + "to = 2026-01-01T00:00:00Z\n", "ends before it begins"),
        (FAILOVER.format("o2", "2026-01-01T00:00:00Z").replace("OST0000", "OST0007"), r"there is no \[\[target\]\] OST0007 of fs"),
        (FAILOVER.format("o2", "2026-01-01T00:00:00Z") + FAILOVER.format("o2", "2026-01-02T00:00:00Z"), "OST0000 is at o2 at that time, as site0.toml:11"),
    ],
)
def test_failovers_that_cannot_be(mistakes, text, told):
    found = mistakes(SYSTEM + TARGET.format("0", "o1") + 'backups = "o2"\n\n' + text)
    assert len(found) == 1 and re.search(told, found[0]), found


def test_failovers_on_end_and_withdrawn_ones(site):
    system = SYSTEM + TARGET.format("0", "o1") + 'backups = "o2,o3"\n'
    found = site(system + FAILOVER.format("o3", "2026-01-02T00:00:00Z") + FAILOVER.format("o2", "2026-01-01T08:00:00+08:00") + "to = 2026-01-02T00:00:00\n")
    assert [(one.from_ns // 10**9, one.to_ns // 10**9, one.server) for one in sorted(found.failovers)] == [(1767225600, 1767312000, "o2"), (1767312000, FOREVER_NS // 10**9, "o3")]
    found = site(gone=FAILOVER.format("o9", "2026-01-01T00:00:00Z").replace("OST0000", "OST[0000-0001]") + "withdrawn = true\n")
    assert found.withdrawn == {("fs", f"OST000{n}", 1767225600 * 10**9) for n in (0, 1)} and len(found.failovers) == 2


def test_all_mistakes_of_all_files_at_once(mistakes):
    found = mistakes(a=CLIENTS + "more = 1\n", b=SYSTEM + FORWARDING.format("cn[0-9]", "f1"), c="x\n", d=b"\n\xff\n")
    assert [one.split(":")[0] for one in found] == ["c.toml", "d.toml", "a.toml"] and found[1] == "d.toml:2: no UTF-8"
    # What c.toml says is not known: cn[8-9] may be named there.
    found = mistakes(c="", d="")
    assert [one.split(" ")[0] for one in found] == ["a.toml:1:", "b.toml:4:"]


@pytest.mark.parametrize(
    "text",
    [
        '[[class]]\nname = "x"\nnodes = [' + '"cn[0-199999]",' * 20_000 + "]\n",
        "".join(f'[[class]]\nname = "x{n}"\nnodes = "a{n}x[0-199999]"\n' for n in range(20)),
        '[[switch]]\nname = "s[0-199999]"\nswitches = "u[0-199999]"\n',
        "a" + ".a" * 200_000 + " = 1\n",
        '"a b"' + ' . "a b"' * 200_000 + " = 1\n",
        'x = {y = """a""""", z = \'\'\'\n\'\'\', ' + "' '" + ".' '" * 200_000 + " = 1}\n",
        "x = " + "[" * 100_000 + "]" * 100_000 + "\n",
        "x = " + "{a=" * 50_000 + "1" + "}" * 50_000 + "\n",
        "x = " + "9" * 100_000 + "\n",
        "a" * 1_000_000 + "\n",
        "#" * (BYTES_MAX + 1),
        "[[class]]\n" * 100_000,
    ],
    ids=range(12),
)  # fmt: skip
def test_what_makes_too_much_work_is_refused_soon(site, text):
    began = time.process_time()
    with pytest.raises(BadTopology) as bad:
        site(text)
    assert len(bad.value.mistakes) <= MISTAKES_MAX and time.process_time() - began < 20
    assert all(len(str(one)) < 1000 for one in bad.value.mistakes)


def test_a_folder_that_holds_nothing_to_read(tmp_path, mistakes):
    (tmp_path / "x.txt").touch()
    for folder, told in ((tmp_path, "holds no file"), (tmp_path / "none", "cannot be read: No such file")):
        with pytest.raises(BadTopology, match=told):
            load(folder)
    import os

    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / ".hidden.toml").write_text("x")
    assert len(mistakes()) == 2
    for number in range(300):
        (tmp_path / f"{number}.toml").touch()
    assert "200 at most" in mistakes()[0]


def test_texts_and_comments_with_many_dots_are_no_names(site):
    dots = "a." * 100
    assert site(CLIENTS + f'# {dots}\n[[group]]\nname = "g" # \'{dots}\nnodes = ["cn1"] # "\n')
    host = ".".join("abcdefghijklmnopqrst")
    assert site(SYSTEM, site0="", other=f'[[class]]\nname = "c"\nnodes = ["{host}", \'{host}x\']\n').facts[Member] == {Member(host, "class", "c"), Member(host + "x", "class", "c")}


def test_lines_are_right_where_a_text_holds_headers(mistakes):
    found = mistakes('[[group]]\nname = """\n[[group]]\n"""\nnodes = "cn1"\n')
    assert found[0].startswith("site0.toml: no. 1: [[group]]: name: ")
