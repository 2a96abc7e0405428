"""Traffic is counted per topic, for a bounded number of topics."""

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.test_request_metrics import counted, produce_to
from tidemill.metadata.topics import DeleteTopics
from tidemill.wire.messages import fetch, produce


def fetch_of(*topics: str) -> fetch.Request:
    wanted = fetch.Request.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = [fetch.Request.Topic(topic=topic, partitions=[wanted]) for topic in topics]
    return fetch.Request(max_wait_ms=0, min_bytes=0, topics=asked)


def of_topic(world: BrokerWorld, topic: str) -> dict[str, float]:
    """Return the topic's samples by name, leaving out those that are 0."""
    label = f'{{topic="{topic}"}}'
    samples = counted(world, "topic_").items()
    return {name.removesuffix(label): value for name, value in samples if name.endswith(label) and value}


def test_the_traffic_of_a_topic_is_counted() -> None:
    """
    The bytes, records and requests of producers and consumers are counted for their topic and for no other.
    """
    world = BrokerWorld()
    world.create("flights")
    world.create("trains")
    world.produce("flights", b"one", b"two")
    size = world.broker.metrics.produce_bytes

    world.ask(fetch_of("flights"), 12)

    assert {
        "topic_bytes_in_total": size,
        "topic_records_in_total": 2,
        "topic_produce_requests_total": 1,
        "topic_bytes_out_total": size,
        "topic_fetch_requests_total": 1,
    } == of_topic(world, "flights")
    assert {} == of_topic(world, "trains")


def test_a_request_counts_once_for_each_of_its_topics() -> None:
    """
    A Produce request counts once for each topic, however many of the topic's partitions it contains.  If a partition is
    refused, the request still counts, but its bytes and records do not.
    """
    world = BrokerWorld()
    world.create("flights", partitions=2)
    world.create("trains", max_message_bytes="1")
    asked = produce_to("flights", "trains", "nowhere")
    asked.topic_data[0].partition_data = [
        produce.Request.Topic.Partition(index=number, records=it.records)
        for it in asked.topic_data[0].partition_data
        for number in (0, 1)
    ]

    world.ask(asked, 9)

    counted_of_flights = of_topic(world, "flights")
    assert (1, 2) == (
        counted_of_flights["topic_produce_requests_total"],
        counted_of_flights["topic_records_in_total"],
    )
    assert {"topic_produce_requests_total": 1} == of_topic(world, "trains")
    assert {} == of_topic(world, "nowhere")


def test_a_fetch_counts_once_for_each_topic_with_news() -> None:
    """
    In a fetch session, the response omits topics in which nothing has changed, and the fetch does not count for them.
    """
    world = BrokerWorld()
    for topic in ("flights", "trains"):
        world.create(topic, partitions=2)
        world.produce(topic, b"value")
        world.produce(topic, b"value", number=1)
    wanted = [fetch.Request.Topic.Partition(partition=it, fetch_offset=1, partition_max_bytes=99) for it in (0, 1)]
    asked = [fetch.Request.Topic(topic=topic, partitions=wanted) for topic in ("flights", "trains")]
    begun = world.ask(fetch.Request(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=asked), 12)
    world.produce("trains", b"value")

    session = {"session_id": begun.session_id, "session_epoch": 1}
    world.ask(fetch.Request(max_wait_ms=0, min_bytes=0, topics=[], **session), 12)

    assert [1, 2] == [of_topic(world, it)["topic_fetch_requests_total"] for it in ("flights", "trains")]


def test_topics_beyond_the_bound_share_a_label() -> None:
    """
    Topics beyond the bound are counted together under the label `(other)`.  One of the two labels below the bound is
    taken by the metadata topic, because it is the oldest topic.
    """
    world = BrokerWorld({"tidemill.metrics.topics.max": "2"})
    for topic in ("flights", "trains", "ships"):
        world.create(topic)
        world.produce(topic, b"value")

    labels = {name.partition('topic="')[2].rstrip('"}') for name in counted(world, "topic_records_in_total")}

    assert {"__tidemill_metadata", "flights", "(other)"} == labels
    assert 2 == of_topic(world, "(other)")["topic_records_in_total"]


def test_no_topic_is_counted_with_the_bound_0() -> None:
    """
    The bound 0 switches off all counters of topics, including that of all other topics together.
    """
    world = BrokerWorld({"tidemill.metrics.topics.max": "0"})
    world.create("flights")

    world.produce("flights", b"value")

    assert {} == counted(world, "topic_")


def test_the_counters_of_a_deleted_topic_are_dropped() -> None:
    """
    A new topic with the same name begins at 0, and the deleted topic leaves room for another one.
    """
    world = BrokerWorld({"tidemill.metrics.topics.max": "2"})
    world.create("flights")
    world.produce("flights", b"value")

    world.broker.controller.submit(DeleteTopics(topics=("flights",)))
    world.stabilize()

    assert [] == [name for name in counted(world, "topic_") if "flights" in name]

    world.create("trains")
    world.produce("trains", b"value")

    assert 1 == of_topic(world, "trains")["topic_records_in_total"]
