"""DeleteTopics deletes topics by name or by id."""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID, OFFSETS_TOPIC, TopicId
from tidemill.storage import paths
from tidemill.wire.messages.delete_topics import Request


def asked(world: BrokerWorld, *topics: str | TopicId) -> Any:
    wanted = [
        Request.Topic(name=topic, topic_id=NO_TOPIC_ID)
        if isinstance(topic, str)
        else Request.Topic(name=None, topic_id=topic)
        for topic in topics
    ]
    return world.ask(Request(topics=wanted, timeout_ms=1_000)).responses


def id_of(world: BrokerWorld, name: str) -> TopicId:
    topic = world.broker.image.topic(name)
    assert topic is not None
    return topic.topic_id


def test_topics_are_deleted_by_name_and_by_id() -> None:
    """
    When the response arrives, the topic no longer exists; its files are removed afterwards.
    """
    world = BrokerWorld()
    world.create("flights")
    world.create("tides")
    world.produce("flights", b"left")
    world.produce("tides", b"rose")
    ids = id_of(world, "flights"), id_of(world, "tides")

    answers = asked(world, "flights", ids[1])

    assert [(errors.NONE, "flights"), (errors.NONE, "tides")] == [(it.error_code, it.name) for it in answers]
    assert [] == [name for name in ("flights", "tides") if world.broker.image.topic(name) is not None]
    assert [] == [topic_id for topic_id in ids if world.disk.exists(paths.topic_directory(topic_id))]


def test_a_deleted_topic_stays_deleted_after_a_kill_and_its_name_is_free() -> None:
    """
    A new topic with the same name has another id and is empty.
    """
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"left")
    before = id_of(world, "flights")
    asked(world, "flights")

    again = world.restarted()
    again.create("flights")

    assert before != id_of(again, "flights")
    assert 0 == again.partition("flights").high_watermark


def test_unknown_topics_are_refused() -> None:
    """
    A topic is refused if its name or its id is unknown, or if the request contains neither.
    """
    world = BrokerWorld()

    unknown, strange = asked(world, "flights", TopicId(b"\x07" * 16))
    nameless = asked(world, NO_TOPIC_ID)

    assert [errors.UNKNOWN_TOPIC_OR_PARTITION, errors.UNKNOWN_TOPIC_ID, errors.INVALID_REQUEST] == [
        answer.error_code for answer in (unknown, strange, *nameless)
    ]


def test_the_oldest_version_names_topics_in_its_own_field() -> None:
    """
    Versions 1 to 5 list the names of topics in the field `topic_names`.
    """
    world = BrokerWorld()
    world.create("flights")

    (answer,) = world.ask(Request(topic_names=["flights"], timeout_ms=1_000), version=1).responses

    assert (errors.NONE, "flights") == (answer.error_code, answer.name)


def test_deletion_can_be_switched_off() -> None:
    """
    With `delete.topic.enable=false`, the broker answers with TOPIC_DELETION_DISABLED.
    """
    world = BrokerWorld(static={"delete.topic.enable": "false"})
    world.create("flights")

    (answer,) = asked(world, "flights")

    assert errors.TOPIC_DELETION_DISABLED == answer.error_code
    assert OFFSETS_TOPIC not in world.broker.image.topics
