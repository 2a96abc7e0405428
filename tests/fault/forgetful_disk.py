"""An in-memory file system whose power can be cut: a seed decides whether unsynced data is lost, kept or torn.

    python -m tests.fault.forgetful_disk MOUNT_POINT

The program serves the file system until it is unmounted.  Writing `seed SEED` into the file POWER_LOSS at its root
gives one of three fates (kept, lost, torn by sector) to every page that was written after its file was last synced, and
one of two (kept, lost) to every directory that was changed and not synced.  Writing `all` discards all unsynced data.
O_DIRECT is refused, as on many file systems, so that a sync is always a separate call.
"""

import errno
import os
import random
import stat
import sys
import time
from typing import Any

import mfusepy

PAGE = 4096
SECTOR = 512
POWER_LOSS = "power-loss"
FREE_BYTES = 8 << 30


class File:
    """`data` is what processes see.  `before` holds the content that each unsynced page had when the file was last
    synced.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.before: dict[int, bytes] = {}
        self.synced_size = 0

    def write(self, data: bytes, offset: int) -> int:
        end = offset + len(data)
        if end > len(self.data):
            self.data += bytes(end - len(self.data))
        for page in range(offset // PAGE, (end + PAGE - 1) // PAGE):
            self._keep(page)
        self.data[offset:end] = data
        return len(data)

    def truncate(self, size: int) -> None:
        for page in range(size // PAGE, (len(self.data) + PAGE - 1) // PAGE):
            self._keep(page)
        if size < len(self.data):
            del self.data[size:]
        else:
            self.data += bytes(size - len(self.data))

    def _keep(self, page: int) -> None:
        if page not in self.before:
            old = bytes(self.data[page * PAGE : min((page + 1) * PAGE, self.synced_size)])
            self.before[page] = old.ljust(PAGE, b"\0")

    def sync(self) -> None:
        self.before.clear()
        self.synced_size = len(self.data)

    def lose_power(self, chance: random.Random | None) -> None:
        size = self.synced_size if chance is None or chance.random() < 0.5 else len(self.data)
        now = bytes(self.data)
        self.data = bytearray(now[:size].ljust(size, b"\0"))
        for page, old in self.before.items():
            start = page * PAGE
            new = now[start : start + PAGE].ljust(PAGE, b"\0")
            self.data[start : start + PAGE] = _after_power_loss(old, new, chance)[: max(0, size - start)]
        self.sync()


def _after_power_loss(old: bytes, new: bytes, chance: random.Random | None) -> bytes:
    fate = "lost" if chance is None else chance.choice(["kept", "lost", "torn"])
    if chance is None or fate == "lost":
        return old
    if fate == "kept":
        return new
    sectors = [(new if chance.random() < 0.5 else old)[at : at + SECTOR] for at in range(0, PAGE, SECTOR)]
    return b"".join(sectors)


class Directory:
    def __init__(self) -> None:
        self.entries: dict[str, File | Directory] = {}
        self.synced: dict[str, File | Directory] = {}

    def sync(self) -> None:
        self.synced = self.entries.copy()

    def lose_power(self, chance: random.Random | None) -> None:
        if chance is None or chance.random() < 0.5:
            self.entries = self.synced
        for entry in self.entries.values():
            entry.lose_power(chance)
        self.sync()


class ForgetfulDisk(mfusepy.Operations):  # type: ignore[misc]
    """The FUSE operations, which the kernel calls one at a time."""

    use_ns = True

    def __init__(self) -> None:
        self._root = Directory()
        self._open: dict[int, File] = {}
        self._handle = 0

    def _at(self, path: str) -> File | Directory:
        node: File | Directory = self._root
        for name in filter(None, path.split("/")):
            if not isinstance(node, Directory) or name not in node.entries:
                raise mfusepy.FuseOSError(errno.ENOENT)
            node = node.entries[name]
        return node

    def _above(self, path: str) -> tuple[Directory, str]:
        folder, _, name = path.rpartition("/")
        node = self._at(folder)
        if not isinstance(node, Directory):
            raise mfusepy.FuseOSError(errno.ENOTDIR)
        return node, name

    def _file(self, path: str, handle: int | None) -> File:
        node = self._open.get(handle or 0) or self._at(path)
        if not isinstance(node, File):
            raise mfusepy.FuseOSError(errno.EISDIR)
        return node

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        node = self._open.get(fh or 0) or self._at(path)
        mode = stat.S_IFREG | 0o600 if isinstance(node, File) else stat.S_IFDIR | 0o700
        size = len(node.data) if isinstance(node, File) else 0
        now = time.time_ns()
        times = {"st_atime": now, "st_mtime": now, "st_ctime": now}
        return {"st_mode": mode, "st_nlink": 1, "st_size": size, "st_uid": os.getuid(), "st_gid": os.getgid(), **times}

    def readdir(self, path: str, fh: int) -> list[str]:
        node = self._at(path)
        assert isinstance(node, Directory), f"{path} is no directory"
        return [".", "..", *node.entries]

    def mkdir(self, path: str, mode: int) -> int:
        folder, name = self._above(path)
        if name in folder.entries:
            raise mfusepy.FuseOSError(errno.EEXIST)
        folder.entries[name] = Directory()
        return 0

    def rmdir(self, path: str) -> int:
        node = self._at(path)
        if isinstance(node, Directory) and node.entries:
            raise mfusepy.FuseOSError(errno.ENOTEMPTY)
        return self.unlink(path)

    def unlink(self, path: str) -> int:
        folder, name = self._above(path)
        del folder.entries[name]
        return 0

    def rename(self, old: str, new: str) -> int:
        node = self._at(old)
        self.unlink(old)
        folder, name = self._above(new)
        folder.entries[name] = node
        return 0

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        folder, name = self._above(path)
        folder.entries[name] = File()
        return self.open(path, os.O_RDWR)

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_DIRECT:
            raise mfusepy.FuseOSError(errno.EINVAL)
        self._handle += 1
        self._open[self._handle] = self._file(path, None)
        return self._handle

    def release(self, path: str, fh: int) -> int:
        del self._open[fh]
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._file(path, fh).data[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if path == f"/{POWER_LOSS}":
            word, _, seed = data.decode().strip().partition(" ")
            self._root.lose_power(None if word == "all" else random.Random(int(seed)))
            return len(data)
        return self._file(path, fh).write(data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        self._file(path, fh).truncate(length)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._file(path, fh).sync()
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        node = self._at(path)
        assert isinstance(node, Directory), f"{path} is no directory"
        node.sync()
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        blocks = FREE_BYTES // PAGE
        return {"f_bsize": PAGE, "f_frsize": PAGE, "f_blocks": blocks, "f_bfree": blocks, "f_bavail": blocks}

    def chmod(self, path: str, mode: int) -> int:
        return 0

    def utimens(self, path: str, times: Any = None) -> int:
        return 0


if __name__ == "__main__":
    # With a positive timeout, the names and sizes in the kernel's caches would survive the power loss.
    options = {"entry_timeout": 0, "attr_timeout": 0, "negative_timeout": 0, "hard_remove": True}
    mfusepy.FUSE(ForgetfulDisk(), sys.argv[1], foreground=True, nothreads=True, **options)
