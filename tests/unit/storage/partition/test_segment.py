"""A segment: the bytes that are allocated in it, and those that have reached its file."""

from collections.abc import Iterator
from typing import Any

import pytest

from tidemill.batches.builder import build_batch
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.partition import segment as segment_module
from tidemill.storage.partition.offset_index import OffsetIndex
from tidemill.storage.partition.segment import Segment, SegmentDamaged, built_index, load_index, save_index, walk


def on_disk(count: int = 10, *, epoch: int = 1, disk: SimulatedDisk | None = None) -> tuple[SimulatedDisk, Segment]:
    """Return a disk and a segment on it with `count` batches of one record, all written to its file."""
    disk = disk or SimulatedDisk()
    disk.make_directory("d")
    segment = Segment("d", 100)
    data = bytearray()
    for number in range(count):
        timestamp = 1_000 * epoch + number
        batch = build_batch([(None, b"v" * 20, (), timestamp)], base_offset=100 + number, leader_epoch=epoch)
        segment.allocate(len(batch), timestamp, 100 + number, 200, epoch)
        data += batch
    disk.open(segment.path, create=True).write(0, [data])
    segment.write_back_done(len(data))
    return disk, segment


def test_a_write_back_after_a_cut_counts_up_to_the_cut() -> None:
    """
    If the segment is cut during a write-back, only the bytes before the cut count as written, because other batches
    will replace the bytes after it.
    """
    segment = Segment("d", 0)
    segment.allocate(100, 1, 0, 50, 1)
    segment.allocate(100, 2, 1, 50, 1)
    segment.write_back_begins()

    segment.cut(100, 50)
    segment.allocate(70, 3, 1, 50, 2)
    segment.write_back_done(200)

    assert (170, 100) == (segment.size, segment.written)


def test_a_walk_finds_every_batch() -> None:
    """A walk over the whole segment visits each batch once, in order."""
    disk, segment = on_disk(50)

    met = [
        (offset, header.base_offset)
        for _, offset, header in walk(segment.opened(disk), segment.path, 0, segment.written, 100)
    ]

    assert [(offset, offset) for offset in range(100, 150)] == met


def test_a_walk_that_finds_no_batch_names_the_position() -> None:
    """A walk that finds no batch stops there, and raises SegmentDamaged with the position."""
    disk, segment = on_disk()
    size = segment.size // 10
    segment.opened(disk).write(3 * size + 8, [b"\x7f"])

    with pytest.raises(SegmentDamaged) as told:
        list(walk(segment.opened(disk), segment.path, 0, segment.written, 100))

    assert (segment.path, 3 * size, 103) == (told.value.path, told.value.position, told.value.offset)


def test_an_index_is_loaded_from_its_file_or_built_alike() -> None:
    """A loaded index equals a built one, and a damaged index file is rebuilt."""
    disk, segment = on_disk()
    built = built_index(disk, segment, 200).encode()
    save_index(disk, segment)

    segment._index = None
    loaded = load_index(disk, segment, 200).encode()
    disk.open("d/00000000000000000100.index").write(20, [b"?"])
    segment._index = None
    again = load_index(disk, segment, 200).encode()

    assert built == loaded == again


def test_an_index_of_another_content_is_rejected() -> None:
    """
    A segment may have been truncated after its index was saved.  The saved index is then rejected, even if the new
    batches have the same sizes as the old ones, so that its points still lead to batches.
    """
    disk, old = on_disk()
    save_index(disk, old)
    _, segment = on_disk(12, epoch=2, disk=disk)
    built = built_index(disk, segment, 200).encode()

    segment._index = None

    assert built == load_index(disk, segment, 200).encode()


def test_an_index_of_the_same_epoch_and_other_offsets_is_rejected() -> None:
    """
    The saved index has the epoch of the segment's batches, but other offsets.  A point beyond the end of the file
    is rejected, too.
    """
    disk, segment = on_disk()
    path = "d/00000000000000000100.index"
    index = OffsetIndex()
    index.add(0, 0, -1, 200, 1)
    index.add(7, segment.size // 2, 1_000, 200, 1)
    disk.open(path, create=True).write(0, [index.encode() or b""])
    built = built_index(disk, segment, 200).encode()
    segment._index = None
    assert built == load_index(disk, segment, 200).encode()

    save_index(disk, segment)
    segment.opened(disk).truncate(segment.size // 2)
    segment._index = None
    shorter = load_index(disk, segment, 200)

    assert shorter.last_point[1] < segment.size // 2


def test_an_index_made_before_a_cut_is_ignored() -> None:
    """An index built before a cut is ignored when another thread delivers it after the cut."""
    disk, segment = on_disk()
    index, cuts = built_index(disk, segment, 200), segment.cuts
    segment.cut(segment.size // 2, 200)
    segment._index = None

    segment.keep_index(index, cuts)

    assert segment.index is None
    assert load_index(disk, segment, 200) is segment.index


def test_an_index_is_made_again_if_the_segment_is_cut_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    An index is built again if the segment is cut in the meantime; otherwise a lookup would use points that no longer
    lead to batches.
    """
    disk, segment = on_disk()
    segment._index = None
    met = walk

    def cut_at_its_end(*args: Any) -> Iterator[Any]:
        yield from met(*args)
        if not segment.cuts:
            segment.cut(segment.size // 2, 200)

    monkeypatch.setattr(segment_module, "walk", cut_at_its_end)

    index = load_index(disk, segment, 200)

    assert (index, True) == (segment.index, index.last_point[1] < segment.size)


class Watched(Segment):
    """A segment that calls `read` when a cut increments `cuts`."""

    __slots__ = ("_count", "read")

    @property
    def cuts(self) -> int:  # type: ignore[override]
        return self._count

    @cuts.setter
    def cuts(self, count: int) -> None:
        self._count = count
        if count:
            self.read()


def test_the_new_end_is_visible_before_the_cut_is_counted() -> None:
    """
    A cut sets the new end before it increments `cuts`; otherwise, an index that still covers the removed part could be
    taken for one that was built after the cut.
    """
    disk, whole = on_disk()
    segment = Watched("d", 100, size=whole.size)
    segment.read = lambda: load_index(disk, segment, 200)

    segment.cut(whole.size // 2, 200)
    cut = segment.index
    segment.restore(whole.state()._replace(size=whole.size // 4))
    restored = segment.index

    assert cut is not None and restored is not None
    assert (cut.last_point[1] < whole.size // 2, restored.last_point[1] < whole.size // 4) == (True, True)


def test_an_index_that_was_cut_is_not_saved() -> None:
    """
    An index that was cut is not saved until another point is added, because the epoch of its last point is unknown.
    """
    disk, segment = on_disk()
    path = "d/00000000000000000100.index"
    segment.cut(segment.size // 2, 200)

    save_index(disk, segment)
    assert not disk.exists(path)

    for number in range(5):
        segment.allocate(100, 2_000 + number, 105 + number, 200, 2)
    save_index(disk, segment)
    assert disk.exists(path)


def test_a_missing_file_is_damage() -> None:
    """The error for a missing file names the file and its first offset."""
    disk, segment = on_disk()
    disk.remove(segment.path)

    with pytest.raises(SegmentDamaged) as told:
        segment.opened(disk)

    assert (segment.path, 100) == (told.value.path, told.value.offset)
