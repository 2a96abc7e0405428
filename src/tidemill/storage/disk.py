"""The disk port: every operation that storage uses, and the guarantees on which it may rely.

A write is in the page cache when it returns, and on disk once a later `sync` of the same file has returned.  A change
of a name (created, renamed or removed) is on disk once a later `sync_directory` of its directory has returned.  Until
then, a power loss may undo writes page by page, and changes of names one by one; in a torn page, each 512 B sector is
either old or new.  Paths are relative to the data directory, with `/` between their parts; the data directory itself is
`""`.  A path that could lead out of the data directory raises ValueError (`storage/disk_path.py`), and so does any use
of a closed file.

Implementations: `runtime/os_disk.py` and `simulation/machine/disk.py`; the same contract tests run against both.
"""

import errno
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class DiskFull(OSError):
    """The disk is full.  An unknown part of the data may have been written; the write may be retried."""


class SyncFailed(OSError):
    """
    A sync failed.  The data that it covered may be lost although the page cache still shows it, so the process must
    stop.
    """


class File(Protocol):
    """An open file, for reading and writing.  Several threads may use it.  Positions are bytes from its start."""

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        """Write `parts`, one after the other.  They are not durable before `sync`.  Raises DiskFull."""
        ...

    def write_around(self, position: int, parts: Sequence[Buffer]) -> None:
        """Write like `write`.  The bytes may bypass the page cache, because no reader is expected soon."""
        ...

    def write_durably(self, position: int, parts: Sequence[Buffer]) -> None:
        """
        Write whole pages at a page boundary and sync them.  The bytes may bypass the page cache.  Raises SyncFailed.
        """
        ...

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""
        ...

    def read_cached(self, position: int, size: int) -> bytes | bytearray | None:
        """Read like `read`, but return None instead of waiting for the disk.

        The buffer belongs to the caller.  It may be a `bytearray`, which saves a copy into `bytes`.
        """
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it with zeros.  The change is not durable before `sync`."""
        ...

    def sync(self) -> None:
        """Make every earlier write and truncate durable.  Raises SyncFailed; after that, never call it again."""
        ...

    def close(self) -> None:
        """Close the file, without making any data durable.  Does nothing if the file is already closed."""
        ...


class Disk(Protocol):
    @property
    def opened(self) -> int:
        """
        How many times a file has been opened so far.  As long as the number is unchanged, no file has been opened.
        """
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """
        Open a file.  With `create`, a missing file is created empty, if its directory exists.  Raises
        FileNotFoundError.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted; none if the directory does not exist."""
        ...

    def make_directory(self, path: str) -> None:
        """
        Make a directory and its parents, if they are missing.  Raises FileExistsError if one of the names is a file.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """
        Rename `old` to `new`, replacing any file called `new`.  After a power loss, the rename has happened completely
        or not at all.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file.  Raises FileNotFoundError if it does not exist."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory.  Raises FileNotFoundError if it does not exist."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make every earlier change of names in the directory durable.  Raises SyncFailed."""
        ...

    @property
    def root(self) -> str:
        """The data directory's absolute path, for reports."""
        ...

    def total_space(self) -> int:
        """
        Return the bytes of the file system that holds the data directory: those in use, and `free_space`.  What only
        privileged processes can write is left out.
        """
        ...

    def free_space(self) -> int:
        """Return the number of bytes that an unprivileged process can still write."""
        ...

    def lock(self) -> None:
        """Lock the data directory until this process ends.  Raises BlockingIOError if another process has locked it."""
        ...


def remove_if_there(disk: Disk, path: str) -> None:
    """
    Remove a file if it exists.  Another thread may remove it first, because both a truncation and the closing of a
    shard remove files.
    """
    with suppress(FileNotFoundError):
        disk.remove(path)


def remove_if_empty(disk: Disk, path: str) -> None:
    """Remove a topic's directory if it exists and is empty: another thread may have created a partition in it."""
    try:
        disk.remove_directory(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise
