"""What a power loss does to everything that was not synced: page by page, size by size, name by name.

A page that was written and not synced is decided by eight sectors: a mask whose bit k says that sector k (512 B) is
new.  255 keeps the page, 0 loses it, anything else is a tear.  A page whose sync failed is clean, so nobody will write
it back: it is lost under every fate but a mix, which may also find that the disk had taken it.
A name's changes that depend on each other (made, then renamed) survive as far as some point in their order.
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
    file: int  # number of the content: a path may name another file after the crash


@dataclass(frozen=True, slots=True)
class UnsyncedSize:
    path: str
    file: int


@dataclass(frozen=True, slots=True)
class UnsyncedName:
    path: str
    change: int  # number of the change, in the order they were made


Unsynced = UnsyncedPage | UnsyncedSize | UnsyncedName


def torn_head(sector: int) -> int:
    """The sectors before `sector` are new, the rest is old."""
    return (1 << sector) - 1


def torn_tail(sector: int) -> int:
    """The sectors from `sector` on are new, what is before them is old."""
    return ALL_SECTORS & ~torn_head(sector)


class Decisions(Protocol):
    """One power loss.  Asked once for each thing that was not synced, always in the same order."""

    def sectors(self, file: int, page: int, *, dirty: bool) -> int:
        """Which sectors are new."""
        ...

    def older_version(self) -> bool:
        """Whether a page that was written twice shows its earlier write where it is not new."""
        ...

    def size(self, file: int, durable: int, lowest: int, cached: int) -> int | None:
        """The size that is found, of those between `lowest` and `cached`; None: the durable one, nothing was cut."""
        ...

    def names_kept(self, changes: tuple[int, ...]) -> int:
        """How many of these changes, from the first on, are there."""
        ...


class Fate(Protocol):
    def decide(self) -> Decisions: ...


@dataclass(frozen=True, slots=True)
class Everything:
    """All kept, or all lost."""

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
    """One thing suffers alone: a page has only `sectors`, a size or a name is undone.  All others are kept.

    With `others_kept=False` all others are lost, and `sectors_kept=255` is a page that alone was written.
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
            return cached  # a page beyond the end would not be seen otherwise
        return cached if self.others_kept else None

    def names_kept(self, changes: tuple[int, ...]) -> int:
        if isinstance(self.what, UnsyncedName) and self.what.change in changes:
            place = changes.index(self.what.change)
            return place if self.others_kept else place + 1
        return len(changes) if self.others_kept else 0


@dataclass(frozen=True, slots=True)
class Mix:
    """Each page, size and name by chance, from a seed."""

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
        if how == 1 and lowest < cached:  # the kernel grows a file as it writes its pages back
            boundary = self._random.randrange(lowest, cached) // PAGE * PAGE
            return max(lowest, boundary)
        return cached

    def names_kept(self, changes: tuple[int, ...]) -> int:
        how = self._random.getrandbits(1)
        return self._random.randint(0, len(changes)) if how else len(changes)
