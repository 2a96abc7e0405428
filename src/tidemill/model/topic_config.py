"""A topic's effective configuration as plain numbers, for the produce, fetch and retention paths."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.model.config_keys import TOPIC_KEYS
from tidemill.model.config_resolution import NOTHING, BrokerLayers, resolve_topic
from tidemill.model.config_types import value_of_text
from tidemill.model.topic_kind import TopicKind, kind_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """
    A topic's effective values.  Names and units are Kafka's.  `retention_ms` and `retention_bytes` are -1 if unlimited.
    """

    kind: TopicKind
    cleanup_policy: str
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    index_interval_bytes: int
    max_message_bytes: int
    message_timestamp_type: str
    is_log_append_time: bool
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_ms: int
    has_ttl_headers: bool
    takes_dead_letters: bool
    # Timer topics only.
    max_delay_ms: int  # -1: up to the year 9999
    timer_linger_ms: int
    timer_waiting_bytes_max: int  # of one partition; -1: no bound

    @property
    def is_timer(self) -> bool:
        return self.kind is TopicKind.TIMER


def compile_topic_config(overrides: Mapping[str, str] = NOTHING, layers: BrokerLayers | None = None) -> TopicConfig:
    """
    Return the effective configuration of a topic with these overrides, on a broker with these configuration layers.
    """
    layers = layers or BrokerLayers()

    def value(name: str) -> object:
        key = TOPIC_KEYS[name]
        found = resolve_topic(key, overrides, layers).value
        # The text of the setting is legal, because it was checked when it was set.
        return key.default if found is None else value_of_text(key.type, found)

    def number(name: str) -> int:
        found = value(name)
        assert isinstance(found, int), name
        return found

    small_segment_bytes = value("internal.segment.bytes")
    cleanup_policies = value("cleanup.policy")
    assert isinstance(cleanup_policies, tuple)
    timestamp_type = str(value("message.timestamp.type"))
    return TopicConfig(
        kind=kind_of(overrides),
        cleanup_policy=",".join(cleanup_policies),
        compression_type=str(value("compression.type")),
        compression_gzip_level=number("compression.gzip.level"),
        compression_lz4_level=number("compression.lz4.level"),
        compression_zstd_level=number("compression.zstd.level"),
        index_interval_bytes=number("index.interval.bytes"),
        max_message_bytes=number("max.message.bytes"),
        message_timestamp_type=timestamp_type,
        is_log_append_time=timestamp_type == "LogAppendTime",
        message_timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        message_timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        min_insync_replicas=number("min.insync.replicas"),
        retention_bytes=number("retention.bytes"),
        retention_ms=number("retention.ms"),
        segment_bytes=small_segment_bytes if isinstance(small_segment_bytes, int) else number("segment.bytes"),
        segment_ms=number("segment.ms"),
        has_ttl_headers=value("tidemill.ttl.headers") is True,
        takes_dead_letters=bool(value("errors.deadletterqueue.group.enable")),
        max_delay_ms=number("tidemill.max.delay.ms"),
        timer_linger_ms=number("tidemill.timer.linger.ms"),
        timer_waiting_bytes_max=number("tidemill.timer.waiting.bytes.max"),
    )
