"""The leader table: terms never decrease, and deleted shards are forgotten."""

from tidemill.broker.peers.leader_table import Leader, LeaderTable
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId

ME, OTHER, THIRD = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2, 3))
SHARD = ShardId(7)


def test_a_lower_term_is_ignored() -> None:
    """
    A stale leader may report a lower term, even after its successor has been lost.
    """
    table = LeaderTable(ME)
    table.apply_report(OTHER, [(SHARD, 5)], is_whole=True)
    table.apply_report(THIRD, [(SHARD, 4)], is_whole=True)
    before = table.leader(SHARD)
    table.forget(OTHER)
    table.apply_report(THIRD, [(SHARD, 4)], is_whole=True)

    assert (Leader(OTHER.broker_id, 5), None) == (before, table.leader(SHARD))


def test_a_deleted_shard_is_forgotten() -> None:
    """
    A deleted shard is removed from the leader table, which would otherwise grow forever as topics are created and
    deleted.
    """
    table = LeaderTable(ME)
    for number in range(1_000):
        shard_id = ShardId(number)
        table.leads(shard_id, 1)
        table.leads(shard_id, 0)
        table.apply_report(OTHER, [(shard_id, 2)], is_whole=False)
        table.deleted(shard_id)

    assert [] == table.changes_since(1)
    assert {} == table.led_counts()
    assert [0, 0, 0, 0] == [len(kept) for kept in (table._own, table._leaders, table._terms, table._reported[OTHER])]


def test_the_end_of_an_old_connection_does_not_remove_a_leader_with_a_new_directory() -> None:
    """
    After a power loss, a broker may lead again, on an empty disk, while its old connection is still half open.  When
    that connection ends, the broker stays in the table as the leader.
    """
    table, other_disk = LeaderTable(ME), ReplicaKey(OTHER.broker_id, DirectoryId(b"n" * 16))
    table.apply_report(OTHER, [(SHARD, 4)], is_whole=True)
    table.apply_report(other_disk, [(SHARD, 6)], is_whole=True)

    table.forget(OTHER)

    assert Leader(OTHER.broker_id, 6) == table.leader(SHARD)
    table.forget(other_disk)
    assert table.leader(SHARD) is None


def test_every_change_of_a_leader_is_told_once() -> None:
    """The observer learns of a leader that is found, replaced or lost, and not of what changes nothing."""
    table, seen = LeaderTable(ME), list[tuple[ShardId, ReplicaKey | None]]()
    table.on_change = lambda shard_id: seen.append((shard_id, table.leader_key(shard_id)))

    table.leads(SHARD, 3)
    table.leads(SHARD, 4)
    table.apply_report(OTHER, [(SHARD, 3)], is_whole=True)
    table.apply_report(OTHER, [(SHARD, 5)], is_whole=False)
    table.leads(SHARD, 0)
    table.forget(OTHER)

    assert [(SHARD, ME), (SHARD, OTHER), (SHARD, None)] == seen
