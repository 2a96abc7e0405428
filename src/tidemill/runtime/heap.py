"""Returns freed memory to the operating system.  glibc keeps freed parts of its heap, which can be large."""

import ctypes
import resource
from pathlib import Path
from typing import Final

LARGE_BYTES: Final = 4 << 20  # more than most requests and responses have
_FREE_END_BYTES: Final = 2 * LARGE_BYTES  # stay at the end of the heap, as glibc itself chooses them
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of <malloc.h>

_PAGE_BYTES: Final = resource.getpagesize()
_STATM: Final = Path("/proc/self/statm")  # of proc(5)

_libc = ctypes.CDLL(None)
_malloc_trim = getattr(_libc, "malloc_trim", None)  # None if the C library is not glibc
_mallopt = getattr(_libc, "mallopt", None)


def use_one_heap() -> None:
    """Let all threads that are started from now on share one heap.

    Otherwise glibc gives each of them a heap of its own, and each keeps what is free in it between blocks in use.
    Python's threads run one at a time, so they seldom wait for the one heap.
    """
    if _mallopt is not None and _malloc_trim is not None:  # musl has a `mallopt` that does nothing
        _mallopt(_ARENA_MAX, 1)


def keep_large_blocks_out_of_heap() -> None:
    """Return each block of LARGE_BYTES or more to the system as soon as it is freed.

    Otherwise glibc takes blocks of up to 32 MiB from its heap once one of them has been freed, and a few records in
    use behind their place make the heap keep it.
    """
    if _mallopt is not None and _malloc_trim is not None:
        _mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        _mallopt(_TRIM_THRESHOLD, _FREE_END_BYTES)


def return_freed_memory() -> None:
    """Return all unused whole pages of the heap to the system.

    This takes milliseconds, during which threads that allocate memory wait.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)


def resident_bytes() -> int:
    """Return how much memory this process has, in use or freed."""
    return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES
