"""bellrock.allocator: what is freed is there again without the kernel, and for all threads."""

import json
import logging
import os
import subprocess
import sys

import pytest

from bellrock.allocator import TUNABLES, begin_without_thread_caches

# Threads that split texts of several KiB into parts of hundreds of bytes, as those of connections do with windows: by how many MiB the process grew at most.
_SPLITTING = """
import random, sys, threading
from bellrock.allocator import begin_without_thread_caches, keep_freed_memory
if sys.argv[1] == "without":
    begin_without_thread_caches()
keep_freed_memory()
def most():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
def work(seed):
    chance = random.Random(seed)
    for _ in range(20):
        text, at, parts = bytes(chance.randrange(4_000, 40_000)), 0, []
        while at < len(text):
            end = at + chance.randrange(520, 1000)
            parts.append(text[at:end])
            at = end
        turn.wait()
        del text, parts
turn = threading.Barrier(400)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(turn.parties)]
before = most()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(most() - before)
"""

# What it is, once it has begun for good.
_TELLING = """
import json, os, sys
from bellrock.allocator import TUNABLES, begin_without_thread_caches
begin_without_thread_caches()
print(json.dumps([os.getpid(), sys.argv[1:], os.environ.get(TUNABLES), os.environ.get("OTHER"), sys.flags.dont_write_bytecode]))
"""

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


def _output(program: str, how: str) -> str:
    return subprocess.run([sys.executable, "-c", program, how], check=True, capture_output=True, text=True).stdout


def test_freed_memory_is_used_again():
    faults = {how: int(_output(_PROGRAM, how)) for how in ("plain", "kept")}
    assert faults["kept"] < 5_000, faults  # 4 threads x 50 rounds x 8 MiB are 400,000 pages
    assert faults["kept"] < faults["plain"] / 2, faults


def test_what_a_thread_freed_is_there_for_all():
    grown = {how: float(_output(_SPLITTING, how)) for how in ("plain", "without")}
    assert grown["without"] < grown["plain"] * 0.75, grown


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "glibc.malloc.tcache_count=0"),
        ("", "glibc.malloc.tcache_count=0"),
        ("glibc.malloc.perturb=1", "glibc.malloc.perturb=1:glibc.malloc.tcache_count=0"),
        ("glibc.malloc.tcache_count=3", "glibc.malloc.tcache_count=3"),
    ],
)
def test_it_begins_anew_as_the_same_process_with_the_same_arguments(given, expected):
    environment = {name: value for name, value in os.environ.items() if name != TUNABLES} | ({} if given is None else {TUNABLES: given})
    command = [sys.executable, "-B", "-c", _TELLING, "one", "a b"]
    with subprocess.Popen(command, env=environment | {"OTHER": "x"}, stdout=subprocess.PIPE) as program:
        told, _ = program.communicate()
    assert json.loads(told) == [program.pid, ["one", "a b"], expected, "x", 1]


def test_where_it_cannot_begin_anew_it_goes_on(monkeypatch, caplog):
    def fail(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.delenv(TUNABLES, raising=False)
    monkeypatch.setattr(os, "execve", fail)
    with caplog.at_level(logging.WARNING):
        begin_without_thread_caches()
    assert "Cannot allocate memory; set GLIBC_TUNABLES=glibc.malloc.tcache_count=0" in caplog.text
