"""The fates to try at a crash point: all items kept, all lost, each item lost or kept alone, and seeded mixes."""

from collections.abc import Iterator
from typing import Final

from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST, ALL_SECTORS, Alone, Fate, Mix
from tidemill.simulation.machine.disk import SimulatedDisk

MIXES: Final = 20  # the number of seeded mixes to try at each crash point
UNIFORM: Final = (ALL_KEPT, ALL_LOST)


def lone_fates(disk: SimulatedDisk, *, salt: int, every_tear: bool) -> Iterator[Fate]:
    """Yield the fates in which one unsynced item differs from all others.

    Each page, size and name is lost while the others are kept.  Each page is also torn while the others are kept: at
    one sector that `salt` selects, or with `every_tear` at every sector.  Each size and name, and a quarter of the
    pages (with `every_tear` each page), is also kept while the others are lost.
    """
    for number, page in enumerate(disk.unsynced_pages()):
        tears = disk.tears(page)
        if not tears:
            continue
        yield Alone(page, tears[0])
        torn = tears[1:]
        if every_tear:
            yield from (Alone(page, sectors) for sectors in torn)
        elif torn:
            yield Alone(page, torn[(salt + number) % len(torn)])
        if every_tear or (salt + number) % 4 == 0:
            yield Alone(page, ALL_SECTORS, others_kept=False)
    for size in disk.unsynced_sizes():
        yield Alone(size)
        yield Alone(size, others_kept=False)
    for name in disk.unsynced_names():
        yield Alone(name)
        yield Alone(name, others_kept=False)


def mixed_fates(*, salt: int) -> Iterator[Fate]:
    yield from (Mix(salt * MIXES + seed) for seed in range(MIXES))
