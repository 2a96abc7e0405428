"""The simulated disk has the right content after a power loss, a kill, a failed sync or a flipped bit."""

import gc

import pytest

from tidemill.simulation.machine.crash_fate import (
    ALL_KEPT,
    ALL_LOST,
    Alone,
    Fate,
    Mix,
    UnsyncedName,
    UnsyncedSize,
    torn_head,
    torn_tail,
)
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.disk_file import SimulatedFile
from tidemill.simulation.machine.disk_operation import Kind, Operation, PowerLost
from tidemill.storage.disk import DiskFull, SyncFailed

PAGE = 4096
OLD, NEW = b"o" * PAGE, b"n" * PAGE


def disk_with(data: bytes) -> tuple[SimulatedDisk, SimulatedFile]:
    """Return a disk with a file `a` that durably contains `data`, and the open file."""
    disk = SimulatedDisk()
    file = disk.open("a", create=True)
    file.write(0, [data])
    file.sync()
    disk.sync_directory("")
    return disk, file


def content(disk: SimulatedDisk, path: str = "a") -> bytes:
    return disk.open(path).read(0, 1 << 20)


@pytest.mark.parametrize("fate", [ALL_KEPT, ALL_LOST, Mix(1), Mix(2)], ids=str)
def test_what_was_synced_survives_every_fate(fate: Fate) -> None:
    """A write and a name survive every fate once their syncs have returned."""
    disk, _ = disk_with(OLD + NEW)

    after = disk.after_power_loss(fate)

    assert content(after) == OLD + NEW
    assert not after.unsynced()


def test_all_unsynced_pages_may_be_kept_or_lost() -> None:
    """A power loss may keep or lose all unsynced pages, because a write that has returned is only in the cache."""
    disk, file = disk_with(OLD * 2)

    file.write(100, [b"x" * PAGE])

    assert content(disk.after_power_loss(ALL_KEPT)) == content(disk) == b"o" * 100 + b"x" * PAGE + b"o" * (PAGE - 100)
    assert content(disk.after_power_loss(ALL_LOST)) == OLD * 2


def test_a_page_is_lost_alone() -> None:
    """Pages are written back in any order: of three, only the middle one may be lost."""
    disk, file = disk_with(OLD * 3)
    file.write(0, [NEW * 3])

    pages = disk.unsynced_pages()
    after = disk.after_power_loss(Alone(pages[1]))

    assert [page.page for page in pages] == [0, 1, 2]
    assert content(after) == NEW + OLD + NEW


def test_a_page_is_written_back_alone() -> None:
    """A single page may reach the disk while the others do not."""
    disk, file = disk_with(OLD * 3)
    file.write(0, [NEW * 3])

    after = disk.after_power_loss(Alone(disk.unsynced_pages()[1], sectors_kept=255, others_kept=False))

    assert content(after) == OLD + NEW + OLD


def test_a_torn_page_has_whole_sectors_old_or_new() -> None:
    """Within a page, each sector of 512 B is either old or new."""
    disk, file = disk_with(OLD * 2)
    file.write(0, [NEW * 2])
    page = disk.unsynced_pages()[0]

    head = disk.after_power_loss(Alone(page, torn_head(3)))
    tail = disk.after_power_loss(Alone(page, torn_tail(3)))

    assert content(head) == b"n" * 1536 + b"o" * 2560 + NEW
    assert content(tail) == b"o" * 1536 + b"n" * 2560 + NEW


def test_tears_with_the_same_outcome_are_counted_once() -> None:
    """
    Tears with the same outcome are counted once, to save time: two changed sectors give three outcomes, not fifteen.
    """
    disk, file = disk_with(OLD * 2)
    file.write(1024, [b"n" * 1024])
    file.write(PAGE, [OLD])

    changed, unchanged = disk.unsynced_pages()
    outcomes = {content(disk.after_power_loss(Alone(changed, mask))) for mask in disk.tears(changed)}

    assert len(disk.tears(changed)) == len(outcomes) == 3
    assert content(disk) not in outcomes
    assert disk.tears(unchanged) == []


def test_a_mix_repeats_itself_from_its_seed_and_differs_between_seeds() -> None:
    """
    A mix, which draws the fate of each unsynced item at random, is determined by its seed and differs between seeds.
    """
    disk, file = disk_with(OLD * 8)
    file.write(0, [NEW * 8])

    once = [content(disk.after_power_loss(Mix(seed))) for seed in range(20)]
    again = [content(disk.after_power_loss(Mix(seed))) for seed in range(20)]

    assert once == again
    assert len(set(once)) == 20


def test_a_mix_keeps_loses_and_tears() -> None:
    """Over several seeds, every kind of fate of one page occurs, and no sector is ever torn."""
    disk, file = disk_with(OLD)
    file.write(0, [NEW])

    outcomes = [content(disk.after_power_loss(Mix(seed))) for seed in range(100)]
    sectors = {outcome[start : start + 512] for outcome in outcomes for start in range(0, PAGE, 512)}

    assert {OLD, NEW} < set(outcomes)
    assert sectors == {b"o" * 512, b"n" * 512}


def test_a_page_written_twice_may_show_its_first_write() -> None:
    """A page that was written twice may show its first write, because the kernel may write it back at any time."""
    disk, file = disk_with(OLD)
    file.write(0, [b"m" * PAGE])
    file.write(0, [NEW])

    outcomes = {content(disk.after_power_loss(Mix(seed))) for seed in range(100)}

    assert {OLD, b"m" * PAGE, NEW} < outcomes


def test_a_grown_size_may_be_lost_or_kept_without_its_bytes() -> None:
    """Size and bytes reach the disk separately: the file has its old size, or its lost pages read as zeros."""
    disk, file = disk_with(OLD)
    file.write(PAGE, [NEW])
    size, page = disk.unsynced_sizes()[0], disk.unsynced_pages()[0]

    assert content(disk.after_power_loss(Alone(size))) == OLD
    assert content(disk.after_power_loss(Alone(page))) == OLD + bytes(PAGE)
    assert content(disk.after_power_loss(Alone(page, torn_head(1)))) == OLD + b"n" * 512 + bytes(PAGE - 512)
    assert content(disk.after_power_loss(ALL_LOST)) == OLD


def test_a_mix_may_grow_a_file_by_some_of_its_pages() -> None:
    """A file grows on disk page by page, as its pages are written back."""
    disk, file = disk_with(OLD)
    file.write(PAGE, [NEW * 3])

    sizes = {len(content(disk.after_power_loss(Mix(seed)))) for seed in range(100)}

    assert sizes == {PAGE, 2 * PAGE, 3 * PAGE, 4 * PAGE}


def test_a_lost_truncation_brings_the_old_bytes_back() -> None:
    """A truncation that was not synced may be lost, which brings the old bytes back."""
    disk, file = disk_with(OLD * 3)
    file.truncate(100)

    assert content(disk) == content(disk.after_power_loss(ALL_KEPT)) == b"o" * 100
    assert content(disk.after_power_loss(ALL_LOST)) == OLD * 3
    assert content(disk.after_power_loss(Alone(UnsyncedSize("a", file=1)))) in (
        OLD * 3,
        b"o" * 100 + bytes(PAGE - 100) + OLD * 2,
    )


def test_a_file_truncated_and_grown_again_holds_new_bytes_or_zeros() -> None:
    """
    After a truncation has reached the disk, the old bytes do not reappear when the file grows, whether or not the new
    bytes have reached the disk.
    """
    disk, file = disk_with(OLD * 2)
    file.truncate(0)
    file.write(0, [NEW * 2])

    lost_page = disk.after_power_loss(Alone(disk.unsynced_pages()[1]))

    assert content(lost_page) == NEW + bytes(PAGE)
    assert content(disk.after_power_loss(ALL_LOST)) == OLD * 2
    assert content(disk.after_power_loss(ALL_KEPT)) == NEW * 2


def test_a_sync_covers_its_own_file_only() -> None:
    """A sync covers only its own file: the sync of a journal does not make segments durable."""
    disk, file = disk_with(OLD)
    other = disk.open("b", create=True)
    disk.sync_directory("")
    other.write(0, [NEW])
    file.write(0, [NEW])

    file.sync()
    after = disk.after_power_loss(ALL_LOST)

    assert (content(after, "a"), content(after, "b")) == (NEW, b"")


def test_a_name_is_durable_only_after_a_sync_of_its_directory() -> None:
    """A synced file is not found after a power loss if its name was not synced."""
    disk = SimulatedDisk()
    disk.make_directory("d")
    disk.open("d/a", create=True).sync()

    without_root = disk.after_kill()
    without_root.sync_directory("d")
    disk.sync_directory("")
    without_directory = disk.after_power_loss(ALL_LOST)
    disk.sync_directory("d")

    assert not without_root.after_power_loss(ALL_LOST).exists("d")
    assert (without_directory.exists("d"), without_directory.exists("d/a")) == (True, False)
    assert disk.after_power_loss(ALL_LOST).exists("d/a")


def test_a_rename_is_atomic() -> None:
    """
    After a power loss, the rename has happened completely or not at all.  If it has not, the file that it would have
    replaced is intact.
    """
    disk, _ = disk_with(OLD)
    new = disk.open("a.new", create=True)
    new.write(0, [NEW])
    new.sync()

    disk.rename("a.new", "a")
    found = {(tuple(after.list("")), content(after)) for after in map(disk.after_power_loss, map(Mix, range(40)))}

    assert found == {(("a",), OLD), (("a", "a.new"), OLD), (("a",), NEW)}


def test_a_removal_may_be_undone() -> None:
    """A power loss may undo the removal of a name until its directory has been synced."""
    disk, _ = disk_with(OLD)
    disk.remove("a")
    undone = disk.after_power_loss(Alone(disk.unsynced_names()[0]))
    disk.sync_directory("")

    assert content(undone) == OLD
    assert disk.after_power_loss(ALL_LOST).list("") == []


def test_a_later_name_may_outlive_an_earlier_one() -> None:
    """A name that was created later may survive a power loss that an earlier one does not: changes to different names
    become durable in any order.
    """
    disk = SimulatedDisk()
    disk.open("first", create=True)
    disk.open("second", create=True)

    after = disk.after_power_loss(Alone(UnsyncedName("first", change=1)))

    assert after.list("") == ["second"]


def test_pages_of_a_removed_file_still_have_a_fate() -> None:
    """Pages of a removed file still have a fate: if the removal is undone, the file has the pages that were written
    back.
    """
    disk, file = disk_with(OLD)
    file.write(0, [NEW])
    disk.remove("a")

    contents = {content(after) for after in map(disk.after_power_loss, map(Mix, range(60))) if after.exists("a")}

    assert {OLD, NEW} < contents
    assert [page.path for page in disk.unsynced_pages()] == ["a"]


def test_a_kill_keeps_the_cache_and_leaves_it_unsynced() -> None:
    """After a kill, everything can be read, but a later power loss may still undo what was not synced."""
    disk, file = disk_with(OLD)
    file.write(0, [NEW])
    disk.open("b", create=True)

    killed = disk.after_kill()

    assert (content(killed), killed.list("")) == (NEW, ["a", "b"])
    after = killed.after_power_loss(ALL_LOST)
    assert (content(after), after.list("")) == (OLD, ["a"])


def test_a_disk_and_its_successors_do_not_share_what_they_write() -> None:
    """A disk and those derived from it share bytes, for speed, but never see each other's changes."""
    disk, file = disk_with(OLD)
    killed, after = disk.after_kill(), disk.after_power_loss(ALL_KEPT)

    file.write(0, [b"1"])
    killed.open("a").write(0, [b"2"])
    after.open("a").write(0, [b"3"])

    assert [content(each)[:1] for each in (disk, killed, after)] == [b"1", b"2", b"3"]


def test_a_failed_sync_leaves_pages_clean_and_not_durable() -> None:
    """After a failed sync the cache still shows the pages, a later sync "succeeds" without writing them, and a power
    loss loses them.
    """
    disk, file = disk_with(OLD * 2)
    file.write(0, [NEW * 2])
    disk.fail_sync_at = disk.operations + 1

    with pytest.raises(SyncFailed):
        file.sync()
    restarted = disk.after_kill().open("a")
    again = disk.after_kill()
    again.open("a").sync()

    assert restarted.read(0, 2 * PAGE) == NEW * 2
    assert content(again.after_power_loss(ALL_KEPT)) == OLD * 2


def test_a_page_whose_sync_failed_becomes_durable_when_written_again() -> None:
    """A page whose sync failed becomes durable when it is written again, so recovery also rewrites
    data that it has read back correctly.
    """
    disk, file = disk_with(OLD)
    file.write(0, [NEW])
    disk.fail_sync_at = disk.operations + 1
    with pytest.raises(SyncFailed):
        file.sync()

    again = disk.after_kill()
    again.open("a").write(0, [NEW])
    again.open("a").sync()

    assert content(again.after_power_loss(ALL_LOST)) == NEW


def test_an_evicted_page_shows_what_the_disk_has() -> None:
    """A page that was evicted shows the bytes on the disk: the kernel may drop clean pages, even those that it failed
    to write.
    """
    disk, file = disk_with(OLD)
    file.write(0, [NEW])
    disk.fail_sync_at = disk.operations + 1
    with pytest.raises(SyncFailed):
        file.sync()

    disk.evict()

    assert content(disk) == OLD


def test_operations_are_counted_and_described() -> None:
    """
    Operations are counted, because a crash point is identified by the count, and they are described for use in error
    messages.
    """
    disk = SimulatedDisk()
    disk.make_directory("x/y")
    file = disk.open("x/y/a", create=True)
    file.write(10, [b"abc", b"de"])
    file.read(0, 5)
    file.truncate(3)
    file.sync()
    disk.rename("x/y/a", "x/b")
    disk.sync_directory("x")
    disk.remove("x/b")
    disk.remove_directory("x/y")

    kinds = [operation.kind for operation in disk.log]

    assert kinds == [
        *(Kind.MAKE_DIRECTORY, Kind.MAKE_DIRECTORY, Kind.CREATE, Kind.WRITE, Kind.TRUNCATE, Kind.SYNC),
        *(Kind.RENAME, Kind.SYNC_DIRECTORY, Kind.REMOVE, Kind.REMOVE_DIRECTORY),
    ]
    assert str(disk.log[3]) == "#4 write 'x/y/a' [10, 15)"
    assert disk.operations == 10


def test_power_is_lost_before_an_operation_and_stays_lost() -> None:
    """If power is lost before an operation, neither it nor any later call, reads included, reaches the disk."""
    disk, file = disk_with(OLD)
    disk.cut_before = disk.operations + 1

    with pytest.raises(PowerLost):
        file.write(0, [NEW])

    for later in (file.sync, file.size, lambda: file.read(0, 1), lambda: disk.open("a"), lambda: disk.list("")):
        with pytest.raises(PowerLost):
            later()
    assert content(disk.after_power_loss(ALL_KEPT)) == OLD


def test_power_lost_is_not_an_exception() -> None:
    """`PowerLost` is not an `Exception`, so that no `except Exception` in code under test keeps a machine alive."""
    assert not issubclass(PowerLost, Exception)


def test_every_crash_point_of_a_run_can_be_seen_in_one_run() -> None:
    """A single run, observed before each operation, yields the same disks as one run per crash point."""

    def script(disk: SimulatedDisk) -> None:
        file = disk.open("a", create=True)
        disk.sync_directory("")
        for number in range(5):
            file.write(number * 100, [b"%d" % number * 100])
            file.sync()

    seen: list[bytes] = []
    watched = SimulatedDisk()

    def record(operation: Operation) -> None:
        after = watched.after_power_loss(ALL_KEPT)
        seen.append(content(after) if after.exists("a") else b"")

    watched.before_operation = record
    script(watched)
    cut: list[bytes] = []
    for number in range(1, watched.operations + 1):
        disk = SimulatedDisk()
        disk.cut_before = number
        with pytest.raises(PowerLost):
            script(disk)
        after = disk.after_power_loss(ALL_KEPT)
        cut.append(content(after) if after.exists("a") else b"")

    assert seen == cut


@pytest.mark.parametrize(("part", "left"), [(True, 2 * PAGE), (False, PAGE)])
def test_a_full_disk_writes_a_part_or_nothing(part: bool, left: int) -> None:
    """
    A write to a full disk fails after it has written a part of its bytes or none.  Once there is space again, the write
    succeeds.
    """
    disk, file = disk_with(OLD)
    disk.free_bytes, disk.full_writes_part = PAGE + 100, part

    with pytest.raises(DiskFull):
        file.write(PAGE, [NEW * 2])
    size = file.size()
    file.write(0, [NEW])
    disk.free_bytes = 2 * PAGE
    file.write(PAGE, [NEW * 2])

    assert size == left
    assert content(disk) == NEW * 3


def test_removing_a_file_frees_its_space() -> None:
    """Removing a file frees its space, as retention requires."""
    disk, file = disk_with(OLD * 3)
    disk.free_bytes = 0

    file.truncate(PAGE)
    after_truncate = disk.free_space()
    disk.remove("a")

    assert (after_truncate, disk.free_space()) == (2 * PAGE, 3 * PAGE)


def test_a_flipped_bit_is_on_the_disk_and_in_the_cache() -> None:
    """A flipped bit is visible immediately and after a power loss, whichever version of its page survives."""
    disk, file = disk_with(OLD)
    file.write(100, [b"n"])

    disk.flip("a", 7, mask=0x01)

    assert content(disk)[7] == content(disk.after_power_loss(ALL_LOST))[7] == ord("o") ^ 1
    assert content(disk)[100] == ord("n")


def test_cached_reads_can_be_disabled() -> None:
    """A test can make `read_cached` always return None, a result that callers must handle."""
    disk, file = disk_with(OLD)
    known = file.read_cached(0, 4)

    disk.reads_cached = False

    assert (known, file.read_cached(0, 4)) == (b"oooo", None)


def test_what_a_crash_leaves_is_freed_without_the_garbage_collector() -> None:
    """Tests derive tens of thousands of disks."""
    disk, _ = disk_with(OLD)
    gc.collect()
    gc.disable()
    try:
        disk.after_power_loss(ALL_LOST).digest()

        assert not gc.collect()
    finally:
        gc.enable()
