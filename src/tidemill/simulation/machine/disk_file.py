"""An open file of the simulated disk: the File port."""

import errno
from collections.abc import Sequence

from tidemill.simulation.machine.crash_fate import PAGE
from tidemill.simulation.machine.disk_content import Content
from tidemill.simulation.machine.disk_controls import DiskControls, pages_of
from tidemill.simulation.machine.disk_operation import Kind
from tidemill.storage.disk import Buffer, DiskFull, SyncFailed


class SimulatedFile:
    __slots__ = ("_closed", "_content", "_disk", "_path")

    def __init__(self, disk: DiskControls, content: Content, path: str) -> None:
        self._disk = disk
        self._content = content
        self._path = path
        self._closed = False

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        disk, content = self._disk, self._content
        with disk.mutex:
            self._check(position)
            written = b"".join(parts)
            disk.begin(Kind.WRITE, self._path, position, len(written), file=content.number)
            end = position + len(written)
            wanted = pages_of(end) - pages_of(content.size) if written else 0
            taken = disk.take_pages(wanted)
            if taken < wanted:
                room = (pages_of(content.size) + taken) * PAGE
                if disk.full_writes_part and position < room:
                    content.write(position, (written[: room - position],))
                else:
                    disk.free_pages(taken)
                raise DiskFull(errno.ENOSPC, f"no room for {self._path!r} [{position}, {end})")
            content.write(position, (written,))

    def write_around(self, position: int, parts: Sequence[Buffer]) -> None:
        self.write(position, parts)

    def write_durably(self, position: int, parts: Sequence[Buffer]) -> None:
        self.write(position, parts)
        self.sync()

    def read(self, position: int, size: int) -> bytes:
        with self._disk.mutex:
            self._check(position, size)
            return self._content.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        data = self.read(position, size)
        return data if self._disk.reads_cached else None

    def size(self) -> int:
        with self._disk.mutex:
            self._check()
            return self._content.size

    def truncate(self, size: int) -> None:
        disk, content = self._disk, self._content
        with disk.mutex:
            self._check(size)
            disk.begin(Kind.TRUNCATE, self._path, 0, size, file=content.number)
            wanted = pages_of(size) - pages_of(content.size)
            if wanted < 0:
                disk.free_pages(-wanted)
            taken = disk.take_pages(wanted)
            if taken < wanted:
                disk.free_pages(taken)
                raise DiskFull(errno.ENOSPC, f"no room for {self._path!r} of {size} bytes")
            content.truncate(size)

    def sync(self) -> None:
        disk = self._disk
        with disk.mutex:
            self._check()
            number = disk.begin(Kind.SYNC, self._path, file=self._content.number)
            if disk.fails_sync(number):
                self._content.fail_sync()
                raise SyncFailed(errno.EIO, f"sync of {self._path!r} failed")
            self._content.sync()

    def close(self) -> None:
        self._closed = True

    def _check(self, *numbers: int) -> None:
        self._disk.check_power()
        if self._closed:
            raise ValueError(f"{self._path!r} is closed")
        if numbers and min(numbers) < 0:
            raise ValueError(f"{self._path!r}: a position or size is below zero")
