"""The implementation of the Disk port on Linux, with files below one data directory.

No call depends on a file's current position.  A file descriptor is closed when the last call that uses it returns: each
call holds a reference to the descriptor, and `close` drops the file's own reference.  A reader in another thread
therefore never reads from a descriptor number that has been reused for another file.  Directories have mode 0700 and
files 0600, since records may be confidential.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tidemill.runtime.direct_pages import PAGE, DirectPages
from tidemill.storage.disk import Buffer, DiskFull, SyncFailed
from tidemill.storage.disk_path import LOCK_NAME, file_parts, path_parts

PARTS_MAX: Final = os.sysconf("SC_IOV_MAX")  # the limit on the parts of one pwritev; 1024 on Linux
AROUND_CACHE_BYTES_MIN: Final = 128 << 10  # smaller writes are faster through the page cache (decision 3)
READ_AHEAD_SIZE_MIN: Final = 512 << 10  # a read of at least this size is treated as sequential
READ_AHEAD_BYTES: Final = 8 << 20  # bytes after a sequential read that the kernel reads in advance
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# The errors from a file system that does not support RWF_NOWAIT.
_NOWAIT_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS})


class OsDisk:
    def __init__(self, directory: str | Path, *, read_only: bool = False) -> None:
        """Create the data directory if it does not exist.  With `read_only`, nothing is ever created or changed."""
        self._root = os.path.abspath(directory)
        self._read_only = read_only
        self._lock_descriptor: int | None = None
        self.opened = 0
        if not read_only:
            _make_directories(self._root)

    @property
    def root(self) -> str:
        return self._root

    def open(self, path: str, *, create: bool = False) -> "OsFile":
        where = self._absolute_path(file_parts(path))
        self.opened += 1
        if self._read_only:
            return OsFile(os.open(where, os.O_RDONLY | os.O_CLOEXEC), path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return OsFile(os.open(where, flags, 0o600), path)
        except OSError as error:
            raise _translated(error, path) from error

    def exists(self, path: str) -> bool:
        return os.path.exists(self._absolute_path(path_parts(path)))

    def list(self, path: str) -> Sequence[str]:
        parts = path_parts(path)
        try:
            names = os.listdir(self._absolute_path(parts))
        except FileNotFoundError:
            return ()
        return sorted(name for name in names if parts or name != LOCK_NAME)

    def make_directory(self, path: str) -> None:
        self._check_writable(path)
        while True:
            where = self._root
            try:
                for part in path_parts(path):
                    where = os.path.join(where, part)
                    _make_directory(where)
            except FileNotFoundError:
                if not os.path.isdir(self._root):
                    raise
                continue  # Another thread removed a parent directory while it was empty: create it again.
            return

    def rename(self, old: str, new: str) -> None:
        self._check_writable(new)
        try:
            os.rename(self._absolute_path(file_parts(old)), self._absolute_path(file_parts(new)))
        except OSError as error:
            raise _translated(error, new) from error

    def remove(self, path: str) -> None:
        self._check_writable(path)
        os.unlink(self._absolute_path(file_parts(path)))

    def remove_directory(self, path: str) -> None:
        self._check_writable(path)
        os.rmdir(self._absolute_path(file_parts(path)))

    def sync_directory(self, path: str) -> None:
        self._check_writable(path)
        _sync_directory(self._absolute_path(path_parts(path)))

    def total_space(self) -> int:
        found = os.statvfs(self._root)
        used = found.f_blocks - found.f_bfree
        return (used + found.f_bavail) * found.f_frsize  # without what is kept for root, which is neither

    def free_space(self) -> int:
        found = os.statvfs(self._root)
        return found.f_bavail * found.f_frsize

    def lock(self) -> None:
        if self._lock_descriptor is not None:
            return
        self._check_writable(LOCK_NAME)
        descriptor = os.open(os.path.join(self._root, LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise BlockingIOError(error.errno, f"in use by process {owner}", self._root) from error
        except OSError as error:
            os.close(descriptor)
            raise _translated(error, LOCK_NAME) from error
        self._lock_descriptor = descriptor

    def unlock(self) -> None:
        """Release the lock.  The operating system also releases it when the process ends."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def _absolute_path(self, parts: tuple[str, ...]) -> str:
        return os.path.join(self._root, *parts)

    def _check_writable(self, path: str) -> None:
        if self._read_only:
            raise OSError(errno.EROFS, "the data directory was opened for reading only", path)


class _Descriptor:
    """A file descriptor that is closed when the last reference to this object is dropped."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    # `os.close` is bound as a default, because at exit modules may be cleared before this is called.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.number)


class OsFile:
    __slots__ = ("_descriptor", "_direct", "_path", "_reads_cached")

    def __init__(self, number: int, path: str) -> None:
        self._descriptor: _Descriptor | None = _Descriptor(number)
        self._path = path
        self._direct: DirectPages | None = None  # opened by the first page-aligned `write_durably`
        self._reads_cached = True  # False once the file system turns out not to support RWF_NOWAIT

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        descriptor = self._open_descriptor()
        remaining = sum(map(len, parts))
        if not remaining:
            return
        try:
            if len(parts) <= PARTS_MAX:
                written = os.pwritev(descriptor.number, parts, position)
                if written == remaining:
                    return
            else:
                written = 0
            _write_rest(descriptor.number, position, parts, written)
        except OSError as error:
            raise _translated(error, self._path) from error

    def write_around(self, position: int, parts: Sequence[Buffer]) -> None:
        first = -position % PAGE
        size = (sum(map(len, parts)) - first) // PAGE * PAGE
        if size < AROUND_CACHE_BYTES_MIN:
            self.write(position, parts)
            return
        head, pages, tail = _split(parts, first, first + size)
        direct = DirectPages(self._open_descriptor().number)
        try:
            self.write(position, head)
            if not direct.write(position + first, pages, size, is_durable=False):
                self.write(position + first, pages)
            self.write(position + first + size, tail)
        except OSError as error:
            raise _translated(error, self._path) from error
        finally:
            direct.close()

    def write_durably(self, position: int, parts: Sequence[Buffer]) -> None:
        size = sum(map(len, parts))
        if size and position % PAGE == 0 and size % PAGE == 0:
            if self._direct is None:
                self._direct = DirectPages(self._open_descriptor().number)
            try:
                if self._direct.write(position, parts, size, is_durable=True):
                    return
            except OSError as error:
                raise _sync_failed(error, self._path) from error
        self.write(position, parts)
        self.sync()

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._open_descriptor()
        if size >= READ_AHEAD_SIZE_MIN:  # The kernel's own read-ahead is only 128 KiB.
            os.posix_fadvise(descriptor.number, position, size + READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
        data = os.pread(descriptor.number, size, position)
        while len(data) < size:  # read on: a read may be short even before the end of the file
            more = os.pread(descriptor.number, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_cached(self, position: int, size: int) -> bytes | bytearray | None:
        descriptor = self._open_descriptor()
        if not self._reads_cached:
            return None
        data = bytearray(size)
        try:
            count = os.preadv(descriptor.number, (data,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NOWAIT_UNSUPPORTED:
                raise
            self._reads_cached = False
            return None
        if count == size:
            return data
        if position + count < os.fstat(descriptor.number).st_size:
            return None  # Only the first part of the data is in the page cache.
        del data[count:]
        return data

    def size(self) -> int:
        return os.fstat(self._open_descriptor().number).st_size

    def truncate(self, size: int) -> None:
        descriptor = self._open_descriptor()
        try:
            os.ftruncate(descriptor.number, size)
        except OSError as error:
            raise _translated(error, self._path) from error

    def sync(self) -> None:
        descriptor = self._open_descriptor()
        try:
            os.fdatasync(descriptor.number)
        except OSError as error:
            raise _sync_failed(error, self._path) from error

    def close(self) -> None:
        self._descriptor = None
        self._direct = None

    def _open_descriptor(self) -> _Descriptor:
        """Return the descriptor.  The caller must keep a reference to it until its system calls are over."""
        descriptor = self._descriptor
        if descriptor is None:
            raise ValueError(f"{self._path!r} is closed")
        return descriptor


def _split(parts: Sequence[Buffer], first: int, second: int) -> tuple[list[Buffer], list[Buffer], list[Buffer]]:
    """Split the parts into the bytes before position `first`, the bytes from there to `second`, and the rest."""
    split: tuple[list[Buffer], list[Buffer], list[Buffer]] = [], [], []
    at = 0
    for part in parts:
        end = at + len(part)
        if first <= at and end <= second:
            split[1].append(part)
        else:
            view = memoryview(part)
            for pieces, begin, stop in zip(split, (at, first, second), (first, second, end), strict=True):
                if (begin := max(begin, at)) < (stop := min(stop, end)):
                    pieces.append(view[begin - at : stop - at])
        at = end
    return split


def _write_rest(number: int, position: int, parts: Sequence[Buffer], written: int) -> None:
    """Write all parts except their first `written` bytes.

    Used after a short write, and when there are more parts than one call can take.
    """
    rest = [memoryview(part).cast("B") for part in parts if len(part)]
    first_left = 0  # index of the first part not completely written
    while True:
        position += written
        while first_left < len(rest) and written >= len(rest[first_left]):
            written -= len(rest[first_left])
            first_left += 1
        if first_left == len(rest):
            return
        rest[first_left] = rest[first_left][written:]
        written = os.pwritev(number, rest[first_left : first_left + PARTS_MAX], position)
        if not written:
            raise OSError(errno.EIO, "the kernel wrote nothing and reported no error")


def _translated(error: OSError, path: str) -> OSError:
    if error.errno in _NO_SPACE:
        return DiskFull(error.errno, error.strerror, path)
    return error


def _sync_failed(error: OSError, path: str) -> SyncFailed:
    return SyncFailed(error.errno, f"sync failed: {error.strerror}", path)


def _make_directory(where: str) -> None:
    try:
        os.mkdir(where, 0o700)
    except FileExistsError:
        if not os.path.isdir(where):
            raise
    except OSError as error:
        raise _translated(error, where) from error


def _make_directories(where: str) -> None:
    """Create the data directory and its parents.  Each new name is synced so that it survives a power loss."""
    if os.path.isdir(where):
        return
    above = os.path.dirname(where)
    _make_directories(above)
    _make_directory(where)
    _sync_directory(above)


def _sync_directory(where: str) -> None:
    number = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    except OSError as error:
        raise _sync_failed(error, where) from error
    finally:
        os.close(number)
