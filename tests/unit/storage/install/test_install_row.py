"""Rows of installs are split into parts, and may be larger than the ring."""

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.entry import Entry
from tidemill.raft.voters import Membership
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.storage.install.install_row import (
    INSTALL_KINDS,
    installed_row,
    installing_row,
    replay_install_row,
    split_install_row,
)
from tidemill.storage.journal.row import RowKind
from tidemill.storage.machine.machine_sections import encode_section
from tidemill.storage.machine.producer_machine import encode_producers
from tidemill.storage.partition.partition_state import PartitionState
from tidemill.storage.partition.producer_states import ProducerBatch

ME = ReplicaKey(BrokerId(1), DirectoryId(b"d" * 16))
PRODUCERS = 6_000  # their states take a third of a MiB; the ring has only an eighth of a MiB
INDEX, TERM = 700, 3


def states() -> list[PartitionState]:
    return [PartitionState(partition=number, log_start=9, trimmed=9, end_offset=9) for number in (0, 1)]


def installed(producers: int = PRODUCERS) -> Entry:
    windows = {number: (ProducerBatch(0, 0, 4, 4, 9, 699, 1_000),) for number in range(producers)}
    sections = (1).to_bytes(4) + encode_section(2, 1, {1: encode_producers(windows)})
    return installed_row(INDEX, TERM, 1_000, Membership((ME,)), states(), sections)


@pytest.mark.parametrize("size", [0, 1, 999, 1_000, 1_001, 3_000])
def test_parts_are_bounded_and_say_where_they_belong(size: int) -> None:
    """An install row is split into parts of bounded size; the row itself comes last, with the remaining bytes."""
    row = Entry(RowKind.INSTALLED, bytes(range(256)) * 12, index=7, term=2)
    row.payload = row.payload[:size]  # type: ignore[index]

    rows = split_install_row(row, 1_000)

    assert row.payload == b"".join(bytes(it.payload or b"") for it in rows)
    assert all(it.payload_bytes <= 1_000 for it in rows)
    assert [it.base_offset for it in rows] == list(range(0, max(size, 1), 1_000))
    assert [*[RowKind.PART] * (len(rows) - 1), RowKind.INSTALLED] == [it.kind for it in rows]
    assert (7, 2) == (rows[-1].index, rows[-1].term)


def test_a_row_larger_than_the_ring_passes_through_it(make_hand: Callable[..., Any]) -> None:
    """After a crash at any point, recovery finds either the state before the row or all of the row."""
    hand = make_hand()
    hand.store.install(hand.shard, installing_row(INDEX, TERM, states()))
    hand.write_all()
    assert hand.store.journal.capacity < installed().payload_bytes
    hand.store.install(hand.shard, installed())

    found = []
    while hand.store.has_pending:
        if not hand.write():
            hand.checkpoint_now()
        again = hand.restarted(hand.disk.after_power_loss(ALL_LOST)).shard
        count = len(again.partitions[1].producers)
        assert (again.installing is None, again.last_index) == ((count > 0), INDEX if count else 0)
        found.append(count)

    assert {0, PRODUCERS} == set(found)
    assert hand.shard.partitions[1].producers.newest() == again.partitions[1].producers.newest()


def test_a_vote_passes_a_large_install_row(make_hand: Callable[..., Any]) -> None:
    """Control rows leave the queue before the parts of an install row, so an election does not wait for an install."""
    hand = make_hand()
    hand.store.install(hand.shard, installing_row(INDEX, TERM, states()))
    hand.store.install(hand.shard, installed())
    hand.store.vote(hand.shard.shard_id, hand.shard, 8, ME)

    assert hand.write()

    again = hand.restarted(hand.disk.after_kill()).shard
    assert (8, 0) == (again.term, len(again.partitions[1].producers))


def test_an_install_that_begins_again_takes_no_parts_of_the_one_before(make_hand: Callable[..., Any]) -> None:
    """An install that starts again does not use parts of the first install, which a crash may leave in the journal."""
    shard = make_hand().shard
    replay_install_row(shard, installing_row(INDEX, TERM, states()))
    for row in split_install_row(installed(), 10_000)[:5]:
        replay_install_row(shard, row)
    replay_install_row(shard, installing_row(INDEX + 1, TERM, states()))
    for row in split_install_row(installed(producers=300), 10_000):
        replay_install_row(shard, row)

    assert (None, 300) == (shard.installing, len(shard.partitions[1].producers))
    assert INSTALL_KINDS == {RowKind.INSTALLING, RowKind.INSTALLED, RowKind.PART}
