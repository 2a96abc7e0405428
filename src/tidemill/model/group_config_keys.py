"""The configuration keys of a group: Kafka 4.3's keys, and the one for KIP-1191's dead-letter topic."""

from typing import Final

from tidemill.model.config_key import ConfigKey, obeyed, without_effect
from tidemill.model.config_types import ConfigType, ConfigValue
from tidemill.model.offset_reset import parse_offset_reset

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT

NO_CONSUMER_PROTOCOL: Final = (
    "the consumer group protocol of KIP-848 is not implemented yet; members of classic groups bring their own settings"
)
NO_TRANSACTIONS: Final = "transactions are not implemented yet, so there are no records that are not committed"
NO_DEAD_LETTERS: Final = (
    "dead letters are not implemented yet: records that are rejected or fail too often are archived"
)
NO_STREAMS_GROUPS: Final = "streams groups are not offered"


def _offset_reset_problem(value: ConfigValue) -> str | None:
    try:
        parse_offset_reset(str(value))
    except ValueError as requirement:
        return str(requirement)
    return None


GROUP_KEYS: Final[tuple[ConfigKey, ...]] = (
    without_effect("consumer.assignment.interval.ms", INT, 1_000, NO_CONSUMER_PROTOCOL, at_least=0),
    without_effect("consumer.heartbeat.interval.ms", INT, 5_000, NO_CONSUMER_PROTOCOL, at_least=1),
    without_effect("consumer.session.timeout.ms", INT, 45_000, NO_CONSUMER_PROTOCOL, at_least=1),
    obeyed(
        "share.assignment.interval.ms",
        INT,
        1_000,
        "The shortest time between two assignments of a share group's partitions.",
        at_least=0,
    ),
    obeyed(
        "share.auto.offset.reset",
        STRING,
        "latest",
        "Where a share group begins to read a partition: earliest, latest, or by_duration: with an ISO 8601 duration, "
        "such as by_duration:PT12H.  Partitions added to a topic later are read from their start.",
        check=_offset_reset_problem,
    ),
    obeyed(
        "share.delivery.count.limit",
        INT,
        5,
        "How often a record is delivered to the consumers of a share group before it is archived.",
        at_least=2,
    ),
    obeyed(
        "share.heartbeat.interval.ms", INT, 5_000, "How often a member of a share group sends a heartbeat.", at_least=1
    ),
    without_effect(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        NO_TRANSACTIONS,
        choices=("read_committed", "read_uncommitted"),
    ),
    obeyed(
        "share.partition.max.record.locks",
        INT,
        2_000,
        "How many records of a partition the consumers of a share group may hold at a time.",
        at_least=100,
    ),
    obeyed(
        "share.record.lock.duration.ms",
        INT,
        30_000,
        "How long a consumer of a share group holds a record; then the record is available to others again.",
        at_least=1_000,
    ),
    obeyed(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        True,
        "Whether a consumer of a share group may renew its locks (KIP-1222).",
    ),
    obeyed(
        "share.session.timeout.ms",
        INT,
        45_000,
        "How long a share group waits for a member's heartbeat before it removes the member.",
        at_least=1,
    ),
    without_effect("errors.deadletterqueue.topic.name", STRING, "", NO_DEAD_LETTERS),
    without_effect("streams.assignment.interval.ms", INT, 1_000, NO_STREAMS_GROUPS, at_least=0),
    without_effect("streams.heartbeat.interval.ms", INT, 5_000, NO_STREAMS_GROUPS, at_least=1),
    without_effect("streams.initial.rebalance.delay.ms", INT, 3_000, NO_STREAMS_GROUPS, at_least=0),
    without_effect("streams.num.standby.replicas", INT, 0, NO_STREAMS_GROUPS, at_least=0),
    without_effect("streams.session.timeout.ms", INT, 45_000, NO_STREAMS_GROUPS, at_least=1),
)
