"""What `make bench ONLY=scale` sends: the records of a virtual machine, a window a node and second, each once and in its place."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pytest

from bellrock.simulate.command import virtual_machine
from bellrock.simulate.records import Numbering
from pipeline.ingest import Ingest
from pipeline.lumberjack import FrameParser, Limits
from pipeline.sink import StoreSink
from tests.bench._agents import Agents
from tests.bench._machine import S, WINDOW, Stream, bounds, pack
from tests.bench.agent_footprint import Sink
from tests.bench.scale import median_between

START_NS = 1_767_225_600 * S
BEGIN_S, END_S = 600, 1200


def naive_bounds(second, node, most):
    out = [0] if len(second) else []
    for place in range(1, len(second)):
        if second[place] != second[place - 1] or node[place] != node[place - 1] or place - out[-1] == most:
            out.append(place)
    return [*out, len(second)]


@pytest.mark.parametrize("most", [1, 3, 4096])
@pytest.mark.parametrize("rows", [0, 1, 7, 200])
def test_a_window_is_of_one_node_and_second(rows, most):
    rng = np.random.default_rng(rows)
    second, node = np.sort(rng.integers(0, 5, rows)), rng.integers(0, 3, rows)
    order = np.lexsort((node, second))
    second, node = second[order], node[order]
    assert bounds(second, node, most).tolist() == naive_bounds(second.tolist(), node.tolist(), most)


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Files of a small machine's windows, the stream that they came from, and how many windows they have."""
    machine = virtual_machine("taihulight", 0.01, 0.5, 5.0, (), 1, START_NS)
    stream = Stream(machine, Numbering(1, machine.nodes, START_NS), BEGIN_S, END_S)
    folder, made = tmp_path_factory.mktemp("windows"), []
    with ThreadPoolExecutor(2) as threads:
        for number, records in enumerate(stream.portions(120)):
            windows, _ = pack(records, folder / f"day-{number:04}", threads)
            made.append((folder / f"day-{number:04}", windows, records.num_rows))
    return made, stream


def windows_of(path):
    """Node and events of each."""
    index, data = np.load(path.with_suffix(".npy")), path.read_bytes()
    assert index.dtype == WINDOW
    begin = 0
    for node, events, end in index.tolist():
        parser = FrameParser(Limits())
        parser.feed(data[begin:end])
        window = parser.next_window()
        parser.finish()
        assert window.last_seq == len(window.payloads) == events
        yield node, [orjson.loads(payload) for payload in window.payloads]
        begin = end
    assert begin == len(data)


def test_windows_hold_each_record_once_in_the_order_of_time(packed):
    made, stream = packed
    last_of, last_second, operations = {}, 0, 0
    for path, windows, records in made:
        found = list(windows_of(path))
        assert (len(found), sum(len(events) for _, events in found)) == (windows, records)
        for node, events in found:
            seconds = {event["end"] // S for event in events}
            assert {event["node"] for event in events} == {f"cn{node + 1:04d}"} and len(seconds) == 1
            (second,) = seconds
            assert last_second <= second and START_NS // S + BEGIN_S <= second < START_NS // S + END_S
            last_second = second
            for event in events:
                assert event["seq"] == last_of.get(node, 0) + 1
                last_of[node] = event["seq"]
                operations += event["count"] if event["op"] != "start" else 0
    assert operations == sum(stream.operations.values()) > 0


def test_agents_deliver_all_and_leave_no_file(packed, tmp_path):
    made, _ = packed
    sent = Path(shutil.copytree(made[0][0].parent, tmp_path / "sent"))
    sink = Sink()
    ingest = Ingest(StoreSink(sink), host="127.0.0.1", port=0)
    ingest.start()
    try:
        agents = Agents(ingest.port, 3)
        for path, _, _ in made:
            agents.send(sent / path.name)
        agents.finish()
    finally:
        ingest.stop()
    assert sink.events == agents.records == sum(records for _, _, records in made)
    assert agents.windows == sum(windows for _, windows, _ in made)
    assert not any(sent.iterdir())


def test_median_of_an_interval():
    samples = [(0.0, 5.0), (1.0, 1.0), (2.0, 9.0), (3.0, 2.0), (10.0, 100.0)]
    assert median_between(samples, 1.0, 3.0) == 2.0
    assert median_between(samples, 4.0, 6.0) == 2.0
    with pytest.raises(ValueError, match="no samples"):
        median_between([], 0.0, 1.0)
