"""Components and their values over time, as the API tells them."""

import time

import pyarrow as pa
import pytest

from pipeline.store import SAMPLES
from pipeline.store.mark import Mark
from pipeline.store.parts import Part
from pipeline.summary import hour_of, minutes_of, rows_of
from tests.unit.jobdb.tables import T0
from tests.unit.webapp.fakes import S
from webapp.api import component_charts

HOUR = hour_of(T0)
SERIES = "/api/v1/components/series"
SDA = f"{SERIES}?node=n1&component=block_device&instance=sda"


def told(start_s, end_s, node="n1", component="block_device", instance="sda", **values):
    return {"node": node, "component": component, "instance": instance, "start": T0 + int(start_s * S), "end": T0 + int(end_s * S), "values": values}


@pytest.fixture
def disks(site):
    """T0 is a multiple of 10 s."""
    site.store.marks = [(("n1", 255), Mark(1, last_ns=5))]
    site.store.sample_rows = [
        told(0, 2, read_bytes=100, in_flight=4),
        told(2, 4, read_bytes=20, in_flight=1, new_value=7),
        told(0, 9, instance="sdb/1"),
        told(1, 2, node="n2", component="nfs_server", instance="nfsd"),
        told(0, 2, node="n3", component="lwfs_server", instance="/log", read_wait_to_100=3, read_wait_to_inf=1, queue_length=5),
        told(3, 8, node="n10"),
    ]
    return site


def names(answer):
    return [(one["node"], one["component"], one["instance"]) for one in answer["components"]]


def listed(site, query=""):
    return site.get(f"/api/v1/components?from_ns={T0}&to_ns={T0 + 60 * S}{query}")


def test_the_list_is_searched_sorted_and_paged(disks):
    everything = [
        ("n1", "block_device", "sda"),
        ("n1", "block_device", "sdb/1"),
        ("n10", "block_device", "sda"),
        ("n2", "nfs_server", "nfsd"),
        ("n3", "lwfs_server", "/log"),
    ]
    answer = listed(disks)
    assert names(answer) == everything
    assert {name: value for name, value in answer.items() if name != "components"} == {
        "total": 5, "nodes": 4, "of_node": {"n1": 2, "n10": 1, "n2": 1, "n3": 1}, "kinds": {"block_device": 3, "lwfs_server": 1, "nfs_server": 1}, "next_cursor": None,
    }  # fmt: skip
    assert answer["components"][0] | {"first_ns": T0, "last_ns": T0 + 4 * S} == answer["components"][0]
    assert names(listed(disks, "&search=NFS")) == everything[3:4] == names(listed(disks, "&component=nfs_server"))
    assert names(listed(disks, "&node=n1")) == everything[:2] and names(listed(disks, "&node=n1&search=sdb")) == everything[1:2]
    assert [one["last_ns"] for one in listed(disks, "&sort=-last_ns")["components"]] == [T0 + s * S for s in (9, 8, 4, 2, 2)]
    first = listed(disks, "&sort=-instance&limit=3")
    assert names(first) == [everything[1], everything[0], everything[2]]
    rest = listed(disks, f"&sort=-instance&limit=3&cursor={first['next_cursor']}")
    assert sorted(names(first) + names(rest)) == everything and rest["next_cursor"] is None
    assert disks.get("/api/v1/components")["components"] == [], "the last 24 hours, by default"


def test_more_of_one_node_than_a_page_holds_are_all_reached(disks):
    ports = {f"leaf{switch}/{port}" for switch in range(80) for port in range(1, 37)}
    disks.store.sample_rows += [told(0, 2, node="n2", component="switch_port", instance=port) for port in ports]
    cursor, pages = "", []
    while cursor is not None:
        pages.append(listed(disks, f"&node=n2&limit=1000{cursor and f'&cursor={cursor}'}"))
        cursor = pages[-1]["next_cursor"]
    assert [(len(page["components"]), page["total"], page["of_node"]) for page in pages] == [(size, 2881, {"n2": 2881}) for size in (1000, 1000, 881)]
    assert {one["instance"] for page in pages for one in page["components"]} == ports | {"nfsd"}
    found = listed(disks, "&search=leaf7/&limit=1000")
    assert (found["total"], found["of_node"]) == (36, {"n2": 36})


def test_the_list_is_worked_out_once_for_a_while(disks):
    for query in ("", "&search=sda", "&sort=-last_ns", "&component=x"):
        listed(disks, query)
    assert disks.store.components_asked == 1
    listed(disks, "&node=n1")
    assert disks.store.components_asked == 2


def test_a_series_has_units_and_what_is_known_when(disks):
    answer = disks.get(f"{SDA}&from_ns={T0}&to_ns={T0 + 6 * S}&step_s=2")
    assert {name: value for name, value in answer.items() if name != "values"} == {
        "node": "n1", "component": "block_device", "instance": "sda", "instance_what": "Name of the device.", "from_ns": T0, "to_ns": T0 + 6 * S, "step_s": 2.0,
        "t_ns": [T0, T0 + 2 * S, T0 + 4 * S], "last_ns": T0 + 4 * S, "resolution_s": None, "values_left_out": 0,
    }  # fmt: skip
    read, queue, new = answer["values"]
    assert read | {"name": "read_bytes", "kind": "counter", "unit": "bytes", "total": 120.0, "per_s": [50.0, 10.0, None]} == read
    assert queue | {"kind": "gauge", "last": [4.0, 1.0, None], "min": [4.0, 1.0, None], "max": [4.0, 1.0, None], "mean": [4.0, 1.0, None]} == queue
    assert new | {"name": "new_value", "kind": "unknown", "unit": None, "what": "", "last": [None, 7.0, None]} == new
    chosen = disks.get(f"{SDA}&from_ns={T0}&to_ns={T0 + 6 * S}&names=in_flight,new_value,none")
    assert [value["name"] for value in chosen["values"]] == ["in_flight", "new_value"]
    assert len(disks.get(f"{SDA}&from_ns={T0}&to_ns={T0 + 3600 * S}&points=10")["t_ns"]) <= 10
    nothing = disks.get(f"{SDA}&from_ns={T0 + 1000 * S}&to_ns={T0 + 1060 * S}")
    assert (nothing["values"], nothing["last_ns"], len(nothing["t_ns"])) == ([], None, 60), "no data is no error"


def test_a_histogram_has_its_bounds(disks):
    answer = disks.get(f"{SERIES}?node=n3&component=lwfs_server&instance=/log&from_ns={T0}&to_ns={T0 + 4 * S}&step_s=2&names=read_wait")
    (wait,) = answer["values"]
    assert wait | {"kind": "histogram", "unit": "us", "bounds": [100.0, None], "totals": [3.0, 1.0], "per_s": [[1.5, None], [0.5, None]]} == wait


def test_an_answer_is_kept_until_something_is_added_and_bears_a_tag(disks):
    address = f"{SDA}&from_ns={T0}&to_ns={T0 + 6 * S}"
    first = disks.client.get(address)
    assert disks.client.get(address).data == first.data and disks.store.samples_asked == 1
    assert disks.client.get(address, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    disks.store.sample_rows.append(told(4, 6, read_bytes=2))
    assert disks.get(address)["values"][0]["total"] == 122.0 and disks.store.samples_asked == 2


def test_nothing_is_believed_of_what_others_may_have_written_into_the_cache(disks):
    answer = disks.client.get(f"{SDA}&from_ns={T0}&to_ns={T0 + 6 * S}").data
    assert component_charts._is_answer(answer)
    for bad in (
        b"",
        b"[]",
        b"{}",
        answer[:-2],
        answer.replace(b'"per_s":[', b'"per_s":[1.0,', 1),
        answer.replace(b'"max_per_s":[', b'"max_per_s":[1.0,', 1),
        answer.replace(b'"values":[{', b'"values":[5,{', 1),
        answer.replace(b"t_ns", b"x_ns"),
    ):
        assert not component_charts._is_answer(bad), bad[:80]


def test_what_cannot_be_asked_says_why(disks):
    def error(query, status=400):
        return disks.get(f"{SERIES}?{query}", status=status)["error"]

    one = "node=n1&component=block_device&instance=sda"
    assert error("component=block_device&instance=sda")["message"] == "parameter node: got '', expected a node's name"
    assert "6000 steps are more than 5000" in error(f"{one}&from_ns={T0}&to_ns={T0 + 6000 * S}&step_s=1")["message"]
    assert error(f"{one}&step_s=0")["code"] == "bad_parameter" == error(f"{one}&names={'a,' * 10}{','.join(map(str, range(101)))}")["code"]
    assert error(f"{one}&from_ns=5&to_ns=5")["code"] == "bad_parameter" and error(f"{one}&nope=1")["code"] == "unknown_parameter"
    assert error("node=nobody&component=block_device&instance=sda", 404)["code"] == "no_node"


def test_too_many_samples_are_refused_with_the_time_to_ask_for(disks):
    disks.store.sample_rows = [told(n, n + 1, read_bytes=1) for n in range(2000)]
    disks.store.samples_max = 1500
    span = f"from_ns={T0 + S}&to_ns="
    error = disks.get(f"{SDA}&{span}{T0 + 1990 * S}", status=422)["error"]
    assert error["code"] == "too_many_samples" and "more than 1500 samples of component 'block_device'" in error["message"]
    assert error["hint"].startswith(f"ask for from_ns={T0 + S} and to_ns=")
    until = error["hint"].rsplit("=", 1)[1]
    assert int(until) > T0 + 1300 * S
    disks.get(f"{SDA}&{span}{until}")
    # The answer that is kept is of the same samples.
    disks.store.samples_max, until = 5, int(until) - S
    assert disks.get(f"{SDA}&{span}{until}", status=422)["error"]["hint"] == "ask for a shorter span"


def test_by_default_it_is_the_last_hour(site):
    now_s = time.time() - T0 / S
    site.store.sample_rows = [told(now_s - 30, now_s - 29, read_bytes=8)]
    answer = site.get(SDA)
    assert answer["values"][0]["total"] == pytest.approx(8) and 3590 <= (answer["to_ns"] - answer["from_ns"]) / S <= 3620


def gone(data, until_s):
    return Part(data, "x", "", 9, None, 0, T0 + until_s * S - 1, "x", dropped_ns=1)


def summarise(site, data, samples, hour_s=0):
    """T0 lies 800 s after an hour's begin."""
    table = pa.Table.from_pylist([one | {"boot": 255, "values": list(one["values"].items())} for one in samples], schema=SAMPLES)
    rows = rows_of(minutes_of(table, "block_device", HOUR + hour_s * S), ("n1", "block_device", "sda"), HOUR + hour_s * S)
    site.store.summary_rows[data].append(rows[data == "hours"])


def test_where_samples_are_gone_it_is_of_summaries_with_their_extremes(disks):
    summarise(disks, "minutes", [told(1000, 1010, read_bytes=600, in_flight=2), told(1010, 1020, read_bytes=0, in_flight=8)])
    disks.store.gone = [gone("samples", 1800)]
    answer = disks.get(f"{SDA}&from_ns={T0 + 900 * S}&to_ns={T0 + 1200 * S}&step_s=50")
    assert answer["resolution_s"] == 60 == answer["step_s"] and answer["from_ns"] <= T0 + 900 * S and answer["to_ns"] >= T0 + 1200 * S
    read, queue = answer["values"]
    (at,) = [place for place, rate in enumerate(read["per_s"]) if rate is not None]
    assert answer["t_ns"][at] <= T0 + 1000 * S < answer["t_ns"][at] + 60 * S
    assert [read[name][at] for name in ("min_per_s", "per_s", "max_per_s")] == [0, 30, 60] and read["total"] == 600
    assert [queue[name][at] for name in ("min", "mean", "max", "last")] == [2, 5, 8, 5] and answer["last_ns"] == answer["t_ns"][at] + 60 * S


def test_of_a_long_time_and_where_minutes_are_gone_it_is_by_the_hour(disks):
    summarise(disks, "hours", [told(1000, 1010, read_bytes=600)])
    disks.store.gone = [gone("samples", 4000), gone("minutes", 3000)]
    for span in (f"from_ns={T0}&to_ns={T0 + 7200 * S}&step_s=60", f"from_ns={T0 - 40 * 86400 * S}&to_ns={T0 + 86400 * S}&points=50"):
        answer = disks.get(f"{SDA}&{span}")
        assert answer["resolution_s"] == 3600 and answer["step_s"] % 3600 == 0 and answer["values"][0]["total"] == 600


def test_what_is_not_summarised_yet_is_there_all_the_same(disks):
    summarise(disks, "minutes", [told(1000, 1010, read_bytes=600)])
    disks.store.sample_rows = [told(5000, 5010, read_bytes=50), told(1500, 1501, read_bytes=10**6)]
    disks.store.gone = [gone("samples", 1800)]
    (read,) = disks.get(f"{SDA}&from_ns={T0}&to_ns={T0 + 7200 * S}&step_s=60")["values"]
    assert read["total"] == 650, "what comes for an hour that is summarised waits until it is again"


def test_of_too_many_samples_summaries_are_told(disks):
    samples = [told(n, n + 1, read_bytes=1) for n in range(2500)]
    disks.store.sample_rows = [told(n, n + 1, read_bytes=1) for n in range(2800, 3000)] + samples
    disks.store.samples_max = 1500
    summarise(disks, "minutes", samples)
    answer = disks.get(f"{SDA}&from_ns={T0}&to_ns={T0 + 3000 * S}&step_s=10")
    assert answer["resolution_s"] == 60 and answer["values"][0]["total"] == 2700
    disks.store.sample_rows = samples
    disks.store.summary_rows["minutes"].clear()
    assert disks.get(f"{SDA}&from_ns={T0}&to_ns={T0 + 3000 * S}&step_s=10", status=422)["error"]["code"] == "too_many_samples"
