"""Returns freed memory to the operating system.  glibc keeps freed parts of its heap, which can be large."""

import ctypes

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # None if the C library is not glibc


def return_freed_memory() -> None:
    """Return all unused whole pages of the heap to the system.

    This takes milliseconds, during which threads that allocate memory wait.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)
