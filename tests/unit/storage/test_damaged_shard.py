"""What is damaged in a shard takes nothing along that is not."""

from collections.abc import Callable
from typing import Any

from tidemill.simulation.crash_fate import ALL_LOST


def test_rows_for_whole_segments_are_written_though_another_one_is_missing(make_hand: Callable[..., Any]) -> None:
    """
    The journal may be the only place where they are, and the next checkpoint frees it.
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
    """It would hide the gap from the next start."""
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
