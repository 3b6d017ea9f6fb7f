"""What components' values are: the file, its check, and what names of values mean."""

import math
import re
from pathlib import Path

import pytest

from pipeline.schema import KINDS, components
from pipeline.schema.components import COMPONENTS, Told, Value

ROOT = Path(__file__).resolve().parents[3]
GOOD = """
[[component]]
name = "disk"
instance = "Device name."
[[component.value]]
name = "read_bytes"
kind = "counter"
unit = "bytes"
what = "Bytes read."
[[component.value]]
name = "wait"
kind = "histogram"
unit = "us"
what = "Reads by time."
[[component.value]]
name = "queue"
kind = "gauge"
unit = ""
what = "Requests in hand."
"""


def test_the_file_is_read_as_it_stands():
    (disk,) = components.read(GOOD).values()
    assert (disk.name, disk.instance) == ("disk", "Device name.")
    assert disk.values == (
        Value("read_bytes", "counter", "Bytes read.", "bytes"),
        Value("wait", "histogram", "Reads by time.", "us"),
        Value("queue", "gauge", "Requests in hand.", None),
    )
    assert {"agent", "block_device", "node"} <= set(COMPONENTS)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('instance = "Device name."', "", "component 'disk': instance is missing"),
        ('instance = "Device name."', 'instance = " "', "component disk: instance must be a text that is not empty"),
        ('name = "disk"', 'name = "Disk"', "component 'Disk': a name is 1 to 100 of"),
        ('name = "disk"', "name = 5", "component 5: a name is"),
        ('kind = "gauge"', 'kind = "rate"', "component 'disk', value 'queue': kind is 'rate'; known: counter, gauge, histogram"),
        ('kind = "gauge"', 'kind = ["gauge"]', "component 'disk', value 'queue': kind is"),
        ('kind = "gauge"', 'knd = "gauge"', "component 'disk', value 'queue': kind is missing"),
        (
            'what = "Requests in hand."',
            'what = "Requests in hand."\nhelp = "x"',
            "component 'disk', value 'queue': unknown key 'help'; known: name, kind, what, unit",
        ),
        ('unit = "bytes"', "unit = 1", "component 'disk', value 'read_bytes': unit must be a text"),
        ('name = "queue"', 'name = "read_bytes"', "component disk: value read_bytes is there twice"),
        ('name = "queue"', 'name = "wait_to_100"', "component disk: value wait_to_100 is called like a bucket of histogram wait"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(before, after, reason):
    assert before in GOOD
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        components.read(GOOD.replace(before, after))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "components.toml: component is missing"),
        ("[component]", "components.toml: component must be tables: write [[component]]"),
        ('[[component]]\nname = "a"\ninstance = "b"\nvalue = 5', "component 'a': value must be tables: write [[component.value]]"),
    ],
)
def test_a_file_of_another_shape_is_refused(text, reason):
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        components.read(text)


def test_a_component_that_is_there_twice_is_refused():
    with pytest.raises(ValueError, match=r"^component disk: it is there twice$"):
        components.read(GOOD + GOOD)


def test_names_are_told_in_the_files_order_and_what_it_does_not_know_after_them(monkeypatch):
    monkeypatch.setattr(components, "COMPONENTS", components.read(GOOD))
    disk = {value.name: value for value in components.COMPONENTS["disk"].values}
    names = ["zeta", "queue", "wait_to_inf", "wait_to_1000", "wait_to_20", "read_bytes", "wait", "wait_to_x", "other_to_5"]
    assert components.told("disk", names) == [
        Told(disk["read_bytes"], ("read_bytes",)),
        Told(disk["wait"], ("wait_to_20", "wait_to_1000", "wait_to_inf"), (20, 1000, math.inf)),
        Told(disk["queue"], ("queue",)),
        *(Told(Value(name, "unknown", ""), (name,)) for name in ("other_to_5", "wait", "wait_to_x", "zeta")),
    ]
    assert components.told("disk", []) == [] and components.told("tape", ["a"]) == [Told(Value("a", "unknown", ""), ("a",))]


def test_all_that_the_agent_counts_is_defined():
    """Of what the agent counts none is left out."""
    text = (ROOT / "collectors/agent/src/counters.rs").read_text("utf-8")
    counted = set(re.findall(r"^    (\w+),$", re.search(r"^counters! \{(.*?)^\}", text, re.DOTALL | re.MULTILINE)[1], re.MULTILINE))
    written = counted | set(re.findall(r'event::(?:integer|float)\(out, "(\w+)"', text)) - {"start", "end"}
    assert written <= {value.name for value in COMPONENTS["agent"].values}


def test_what_elasticsearch_indexes_of_values_is_known():
    assert set(KINDS["sample"].searched) <= {value.name for value in COMPONENTS["agent"].values}


FIGURES = GOOD + """
[[component]]
name = "server"
instance = "Its path."
[component.figures]
serves = "files"
read_bytes = ["read"]
read_time = ["read_us"]
queue = ["queue"]
[[component.value]]
name = "read"
kind = "counter"
unit = "bytes"
what = "Bytes."
[[component.value]]
name = "read_us"
kind = "counter"
unit = "us"
what = "Times."
[[component.value]]
name = "queue"
kind = "gauge"
unit = ""
what = "Requests."
[[component]]
name = "client"
instance = "Server and address."
[component.queue]
of = "server"
instance = "io"
[component.clients]
of = ["server"]
is_exact = false
read_bytes = ["sent"]
[component.jobs]
of = ["server"]
read_ops = ["sent"]
[[component.value]]
name = "sent"
kind = "counter"
unit = "bytes"
what = "Bytes."
[[component.value]]
name = "sizes"
kind = "histogram"
unit = "bytes"
what = "Sizes."
"""


def test_figures_name_the_values_that_bear_them():
    found = components.read(FIGURES)
    assert found["disk"].figures is None and found["disk"].clients is None
    assert (found["server"].figures.serves, found["server"].figures.values) == ("files", {"read_bytes": ("read",), "read_time": ("read_us",), "queue": ("queue",)})
    assert (found["client"].clients.of, found["client"].clients.values) == (("server",), {"read_bytes": ("sent",)})
    assert found["client"].jobs == components.Each(("server",), {"read_ops": ("sent",)}, True) and not found["client"].clients.is_exact
    assert found["client"].queue == components.Queue("server", "io") and found["server"].queue is found["server"].jobs is None
    assert found["server"].unit_s("read_us") == 1e-6


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('serves = "files"', "", "component server: figures: serves is missing"),
        ('serves = "files"', 'serves = "disks"', "serves is 'disks'; known: files, devices"),
        ('read_bytes = ["read"]', 'read_bytes = ["reads"]', "read_bytes: there is no value 'reads'"),
        ('read_bytes = ["read"]', 'read_bytes = "read"', "read_bytes must be a list of names of values, each once"),
        ('read_bytes = ["read"]', 'read_bytes = ["read", "read"]', "each once"),
        ('read_bytes = ["read"]', 'read_byte = ["read"]', "unknown key 'read_byte'"),
        ('read_time = ["read_us"]', 'read_time = ["read"]', "read_time: read is a counter in bytes, not a counter or histogram in one of ns, us, ms, s"),
        ('read_time = ["read_us"]', 'read_time = ["queue"]', "queue is a gauge in no unit"),
        ('queue = ["queue"]', 'queue = ["queue", "read_us"]', "queue is one value, not 2"),
        ('queue = ["queue"]', 'queue = ["read"]', "queue: read is a counter in bytes"),
        ('of = ["server"]\nis', 'of = ["disk"]\nis', "component client: clients: of is 'disk', which is no component with figures"),
        ('of = ["server"]\nread', 'of = ["server", "disk"]\nread', "component client: jobs: of is 'disk', which is no component with figures"),
        ('of = ["server"]\nread', 'of = "server"\nread', "component client: jobs: of must be a list of components"),
        ("is_exact = false", 'is_exact = "no"', "is_exact true or false"),
        ("is_exact = false\n", "", "clients: is_exact is missing"),
        ('false\nread_bytes', 'false\nread_ops', "read_ops is no share: read_bytes, write_bytes are"),
        ('["server"]\nread_ops', '["server"]\nqueue', "unknown key 'queue'"),
        ('["server"]\nread_ops = ["sent"]', '["server"]\nread_ops = ["sent", "sizes"]', "only counters are added up"),
        ('of = "server"\ninstance = "io"', 'of = "client"\ninstance = "io"', "queue: of is 'client', which is no component that tells a queue"),
        ('of = "server"\ninstance = "io"', 'of = "server"', "queue: instance is missing"),
    ],
)
def test_wrong_figures_are_refused(before, after, reason):
    assert before in FIGURES
    with pytest.raises(ValueError, match=re.escape(reason)):
        components.read(FIGURES.replace(before, after))
