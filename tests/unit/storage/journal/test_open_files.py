"""Surplus segment files are closed, except those with bytes that have not been synced yet."""

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.storage import store
from tidemill.storage.journal import open_files


def test_a_file_stays_open_between_a_late_write_and_its_sync(
    make_hand: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    After a full disk, the checkpoint writes the missing bytes.  If a file were closed between this write and its sync,
    it would not be synced, but the journal would be freed: acknowledged bytes would be only in the page cache.
    """
    monkeypatch.setattr(open_files, "OPEN_SEGMENTS_MAX", 0)
    hand = make_hand()
    hand.disk.free_bytes, hand.disk.full_writes_part = 0, False
    hand.append(3)
    hand.write_all()
    hand.disk.free_bytes = None
    hand.commit()
    hand.store.begin_checkpoint()
    steps = hand.store.checkpoint_steps()

    assert steps is not None
    for _ in steps:
        hand.store.close_surplus_files()
    hand.store.checkpointed()

    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))
    assert (None, 3) == (again.shard.damage, again.log.end_offset)


def test_files_are_counted_only_after_an_open(make_hand: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Files are counted only after one was opened, because counting walks over all segments of all shards.  If a surplus
    could not be closed, the next call counts again.
    """
    monkeypatch.setattr(open_files, "OPEN_SEGMENTS_MAX", 0)
    checks: list[bool] = []
    check = open_files.close_surplus
    monkeypatch.setattr(store, "close_surplus", lambda *arguments: checks.append(check(*arguments)) or checks[-1])
    hand = make_hand()
    hand.append(3)
    hand.write_all()
    hand.commit()
    for _ in range(3):
        hand.store.close_surplus_files()
    dirty = [*checks]
    hand.checkpoint()
    checks.clear()
    for _ in range(3):
        hand.store.close_surplus_files()
    synced = [*checks]
    hand.log.segments[0].opened(hand.disk)
    hand.store.close_surplus_files()

    assert ([False, False, False], [True], [True, True]) == (dirty, synced, checks)
