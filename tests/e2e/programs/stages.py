"""Reads its input, then forked processes of two threads each write a file a thread, then one reads all of them: with a pause before each. Prints when each stage began and ended, ns since the epoch, by whoever was first and last in it."""

import json
import os
import sys
import threading
import time
from pathlib import Path

MIB = 1 << 20
WORKERS, THREADS, EACH = 3, 2, 8
source, folder, pause_s = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])


def read(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(MIB):
            pass


def write(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for _ in range(EACH):
            file.write(b"x" * MIB)
        os.fsync(file.fileno())


def work(number: int, out: int) -> None:
    """What a forked process does; tells its times."""
    begin_ns = time.time_ns()
    threads = [threading.Thread(target=write, args=(folder / f"part{number}.{thread}",)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(out, f"{begin_ns} {time.time_ns()}\n".encode())


spans = []
time.sleep(pause_s)
begin_ns = time.time_ns()
read(source)
spans.append((begin_ns, time.time_ns()))

time.sleep(pause_s)
told, out = os.pipe()
children = []
for number in range(WORKERS):
    child = os.fork()
    if child == 0:
        work(number, out)
        os._exit(0)
    children.append(child)
os.close(out)
for child in children:
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("a worker failed")
times = [tuple(map(int, line.split())) for line in os.read(told, 4096).decode().splitlines()]
spans.append((min(begin for begin, _ in times), max(end for _, end in times)))

time.sleep(pause_s)
begin_ns = time.time_ns()
for path in sorted(folder.glob("part*")):
    read(path)
spans.append((begin_ns, time.time_ns()))
print(json.dumps(spans))
