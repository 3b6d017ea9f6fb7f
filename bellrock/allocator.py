"""The C library's allocator, told to keep what it will need again at once."""

import ctypes

# glibc's numbers for mallopt (malloc.h), and what they are set to. Bodies, windows and buffers of up to some MiB come and go many times a second: by default each of those
# is asked of the kernel and given back, which clears its pages anew, and each thread that serves a connection keeps free memory that no other one can use.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
# Free memory at the heap's end that is kept, bytes.
KEPT_BYTES = 64 << 20
# What is larger comes from the kernel and goes back there; the most that glibc takes here.
LARGE_BYTES = 32 << 20
ARENAS = 1


def keep_freed_memory() -> bool:
    """Sets it for this process; to be called before its threads begin. False where the C library does not know or take all of it: that costs processor time,
    and nothing else."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # not glibc
        return False
    settings = ((_ARENA_MAX, ARENAS), (_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES))
    return all([mallopt(name, value) for name, value in settings])
