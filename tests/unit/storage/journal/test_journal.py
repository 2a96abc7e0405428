"""The journal's ring: laps, blocks that span files, growth, and reading it back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage import paths
from tidemill.storage.disk import SyncFailed
from tidemill.storage.journal.journal import (
    Journal,
    JournalPosition,
    RingFile,
    position_after,
    prepare_file,
    read_extents,
    write_block,
)
from tidemill.storage.journal.journal_block import PAGE_BYTES


def ring_of(*pages: int) -> tuple[SimulatedDisk, Journal]:
    disk = SimulatedDisk()
    disk.make_directory(paths.JOURNAL)
    ring = []
    for number, count in enumerate(pages, 1):
        file = disk.open(paths.journal_file(number), create=True)
        file.truncate(count * PAGE_BYTES)
        ring.append(RingFile(number, file, count * PAGE_BYTES))
    return disk, Journal(disk, ring, head=JournalPosition(1, 0), sequence=0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=60), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_a_walk_over_the_ring_finds_each_block_where_it_was_written(sizes: list[int], files: list[int]) -> None:
    """A walk over the ring finds each block, across file boundaries, laps and growth."""
    disk, journal = ring_of(*files)
    live: list[tuple[JournalPosition, bytes]] = []
    journal_position = journal.head
    for number, count in enumerate(sizes, 1):
        size = count * PAGE_BYTES
        if size > journal.capacity:
            continue
        while size > journal.free:
            journal.release(journal.sequence - len(live) + 1)
            live.pop(0)
        if number % 7 == 3 and journal.prepared is None:
            *_, journal.prepared = prepare_file(disk, 2 * PAGE_BYTES)
            journal.prepared_size = 2 * PAGE_BYTES
        data = bytes([number]) * size
        extents, joined = journal.reserve(size)
        if joined is not None:
            journal.join(joined)
        write_block(extents, [data[: size // 3], data[size // 3 :]])
        live.append((journal_position, data))

        for at, (start, expected) in enumerate(live):
            assert expected == read_extents(journal.ring, start, len(expected))
            following = live[at + 1][0] if at + 1 < len(live) else journal.head
            assert following == position_after(journal.ring, start, len(expected))
        journal_position = journal.head

    assert sum(len(data) for _, data in live) == journal.used


def test_the_ring_grows_only_behind_its_last_file() -> None:
    """A new file joins the ring only behind the last one; elsewhere, it would break the walk from block to block."""
    disk, journal = ring_of(4, 4)
    *_, journal.prepared = prepare_file(disk, 4 * PAGE_BYTES)
    journal.prepared_size = 4 * PAGE_BYTES

    _, first = journal.reserve(5 * PAGE_BYTES)
    journal.release(1)
    _, second = journal.reserve(4 * PAGE_BYTES)

    assert first is None
    assert second is not None
    assert (3, 12 * PAGE_BYTES) == (second.number, journal.capacity)


def test_an_eighth_of_the_ring_is_reserved() -> None:
    """An eighth of the ring is reserved, and entries may not use it (rule J7)."""
    _, journal = ring_of(16)

    journal.reserve(10 * PAGE_BYTES)

    assert (6 * PAGE_BYTES, 4 * PAGE_BYTES) == (journal.free, journal.free_for_entries)


def test_a_spanning_block_is_durable_in_every_file() -> None:
    """A sync covers a single file, so each file of the block needs its own."""
    disk, journal = ring_of(1, 1)
    extents, _ = journal.reserve(2 * PAGE_BYTES)

    before = len(disk.log)
    write_block(extents, [b"x" * (2 * PAGE_BYTES)])

    assert 2 == len({it.path for it in disk.log[before:] if "sync" in str(it.kind).lower()})


def test_a_failed_sync_is_reported() -> None:
    """A failed sync is reported and not retried (rule J8)."""
    disk, journal = ring_of(1)
    extents, _ = journal.reserve(PAGE_BYTES)
    disk.fail_sync_at = disk.operations + 2  # the write is the first operation, its sync the second

    with pytest.raises(SyncFailed):
        write_block(extents, [b"x" * PAGE_BYTES])


def test_a_prepared_file_is_full_of_synced_zeros() -> None:
    """
    A prepared file contains only zeros, and all of them are synced; the earlier content of the file `next` is
    overwritten.
    """
    disk, _ = ring_of(1)
    disk.open(paths.JOURNAL_NEXT, create=True).write(0, [b"old" * 9_000])
    steps: list[Any] = list(prepare_file(disk, 3 * PAGE_BYTES))

    assert bytes(3 * PAGE_BYTES) == steps[-1].read(0, 1 << 20)
