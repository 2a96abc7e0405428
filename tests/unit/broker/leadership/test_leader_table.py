"""Who leads what: terms that only rise, and what is forgotten."""

from tidemill.broker.leadership.leader_table import Leader, LeaderTable
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId

ME, OTHER, THIRD = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2, 3))
SHARD = ShardId(7)


def test_a_lower_term_is_never_followed() -> None:
    """
    It comes from one who has not heard of its successor; that the successor is lost changes nothing.
    """
    table = LeaderTable(ME)
    table.told(OTHER, [(SHARD, 5)], is_whole=True)
    table.told(THIRD, [(SHARD, 4)], is_whole=True)
    before = table.leader(SHARD)
    table.forget(OTHER)
    table.told(THIRD, [(SHARD, 4)], is_whole=True)

    assert (Leader(OTHER.broker_id, 5), None) == (before, table.leader(SHARD))


def test_of_a_deleted_shard_nothing_is_kept() -> None:
    """
    Topics come and go; a table that only grew would outlive them all.
    """
    table = LeaderTable(ME)
    for number in range(1_000):
        shard_id = ShardId(number)
        table.leads(shard_id, 1)
        table.leads(shard_id, 0)
        table.told(OTHER, [(shard_id, 2)], is_whole=False)
        table.deleted(shard_id)

    assert [] == table.changes_since(1)
    assert {} == table.led_counts()
    assert [0, 0, 0, 0] == [len(kept) for kept in (table._own, table._leaders, table._terms, table._told[OTHER])]


def test_what_a_broker_leads_with_a_new_directory_outlives_the_word_of_the_old_one() -> None:
    """
    A host lost power, its link is half open for 10 s more, and the broker leads again by then, from an empty disk.
    """
    table, other_disk = LeaderTable(ME), ReplicaKey(OTHER.broker_id, DirectoryId(b"n" * 16))
    table.told(OTHER, [(SHARD, 4)], is_whole=True)
    table.told(other_disk, [(SHARD, 6)], is_whole=True)

    table.forget(OTHER)

    assert Leader(OTHER.broker_id, 6) == table.leader(SHARD)
    table.forget(other_disk)
    assert table.leader(SHARD) is None
