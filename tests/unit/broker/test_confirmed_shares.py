"""Ordered and exclusive shares on a cluster: a leader that is cut off delivers nothing, and a new one waits."""

from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.share_member import Got, ShareMember, acquired_records, configure_group
from tests.unit.broker.sharing_cluster import elect_another, sharing_cluster
from tidemill.model import errors
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.wire.messages import share_acknowledge

WAIT_MS = 500
LOCK_MS = 10_000


@pytest.fixture
def world() -> ClusterWorld:
    """A cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    made = sharing_cluster()
    configure_group(made.controller, share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS))
    return made


def joined(world: ClusterWorld, wait_ms: int = 1_000, **settings: str) -> ShareMember:
    """Return a member that has fetched once, after the group was configured on all brokers."""
    if settings:
        configure_group(world.controller, **settings)
    world.pass_time(wait_ms)
    member = ShareMember(world[2], coordinator=world[1])
    member.join("jobs")
    world[2].produce("jobs", b"first")
    assert [Got(0, b"first", 1)] == member.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == member.acknowledge(0, 0)
    world[2].produce("jobs", b"second")
    world.stabilize()
    return member


@pytest.mark.parametrize(
    "settings",
    [{"tidemill_share_order": "partition"}, {"tidemill_share_order": "key"}, {"tidemill_share_mode": "exclusive"}],
    ids=str,
)
def test_a_leader_that_is_cut_off_delivers_no_ordered_records(world: ClusterWorld, settings: dict[str, str]) -> None:
    """
    The fetch waits until the leadership is confirmed.  It is answered with an error when the leadership is lost.
    """
    member = joined(world, **settings)
    world.hold(to=[2], sender=[2])
    sent = member.client.send(member.fetch_request(max_wait_ms=WAIT_MS))
    world.stabilize()
    assert member.client.answer(*sent) is None, "records were delivered without a majority"

    leader = elect_another(world)
    assert [Got(1, b"second", 1)] == member.at(world[leader]).receive(max_wait_ms=WAIT_MS)
    (partition,) = member.client.answer(*sent).responses[0].partitions
    assert errors.NOT_LEADER_OR_FOLLOWER == partition.error_code
    assert [] == [*partition.acquired_records]


def test_a_leader_that_is_cut_off_delivers_records_without_an_order(world: ClusterWorld) -> None:
    """
    Without an order, two members may work on a record after a change of leaders, so nothing waits.
    """
    member = joined(world)
    world.hold(to=[2], sender=[2])

    assert [Got(1, b"second", 1)] == member.receive(max_wait_ms=WAIT_MS)


def test_a_leader_that_is_cut_off_renews_no_ordered_locks(world: ClusterWorld) -> None:
    """
    A member whose lock is renewed could work longer than the wait of the next leader.
    """
    member = joined(world, tidemill_share_order="key")
    assert [Got(1, b"second", 1)] == member.receive(max_wait_ms=WAIT_MS)
    world.hold(to=[2], sender=[2])
    sent = member.client.send(renewal(member))
    world.stabilize()
    assert member.client.answer(*sent) is None, "a lock was renewed without a majority"

    elect_another(world)
    (partition,) = member.client.answer(*sent).responses[0].partitions
    assert errors.NOT_LEADER_OR_FOLLOWER == partition.error_code


def renewal(member: ShareMember) -> Any:
    partition = share_acknowledge.Request.Topic.Partition
    (topic_id,) = member.assigned
    batch = partition.AcknowledgementBatch(first_offset=1, last_offset=1, acknowledge_types=[Acknowledgement.RENEW])
    topic = share_acknowledge.Request.Topic(
        topic_id=topic_id, partitions=[partition(partition_index=0, acknowledgement_batches=[batch])]
    )
    return share_acknowledge.Request(
        group_id=member.group,
        member_id=member.name,
        share_session_epoch=member.session_epoch,
        is_renew_ack=True,
        topics=[topic],
    )


def test_a_new_leader_waits_one_lock_duration(world: ClusterWorld) -> None:
    """
    With tidemill.share.failover.wait, the next leader delivers what a member may still hold only when that member's
    lock has expired.
    """
    member = joined(world, LOCK_MS, tidemill_share_order="key", tidemill_share_failover_wait="true")
    assert [Got(1, b"second", 1)] == member.receive(max_wait_ms=WAIT_MS)
    world.lead("jobs", by=3)
    moved = member.at(world[3])
    world.pass_time(LOCK_MS // 2)
    sent = moved.client.send(moved.fetch_request(max_wait_ms=3 * LOCK_MS))
    world.pass_time(LOCK_MS // 4)
    assert moved.client.answer(*sent) is None

    world.pass_time(LOCK_MS // 2)

    assert [Got(1, b"second", 1)] == acquired_records(moved.client.answer(*sent))
