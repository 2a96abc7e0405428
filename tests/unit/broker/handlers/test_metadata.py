"""Metadata returns brokers, topics and leaders, and creates missing topics."""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld, Client
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model import errors
from tidemill.wire.messages.metadata import Request


def asked(world: BrokerWorld, *names: str, may_create: bool = True) -> Any:
    topics = [Request.Topic(name=name) for name in names]
    return world.ask(Request(topics=topics, allow_auto_topic_creation=may_create))


def test_a_topic_that_is_asked_for_is_created() -> None:
    """
    The topic gets the broker's default numbers of partitions and replicas, as in Kafka, and has leaders when the
    response arrives.
    """
    world = BrokerWorld(static={"num.partitions": "5"})

    (topic,) = asked(world, "flights").topics

    assert (errors.NONE, 5, {1}) == (topic.error_code, len(topic.partitions), {p.leader_id for p in topic.partitions})


def test_topic_creation_can_be_switched_off() -> None:
    """
    It is enough to set auto.create.topics.enable=false on the broker or allow_auto_topic_creation=false in the request.
    """
    strict, world = BrokerWorld(static={"auto.create.topics.enable": "false"}), BrokerWorld()

    codes = [
        asked(strict, "flights").topics[0].error_code,
        asked(world, "flights", may_create=False).topics[0].error_code,
    ]

    assert [errors.UNKNOWN_TOPIC_OR_PARTITION] * 2 == codes


def test_an_impossible_replication_factor_creates_nothing() -> None:
    """
    A cluster of a single broker cannot create a topic if default.replication.factor is 3.
    """
    world = BrokerWorld(static={"default.replication.factor": "3"})

    (topic,) = asked(world, "flights").topics

    assert errors.INVALID_REPLICATION_FACTOR == topic.error_code


def test_each_listener_has_its_own_endpoints() -> None:
    """
    A client gets the endpoints that its listener advertises.
    """
    world = BrokerWorld(
        endpoints=(
            Endpoint("INSIDE", "127.0.0.1", 9092, "PLAINTEXT"),
            Endpoint("OUTSIDE", "tide.example", 19092, "PLAINTEXT"),
        )
    )

    inside, outside = (Client(world, name).ask(Request(topics=[])) for name in ("INSIDE", "OUTSIDE"))

    assert [("127.0.0.1", 9092), ("tide.example", 19092)] == [
        (broker.host, broker.port) for answer in (inside, outside) for broker in answer.brokers
    ]


def test_the_topics_that_one_request_creates_are_bounded() -> None:
    """
    Topics beyond the bound are reported as unknown, and are created when the client asks again.
    """
    world = BrokerWorld(static={"num.partitions": "1"})

    codes = [topic.error_code for topic in asked(world, *[f"flights-{number}" for number in range(150)]).topics]

    assert [errors.NONE] * 100 + [errors.UNKNOWN_TOPIC_OR_PARTITION] * 50 == codes


def test_a_topic_that_is_named_twice_is_described_once() -> None:
    """
    A topic that a request names twice is described once; otherwise, a short request could cause a very long response.
    """
    world = BrokerWorld()

    assert 1 == len(asked(world, *["flights"] * 10).topics)


def test_two_requests_for_a_new_topic_both_get_it() -> None:
    """
    When the second request arrives, the creation of the topic has been decided but not committed: the request waits for
    the commit and is not refused.
    """
    world = BrokerWorld()
    clients = [Client(world), Client(world)]
    request = Request(topics=[Request.Topic(name="flights")], allow_auto_topic_creation=True)

    sent = [client.send(request) for client in clients]
    world.stabilize()

    answers = [client.answer(*asked_with) for client, asked_with in zip(clients, sent, strict=True)]
    assert [errors.NONE] * 2 == [answer.topics[0].error_code for answer in answers]
    assert [{1}] * 2 == [{p.leader_id for p in answer.topics[0].partitions} for answer in answers]


def test_a_topic_is_found_by_its_id() -> None:
    """
    The response also contains the topic's name.  An unknown id is answered with UNKNOWN_TOPIC_ID.
    """
    world = BrokerWorld()
    world.create("flights")
    known, unknown = world.partition("flights").log.topic_id, b"?" * 16
    request = Request(topics=[Request.Topic(name=None, topic_id=topic_id) for topic_id in (known, unknown)])

    answered = world.ask(request)

    assert [("flights", known, errors.NONE), (None, unknown, errors.UNKNOWN_TOPIC_ID)] == [
        (topic.name, topic.topic_id, topic.error_code) for topic in answered.topics
    ]
