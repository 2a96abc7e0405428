"""Compiled topic configurations are recompiled only after the settings change."""

from tidemill.metadata.apply import apply
from tidemill.metadata.image import EMPTY
from tidemill.metadata.metadata_records import ConfigRecord, ConfigResource, RemoveTopicRecord, TopicRecord
from tidemill.metadata.topic_configs import TopicConfigs
from tidemill.model.broker_id import BrokerId
from tidemill.model.topic import TopicId

IDS = [TopicId(bytes([number]) * 16) for number in range(2)]


def retention(topic: str, value: str) -> ConfigRecord:
    return ConfigRecord(ConfigResource(2, topic), "retention.ms", value)


TWO_TOPICS = apply(
    EMPTY, [TopicRecord(IDS[0], "a", "log"), TopicRecord(IDS[1], "b", "log"), retention("a", "1"), retention("b", "2")]
)


def test_a_change_of_another_topic_recompiles_nothing() -> None:
    """The compiled configuration of a topic stays the same object as long as the topic's own settings are unchanged."""
    configs = TopicConfigs(BrokerId(1), {})
    before = configs.of(TWO_TOPICS, "a")
    image = apply(TWO_TOPICS, [retention("b", "3")])

    after = configs.of(image, "a")

    assert before is after
    assert configs.of(image, "b").retention_ms == 3


def test_a_change_is_seen_at_once_and_only_in_its_image() -> None:
    """
    A changed setting applies in the new image at once.  An older image, which another reader may still use, keeps its
    old settings.
    """
    configs = TopicConfigs(BrokerId(1), {})
    image = apply(TWO_TOPICS, [retention("a", "3")])

    seen = [configs.of(which, "a").retention_ms for which in (TWO_TOPICS, image, TWO_TOPICS)]

    assert seen == [1, 3, 1]


def test_topics_without_settings_share_one_configuration() -> None:
    """Ten thousand topics without settings of their own need one compiled configuration."""
    configs = TopicConfigs(BrokerId(1), {"log.retention.ms": "9"})

    shared = [configs.of(TWO_TOPICS, name) for name in ("x", "y")]

    assert shared[0] is shared[1]
    assert shared[0].retention_ms == 9


def test_a_recreated_topic_starts_with_the_defaults() -> None:
    """When a topic is deleted and created again, the settings of the deleted topic do not apply."""
    configs = TopicConfigs(BrokerId(1), {})
    configs.of(TWO_TOPICS, "a")
    image = apply(TWO_TOPICS, [RemoveTopicRecord(IDS[0]), TopicRecord(IDS[0], "a", "log")])

    config = configs.of(image, "a")

    assert config.retention_ms == 604_800_000
