"""The disk port: all that storage asks of a machine's disk, and what it may assume of the answer.

A write is in the page cache when it returns, and on disk when a later `sync` of the same file has returned.
A name (made, renamed or removed) is on disk when a later `sync_directory` of its directory has returned.
Until then a power loss may undo either, page by page and name by name; in a torn page each 512 B sector is old or new.
Paths are relative to the data directory, with `/` between their parts; the data directory itself is `""`.  A path that
could lead elsewhere is a ValueError (`storage/disk_path.py`), and so is any use of a closed file.

Twins: `runtime/os_disk.py` and `simulation/machine/disk.py`; one contract suite runs on both.
"""

import errno
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class DiskFull(OSError):
    """There was no room.  Nothing can be said of how much of the write is there; it can be tried again."""


class SyncFailed(OSError):
    """A sync failed: what it should have made durable may be gone though the cache shows it.  The process must stop."""


class File(Protocol):
    """An open file, for reading and writing.  May be used by several threads; positions are bytes from its start."""

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        """All of `parts`, one behind the other.  Not durable before `sync`.  Raises DiskFull."""
        ...

    def write_around(self, position: int, parts: Sequence[Buffer]) -> None:
        """As `write`, of bytes that nobody reads soon: they may go around the cache."""
        ...

    def write_durably(self, position: int, parts: Sequence[Buffer]) -> None:
        """
        As `write` and `sync`, for whole pages at a page's border that nobody reads soon: they may go around the cache.
        Raises SyncFailed.
        """
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def read_cached(self, position: int, size: int) -> bytes | bytearray | None:
        """As `read`, without waiting for the disk; None when that is not possible or not known.

        The bytes are the caller's alone; a `bytearray` because turning 1 MiB into `bytes` cost more than reading it.
        """
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes, or grow with zeros.  Not durable before `sync`."""
        ...

    def sync(self) -> None:
        """Make every earlier write and truncate durable, or raise SyncFailed.  Never call it again after that."""
        ...

    def close(self) -> None:
        """Idempotent.  Makes nothing durable."""
        ...


class Disk(Protocol):
    @property
    def opened(self) -> int:
        """How often a file was opened: while it stays the same, no more are open."""
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """FileNotFoundError when it is not there, unless `create` makes it (empty; its directory must exist)."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> Sequence[str]:
        """Names in a directory, sorted; empty when there is no such directory."""
        ...

    def make_directory(self, path: str) -> None:
        """With its parents; no error when it is there.  FileExistsError when a file has its name or a parent's."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replaces `new`.  After a power loss either both names are as before or both as afterwards."""
        ...

    def remove(self, path: str) -> None:
        """A file; FileNotFoundError when it is not there."""
        ...

    def remove_directory(self, path: str) -> None:
        """An empty directory; FileNotFoundError when it is not there."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make every earlier change of the names in it durable, or raise SyncFailed."""
        ...

    def free_space(self) -> int:
        """Bytes that a process without privileges may still fill."""
        ...

    def lock(self) -> None:
        """Take the data directory for this process until it ends; BlockingIOError when another holds it."""
        ...


def remove_if_there(disk: Disk, path: str) -> None:
    """A file that another thread may remove as well: what a truncation has left, of a shard that is closed."""
    with suppress(FileNotFoundError):
        disk.remove(path)


def remove_if_empty(disk: Disk, path: str) -> None:
    """A directory that another thread may put something into meanwhile: a topic's, with a first batch."""
    try:
        disk.remove_directory(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise
