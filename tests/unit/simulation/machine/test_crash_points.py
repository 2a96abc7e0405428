"""
What crash points need from the simulated disk: failed syncs, digests by which disks are compared, and a choice of fates
for everything that was not synced.
"""

from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST, Alone
from tidemill.simulation.machine.crash_points import MIXES, lone_fates, mixed_fates
from tidemill.simulation.machine.disk import SimulatedDisk

PAGE = 4096


def disk_with(data: bytes, path: str = "a") -> SimulatedDisk:
    disk = SimulatedDisk()
    file = disk.open(path, create=True)
    file.write(0, [data])
    file.sync()
    disk.sync_directory("")
    return disk


def test_a_sync_that_fails_leaves_its_file_clean_and_not_durable() -> None:
    """A failed sync leaves its file clean but not durable, even if the file was renamed: the operation refers to
    the file's content and not to its name.
    """
    disk = disk_with(b"o" * PAGE)
    file = disk.open("a")
    disk.rename("a", "b")
    disk.sync_directory("")
    file.write(0, [b"n" * PAGE])
    left: list[SimulatedDisk] = []
    disk.before_operation = lambda operation: left.append(disk.after_failed_sync(operation))
    file.sync()

    again = left[0].open("b")
    again.sync()

    assert b"n" * PAGE == again.read(0, PAGE)
    assert b"o" * PAGE == left[0].after_power_loss(ALL_LOST).open("b").read(0, PAGE)


def test_equal_disks_have_equal_digests() -> None:
    """Equal disks have equal digests, which cover names and bytes, including bytes written after an earlier digest."""
    one, other, third = disk_with(b"x"), disk_with(b"x"), disk_with(b"x", "b")

    before = one.digest()
    one.open("a").write(0, [b"y"])

    assert other.digest() == before
    assert third.digest() != before
    assert one.digest() != before
    assert other.digest() == one.after_power_loss(ALL_LOST).digest()
    assert one.digest() == one.after_power_loss(ALL_KEPT).digest()


def test_each_unsynced_item_gets_fates_of_its_own() -> None:
    """Each unsynced item gets three kinds of fate: it is lost, it is torn, or it alone is kept.  A page whose loss
    changes nothing gets none.
    """
    disk = disk_with(b"o" * 2 * PAGE)
    file = disk.open("a")
    file.write(0, [b"n" * PAGE + b"o" * PAGE])
    disk.rename("a", "b")

    some = list(lone_fates(disk, salt=1, every_tear=False))
    every = list(lone_fates(disk, salt=1, every_tear=True))

    # Fates of the page: seven torn heads, seven torn tails, lost, kept alone.  Fates of the name: lost, kept alone.
    assert 14 + 1 + 1 + 2 == len(every)
    assert set(some) <= set(every)
    assert {0, 1} == {fate.what.page if hasattr(fate.what, "page") else 1 for fate in every if isinstance(fate, Alone)}


def test_mixes_of_different_crash_points_use_different_seeds() -> None:
    """At different crash points, the mixes, which draw a random fate for each unsynced item, use different seeds."""
    assert 2 * MIXES == len({*mixed_fates(salt=1), *mixed_fates(salt=2)})
