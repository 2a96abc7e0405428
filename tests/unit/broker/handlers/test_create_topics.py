"""CreateTopics creates topics that can be used as soon as the response has arrived."""

from typing import Any
from unittest.mock import patch

from tests.unit.broker.broker_world import BrokerWorld, Client
from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID
from tidemill.wire.messages import metadata
from tidemill.wire.messages.create_topics import Request


def topic(name: str, partitions: int = 1, **settings: str) -> Request.Topic:
    configs = [Request.Topic.Config(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    return Request.Topic(name=name, num_partitions=partitions, replication_factor=-1, assignments=(), configs=configs)


def asked(world: BrokerWorld, *topics: Request.Topic, validate_only: bool = False, version: int | None = None) -> Any:
    return world.ask(Request(topics=topics, validate_only=validate_only), version).topics


def described(world: BrokerWorld, name: str) -> Any:
    asked = metadata.Request(topics=[metadata.Request.Topic(name=name)], allow_auto_topic_creation=False)
    return world.ask(asked).topics[0]


def test_a_new_topic_has_leaders_when_the_response_arrives() -> None:
    """
    When the response arrives, every partition of a new topic has a leader, so a client may produce to it without
    getting a retriable error.
    """
    world = BrokerWorld()

    (created,) = world.client.ask_only(Request(topics=[topic("flights", partitions=40)])).topics

    assert all(world.partition("flights", number).shard.is_serving for number in range(40))
    found = described(world, "flights")
    assert (errors.NONE, 40, 1) == (created.error_code, created.num_partitions, created.replication_factor)
    assert (created.topic_id, 40, {1}) == (
        found.topic_id,
        len(found.partitions),
        {partition.leader_id for partition in found.partitions},
    )


def test_the_response_has_the_configuration_and_its_sources() -> None:
    """
    KIP-525: the response lists the topic's own settings and those that it inherits from the broker.
    """
    world = BrokerWorld(static={"log.retention.hours": "2"})

    (created,) = asked(world, topic("flights", max_message_bytes="2000000"))

    told = {config.name: (config.value, config.config_source) for config in created.configs}
    assert (("2000000", 1), ("7200000", 4)) == (told["max.message.bytes"], told["retention.ms"])


def test_validate_only_creates_nothing() -> None:
    """
    A request with `validate_only` gets the same response as a real one, except that it has no topic id, and creates no
    topic.
    """
    world = BrokerWorld()

    (answered,) = asked(world, topic("flights", partitions=3), validate_only=True)

    assert (errors.NONE, 3, NO_TOPIC_ID) == (answered.error_code, answered.num_partitions, answered.topic_id)
    assert errors.UNKNOWN_TOPIC_OR_PARTITION == described(world, "flights").error_code


def test_one_refused_topic_does_not_affect_the_others() -> None:
    """
    A refused topic has its own error and message, and the other topics of the request are created.
    """
    world = BrokerWorld()
    world.create("there")

    answers = asked(world, topic("there"), topic("a b"), topic("few", 0), topic("odd", retention="1"), topic("good"))

    assert [
        errors.TOPIC_ALREADY_EXISTS,
        errors.INVALID_TOPIC_EXCEPTION,
        errors.INVALID_PARTITIONS,
        errors.INVALID_CONFIG,
        errors.NONE,
    ] == [answer.error_code for answer in answers]
    assert "unknown configuration key 'retention'" in answers[3].error_message


def test_the_oldest_version_is_supported() -> None:
    """
    A response in v2 contains neither the numbers of partitions and replicas nor the topic's configuration.
    """
    world = BrokerWorld()

    (created,) = asked(world, topic("flights"), version=2)

    assert (errors.NONE, "flights") == (created.error_code, created.name)


def test_without_a_controller_topics_are_refused_after_a_while() -> None:
    """
    While there is no controller, a request waits a few seconds for an election, and then fails with NOT_CONTROLLER,
    which clients retry.
    """
    world = BrokerWorld()
    with patch.object(ControllerHost, "accepts_writes", property(lambda _: False)):
        sent = world.client.send(Request(topics=[topic("flights")]))
        world.pass_time(4_000)
        early = world.client.answer(*sent)

        world.pass_time(2_000)

    answered = world.client.answer(*sent)
    assert (None, errors.NOT_CONTROLLER) == (early, answered.topics[0].error_code)


def test_a_topic_counts_as_existing_only_after_its_commit() -> None:
    """
    If the topic existed before its commit, a crash could undo the creation after a client had been told that the topic
    exists.
    """
    world = BrokerWorld()
    first, second = Client(world), Client(world)
    request = Request(topics=[topic("flights")])

    made = first.send(request)
    refused = second.send(request)
    early = second.answer(*refused)
    world.stabilize()

    codes = [client.answer(*sent).topics[0].error_code for client, sent in ((first, made), (second, refused))]
    assert (None, [errors.NONE, errors.TOPIC_ALREADY_EXISTS]) == (early, codes)
