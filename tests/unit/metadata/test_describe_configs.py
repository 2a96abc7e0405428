"""The responses of DescribeConfigs."""

import pytest

from tidemill.metadata.apply import apply
from tidemill.metadata.describe_configs import (
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
    topic_settings,
)
from tidemill.metadata.image import EMPTY
from tidemill.metadata.metadata_records import ConfigRecord, ConfigResource, TopicRecord
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import BrokerLayers, ConfigSource
from tidemill.model.errors import KafkaError
from tidemill.model.topic import TopicId

IMAGE = apply(
    EMPTY,
    [
        TopicRecord(TopicId(b"t" * 16), "t", "log"),
        ConfigRecord(ConfigResource(2, "t"), "retention.ms", "1"),
        ConfigRecord(ConfigResource(4, ""), "log.retention.ms", "2"),
        ConfigRecord(ConfigResource(4, "1"), "message.max.bytes", "3"),
        ConfigRecord(ConfigResource(32, "g"), "share.auto.offset.reset", "earliest"),
    ],
)


def test_a_topic_shows_every_key_once_in_order() -> None:
    """A topic shows the keys of Kafka and Tidemill, without Kafka's internal ones."""
    shown = describe_topic(IMAGE, "t", BrokerLayers())

    names = [resolved.key.name for resolved in shown]
    assert (39, sorted(set(names))) == (len(names), names)
    assert {r.key.name: r.value for r in shown if not r.is_default} == {"retention.ms": "1"}


def test_describing_an_unknown_topic_fails() -> None:
    """Describing an unknown topic fails with UNKNOWN_TOPIC_OR_PARTITION."""
    with pytest.raises(KafkaError) as refused:
        describe_topic(IMAGE, "none", BrokerLayers())

    assert refused.value.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION


def test_the_settings_of_a_new_topic_include_defaults() -> None:
    """CreateTopics returns the effective settings, even for a request that is only validated."""
    shown = topic_settings({"internal.segment.bytes": "7"}, IMAGE.broker_layers(BrokerId(1), {}))

    values = {r.key.name: r.value for r in shown}
    assert tuple(values[k] for k in ("retention.ms", "max.message.bytes", "internal.segment.bytes")) == ("2", "3", "7")


def test_a_broker_shows_its_effective_settings() -> None:
    """The broker's own dynamic settings override the cluster's, and these override the settings at start-up."""
    static = {"log.retention.ms": "9", "message.max.bytes": "9", "num.partitions": "9"}

    shown = {r.key.name: (r.value, int(r.source)) for r in describe_broker(IMAGE, BrokerId(1), static)}

    assert [shown[name] for name in ("log.retention.ms", "message.max.bytes", "num.partitions")] == [
        ("2", 3),
        ("3", 2),
        ("9", 4),
    ]


def test_the_cluster_default_shows_only_explicit_settings() -> None:
    """
    The description of the cluster-wide default contains only settings that were made explicitly, and no default values.
    """
    (shown,) = describe_cluster_default(IMAGE)

    assert (shown.key.name, shown.value, shown.source) == (
        "log.retention.ms",
        "2",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )


def test_a_group_shows_its_settings() -> None:
    """The response contains the group's own settings and those that it inherits from the broker."""
    shown = {r.key.name: int(r.source) for r in describe_group(IMAGE, "g", BrokerLayers())}

    assert (shown["share.auto.offset.reset"], shown["share.session.timeout.ms"]) == (8, 5)
