"""Writes a checkpoint every so often and a line of log twice a second; prints when each checkpoint began and ended, ns since the epoch."""

import json
import os
import sys
import threading
import time
from pathlib import Path

folder, checkpoints, pause_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
is_over = threading.Event()


def log() -> None:
    with (folder / "log").open("w", buffering=1) as out:
        while not is_over.wait(0.5):
            out.write("residual 1e-5\n")


logger = threading.Thread(target=log)
logger.start()
spans = []
for number in range(checkpoints):
    time.sleep(pause_s)
    begin_ns = time.time_ns()
    with (folder / f"checkpoint{number}").open("wb") as out:
        for _ in range(64):
            out.write(b"x" * (1 << 20))
        os.fsync(out.fileno())
    spans.append((begin_ns, time.time_ns()))
time.sleep(pause_s)
is_over.set()
logger.join()
print(json.dumps(spans))
