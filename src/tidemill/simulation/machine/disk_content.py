"""The bytes of one simulated file, in the page cache and on the disk.

A `Content` keeps the cached bytes and, for every page that differs from the disk, the bytes of the disk (`_before`).  A
page in `_before` is not durable.  If the page is in `_dirty` too, the next sync makes it durable.  Otherwise its sync
has failed, and only a new write and sync can make it durable.  A write therefore copies at most the pages that it
touches, a sync drops copies, and a power loss copies one buffer.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha1

from tidemill.simulation.machine.crash_fate import ALL_SECTORS, PAGE, SECTOR, Decisions
from tidemill.storage.disk import Buffer


class Content:
    __slots__ = (
        "_before",
        "_buffer",
        "_digest",
        "_dirty",
        "_durable_size",
        "_earlier",
        "_lowest_size",
        "_shared",
        "number",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self._buffer = bytearray()
        self._digest: bytes | None = None
        self._shared = False  # the buffer also belongs to another disk, and must be copied before a change
        self._durable_size = 0
        self._lowest_size = 0  # the smallest size since the last sync; bytes beyond it read as zeros if the file grows
        self._before: dict[int, bytes] = {}  # page → its durable bytes (shorter for the last durable page)
        # Page → the bytes of an earlier unsynced write, which a power loss may leave on the disk.
        self._earlier: dict[int, bytes] = {}
        self._dirty: set[int] = set()  # the pages that the next sync makes durable

    @property
    def size(self) -> int:
        return len(self._buffer)

    def read(self, position: int, size: int) -> bytes:
        return bytes(memoryview(self._buffer)[position : position + size])

    def digest(self) -> bytes:
        """Return a digest of the cached bytes, computed only if they have changed since the last call."""
        if self._digest is None:
            self._digest = sha1(self._buffer, usedforsecurity=False).digest()
        return self._digest

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        written = b"".join(parts)
        if not written:
            return
        self._own()
        buffer, end = self._buffer, position + len(written)
        for page in range(position // PAGE, (end - 1) // PAGE + 1):
            self._touch(page)
        if len(buffer) < end:
            buffer.extend(bytes(end - len(buffer)))
        buffer[position:end] = written

    def truncate(self, size: int) -> None:
        self._own()
        buffer = self._buffer
        if size >= len(buffer):
            buffer.extend(bytes(size - len(buffer)))
            return
        for page in range(size // PAGE, (len(buffer) - 1) // PAGE + 1):
            self._touch(page)
        del buffer[size:]
        self._lowest_size = min(self._lowest_size, size)

    def sync(self) -> None:
        for page in self._dirty:
            del self._before[page]
            self._earlier.pop(page, None)
        self._dirty.clear()
        self._durable_size = self._lowest_size = len(self._buffer)

    def fail_sync(self) -> None:
        """Fail a sync as Linux does: the pages become clean and stay in the cache, but are not on the disk."""
        self._dirty.clear()

    def evict(self) -> None:
        """Drop the clean pages, as the kernel may.  Pages whose sync failed then show the bytes of the disk."""
        self._own()
        for page in sorted(self._before.keys() - self._dirty):
            start, end = page * PAGE, min((page + 1) * PAGE, len(self._buffer))
            self._buffer[start:end] = self._before.pop(page).ljust(PAGE, b"\0")[: end - start]
            self._earlier.pop(page, None)

    def flip(self, position: int, mask: int) -> None:
        self._own()
        self._buffer[position] ^= mask
        page, place = divmod(position, PAGE)
        before = self._before.get(page, b"")
        if place < len(before):
            self._before[page] = before[:place] + bytes((before[place] ^ mask,)) + before[place + 1 :]

    def unsynced_pages(self) -> Iterator[int]:
        """Return the pages that may differ from the cache after a power loss, in ascending order."""
        return (page for page in sorted(self._before) if page * PAGE < len(self._buffer))

    def size_is_unsynced(self) -> bool:
        return self._durable_size != len(self._buffer) or self._lowest_size < self._durable_size

    def changed_sectors(self, page: int) -> int:
        """Return the mask of the sectors of an unsynced page that differ between cache and disk."""
        new, old = self._new(page), self._before[page].ljust(PAGE, b"\0")
        changed = 0
        for sector in range(PAGE // SECTOR):
            start = sector * SECTOR
            if new[start : start + SECTOR] != old[start : start + SECTOR]:
                changed |= 1 << sector
        return changed

    def copy(self) -> "Content":
        """Return a copy of cache and disk: the state after the process is killed."""
        copy = self._sharing()
        copy._durable_size, copy._lowest_size = self._durable_size, self._lowest_size
        copy._before, copy._earlier, copy._dirty = self._before.copy(), self._earlier.copy(), self._dirty.copy()
        return copy

    def after_power_loss(self, decisions: Decisions) -> "Content":
        """Return the content that survives a power loss.  Its cache and its disk are equal."""
        cached_size, durable_size = len(self._buffer), self._durable_size
        size, cut = cached_size, durable_size
        if self.size_is_unsynced():
            found = decisions.size(self.number, durable_size, self._lowest_size, cached_size)
            if found is None:
                size = durable_size
            else:
                size, cut = found, min(self._lowest_size, durable_size)
        lost: list[tuple[int, bytes]] = []
        for page in sorted(self._before):
            start = page * PAGE
            kept = decisions.sectors(self.number, page, dirty=page in self._dirty) if start < cached_size else 0
            if kept != ALL_SECTORS:
                old = self._before[page][: max(0, cut - start)]
                if page in self._earlier and decisions.older_version():
                    old = self._earlier[page]
                if start < size:
                    lost.append((start, self._torn(page, old.ljust(PAGE, b"\0"), kept)))
        survivor = self._sharing()
        survivor._durable_size = survivor._lowest_size = size
        if not lost and size == cached_size:
            return survivor
        buffer = self._buffer[:size]
        buffer.extend(bytes(-(-size // PAGE) * PAGE - len(buffer)))
        for start, page_bytes in lost:
            buffer[start : start + PAGE] = page_bytes
        del buffer[size:]
        survivor._buffer, survivor._shared, survivor._digest = buffer, False, None
        return survivor

    def _torn(self, page: int, old: bytes, kept: int) -> bytes:
        if kept == 0:
            return old
        new, torn = self._new(page), bytearray(old)
        for sector in range(PAGE // SECTOR):
            if kept >> sector & 1:
                start = sector * SECTOR
                torn[start : start + SECTOR] = new[start : start + SECTOR]
        return bytes(torn)

    def _new(self, page: int) -> bytes:
        return self.read(page * PAGE, PAGE).ljust(PAGE, b"\0")

    def _touch(self, page: int) -> None:
        """Save the bytes of a page.  Call this before the page changes."""
        start = page * PAGE
        if page in self._before:
            self._earlier[page] = bytes(self._buffer[start : start + PAGE])
        else:
            self._before[page] = bytes(self._buffer[start : min(start + PAGE, self._durable_size)])
        self._dirty.add(page)

    def _own(self) -> None:
        self._digest = None
        if self._shared:
            self._buffer, self._shared = self._buffer.copy(), False

    def _sharing(self) -> "Content":
        other = Content(self.number)
        other._buffer, other._digest = self._buffer, self._digest
        other._shared = self._shared = True
        return other
