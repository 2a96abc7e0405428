"""Writes whole pages to a file, bypassing the page cache (`O_DIRECT`), and durably if requested (`RWF_DSYNC`).

The journal is not read while the broker runs, and many segments are not read soon after they are written.  Bypassing
the page cache saves the copy into the cache and the kernel's later write to the disk.
"""

import errno
import mmap
import os
import threading
from collections.abc import Sequence
from typing import Final

from tidemill.storage.disk import Buffer

PAGE: Final = mmap.PAGESIZE
STAGE_BYTES: Final = 4 << 20
JOINED_BYTES_MAX: Final = 128 << 10  # parts of a write up to this size are joined, then copied to the aligned buffer
JOINED_PARTS_MIN: Final = 64  # parts are also joined if a write has this many: copying costs less than a Python loop

_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})


class _Stages(threading.local):
    """One page-aligned buffer per thread, allocated at the thread's first write."""

    def __init__(self) -> None:
        self.stage = mmap.mmap(-1, STAGE_BYTES)


_stages = _Stages()


class DirectPages:
    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        """Open a file a second time for direct I/O.

        `number` is a descriptor of the open file, which may have been renamed since it was opened.
        """
        try:
            self._number = os.open(f"/proc/self/fd/{number}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        except OSError:
            self._number = -1

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        if self._number >= 0:
            os.close(self._number)
            self._number = -1

    def write(self, position: int, parts: Sequence[Buffer], size: int, *, is_durable: bool) -> bool:
        """Write `parts`, whose total size is `size`; `position` and `size` are multiples of the page size.

        Return False if the file system does not support such writes: the caller must then write all parts through the
        page cache.  After an OSError, the previous content of these pages may be lost.
        """
        if self._number < 0:
            return False
        if size <= JOINED_BYTES_MAX or len(parts) >= JOINED_PARTS_MIN:
            parts = (b"".join(parts),)
        flags = os.RWF_DSYNC if is_durable else 0
        with memoryview(_stages.stage) as stage:
            filled = 0
            for part in parts:
                with memoryview(part) as view:
                    at = 0
                    while at < len(view):
                        run = min(len(view) - at, STAGE_BYTES - filled)
                        stage[filled : filled + run] = view[at : at + run]
                        at += run
                        filled += run
                        if filled == STAGE_BYTES:
                            if not self._write_pages(stage, position, flags):
                                return False
                            position += filled
                            filled = 0
            return not filled or self._write_pages(stage[:filled], position, flags)

    def _write_pages(self, pages: memoryview, position: int, flags: int) -> bool:
        try:
            return os.pwritev(self._number, (pages,), position, flags) == len(pages)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self.close()
            return False
