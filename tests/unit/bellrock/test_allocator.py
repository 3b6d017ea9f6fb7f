"""bellrock.allocator: what is freed is there again without the kernel."""

import subprocess
import sys

# Threads that make and free 8 MiB many times, as those of a log server do: how many pages the kernel had to give.
_PROGRAM = """
import resource, sys, threading
from bellrock.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
def work():
    for _ in range(50):
        parts = [bytes([1]) * (2 << 20) for _ in range(4)]
work()  # the first of all is new to everyone
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_freed_memory_is_used_again():
    faults = {how: int(subprocess.run([sys.executable, "-c", _PROGRAM, how], check=True, capture_output=True, text=True).stdout) for how in ("plain", "kept")}
    assert faults["kept"] < 5_000, faults  # 4 threads x 50 rounds x 8 MiB are 400,000 pages
    assert faults["kept"] < faults["plain"] / 2, faults
