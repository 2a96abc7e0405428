"""Damage in one part of a shard does not spread to its intact parts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.voters import Membership
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.storage.install.install_copy import InstallCopy
from tidemill.storage.install.install_row import installed_row, installing_row

NO_SECTIONS = bytes(4)
VOTER = ReplicaKey(BrokerId(1), DirectoryId(b"d" * 16))


def test_rows_are_written_to_intact_segments_when_another_one_is_missing(make_hand: Callable[..., Any]) -> None:
    """
    Rows are written to the intact segments: their bytes may be only in the journal, which the next checkpoint frees.
    """
    hand = make_hand()
    hand.append(3)
    hand.append(3, partition=1)
    hand.write_all()
    hand.commit()
    hand.checkpoint()
    hand.append(2, partition=1)
    hand.write_all()
    disk = hand.disk.after_power_loss(ALL_LOST)
    disk.remove(hand.log.segments[0].path)

    again = hand.restarted(disk)
    again.checkpoint()

    assert again.shard.damage is not None
    other = again.shard.partitions[1]
    read = [other.read(offset, 1, 5, may_wait=True) for offset in range(5)]
    assert all(found is not None and found[1] for found in read)
    size = disk.open(other.segments[0].path).size()
    assert other.segments[0].size == size


def test_nothing_is_written_into_a_segment_that_is_too_short(make_hand: Callable[..., Any]) -> None:
    """Nothing is written into a segment that is too short, because the write would hide the gap from the next start."""
    hand = make_hand()
    hand.append(3)
    hand.write_all()
    hand.commit()
    hand.checkpoint()
    hand.append(2)
    hand.write_all()
    disk = hand.disk.after_kill()
    disk.open(hand.log.segments[0].path).truncate(10)

    again = hand.restarted(disk)

    assert (10, True) == (disk.open(again.log.segments[0].path).size(), again.shard.damage is not None)
    assert again.restarted().shard.damage is not None


def test_a_restart_does_not_forget_damage(make_hand: Callable[..., Any]) -> None:
    """Damage recorded in the journal or in a checkpoint lasts until an install has ended."""
    hand = make_hand(segment_bytes=300)
    hand.append(6)
    hand.write_all()
    hand.store.mark_damage(hand.shard, 0, 3, "rot")
    hand.write_all()

    by_journal = hand.restarted()
    by_journal.checkpoint()
    by_checkpoint = by_journal.restarted()

    for found in (by_journal.shard, by_checkpoint.shard):
        assert ("rot", True, {0: 3}) == (found.damage, found.is_marked, found.marked)


def test_an_install_that_repairs_damage_clears_it(make_hand: Callable[..., Any]) -> None:
    """The damaged part is removed when the install begins, but the replica counts as damaged until the install ends."""
    hand = make_hand()
    hand.append(6)
    hand.write_all()
    hand.store.mark_damage(hand.shard, 0, 3, "rot")
    states = [partition.state() for partition in hand.shard.partitions.values()]
    states[0] = replace(states[0], end_offset=0, segments=[])
    hand.store.install(hand.shard, installing_row(6, 1, states))
    hand.write_all()

    begun = hand.restarted()
    begun.store.install(begun.shard, installed_row(6, 1, 99, Membership((VOTER,)), states, NO_SECTIONS))
    begun.write_all()
    ended = begun.restarted()

    assert ("rot", {}) == (begun.restarted().shard.damage or "rot", begun.shard.marked)
    assert (None, False) == (ended.shard.damage, ended.shard.is_marked)


def test_damage_found_during_an_install_outlasts_it(make_hand: Callable[..., Any]) -> None:
    """Damage that is found during an install outlasts it if, as here, it is in a part that the install keeps."""
    hand = make_hand()
    hand.append(6)
    hand.write_all()
    states = [partition.state() for partition in hand.shard.partitions.values()]
    hand.store.mark_damage(hand.shard, 0, 3, "rot")

    hand.store.install(hand.shard, installing_row(6, 1, states))
    hand.store.install(hand.shard, installed_row(6, 1, 99, Membership((VOTER,)), states, NO_SECTIONS))

    assert ("rot", {0: 3}) == (hand.shard.damage, hand.shard.marked)


def test_damage_found_by_recovery_is_not_journaled(make_hand: Callable[..., Any]) -> None:
    """
    Damage that recovery finds is not journaled: if no other replica can repair the shard, restoring the file must be
    enough.
    """
    hand = make_hand()
    hand.append(3)
    hand.write_all()
    hand.checkpoint()
    path = hand.log.segments[0].path
    content = hand.disk.open(path).read(0, 1 << 16)
    disk = hand.disk.after_kill()
    disk.remove(path)

    damaged = hand.restarted(disk)
    damaged.checkpoint()
    damaged.disk.open(path, create=True).write(0, [content])
    again = damaged.restarted()

    assert (True, {0: 0}) == (damaged.shard.damage is not None, damaged.shard.damaged_unmarked)
    assert again.shard.damage is None


def test_an_install_cuts_the_damaged_segment_and_what_follows(make_hand: Callable[..., Any]) -> None:
    """
    An install cuts the damaged segment and everything after it, even committed batches; intact segments before it stay.
    """
    hand = make_hand(segment_bytes=300)
    hand.append(6)
    hand.write_all()
    hand.commit()
    theirs = [partition.state() for partition in hand.shard.partitions.values()]
    bases = [segment.base_offset for segment in hand.log.segments]
    hand.store.mark_damage(hand.shard, 0, bases[1], "rot")
    hand.disk.remove(hand.log.segments[1].path)

    copy = InstallCopy(hand.disk, hand.shard, {0: 6, 1: 0})
    kept = copy.begin(theirs)

    assert len(bases) > 2
    assert (bases[:1], bases[1]) == ([it.base_offset for it in kept[0].segments], kept[0].end_offset)
    copy.clean()
    assert (0, bases[1]) == copy.next_pull()


def test_a_segment_that_begins_below_the_log_start_is_cut_once(make_hand: Callable[..., Any]) -> None:
    """
    A damaged segment that begins below the log start is cut only once; otherwise the replica would count as damaged
    forever, and one install would follow another.
    """
    hand = make_hand()
    hand.append(6)
    hand.write_all()
    hand.commit()
    hand.log.trim(4)
    theirs = [partition.state() for partition in hand.shard.partitions.values()]
    hand.store.mark_damage(hand.shard, 0, 0, "rot")

    kept = InstallCopy(hand.disk, hand.shard, {0: 6, 1: 0}).begin(theirs)
    hand.store.install(hand.shard, installing_row(6, 1, kept))

    assert ([], 4) == (kept[0].segments, kept[0].end_offset)
    assert ({}, "rot") == (hand.shard.marked, hand.shard.damage)
