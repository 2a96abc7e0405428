"""Leader hints: a client that asks the wrong broker learns the new leader (KIP-951)."""

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.leadership.test_leadership import fetching, producing
from tidemill.model import errors
from tidemill.wire.messages import fetch


def transferred() -> ClusterWorld:
    world = ClusterWorld()
    world.create("flights")
    world[1].produce("flights", b"a")
    world.lead("flights", by=3)
    return world


def fetched_by_id(world: ClusterWorld, number: int, version: int, epoch: int = -1) -> fetch.Response:
    wanted = fetch.Request.Topic.Partition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=epoch
    )
    topic_id = world[number].partition("flights").log.topic_id
    request = fetch.Request(
        max_wait_ms=0, min_bytes=1, topics=[fetch.Request.Topic(topic_id=topic_id, partitions=[wanted])]
    )
    answered = world[number].client.ask(request, version)
    assert isinstance(answered, fetch.Response)
    return answered


def test_a_producer_learns_the_new_leader_with_epoch_and_endpoint() -> None:
    """
    The hint names the new leader and the epoch that it has confirmed, so the client need not ask for metadata.
    """
    world = transferred()

    answered = world[1].client.ask(producing(0), 12)

    (partition,) = answered.responses[0].partition_responses
    term = world[3].shard("flights").replica.term
    assert errors.NOT_LEADER_OR_FOLLOWER == partition.error_code
    assert (3, term) == (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
    assert [(3, "127.0.0.1", 9094, "rack-3")] == [
        (node.node_id, node.host, node.port, node.rack) for node in answered.node_endpoints
    ]


def test_a_consumer_learns_the_new_leader() -> None:
    """
    Fetch responses contain the hint from version 16 on, the first version in which clients use the field.
    """
    world = transferred()

    new, old = (fetched_by_id(world, 1, version) for version in (16, 15))

    term = world[3].shard("flights").replica.term
    told = new.responses[0].partitions[0].current_leader
    assert told is not None
    assert (3, term, [3]) == (told.leader_id, told.leader_epoch, [node.node_id for node in new.node_endpoints])
    assert (None, ()) == (old.responses[0].partitions[0].current_leader, tuple(old.node_endpoints))


def test_a_consumer_with_a_stale_epoch_learns_the_current_one() -> None:
    """
    A fetch with a stale leader epoch gets FENCED_LEADER_EPOCH and a hint with the current epoch, in which the leader
    names itself.
    """
    world = transferred()

    answered = fetched_by_id(world, 3, 16, epoch=1)

    (partition,) = answered.responses[0].partitions
    assert partition.current_leader is not None
    assert (errors.FENCED_LEADER_EPOCH, 3) == (partition.error_code, partition.current_leader.leader_id)


def test_no_leader_is_named_while_none_is_known() -> None:
    """
    A hint never combines one leader with the epoch of another, and never names a leader that is unreachable.
    """
    world = transferred()
    world.network.held = lambda _source, _destination: True
    world.cut_off(3)

    answered = world[1].client.ask(producing(0), 12)

    (partition,) = answered.responses[0].partition_responses
    assert (errors.NOT_LEADER_OR_FOLLOWER, None, ()) == (
        partition.error_code,
        partition.current_leader,
        tuple(answered.node_endpoints),
    )


def test_a_waiting_fetch_is_answered_when_its_leader_steps_down() -> None:
    """
    When the leader steps down, its broker answers a waiting fetch immediately, without waiting for the time limit,
    because only the new leader will get new records.
    """
    world = ClusterWorld()
    world.create("flights")
    client = world[1].client
    sent = client.send(fetching(0), 12)
    world.stabilize()
    parked = client.answer(*sent)

    world.lead("flights", by=2)

    answered = client.answer(*sent)
    assert (None, errors.NOT_LEADER_OR_FOLLOWER) == (parked, answered.responses[0].partitions[0].error_code)
