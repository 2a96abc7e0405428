"""What is freed goes back to the machine: glibc keeps the holes in its heap, and behind a load they are most of it."""

import ctypes

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # no other C library has it


def give_back_freed_memory() -> None:
    """Whole pages that nothing lies in.  Takes milliseconds; whoever allocates meanwhile waits."""
    if _malloc_trim is not None:
        _malloc_trim(0)
