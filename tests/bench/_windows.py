"""Windows of records as agents of many nodes would send them, and a program that sends them.

    python -m tests.bench._windows PORT FILE     prints a line, waits for one, sends what `save` wrote, one connection a node, and ends when all is acknowledged
"""

from __future__ import annotations

import pickle
import re
import socket
import struct
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pyarrow as pa

from bellrock.simulate.expand import expand
from bellrock.simulate.kinds import KINDS as MODELS
from bellrock.simulate.machine import jobs
from bellrock.simulate.records import Numbering, table
from pipeline.schema import KINDS

# Of an agent.
WINDOW_EVENTS = 4096
START_NS = 1_767_225_600 * 10**9
_BOOT = re.compile(rb'"boot":"[0-9a-f]{4}')


def events(records: int, nodes: int, seed: int) -> dict[str, list[bytes]]:
    """About `records` runs of simulated jobs by node, in the order of their numbers: the JSON that an agent writes."""
    numbering = Numbering(seed, nodes, START_NS)
    by_node: dict[str, list[tuple[int, bytes]]] = {}
    for job in jobs(seed, max(nodes // 2, 4), nodes, records, tuple(MODELS), START_NS):
        for node, seq, line in _lines(table(job, expand(job), numbering)):
            by_node.setdefault(node, []).append((seq, line))
    return {node: [line for _, line in sorted(lines)] for node, lines in by_node.items()}


def of_other_boots(by_node: dict[str, list[bytes]], number: int) -> dict[str, list[bytes]]:
    """The same records, as if each node had begun anew; `number`: 0 to 0xffff, of another boot each."""
    return {node: [_BOOT.sub(b'"boot":"%04x' % number, line, count=1) for line in lines] for node, lines in by_node.items()}


def _lines(runs: pa.Table) -> Iterator[tuple[str, int, bytes]]:
    hexed = [field.name for field in KINDS["run"].fields if field.type == "hex64"]
    for row in runs.to_pylist():
        for name in hexed:
            if row[name] is not None:
                row[name] = f"{row[name]:016x}"
        if row["latency"] is None:
            del row["latency"]
        yield row["node"], row["seq"], orjson.dumps({"kind": "run"} | row)


def windows(lines: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """(events, frames) of each window, compressed as agents do."""
    out = []
    for begin in range(0, len(lines), WINDOW_EVENTS):
        part = lines[begin : begin + WINDOW_EVENTS]
        frames = b"".join(b"2J" + struct.pack(">II", number, len(line)) + line for number, line in enumerate(part, 1))
        packed = zlib.compress(frames, 1)
        out.append((len(part), b"2W" + struct.pack(">I", len(part)) + b"2C" + struct.pack(">I", len(packed)) + packed))
    return out


def save(path: Path, by_node: dict[str, list[bytes]]) -> None:
    """For the program that sends them."""
    path.write_bytes(pickle.dumps([windows(lines) for lines in by_node.values()]))


def _send(port: int, sent: Sequence[tuple[int, bytes]]) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
        for count, frames in sent:
            connection.sendall(frames)
            answered = 0
            while answered != count:
                answered = struct.unpack(">2sI", _read(connection, 6))[1]


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the server closed the connection")
        data += part
    return data


def main(port: int, path: Path) -> int:
    failed: list[BaseException] = []

    def work(sent: Sequence[tuple[int, bytes]]) -> None:
        try:
            _send(port, sent)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(sent,)) for sent in pickle.loads(path.read_bytes())]
    print("ready", flush=True)
    sys.stdin.readline()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        print(f"{len(failed)} of {len(threads)} nodes could not deliver: {failed[0]!r}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
