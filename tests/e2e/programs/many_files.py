"""Makes many files, looks each of them up, and removes them, with a pause before each: phases of metadata alone. Prints when each began and ended, ns since the epoch."""

import json
import os
import sys
import time
from pathlib import Path

folder, files, pause_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
names = [os.fspath(folder / f"file{number}") for number in range(files)]
spans = []
for do in (lambda name: os.close(os.open(name, os.O_CREAT | os.O_WRONLY)), os.stat, os.unlink):
    time.sleep(pause_s)
    begin_ns = time.time_ns()
    for name in names:
        do(name)
    spans.append((begin_ns, time.time_ns()))
print(json.dumps(spans))
