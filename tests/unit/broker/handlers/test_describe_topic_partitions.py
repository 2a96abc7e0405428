"""DescribeTopicPartitions returns partitions page by page."""

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.wire.messages.describe_topic_partitions import Request

Page = list[tuple[str, list[int]]]


def asked(*names: str, limit: int = 2_000, cursor: Request.Cursor | None = None) -> Request:
    return Request(topics=[Request.Topic(name=name) for name in names], response_partition_limit=limit, cursor=cursor)


def pages(world: BrokerWorld, *names: str, limit: int) -> list[Page]:
    found: list[Page] = []
    cursor = None
    while not found or cursor is not None:
        told = world.ask(asked(*names, limit=limit, cursor=cursor))
        found.append([(topic.name, [it.partition_index for it in topic.partitions]) for topic in told.topics])
        following = told.next_cursor
        cursor = following and Request.Cursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )
    return found


def test_pages_follow_each_other_without_a_gap() -> None:
    """
    Topics are sorted by name, and the cursor names the first partition that is not on the page.
    """
    world = BrokerWorld()
    for name, count in (("tides", 2), ("flights", 3), ("boats", 1)):
        world.create(name, partitions=count)

    found = pages(world, limit=2)

    assert [
        [("boats", [0]), ("flights", [0])],
        [("flights", [1, 2])],
        [("tides", [0, 1])],
    ] == found


def test_the_broker_bounds_a_page_too() -> None:
    """
    A page has at most max.request.partition.size.limit partitions, no matter how many the client requests.
    """
    world = BrokerWorld(static={"max.request.partition.size.limit": "2"})
    world.create("flights", partitions=3)

    found = pages(world, "flights", limit=2_000)

    assert [[("flights", [0, 1])], [("flights", [2])]] == found


def test_each_partition_is_shown_with_its_leader() -> None:
    """
    The response contains the partition's leader together with the leader epoch.
    """
    world = BrokerWorld()
    world.create("flights")

    ((topic,),) = (world.ask(asked("flights")).topics,)

    (partition,) = topic.partitions
    assert (errors.NONE, 1, 1, [1]) == (
        partition.error_code,
        partition.leader_id,
        partition.leader_epoch,
        list(partition.replica_nodes),
    )


def test_illegal_names_and_cursors_are_refused() -> None:
    """
    A legal name that no topic has is refused as unknown, and an illegal name as invalid.  A cursor that points before
    the first partition makes the request invalid.
    """
    world = BrokerWorld()

    wrong, unknown = world.ask(asked("a b", "flights")).topics
    (refused,) = world.ask(asked("x", cursor=Request.Cursor(topic_name="x", partition_index=-1))).topics

    assert [errors.INVALID_TOPIC_EXCEPTION, errors.UNKNOWN_TOPIC_OR_PARTITION, errors.INVALID_REQUEST] == [
        topic.error_code for topic in (wrong, unknown, refused)
    ]


def test_there_are_no_eligible_leader_replicas() -> None:
    """
    The response's lists of eligible leader replicas are empty rather than null, because Java's admin client cannot read
    null.
    """
    world = BrokerWorld()
    world.create("flights")

    (topic,) = world.ask(asked("flights")).topics

    assert [((), ())] == [(it.eligible_leader_replicas, it.last_known_elr) for it in topic.partitions]
