"""What happens to the records of a queue is counted on the leader."""

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.lone_consumer import ResolvesShares
from tests.unit.broker.share_member import STATIC, WAIT_MS, ShareMember, configure_group
from tests.unit.broker.test_request_metrics import counted
from tidemill.metadata.topics import DeleteTopics
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.wire.messages import delete_groups

LOCK_MS = 1_000


def consumer_of(world: BrokerWorld, *topics: str) -> ShareMember:
    configure_group(
        world,
        share_auto_offset_reset="earliest",
        share_record_lock_duration_ms=str(LOCK_MS),
        share_delivery_count_limit="2",
    )
    joined = ShareMember(world)
    joined.join(*topics)
    return joined


def of_queue(world: BrokerWorld, topic: str = "jobs") -> dict[str, float]:
    """Return the samples of the queue by name, leaving out those that are 0."""
    label = f'{{group="g",topic="{topic}"}}'
    samples = counted(world, "queue_").items()
    found = {name.removesuffix(label): value for name, value in samples if name.endswith(label) and value}
    return {name.removeprefix("queue_").removesuffix("_total"): value for name, value in found.items()}


def counters_of(world: BrokerWorld) -> dict[str, float]:
    return {name: value for name, value in of_queue(world).items() if name.startswith("records_") or "locks" in name}


def test_each_kind_of_acknowledgement_is_counted() -> None:
    """
    Records are counted when they are acquired, accepted, released and rejected.  A record that is released on its last
    delivery is released and archived; a rejected one is archived, too.  A renewal is none of these.
    """
    world = BrokerWorld(STATIC)
    world.create("jobs")
    consumer = consumer_of(world, "jobs")
    world.produce("jobs", b"a", b"b", b"c", b"d", b"e")
    assert 5 == len(consumer.receive(max_wait_ms=WAIT_MS))

    consumer.acknowledge(0, 4, Acknowledgement.RENEW)
    consumer.acknowledge(0, 1)
    consumer.acknowledge(2, 2, Acknowledgement.REJECT)
    consumer.acknowledge(3, 4, Acknowledgement.RELEASE)

    expected = {"acquired": 5, "accepted": 2, "rejected": 1, "released": 2, "archived": 1}
    assert {f"records_{name}": count for name, count in expected.items()} == counters_of(world)
    assert 2 == len(consumer.receive(max_wait_ms=WAIT_MS))
    consumer.acknowledge(3, 3, Acknowledgement.RELEASE)
    expected |= {"acquired": 7, "redelivered": 2, "released": 3, "archived": 2}
    assert {f"records_{name}": count for name, count in expected.items()} == counters_of(world)


def test_expired_locks_and_ended_sessions_are_counted() -> None:
    """
    A record whose lock has expired is not counted as released; one whose consumer's session has ended is.
    """
    world = BrokerWorld(STATIC)
    world.create("jobs")
    consumer = consumer_of(world, "jobs")
    world.produce("jobs", b"a", b"b")
    consumer.receive(max_wait_ms=WAIT_MS)
    consumer.acknowledge(1, 1)
    for _ in range(LOCK_MS // 400 + 1):  # at most 500 ms between two ticks count
        world.pass_time(400)
    assert {"records_acquired": 2, "records_accepted": 1, "locks_expired": 1} == counters_of(world)

    consumer.receive(max_wait_ms=WAIT_MS)
    consumer.disconnect()

    found = counters_of(world)
    assert (3, 1, 1, 1) == tuple(
        found[f"records_{name}"] for name in ("acquired", "redelivered", "released", "archived")
    )


def test_the_counters_of_deleted_queues_disappear() -> None:
    """
    A deleted topic takes its queues' counters with it, and so does a deleted group.
    """
    world = BrokerWorld(STATIC)
    world.create("jobs")
    world.create("mails")
    consumer = consumer_of(world, "jobs", "mails")
    for _ in range(2):  # the first fetch opens the shares
        assert [] == consumer.receive()
    assert ["jobs", "mails"] == sorted(topic for (_, topic), _ in world.broker.metrics.by_queue.rows()[:-1])

    world.broker.controller.submit(DeleteTopics(topics=("mails",)))
    world.stabilize()
    assert ["jobs"] == [topic for (_, topic), _ in world.broker.metrics.by_queue.rows()[:-1]]
    consumer.member_epoch = -1
    consumer.heartbeat()
    (deleted,) = world.ask(delete_groups.Request(groups_names=["g"])).results
    assert 0 == deleted.error_code
    world.pass_time(2_000)

    assert 1 == len(world.broker.metrics.by_queue.rows())


def test_a_repeated_receive_counts_nothing() -> None:
    """
    A consumer without a session that repeats its request gets what it holds, which is no further delivery.  What it
    then releases is counted; what an operator resolves is not released by a consumer.
    """
    world = BrokerWorld(STATIC)
    world.create("jobs")
    configure_group(world, share_auto_offset_reset="earliest")
    world.produce("jobs", b"a", b"b", b"c")
    consumer, operator = ResolvesShares(world, "worker"), ResolvesShares(world)
    assert 2 == len(consumer.receive(max_records=2)) == len(consumer.receive(max_records=2))
    assert {"records_acquired": 2} == counters_of(world)

    consumer.resolve((0, 0, Acknowledgement.ACCEPT), (1, 1, Acknowledgement.RELEASE))
    operator.resolve((1, 1, Acknowledgement.RELEASE), (2, 2, Acknowledgement.REJECT))

    expected = {"acquired": 2, "accepted": 1, "released": 1, "rejected": 1, "archived": 1}
    assert {f"records_{name}": count for name, count in expected.items()} == counters_of(world)
