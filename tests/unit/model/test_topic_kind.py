"""The kind of a topic, and what follows from it for the topic's configuration."""

import pytest

from tidemill.model.config_keys import TOPIC_KEYS
from tidemill.model.config_resolution import BrokerLayers, ConfigSource, resolve_topic
from tidemill.model.topic_config import compile_topic_config
from tidemill.model.topic_kind import TopicKind, kind_of

LOG, TIMER = {"tidemill.kind": "log"}, {"tidemill.kind": "timer"}
BROKER = {"log.message.timestamp.type": "CreateTime", "compression.type": "zstd"}
LAYERS = [BrokerLayers(static=BROKER), BrokerLayers(dynamic=BROKER), BrokerLayers(dynamic_default=BROKER)]


def test_a_topic_is_a_log_unless_it_says_otherwise() -> None:
    """A topic without `tidemill.kind` is of kind log."""
    kinds = [kind_of(settings) for settings in ({}, LOG, TIMER)]

    assert [TopicKind.LOG, TopicKind.LOG, TopicKind.TIMER] == kinds
    assert [False, False, True] == [compile_topic_config(settings).is_timer for settings in ({}, LOG, TIMER)]


@pytest.mark.parametrize("layers", [BrokerLayers(), *LAYERS])
def test_a_timer_topic_ignores_the_brokers_timestamp_type_and_compression(layers: BrokerLayers) -> None:
    """A timer topic stamps what it delivers and keeps it uncompressed, whatever the keys of the broker say."""
    config = compile_topic_config(TIMER, layers)

    assert ("LogAppendTime", True) == (config.message_timestamp_type, config.is_log_append_time)
    assert config.compression_type == "producer"


@pytest.mark.parametrize("layers", LAYERS)
def test_a_log_topic_keeps_the_brokers_timestamp_type_and_compression(layers: BrokerLayers) -> None:
    """The defaults of timer topics do not reach topics of kind log."""
    config = compile_topic_config(LOG, layers)

    assert ("CreateTime", "zstd") == (config.message_timestamp_type, config.compression_type)


def test_the_timestamp_type_of_a_timer_topic_is_shown_as_a_default() -> None:
    """DescribeConfigs shows LogAppendTime as a default without synonyms, because no key of the broker changes it."""
    resolved = resolve_topic(TOPIC_KEYS["message.timestamp.type"], TIMER, LAYERS[0])

    assert ("LogAppendTime", ConfigSource.DEFAULT_CONFIG, ()) == resolved[1:]


def test_a_timer_topics_own_setting_is_shown_as_its_own() -> None:
    """A timer topic may set what is its default anyway; then the source is the topic."""
    resolved = resolve_topic(TOPIC_KEYS["compression.type"], {**TIMER, "compression.type": "uncompressed"}, LAYERS[0])

    assert ("uncompressed", ConfigSource.DYNAMIC_TOPIC_CONFIG) == resolved[1:3]


def test_the_keys_of_timer_topics_are_compiled() -> None:
    """The configuration has the three keys of timer topics as numbers; by default, only the linger is bounded."""
    mine = {
        "tidemill.max.delay.ms": "1",
        "tidemill.timer.linger.ms": "2",
        "tidemill.timer.waiting.bytes.max": "3",
    }

    configs = [compile_topic_config(settings) for settings in (TIMER, {**TIMER, **mine})]

    assert [(-1, 5, -1), (1, 2, 3)] == [
        (config.max_delay_ms, config.timer_linger_ms, config.timer_waiting_bytes_max) for config in configs
    ]
