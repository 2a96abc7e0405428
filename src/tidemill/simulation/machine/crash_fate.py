"""The effect of a power loss on everything that was not synced: pages, sizes and names.

The fate of an unsynced page is a mask of its eight sectors: bit k is set if sector k (512 B) is new.  255 keeps the
page, 0 loses it, and any other mask is a torn write.  A page whose sync failed is clean, so the kernel does not write
it back.  Every fate loses such a page, except that `Mix` may decide that the disk wrote it despite the error.

If changes to names depend on each other (create, then rename), a power loss keeps only the changes up to some point.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

PAGE: Final = 4096
SECTOR: Final = 512
ALL_SECTORS: Final = 0xFF


@dataclass(frozen=True, slots=True)
class UnsyncedPage:
    path: str
    page: int  # position // 4096
    file: int  # number of the file's content, because after the crash the path may refer to another file


@dataclass(frozen=True, slots=True)
class UnsyncedSize:
    path: str
    file: int


@dataclass(frozen=True, slots=True)
class UnsyncedName:
    path: str
    change: int  # number of the change, in the order in which changes were made


Unsynced = UnsyncedPage | UnsyncedSize | UnsyncedName


def torn_head(sector: int) -> int:
    """Return the mask of a page whose sectors before `sector` are new and the others old."""
    return (1 << sector) - 1


def torn_tail(sector: int) -> int:
    """Return the mask of a page whose sectors from `sector` on are new and the others old."""
    return ALL_SECTORS & ~torn_head(sector)


class Decisions(Protocol):
    """The decisions about one power loss.  The disk requests one for each unsynced item, always in the same order."""

    def sectors(self, file: int, page: int, *, dirty: bool) -> int:
        """Return the mask of the sectors of an unsynced page that have the new content after the power loss."""
        ...

    def older_version(self) -> bool:
        """Return whether a page that was written twice shows the earlier write in the sectors that are not new."""
        ...

    def size(self, file: int, durable: int, lowest: int, cached: int) -> int | None:
        """
        Return the surviving size, between `lowest` and `cached`; or None if the file keeps its durable size and
        content.
        """
        ...

    def names_kept(self, changes: tuple[int, ...]) -> int:
        """Return how many of the `changes`, counted from the first, survive the power loss."""
        ...


class Fate(Protocol):
    def decide(self) -> Decisions: ...


@dataclass(frozen=True, slots=True)
class Everything:
    """A fate that keeps all unsynced items, or loses all of them."""

    kept: bool

    def decide(self) -> Decisions:
        return self

    def sectors(self, file: int, page: int, *, dirty: bool) -> int:
        return ALL_SECTORS if self.kept and dirty else 0

    def older_version(self) -> bool:
        return False

    def size(self, file: int, durable: int, lowest: int, cached: int) -> int | None:
        return cached if self.kept else None

    def names_kept(self, changes: tuple[int, ...]) -> int:
        return len(changes) if self.kept else 0


ALL_KEPT: Final = Everything(kept=True)
ALL_LOST: Final = Everything(kept=False)


@dataclass(frozen=True, slots=True)
class Alone:
    """
    A fate in which one item differs from all others.  A page keeps only the sectors in the mask `sectors_kept`; a
    change to a size or a name is undone.  All other items are kept.

    With `others_kept=False`, all other items are lost and the one item is kept; for a page, pass `sectors_kept=255`.
    """

    what: Unsynced
    sectors_kept: int = 0
    others_kept: bool = True

    def decide(self) -> Decisions:
        return self

    def sectors(self, file: int, page: int, *, dirty: bool) -> int:
        if isinstance(self.what, UnsyncedPage) and self.what.file == file and self.what.page == page:
            return self.sectors_kept
        return ALL_SECTORS if self.others_kept and dirty else 0

    def older_version(self) -> bool:
        return False

    def size(self, file: int, durable: int, lowest: int, cached: int) -> int | None:
        if isinstance(self.what, UnsyncedSize) and self.what.file == file:
            return None if self.others_kept else cached
        if isinstance(self.what, UnsyncedPage) and self.what.file == file and self.sectors_kept:
            return cached  # a kept page beyond the durable end is visible only with the new size
        return cached if self.others_kept else None

    def names_kept(self, changes: tuple[int, ...]) -> int:
        if isinstance(self.what, UnsyncedName) and self.what.change in changes:
            place = changes.index(self.what.change)
            return place if self.others_kept else place + 1
        return len(changes) if self.others_kept else 0


@dataclass(frozen=True, slots=True)
class Mix:
    """A fate that decides on each page, size and name at random, from a seed."""

    seed: int

    def decide(self) -> Decisions:
        return _Draws(Random(self.seed))


class _Draws:
    __slots__ = ("_random",)

    def __init__(self, random: Random) -> None:
        self._random = random

    def sectors(self, file: int, page: int, *, dirty: bool) -> int:
        drawn = self._random.getrandbits(12)
        how, sector, mask = drawn & 7, (drawn >> 3 & 7) or 4, drawn >> 4
        if how < 3:
            return ALL_SECTORS
        if how < 5:
            return 0
        return torn_head(sector) if how == 5 else torn_tail(sector) if how == 6 else mask

    def older_version(self) -> bool:
        return bool(self._random.getrandbits(1))

    def size(self, file: int, durable: int, lowest: int, cached: int) -> int | None:
        how = self._random.getrandbits(2)
        if how == 0:
            return None
        if how == 1 and lowest < cached:  # a size between the two: the kernel extends a file page by page
            boundary = self._random.randrange(lowest, cached) // PAGE * PAGE
            return max(lowest, boundary)
        return cached

    def names_kept(self, changes: tuple[int, ...]) -> int:
        how = self._random.getrandbits(1)
        return self._random.randint(0, len(changes)) if how else len(changes)
