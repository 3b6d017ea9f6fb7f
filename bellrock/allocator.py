"""The C library's allocator, told to keep what it will need again at once."""

import ctypes
import logging
import os
import sys

log = logging.getLogger(__name__)

# glibc's numbers for mallopt (malloc.h), and what they are set to. Bodies, windows and buffers of up to some MiB come and go many times a second: by default each of those
# is asked of the kernel and given back, which clears its pages anew, and each thread that serves a connection keeps free memory that no other one can use.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
# Free memory at the heap's end that is kept, bytes.
KEPT_BYTES = 64 << 20
# What is larger comes from the kernel and goes back there; the most that glibc takes here.
LARGE_BYTES = 32 << 20
ARENAS = 1
# What glibc reads before anything of ours runs, and by no call later. By default each thread keeps several hundred small pieces that it has freed. Of a thousand threads that
# serve connections these lie all over the heap, and nothing large fits between them any more: it grows by what is free in it.
TUNABLES = "GLIBC_TUNABLES"
_THREAD_CACHE = "glibc.malloc.tcache_count"


def begin_without_thread_caches() -> None:
    """Sees that threads keep nothing of what they have freed: where the environment does not tell glibc so, or otherwise, the program begins once more, as the same process
    with the same arguments. To be called before it has done anything."""
    told = os.environ.get(TUNABLES, "")
    if _THREAD_CACHE in told or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return
    without = ":".join(part for part in (told, f"{_THREAD_CACHE}=0") if part)
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {TUNABLES: without})
    except OSError as error:
        log.warning("threads keep memory that they have freed: %s cannot be begun anew: %s; set %s=%s for it", sys.executable, error, TUNABLES, without)


def keep_freed_memory() -> bool:
    """Sets it for this process; to be called before its threads begin. False where the C library does not know or take all of it: that costs processor time,
    and nothing else."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # not glibc
        return False
    settings = ((_ARENA_MAX, ARENAS), (_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES))
    return all([mallopt(name, value) for name, value in settings])
